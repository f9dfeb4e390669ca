/* The part of <unistd.h> that the runtime needs. */
#ifndef DEPLOYKIT_UNISTD_H
#define DEPLOYKIT_UNISTD_H

int close(int file);

#endif
