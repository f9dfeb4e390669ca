/* Which buffers keep values on a device between runs, and which were discarded and may serve again. A loop that hands
   on its results therefore makes no new buffers, and what was recorded for their numbers stays valid. */
#ifndef DEPLOYKIT_KEPT_H
#define DEPLOYKIT_KEPT_H

#include <stdint.h>

/* The most discarded buffers that are not released. */
#define DK_MOST_DISCARDED 8

typedef struct dk_kept {
    int64_t bytes;      /* 0: there is no buffer */
    uint64_t discarded; /* when; 0: it is in use */
} dk_kept;

/* All zeros: none. A buffer is known by its index; its number is DK_BUFFER_KEPT more. */
typedef struct dk_keeper {
    dk_kept* kept;
    int32_t count, room;
    uint64_t clock;
} dk_keeper;

/* A discarded buffer for at least `bytes` and at most twice as many, in use from now on; -1 if there is none. */
int32_t dk_kept_again(dk_keeper* keeper, int64_t bytes);

/* An index that has no buffer, in use from now on with a buffer of `bytes`; -1 if there is no memory. */
int32_t dk_kept_new(dk_keeper* keeper, int64_t bytes);

/* Whether the index is of a buffer in use. */
int32_t dk_kept_in_use(const dk_keeper* keeper, int32_t index);

/* Discard the buffer in use with this index. */
void dk_kept_discard(dk_keeper* keeper, int32_t index);

/* The index of the buffer to release next, which has none from now on, so that at most `most` discarded ones are left;
   -1: none has to be. */
int32_t dk_kept_release(dk_keeper* keeper, int32_t most);

#endif
