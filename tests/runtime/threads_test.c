/* Loops of many extents and grains on pools of several sizes: every iteration runs once, none before the loop begins or
   after it ends. Returns 0 when all is well. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "threads.h"

#define MOST 1000

static int counts[MOST];

static void count(void* context, int64_t begin, int64_t end) {
    const int* step = context;
    int64_t index;
    for (index = begin; index < end; ++index) {
        counts[index] += *step;
    }
}

static int run_loops(dk_pool* pool, int rounds) {
    dk_executor* executor = dk_pool_executor(pool);
    int round;
    int64_t index;
    for (round = 0; round < rounds; ++round) {
        int64_t extent = (int64_t)(round * 37) % MOST;
        int step = round + 1;
        memset(counts, 0, sizeof counts);
        executor->run(executor, extent, round % 7 + 1, count, &step);
        for (index = 0; index < MOST; ++index) {
            if (counts[index] != (index < extent ? step : 0)) {
                printf("round %d, iteration %ld: %d\n", round, (long)index, counts[index]);
                return 1;
            }
        }
        if (round % 50 == 0) { /* long enough for the workers to sleep */
            struct timespec pause = {0, 2000000};
            nanosleep(&pause, NULL);
        }
    }
    return 0;
}

int main(void) {
    int threads;
    dk_pool_stop(NULL);
    for (threads = 0; threads <= 6; threads += 2) {
        dk_pool* pool = dk_pool_start(threads);
        int faults = pool == NULL || run_loops(pool, 400);
        int size = faults ? 0 : dk_pool_threads(pool);
        dk_pool_stop(pool);
        if (faults || size != (threads < 1 ? 1 : threads)) {
            printf("%d threads: %d faults, size %d\n", threads, faults, size);
            return 1;
        }
    }
    return 0;
}
