/* The functions of a model as tables.

   Compile with -D'DK_PROGRAMS(PLAIN, STATEFUL)=...', which has PLAIN(<prefix>) for each function without states, in
   order, and STATEFUL(<prefix>, <first>, <count>) for each with states, of which `count` dims from `first` on are the
   sizes. DK_GPU_PROGRAMS has the same for the functions on GPUs, if there are any. */
#include "programs.h"

#include "model.h"
#ifdef DK_GPU_PROGRAMS
#include "model_on_gpu.h"
#endif

/* In each of these, `p` is the prefix of a function. */

#define WRAP(p)                                                                                                        \
    static dk_status p##_init_it(void* model, const void* weights, size_t bytes) {                                     \
        return p##_init(model, weights, bytes, NULL, 0);                                                               \
    }                                                                                                                  \
    static dk_status p##_bind_it(void* model, const dk_tensor* inputs, int64_t* dims) {                                \
        return p##_bind(model, inputs, (p##_dims*)(void*)dims);                                                        \
    }                                                                                                                  \
    static dk_status p##_run_it(void* model, const dk_tensor* inputs, dk_tensor* outputs) {                            \
        return p##_run(model, inputs, outputs);                                                                        \
    }                                                                                                                  \
    static int64_t p##_arena_it(const int64_t* dims) {                                                                 \
        return p##_arena_bytes((const p##_dims*)(const void*)dims);                                                    \
    }                                                                                                                  \
    static dk_status p##_output_it(const int64_t* dims, int32_t output, dk_tensor* tensor) {                           \
        return p##_output_shape((const p##_dims*)(const void*)dims, output, tensor);                                   \
    }

#define WRAP_STATES(p)                                                                                                 \
    static int64_t p##_state_it(const int64_t* dims) {                                                                 \
        return p##_state_bytes((const p##_dims*)(const void*)dims);                                                    \
    }                                                                                                                  \
    static dk_status p##_reset_it(const int64_t* dims, void* state, size_t bytes) {                                    \
        return p##_reset_state((const p##_dims*)(const void*)dims, state, bytes);                                      \
    }                                                                                                                  \
    static dk_status p##_set_it(void* model, void* state, size_t bytes) {                                              \
        return p##_set_state(model, state, bytes);                                                                     \
    }

#define WRAP_ON_GPU(p)                                                                                                 \
    static void p##_drive_it(void* model, dk_driver* driver) {                                                         \
        ((p##_model*)model)->driver = driver;                                                                          \
    }

/* Without states on the host, it has the header that is in front of them. */
#define WRAP_STATES_ON_GPU(p)                                                                                          \
    static int64_t p##_host_it(const int64_t* dims) {                                                                  \
        const int64_t bytes = p##_state_it(dims);                                                                      \
        return (p##_host_memory & 4) != 0 || bytes == INT64_MAX ? bytes : p##_state_header;                            \
    }

#define ROW(p) &p##_descriptor, p##_init_it, p##_bind_it, p##_run_it, p##_arena_it, p##_output_it
#define STATES_ROW(p, host) p##_state_it, host, p##_reset_it, p##_set_it

#define DEFINE(p) WRAP(p)
#define DEFINE_STATEFUL(p, first, count) WRAP(p) WRAP_STATES(p)
#define ENTRY(p) {ROW(p), NULL, NULL, NULL, NULL, NULL, 0, 0},
#define ENTRY_STATEFUL(p, first, count) {ROW(p), NULL, STATES_ROW(p, p##_state_it), first, count},

DK_PROGRAMS(DEFINE, DEFINE_STATEFUL)

static const program on_cpu[] = {DK_PROGRAMS(ENTRY, ENTRY_STATEFUL)};

const int32_t dk_function_count = (int32_t)(sizeof on_cpu / sizeof on_cpu[0]);
const program* const dk_on_cpu = on_cpu;

#ifdef DK_GPU_PROGRAMS
#define DEFINE_GPU(p) WRAP(p) WRAP_ON_GPU(p)
#define DEFINE_STATEFUL_GPU(p, first, count) WRAP(p) WRAP_STATES(p) WRAP_ON_GPU(p) WRAP_STATES_ON_GPU(p)
#define ENTRY_GPU(p) {ROW(p), p##_drive_it, NULL, NULL, NULL, NULL, 0, 0},
#define ENTRY_STATEFUL_GPU(p, first, count) {ROW(p), p##_drive_it, STATES_ROW(p, p##_host_it), first, count},

DK_GPU_PROGRAMS(DEFINE_GPU, DEFINE_STATEFUL_GPU)

static const program on_gpu[] = {DK_GPU_PROGRAMS(ENTRY_GPU, ENTRY_STATEFUL_GPU)};
const program* const dk_on_gpu = on_gpu;
#else
const program* const dk_on_gpu = NULL;
#endif
