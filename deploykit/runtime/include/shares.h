/* The iterations of a parallel loop, cut into pieces, and these into one share for each thread. A thread takes the
   pieces of its own share first, the same part of every loop, and then those that are left of others' shares: so it
   often finds in its own cache what it wrote in the loop before. For the pools of threads. */
#ifndef DEPLOYKIT_SHARES_H
#define DEPLOYKIT_SHARES_H

#include "deploykit.h"

/* Pieces per thread: more of them balance better, fewer of them cost less. */
#define DK_PIECES_PER_THREAD 4
/* Bytes that caches exchange at once. */
#define DK_CACHE_LINE 64

/* In a line of its own, because its thread writes to it all the time. */
typedef struct {
    int64_t next; /* atomic */
    int64_t end;
    char apart[DK_CACHE_LINE - 2 * sizeof(int64_t)];
} dk_share;

typedef struct {
    dk_range range;
    void* context;
    int64_t piece;
    int32_t count; /* of shares */
    dk_share* shares;
} dk_shared_loop;

/* Cut a loop over [0, extent) for `threads` threads into pieces of at least `grain` iterations. */
static inline void
dk_share_out(dk_shared_loop* loop, int32_t threads, int64_t extent, int64_t grain, dk_range range, void* context) {
    int64_t pieces = (int64_t)threads * DK_PIECES_PER_THREAD;
    int32_t number;
    loop->range = range;
    loop->context = context;
    loop->piece = extent / pieces + (extent % pieces != 0);
    loop->piece = loop->piece < grain ? grain : loop->piece;
    pieces = extent / loop->piece + (extent % loop->piece != 0);
    for (number = 0; number < loop->count; ++number) {
        int64_t end = pieces * (number + 1) / loop->count * loop->piece;
        loop->shares[number].next = pieces * number / loop->count * loop->piece;
        loop->shares[number].end = end < extent ? end : extent;
    }
}

/* Run pieces until none is left, those of share `number` first. */
static inline void dk_take_pieces(const dk_shared_loop* loop, int32_t number) {
    int32_t other;
    for (other = 0; other < loop->count; ++other) {
        dk_share* own = &loop->shares[(number + other) % loop->count];
        int64_t begin = __atomic_fetch_add(&own->next, loop->piece, __ATOMIC_RELAXED);
        while (begin < own->end) {
            loop->range(loop->context, begin, own->end - begin > loop->piece ? begin + loop->piece : own->end);
            begin = __atomic_fetch_add(&own->next, loop->piece, __ATOMIC_RELAXED);
        }
    }
}

#endif
