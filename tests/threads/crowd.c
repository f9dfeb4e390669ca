/* Runs a model from many threads, for tests under ThreadSanitizer. `given.h` has the inputs, and the names of the model
   and of its weights.

       crowd own ROUNDS [THREADS OF A POOL]    each thread has a struct; the weights and the pool are shared
       crowd one ROUNDS                        all threads use one struct
       crowd stream ROUNDS                     each thread has a stream of instances

   Results must have the bits of a run alone. It prints how many calls went on, and how many found the struct in use. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "given.h"
#include "model.h"
#include "weights.h"
#ifdef DK_POOL
#include "threads.h"
#endif

#define JOIN(a, b) a##b
#define NAMED(prefix, name) JOIN(prefix, name)
#define MODEL(name) NAMED(DK_PREFIX, name)
#define THREADS 16
#define SUBMITTED 3

typedef MODEL(_model) model_struct;

typedef struct results {
    dk_tensor tensors[DK_OUTPUTS];
    size_t room[DK_OUTPUTS];
} results;

typedef struct worker {
    model_struct* model;
    results found;
    void* state;
    void* arena;
    long good;
    long busy;
} worker;

static model_struct shared;
static results expected;
static dk_executor* executor;
static int rounds;

static void stop(const char* what, const model_struct* model) {
    fprintf(stderr, "crowd: %s: %s\n", what, model == NULL ? "" : model->base.error);
    exit(2);
}

static void* take(size_t bytes) {
    void* memory = NULL;
    if (posix_memalign(&memory, DK_ALIGNMENT, bytes + DK_ALIGNMENT) != 0) {
        stop("no memory", NULL);
    }
    memset(memory, 0xff, bytes);
    return memory;
}

static void make_room(results* found, int index, size_t bytes) {
    if (bytes > found->room[index]) {
        free(found->tensors[index].data);
        found->tensors[index].data = take(bytes);
        found->room[index] = bytes;
    }
    found->tensors[index].bytes = found->room[index];
}

static void start(worker* own, model_struct* model) {
    own->model = model;
    if (MODEL(_init)(model, &DK_WEIGHTS, MODEL(_descriptor).weights_bytes, NULL, 0) != DK_OK) {
        stop("init", model);
    }
    model->base.executor = executor;
}

/* Provide what the model lacks; stops if that is not memory. */
static void provide(worker* own, dk_status status) {
    const dk_need* need = &own->model->base.need;
    int64_t* dims = (int64_t*)&own->model->dims;
    if (status == DK_ERROR_CAPACITY && need->output >= 0) {
        make_room(&own->found, need->output, (size_t)need->bytes);
    } else if (status == DK_ERROR_CAPACITY && need->dim >= 0) {
        dims[need->dim] = need->extent;
    } else if (status == DK_ERROR_ARENA) {
        free(own->arena);
        own->arena = take((size_t)need->bytes);
        if (dk_set_arena(&own->model->base, own->arena, (size_t)need->bytes) != DK_OK) {
            stop("arena", own->model);
        }
    } else {
        stop("run", own->model);
    }
}

#ifdef DK_STATES
/* States of zeros, whose only dim is DK_STATES. */
static void reset(worker* own) {
    const MODEL(_dims) dims = {DK_STATES};
    size_t bytes;
    bytes = (size_t)MODEL(_state_bytes)(&dims);
    own->state = own->state == NULL ? take(bytes) : own->state;
    if (MODEL(_reset_state)(&dims, own->state, bytes) != DK_OK ||
        MODEL(_set_state)(own->model, own->state, bytes) != DK_OK) {
        stop("states", own->model);
    }
}
#endif

static void run(worker* own) {
    dk_status status;
#ifdef DK_STATES
    reset(own);
#endif
    for (;;) {
        status = MODEL(_run)(own->model, inputs, own->found.tensors);
        if (status == DK_OK) {
            return;
        }
        provide(own, status);
    }
}

static void require_expected(const worker* own) {
    int index;
    for (index = 0; index < DK_OUTPUTS; ++index) {
        const dk_tensor* wanted = &expected.tensors[index];
        const dk_tensor* found = &own->found.tensors[index];
        if (found->rank != wanted->rank || memcmp(found->shape, wanted->shape, sizeof(int64_t) * (size_t)found->rank) ||
            memcmp(found->data, wanted->data, (size_t)dk_tensor_bytes(found))) {
            stop("a result differs", NULL);
        }
    }
}

static void* with_own_struct(void* argument) {
    worker* own = argument;
    int round;
    start(own, take(sizeof *own->model));
    for (round = 0; round < rounds; ++round) {
        run(own);
        require_expected(own);
        ++own->good;
    }
    return NULL;
}

static void* with_one_struct(void* argument) {
    worker* own = argument;
    int round;
    for (round = 0; round < rounds; ++round) {
        const dk_status status = MODEL(_run)(&shared, inputs, own->found.tensors);
        if (status == DK_OK) {
            require_expected(own);
            ++own->good;
        } else if (status == DK_ERROR_BUSY) {
            if (MODEL(_last_error)(&shared) == NULL) {
                stop("no text", NULL);
            }
            ++own->busy;
        } else {
            stop("run", NULL);
        }
    }
    return NULL;
}

#ifdef DK_STREAM
static void stream(worker* own) {
    dk_status status = DK_OK;
    int32_t tickets[SUBMITTED * DK_BATCH];
    int submitted;
    do {
        for (submitted = 0; status == DK_OK && submitted < SUBMITTED; ++submitted) {
            int32_t ticket;
            status = MODEL(_submit)(own->model, inputs, &ticket);
        }
        while (status == DK_OK && own->model->stream.running > 0) {
            status = MODEL(_step)(own->model);
        }
        while (status == DK_OK && own->model->stream.finished > 0) {
            status = MODEL(_take)(own->model, own->found.tensors, tickets);
            if (status == DK_ERROR_CAPACITY && own->model->base.need.output >= 0) {
                provide(own, status);
                status = DK_OK;
            }
        }
        if (status == DK_OK) {
            return;
        }
        provide(own, status);
        status = DK_OK;
    } while (1);
}

static void* with_own_stream(void* argument) {
    worker* own = argument;
    int round;
    start(own, take(sizeof *own->model));
    for (round = 0; round < rounds; ++round) {
        stream(own);
        require_expected(own);
        ++own->good;
    }
    return NULL;
}
#endif

int main(int count, char** words) {
    static worker workers[THREADS], alone;
    void* (*work)(void*) = with_own_struct;
    pthread_t threads[THREADS];
    long good = 0, busy = 0;
    int index, output;
    rounds = atoi(words[2]);
#ifdef DK_POOL
    if (count > 3) {
        executor = dk_pool_executor(dk_pool_start(atoi(words[3])));
    }
#endif
    (void)count;
    start(&alone, &shared);
    run(&alone);
    if (strcmp(words[1], "one") == 0) {
        work = with_one_struct;
    }
#ifdef DK_STREAM
    if (strcmp(words[1], "stream") == 0) {
        stream(&alone);
        work = with_own_stream;
    }
#endif
    expected = alone.found;
    for (index = 0; index < THREADS; ++index) {
        for (output = 0; output < DK_OUTPUTS; ++output) {
            make_room(&workers[index].found, output, expected.room[output]);
        }
        pthread_create(&threads[index], NULL, work, &workers[index]);
    }
    for (index = 0; index < THREADS; ++index) {
        pthread_join(threads[index], NULL);
        good += workers[index].good;
        busy += workers[index].busy;
    }
    printf("%ld right, %ld busy\n", good, busy);
    return 0;
}
