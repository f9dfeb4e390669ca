/* How a loop runs: the caller publishes it under a new number and takes part. A worker that sees a new number joins
   while the loop is open; all take pieces until none is left. The caller then closes the loop and waits for the workers
   that joined, never for one that still sleeps. Workers spin for a while before they sleep. The workers serve one
   caller at a time. The loop of another caller, or a loop inside a loop, runs on the thread that calls it: nobody ever
   waits for a turn. */
#define _POSIX_C_SOURCE 200809L

#include "threads.h"

#include "shares.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* How long a thread spins before it sleeps: longer than the pause between two runs in a row, and shorter than waking up
   may take. The clock is read once every ROUNDS_PER_LOOK rounds. */
#define SPIN_NANOSECONDS 100000
#define ROUNDS_PER_LOOK 64

typedef struct {
    pthread_t thread;
    dk_pool* pool;
    int number; /* from 1; the caller is 0 */
} worker;

struct dk_pool {
    dk_executor executor; /* first: a pointer to it is a pointer to the pool */
    pthread_mutex_t lock;
    pthread_cond_t published;
    pthread_cond_t finished;
    int workers;
    int taken; /* atomic: whether a caller has the workers */
    /* Written under the lock; spinning threads read them without it. */
    unsigned number;
    unsigned joined;
    int open;
    int stopping;
    int sleeping;
    dk_shared_loop loop; /* written while it is closed */
    worker threads[];
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Spin until `word` is `wanted` (with `other`, until it is anything else), but not longer than SPIN_NANOSECONDS. */
static void spin(const unsigned* word, unsigned wanted, int other) {
    int64_t end = nanoseconds() + SPIN_NANOSECONDS;
    int round = 0;
    while ((__atomic_load_n(word, __ATOMIC_ACQUIRE) == wanted) == other) {
        relax();
        if (++round % ROUNDS_PER_LOOK == 0 && nanoseconds() > end) {
            return;
        }
    }
}

/* Wait for a loop with another number than `seen`, or for the pool to stop. Returns with the lock held. */
static void await_loop(dk_pool* pool, unsigned seen) {
    spin(&pool->number, seen, 1);
    pthread_mutex_lock(&pool->lock);
    while (pool->number == seen && !pool->stopping) {
        ++pool->sleeping;
        pthread_cond_wait(&pool->published, &pool->lock);
        --pool->sleeping;
    }
}

static void* work(void* argument) {
    const worker* own = argument;
    dk_pool* pool = own->pool;
    unsigned seen = 0;
    for (;;) {
        await_loop(pool, seen);
        seen = pool->number;
        if (pool->stopping) {
            pthread_mutex_unlock(&pool->lock);
            return NULL;
        }
        if (!pool->open) {
            pthread_mutex_unlock(&pool->lock);
            continue;
        }
        ++pool->joined;
        pthread_mutex_unlock(&pool->lock);
        dk_take_pieces(&pool->loop, own->number);
        pthread_mutex_lock(&pool->lock);
        if (__atomic_sub_fetch(&pool->joined, 1, __ATOMIC_RELEASE) == 0) {
            pthread_cond_signal(&pool->finished);
        }
        pthread_mutex_unlock(&pool->lock);
    }
}

static void publish(dk_pool* pool, int64_t extent, int64_t grain, dk_range range, void* context) {
    int sleeping;
    pthread_mutex_lock(&pool->lock);
    dk_share_out(&pool->loop, pool->loop.count, extent, grain, range, context);
    pool->open = 1;
    __atomic_store_n(&pool->number, pool->number + 1, __ATOMIC_RELEASE);
    sleeping = pool->sleeping;
    pthread_mutex_unlock(&pool->lock);
    if (sleeping > 0) {
        pthread_cond_broadcast(&pool->published);
    }
}

static void close_loop(dk_pool* pool) {
    pthread_mutex_lock(&pool->lock);
    pool->open = 0;
    pthread_mutex_unlock(&pool->lock);
    spin(&pool->joined, 0, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->joined != 0) {
        pthread_cond_wait(&pool->finished, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void run(dk_executor* self, int64_t extent, int64_t grain, dk_range range, void* context) {
    dk_pool* pool = (dk_pool*)self;
    if (extent <= 0) {
        return;
    }
    if (pool->workers == 0 || extent <= grain || __atomic_exchange_n(&pool->taken, 1, __ATOMIC_ACQUIRE)) {
        range(context, 0, extent);
        return;
    }
    publish(pool, extent, grain, range, context);
    dk_take_pieces(&pool->loop, 0);
    close_loop(pool);
    __atomic_store_n(&pool->taken, 0, __ATOMIC_RELEASE);
}

dk_pool* dk_pool_start(int threads) {
    int wanted = threads > 1 ? threads - 1 : 0;
    dk_pool* pool = calloc(1, sizeof *pool + (size_t)wanted * sizeof pool->threads[0]);
    if (pool == NULL) {
        return NULL;
    }
    pool->loop.shares = calloc((size_t)wanted + 1, sizeof *pool->loop.shares);
    if (pool->loop.shares == NULL) {
        free(pool);
        return NULL;
    }
    pool->executor.run = run;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->published, NULL);
    pthread_cond_init(&pool->finished, NULL);
    while (pool->workers < wanted) {
        worker* next = &pool->threads[pool->workers];
        next->pool = pool;
        next->number = pool->workers + 1;
        if (pthread_create(&next->thread, NULL, work, next) != 0) {
            break;
        }
        ++pool->workers;
    }
    pool->loop.count = pool->workers + 1;
    return pool;
}

int dk_pool_threads(const dk_pool* pool) {
    return pool->workers + 1;
}

dk_executor* dk_pool_executor(dk_pool* pool) {
    return &pool->executor;
}

void dk_pool_stop(dk_pool* pool) {
    int index;
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->published);
    pthread_mutex_unlock(&pool->lock);
    for (index = 0; index < pool->workers; ++index) {
        pthread_join(pool->threads[index].thread, NULL);
    }
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->published);
    pthread_mutex_destroy(&pool->lock);
    free(pool->loop.shares);
    free(pool);
}
