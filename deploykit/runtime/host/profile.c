/* Counts and times the steps of a model whose model.c is compiled with -DDK_PROFILE. One model runs at a time. */
#define _POSIX_C_SOURCE 200809L

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "deploykit.h"

void dk_profile_attach(int64_t* calls, int64_t* nanoseconds, int32_t count);
void dk_profile_follow(int32_t* current);

static struct {
    int64_t* calls;
    int64_t* nanoseconds;
    int32_t count;
    int32_t step; /* the running step, or -1 */
    int64_t since;
    int32_t* current; /* receives the number of each step; may be NULL */
} profile = {NULL, NULL, 0, -1, 0, NULL};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Count and time steps in these arrays of `count` elements from now on. */
void dk_profile_attach(int64_t* calls, int64_t* nanoseconds, int32_t count) {
    profile.calls = calls;
    profile.nanoseconds = nanoseconds;
    profile.count = count;
    profile.step = -1;
}

/* Write the number of each step there, too, from now on. */
void dk_profile_follow(int32_t* current) {
    profile.current = current;
}

int32_t dk_profile_step(const dk_model* model, int32_t step) {
    int64_t time = now();
    (void)model;
    if (profile.step >= 0 && profile.step < profile.count) {
        ++profile.calls[profile.step];
        profile.nanoseconds[profile.step] += time - profile.since;
    }
    profile.step = step;
    if (profile.current != NULL) {
        *profile.current = step;
    }
    profile.since = now();
    return 0;
}
