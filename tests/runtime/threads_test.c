/* Loops of many extents and grains on pools of several sizes: every iteration runs once, and none runs before the loop
   begins or after it ends. First there is one caller, then several that share the pool, then loops within loops.
   Returns 0 if there is no fault. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "threads.h"

#define MOST 1000
#define CALLERS 3
#define INNER 50

typedef struct caller {
    dk_executor* executor;
    int rounds;
    int faults;
    int step;
    int counts[MOST];
} caller;

static void count(void* context, int64_t begin, int64_t end) {
    caller* self = context;
    int64_t index;
    for (index = begin; index < end; ++index) {
        self->counts[index] += self->step;
    }
}

static void* run_loops(void* argument) {
    caller* self = argument;
    int round;
    int64_t index;
    for (round = 0; round < self->rounds; ++round) {
        int64_t extent = (int64_t)(round * 37) % MOST;
        self->step = round + 1;
        memset(self->counts, 0, sizeof self->counts);
        self->executor->run(self->executor, extent, round % 7 + 1, count, self);
        for (index = 0; index < MOST; ++index) {
            if (self->counts[index] != (index < extent ? self->step : 0)) {
                printf("round %d, iteration %ld: %d\n", round, (long)index, self->counts[index]);
                ++self->faults;
                return NULL;
            }
        }
        if (round % 50 == 0) { /* long enough for the workers to sleep */
            struct timespec pause = {0, 2000000};
            nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

static int share(dk_pool* pool, int callers, int rounds) {
    static caller all[CALLERS];
    pthread_t threads[CALLERS];
    int index, faults = 0;
    for (index = 0; index < callers; ++index) {
        all[index].executor = dk_pool_executor(pool);
        all[index].rounds = rounds;
        all[index].faults = 0;
    }
    for (index = 1; index < callers; ++index) {
        if (pthread_create(&threads[index], NULL, run_loops, &all[index]) != 0) {
            return 1;
        }
    }
    run_loops(&all[0]);
    for (index = 1; index < callers; ++index) {
        pthread_join(threads[index], NULL);
    }
    for (index = 0; index < callers; ++index) {
        faults += all[index].faults;
    }
    return faults;
}

static dk_executor* outer;
static int cells[INNER][INNER];

static void count_cells(void* context, int64_t begin, int64_t end) {
    int* row = context;
    while (begin < end) {
        ++row[begin++];
    }
}

static void count_rows(void* context, int64_t begin, int64_t end) {
    (void)context;
    for (; begin < end; ++begin) {
        outer->run(outer, INNER, 1, count_cells, cells[begin]);
    }
}

static int nest(dk_pool* pool) {
    int index;
    outer = dk_pool_executor(pool);
    memset(cells, 0, sizeof cells);
    outer->run(outer, INNER, 1, count_rows, NULL);
    for (index = 0; index < INNER * INNER; ++index) {
        if (cells[index / INNER][index % INNER] != 1) {
            return 1;
        }
    }
    return 0;
}

int main(void) {
    int threads;
    dk_pool_stop(NULL);
    for (threads = 0; threads <= 6; threads += 2) {
        dk_pool* pool = dk_pool_start(threads);
        int faults = pool == NULL || share(pool, 1, 400) || share(pool, CALLERS, 400) || nest(pool);
        int size = faults ? 0 : dk_pool_threads(pool);
        dk_pool_stop(pool);
        if (faults || size != (threads < 1 ? 1 : threads)) {
            printf("%d threads: %d faults, size %d\n", threads, faults, size);
            return 1;
        }
    }
    return 0;
}
