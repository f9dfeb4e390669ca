/* Counts and times the steps of one session's runs, in a model that is compiled with -DDK_PROFILE. Java lets one
   session at a time do so; those of other threads go on. */
#include "session.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS, HOST, DEVICE, COLUMNS };

static struct {
    int32_t active;
    pthread_t owner;
    dk_gpu* gpu;      /* NULL: the CPU */
    int64_t* columns; /* CALLS of each step, its nanoseconds on the HOST, then those that the DEVICE measured */
    int32_t count;
    int32_t step; /* the running step, or -1 */
    int64_t since;
} profile;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int32_t dk_profile_step(const dk_model* model, int32_t step) {
    int64_t time;
    (void)model;
    if (!__atomic_load_n(&profile.active, __ATOMIC_ACQUIRE) || profile.owner != pthread_self()) {
        return 0;
    }
    time = now();
    if (profile.step >= 0 && profile.step < profile.count) {
        ++profile.columns[CALLS * profile.count + profile.step];
        profile.columns[HOST * profile.count + profile.step] += time - profile.since;
    }
    profile.step = step;
    if (profile.gpu != NULL) {
        profile.gpu->step = step;
    }
    profile.since = now();
    return 0;
}

/* Add what the device measured in the last run, if its session is measured. */
void dk_collect_times(dk_gpu* gpu) {
    int32_t count, index;
    double* nanoseconds;
    int32_t* steps;
    if (gpu == NULL || !__atomic_load_n(&profile.active, __ATOMIC_ACQUIRE) || profile.gpu != gpu) {
        return;
    }
    count = gpu->times(gpu, NULL, NULL, 0);
    nanoseconds = malloc(((size_t)count + 1) * sizeof *nanoseconds);
    steps = malloc(((size_t)count + 1) * sizeof *steps);
    if (nanoseconds != NULL && steps != NULL) {
        count = gpu->times(gpu, nanoseconds, steps, count);
        for (index = 0; index < count; ++index) {
            if (steps[index] >= 0 && steps[index] < profile.count) {
                profile.columns[DEVICE * profile.count + steps[index]] += (int64_t)nanoseconds[index];
            }
        }
    }
    free(nanoseconds);
    free(steps);
}

/* Stop measuring what a device does that is about to be closed. */
void dk_forget_gpu(const dk_gpu* gpu) {
    if (profile.gpu == gpu) {
        profile.gpu = NULL;
    }
}

/* Measure the runs of a session on this thread from now on. `steps` is the number of steps that its program has. */
jint JNI_measure(jni_environment* env, jobject type, jlong handle, jint steps) {
    (void)env;
    (void)type;
    profile.columns = calloc((size_t)steps * COLUMNS + 1, sizeof *profile.columns);
    if (profile.columns == NULL) {
        return NO_MEMORY;
    }
    profile.owner = pthread_self();
    profile.gpu = session_of(handle)->gpu;
    profile.count = steps;
    profile.step = -1;
    if (profile.gpu != NULL) {
        profile.gpu->profile(profile.gpu, 1);
    }
    __atomic_store_n(&profile.active, 1, __ATOMIC_RELEASE);
    return DK_OK;
}

/* What was measured, by step: calls, nanoseconds on the host, and those that the device measured. Ends measuring. */
void JNI_measured(jni_environment* env, jobject type, jobject calls, jobject host, jobject device) {
    const int32_t count = profile.count;
    (void)type;
    __atomic_store_n(&profile.active, 0, __ATOMIC_RELEASE);
    if (profile.gpu != NULL) {
        profile.gpu->profile(profile.gpu, 0);
    }
    jni_write_longs(env, calls, 0, count, profile.columns + CALLS * (size_t)count);
    jni_write_longs(env, host, 0, count, profile.columns + HOST * (size_t)count);
    jni_write_longs(env, device, 0, count, profile.columns + DEVICE * (size_t)count);
    free(profile.columns);
    profile.columns = NULL;
    profile.gpu = NULL;
}
