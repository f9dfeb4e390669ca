/* How a loop runs: the caller publishes it under a new number and takes part. A worker that sees a new number joins
   while the loop is open; all take pieces until none is left. The caller then closes the loop and waits for the workers
   that joined, never for one that still sleeps. Workers spin for a while before they sleep. So does the caller if it
   may sleep, which the main thread of a page may not. A loop inside a loop runs on the thread that calls it. */
#include "threads.h"

#include "shares.h"

/* How many rounds a thread spins before it sleeps: some 100 microseconds, longer than the pause between two runs in a
   row. Rounds are counted because reading a clock costs more than a round. */
#define ROUNDS 100000
/* With more threads, some begin with the same share. */
#define MOST_SHARES 32

/* The bit fields of `state`: how many workers joined, whether the loop is open, and its number. */
#define JOINED 0xffu
#define OPEN 0x100u
#define NUMBER 0x200u

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define STORE(word, value) __atomic_store_n(&(word), value, __ATOMIC_SEQ_CST)
#define ADD(word, value) __atomic_add_fetch(&(word), value, __ATOMIC_SEQ_CST)

__asm__(".globaltype __stack_pointer, i32\n");

static struct {
    dk_executor executor;
    int32_t threads; /* that share a loop, including the caller's */
    int patient;     /* whether the caller may sleep */
    /* Atomic. */
    uint32_t state;
    int32_t taken; /* whether a loop runs */
    int32_t sleeping;
    int32_t waiting; /* whether the caller sleeps until `left` changes */
    int32_t left;    /* changes when the last worker leaves a closed loop */
    int32_t failures;
    int32_t workers;     /* that have started */
    dk_shared_loop loop; /* written while it is closed */
    dk_share shares[MOST_SHARES];
} pool;

/* Sleep while the word is `value`, until `wake` is called; may also return early. */
static void sleep(void* word, int32_t value) {
    __builtin_wasm_memory_atomic_wait32(word, value, -1);
}

static void wake(void* word) {
    __builtin_wasm_memory_atomic_notify(word, UINT32_MAX);
}

static void leave(void) {
    if ((ADD(pool.state, -1u) & (JOINED | OPEN)) == 0) {
        ADD(pool.left, 1);
        if (LOAD(pool.waiting)) {
            wake(&pool.left);
        }
    }
}

static _Noreturn __attribute__((noinline)) void help(void) {
    int32_t number = ADD(pool.workers, 1);
    uint32_t seen = 0;
    int32_t round = 0;
    for (;;) {
        uint32_t state = LOAD(pool.state);
        if ((state & OPEN) && state / NUMBER != seen) {
            if (__atomic_compare_exchange_n(&pool.state, &state, state + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
                seen = state / NUMBER;
                dk_take_pieces(&pool.loop, number);
                leave();
                round = 0;
            }
        } else if (++round == ROUNDS) {
            ADD(pool.sleeping, 1);
            sleep(&pool.state, (int32_t)state);
            ADD(pool.sleeping, -1);
            round = 0;
        }
    }
}

static void publish(int64_t extent, int64_t grain, dk_range range, void* context) {
    dk_share_out(&pool.loop, pool.threads, extent, grain, range, context);
    STORE(pool.state, (LOAD(pool.state) + NUMBER) | OPEN);
    if (LOAD(pool.sleeping) > 0) {
        wake(&pool.state);
    }
}

static void close_loop(void) {
    uint32_t state = __atomic_and_fetch(&pool.state, ~OPEN, __ATOMIC_SEQ_CST);
    int32_t round = 0;
    for (; (state & JOINED) != 0; state = LOAD(pool.state)) {
        if (++round > ROUNDS && pool.patient) {
            int32_t left = LOAD(pool.left);
            STORE(pool.waiting, 1);
            if (LOAD(pool.state) & JOINED) {
                sleep(&pool.left, left);
            }
            STORE(pool.waiting, 0);
        }
    }
}

static void run(dk_executor* self, int64_t extent, int64_t grain, dk_range range, void* context) {
    (void)self;
    if (extent <= grain || __atomic_exchange_n(&pool.taken, 1, __ATOMIC_SEQ_CST)) {
        range(context, 0, extent);
        return;
    }
    publish(extent, grain, range, context);
    dk_take_pieces(&pool.loop, 0);
    close_loop();
    STORE(pool.taken, 0);
}

dk_executor* dk_pool_share(int32_t threads, int patient) {
    pool.executor.run = run;
    pool.threads = threads;
    pool.loop.shares = pool.shares;
    pool.loop.count = threads < MOST_SHARES ? threads : MOST_SHARES;
    pool.patient = patient;
    return threads > 1 ? &pool.executor : NULL;
}

_Noreturn void dk_pool_work(void* stack) {
    __asm__ volatile("local.get %0\n\tglobal.set __stack_pointer" : : "r"(stack));
    help();
}

void dk_pool_abandon(void) {
    ADD(pool.failures, 1);
    leave();
}

int32_t dk_pool_failures(void) {
    return __atomic_exchange_n(&pool.failures, 0, __ATOMIC_SEQ_CST);
}
