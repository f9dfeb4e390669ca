/* What a driver collects until the device has to carry it out: a list of operations, in order. Lists can be compared,
   so that a driver that recorded one need not do so again, and searched for hazards. */
#ifndef DEPLOYKIT_WORK_H
#define DEPLOYKIT_WORK_H

#include <stddef.h>
#include <stdint.h>

/* A part of a buffer. Without bytes it stands for an empty tensor, and has the buffer and the offset 0. */
typedef struct dk_region {
    int64_t buffer;
    int64_t offset;
    int64_t bytes;
} dk_region;

/* Operations that are not dispatches, instead of the number of a kernel. */
#define DK_WORK_COPY (-1) /* of the first place to the second */
#define DK_WORK_ZERO (-2) /* fill the place with zeros */

typedef struct dk_operation {
    int32_t kernel;
    int32_t step; /* for profiles; part of comparisons */
    int32_t place_count;
    int32_t word_count; /* of a kernel's uniform data; the last one is the number of invocations */
    const dk_region* places;
    const int32_t* words;
} dk_operation;

/* All zeros: empty. */
typedef struct dk_work {
    unsigned char* data;
    size_t bytes;
    size_t room;
    int32_t count;
    uint64_t hash;
} dk_work;

/* Append an operation. Returns 0 if there is no memory. */
int32_t dk_work_add(dk_work* work, const dk_operation* operation);

/* Read the operation at byte `at`, which is 0 for the first one. Returns where the next one is; the operation points
   into the list. */
size_t dk_work_read(const dk_work* work, size_t at, dk_operation* operation);

/* Remove all operations; the memory is kept. */
void dk_work_clear(dk_work* work);

int32_t dk_work_equal(const dk_work* one, const dk_work* other);

/* A hash of bytes that goes on from `hash`. */
uint64_t dk_hash(uint64_t hash, const void* data, size_t bytes);

/* The error for code that has not the hash of the program's. */
#define DK_GPU_CODE_DIFFERS "the file with the kernels is damaged, or of another build than the library: copy it again"

/* The most places that are remembered between two barriers; when there are more, a barrier is placed early. */
#define DK_MOST_USES 128

/* What operations since the last barrier read and write. All zeros: nothing. */
typedef struct dk_hazards {
    int32_t count;
    dk_region places[DK_MOST_USES];
    uint8_t written[DK_MOST_USES];
} dk_hazards;

/* Whether the operation has to wait for one before it: both use a place that one of them writes. Bit i of `written`:
   it writes its place i. If it has to wait, the hazards begin anew with it. */
int32_t dk_must_wait(dk_hazards* hazards, const dk_operation* operation, uint32_t written);

/* `bytes`, rounded up to a multiple of `unit`, which is a power of two. */
int64_t dk_rounded(int64_t bytes, int64_t unit);

#endif
