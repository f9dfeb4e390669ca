/* The part of <time.h> that the runtime needs. */
#ifndef DEPLOYKIT_TIME_H
#define DEPLOYKIT_TIME_H

#define CLOCK_MONOTONIC 1

struct timespec {
    long tv_sec;
    long tv_nsec;
};

int clock_gettime(int clock, struct timespec* time);

#endif
