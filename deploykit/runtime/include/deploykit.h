/* The interface that all models share: tensors, status codes, and the description of a model.

   A model is plain C99. It owns no memory: the caller passes the weights, one arena for all intermediate
   results, and the inputs and outputs of each run. Nothing here allocates, locks, or writes a global.

   One model struct serves one call at a time, and any number of structs, in as many threads, may share the same
   weights. A call of a struct that is in use gives DK_ERROR_BUSY and changes nothing. Functions of a model that share
   one block of states have structs of their own: their calls must take turns, which nothing checks. */
#ifndef DEPLOYKIT_H
#define DEPLOYKIT_H

#include <stddef.h>
#include <stdint.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. A model and a core of different versions do not link: a name has the version. */
#define DK_VERSION 2
#define dk_init dk_init_of_version_2

#define DK_MAX_RANK 16
/* Bytes of the text of an error. -DDK_NO_ERROR_TEXT, for all files, leaves texts out: a status tells what failed. */
#ifdef DK_NO_ERROR_TEXT
#define DK_ERROR_TEXT 1
#else
#define DK_ERROR_TEXT 256
#endif
/* The largest extent of an axis. */
#define DK_MAX_EXTENT (((int64_t)1 << 40) - 1)
/* Bytes: the arena and the weights start at a multiple of this. Machines without vectors need 8, for all files. */
#ifndef DK_ALIGNMENT
#define DK_ALIGNMENT 64
#endif

/* Puts a static array at a multiple of DK_ALIGNMENT, as in `static DK_ALIGNED unsigned char arena[N];`. */
#if defined(_MSC_VER)
#define DK_ALIGNED __declspec(align(DK_ALIGNMENT))
#else
#define DK_ALIGNED __attribute__((aligned(DK_ALIGNMENT)))
#endif

typedef enum dk_status {
    DK_OK = 0,
    DK_ERROR_SHAPE = 1,    /* an input's rank or extent does not fit the model */
    DK_ERROR_DTYPE = 2,    /* an input has another dtype than the model */
    DK_ERROR_BUFFER = 3,   /* an input's or output's memory is missing, too small, or misaligned */
    DK_ERROR_ARENA = 4,    /* the arena is misaligned, or too small: `need.bytes` is the size it needs */
    DK_ERROR_CAPACITY = 5, /* more memory is needed: `need` says where and how much */
    DK_ERROR_WEIGHTS = 6,  /* the weights are missing, misaligned, or of another size */
    DK_ERROR_DATA = 7,     /* a value inside a tensor, used as a size or an index, is out of its range */
    DK_ERROR_USAGE = 8,    /* a wrong call, such as one about an output that does not exist */
    DK_ERROR_CPU = 9,      /* this CPU lacks instructions that the kernels use */
    DK_ERROR_DEVICE = 10,  /* the device that kernels run on failed or is lost */
    DK_PENDING = 11,       /* no error: the run goes on; call again (run_steps), when the device is done (driver.h) */
    DK_ERROR_BUSY = 12,    /* the struct is in use by another call, which goes on */
    DK_ERROR_STOPPED = 13  /* `stop` of the model was set, or dk_profile_step ended the run: it has no result */
} dk_status;

/* Sub-byte types take one byte per element: the value is sign- or zero-extended; float4 is in the low four bits. An
   element of DK_STRING is an int64_t made by dk_string: the offset and the length of its UTF-8 bytes in the next tensor
   of the interface. That tensor holds the bytes of all strings, without terminating zeros. */
typedef enum dk_dtype {
    DK_FLOAT32 = 0,
    DK_FLOAT64 = 1,
    DK_FLOAT16 = 2,
    DK_BFLOAT16 = 3,
    DK_INT8 = 4,
    DK_INT16 = 5,
    DK_INT32 = 6,
    DK_INT64 = 7,
    DK_UINT8 = 8,
    DK_UINT16 = 9,
    DK_UINT32 = 10,
    DK_UINT64 = 11,
    DK_BOOL = 12,
    DK_INT4 = 13,
    DK_UINT4 = 14,
    DK_INT2 = 15,
    DK_UINT2 = 16,
    DK_FLOAT8_E4M3FN = 17,
    DK_FLOAT8_E4M3FNUZ = 18,
    DK_FLOAT8_E5M2 = 19,
    DK_FLOAT8_E5M2FNUZ = 20,
    DK_FLOAT8_E8M0 = 21,
    DK_FLOAT4_E2M1 = 22,
    DK_STRING = 23
} dk_dtype;

static inline int64_t dk_string(uint32_t offset, uint32_t length) {
    return (int64_t)(((uint64_t)length << 32) | offset);
}

static inline uint32_t dk_string_offset(int64_t string) {
    return (uint32_t)((uint64_t)string & 0xffffffffu);
}

static inline uint32_t dk_string_length(int64_t string) {
    return (uint32_t)((uint64_t)string >> 32);
}

/* A dense row-major tensor in the caller's memory. `bytes` is the size of the memory at `data`, at least what the shape
   needs. `data` is aligned for its elements. */
typedef struct dk_tensor {
    void* data;
    size_t bytes;
    dk_dtype dtype;
    int32_t rank;
    int64_t shape[DK_MAX_RANK];
} dk_tensor;

/* Values of `dk_axis.dim` that are not an index. */
#define DK_AXIS_FIXED (-1)   /* the extent is `extent` */
#define DK_AXIS_FORMULA (-2) /* the extent is the formula `text` over the dims */
#define DK_AXIS_DATA (-3)    /* the extent depends on the contents of the inputs; `text` names it */

typedef struct dk_axis {
    int32_t dim; /* index into `dk_model_descriptor.dims`, or one of the above */
    int64_t extent;
    const char* text; /* for people: `784`, `batch`, `2*seq + 1` */
} dk_axis;

typedef struct dk_port {
    const char* name;
    dk_dtype dtype;
    int32_t rank;
    const dk_axis* shape;
} dk_port;

typedef struct dk_dim {
    const char* name;
    int64_t minimum;
    int64_t maximum;         /* -1: unbounded */
    const char* capacity_of; /* if not NULL, no input has this dim: the caller chooses it, as the number of elements
                                that the named tensor has room for */
} dk_dim;

typedef struct dk_model_descriptor {
    const char* name;
    int32_t input_count;
    int32_t output_count;
    int32_t dim_count;
    const dk_port* inputs;
    const dk_port* outputs;
    const dk_dim* dims;
    size_t weights_bytes;
    int64_t arena_least; /* bytes of the arena that every run needs; runs with larger dims need more */
    size_t model_bytes;  /* size of the model's own struct: a `dk_model`, then an int64_t for each dim */
} dk_model_descriptor;

/* Runs the iterations from `begin` up to, but not including, `end` of a parallel loop. */
typedef void (*dk_range)(void* context, int64_t begin, int64_t end);

/* Runs parallel loops. `run` returns when all iterations are done; each piece but the last has at least `grain`
   iterations. */
typedef struct dk_executor {
    void (*run)(struct dk_executor* self, int64_t extent, int64_t grain, dk_range range, void* context);
} dk_executor;

/* What the kernels of a model are compiled for: the name of a CPU, and its required features, DK_CPU_... of cpu.h. */
typedef struct dk_level {
    const char* cpu;
    uint64_t features;
} dk_level;

/* The missing memory, after DK_ERROR_ARENA or DK_ERROR_CAPACITY. Provide it and run again. */
typedef struct dk_need {
    int64_t bytes;  /* of the arena, or of the output */
    int32_t output; /* index of the output that is too small, or -1 */
    int32_t dim;    /* index of the capacity dim that is too small, or -1 */
    int64_t extent; /* the value that this dim needs */
} dk_need;

/* The common start of every model's struct. */
typedef struct dk_model {
    const dk_model_descriptor* descriptor;
    const unsigned char* weights;
    unsigned char* arena;
    size_t arena_bytes;
    dk_executor* executor; /* NULL: parallel loops run on the caller's thread */
    const int32_t* stop;   /* NULL, or a number that ends a run when it is not 0: it is read before each step, if the
                              model is compiled with -DDK_STOPPABLE */
    int32_t level;         /* which kernels run, if the model has them for several CPUs, the best first: init chooses;
                              may be set to a greater number, up to that of the last */
    int32_t busy;          /* whether a call uses the struct */
    dk_status refused;     /* why init refused the model, which then does not run; else DK_OK */
#ifdef DK_GUARDED
    volatile uint32_t* guard; /* NULL, or the end of the stack, where dk_guard_stack wrote a pattern */
#endif
#ifdef DK_SLICED
    int32_t resume;     /* where the run goes on that began with run_steps; 0: there is none */
    int32_t steps_left; /* how many of its steps this call may still execute; below 0: all */
    uint32_t memory;    /* of which memory it makes use: a checksum of addresses and sizes */
#endif
    dk_need need;
    char error[DK_ERROR_TEXT]; /* text of the last error, always terminated */
} dk_model;

/* The size of one element in bytes. */
size_t dk_dtype_bytes(dk_dtype dtype);

/* The name of a dtype, such as "float32"; "unknown" for any other value. */
const char* dk_dtype_name(dk_dtype dtype);

/* Give the model another arena (for example a larger one, after DK_ERROR_ARENA). Nothing need be copied to it. */
dk_status dk_set_arena(dk_model* model, void* arena, size_t bytes);

/* The CRC-32 of some bytes (IEEE 802.3), to compare weights with the number in weights.h. */
uint32_t dk_crc32(const void* data, size_t bytes);

/* The rest is for generated code. */

/* Set the flag of a struct that is used from now on; returns 0 if it is set. A CPU without atomic instructions
   (Cortex-M0) has one core: a call in an interrupt is seen there, unless it comes between the two instructions that
   read and write the flag. */
static inline int dk_acquire(int32_t* busy) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4)
    return !__atomic_exchange_n(busy, 1, __ATOMIC_ACQUIRE);
#elif defined(_MSC_VER)
    return !_InterlockedExchange((volatile long*)busy, 1);
#else
    const int32_t before = *(volatile int32_t*)busy;
    *(volatile int32_t*)busy = 1;
    return !before;
#endif
}

/* Clear it. Returns `status`, that of the call. */
static inline dk_status dk_release(int32_t* busy, dk_status status) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4)
    __atomic_store_n(busy, 0, __ATOMIC_RELEASE);
#elif defined(_MSC_VER)
    _InterlockedExchange((volatile long*)busy, 0);
#else
    *(volatile int32_t*)busy = 0;
#endif
    return status;
}

/* The number of bytes `exact`, or INT64_MAX if its computation might overflow. `most`, in floating point, bounds the
   magnitude of `exact` and of all its intermediate results. */
#define DK_SIZE(most, exact) (((most) < 4611686018427387904.0) ? (exact) : INT64_MAX)

dk_status dk_init(
    dk_model* model, const dk_model_descriptor* descriptor, const void* weights, size_t weights_bytes, void* arena,
    size_t arena_bytes
);

/* Choose the first of `levels` that this CPU can run: `features` gives those among the asked ones that it has. */
dk_status dk_choose_level(dk_model* model, const dk_level* levels, int32_t count, uint64_t (*features)(uint64_t asked));

/* Begin a call: check that `model` is initialised with this descriptor, and take it. */
dk_status dk_begin_call(dk_model* model, const dk_model_descriptor* descriptor);

/* Prepare the struct of a function that the model calls, with all but the descriptor as the model has it. */
void dk_begin_callee(dk_model* callee, const dk_model* model, const dk_model_descriptor* descriptor);

/* Check that `inputs` (unless the model has none) and `result` are not NULL. `what` names the result in the error. */
dk_status dk_check_call(
    dk_model* model, const dk_model_descriptor* descriptor, const dk_tensor* inputs, const void* result,
    const char* what
);

/* Whether `dims` is not NULL and all dims are within their bounds. */
int dk_dims_within(const dk_model_descriptor* descriptor, const int64_t* dims);

/* Check every input against the descriptor and store the dims found in `dims`; capacity dims stay as they are. */
dk_status dk_bind(dk_model* model, const dk_tensor* inputs, int64_t* dims);

/* Check an input's axis whose extent is a formula with the value `expected`. */
dk_status dk_check_axis(dk_model* model, const dk_tensor* inputs, int32_t input, int32_t axis, int64_t expected);

/* Check that no input is in the arena. */
dk_status dk_check_inputs_apart(dk_model* model, const dk_tensor* inputs);

/* Check that the arena holds `bytes`. */
dk_status dk_check_arena(dk_model* model, int64_t bytes);

/* Check that `outputs[output]` has room for `bytes`. */
dk_status dk_check_output(dk_model* model, const dk_tensor* outputs, int32_t output, int64_t bytes);

/* Check a value read from the tensor `what`; a missing bound is INT64_MIN or INT64_MAX. */
dk_status dk_check_data(dk_model* model, const char* what, int64_t value, int64_t minimum, int64_t maximum);

/* Check `count` elements of an int32 or int64 tensor: element i must be within bounds[2 * j]..bounds[2 * j + 1], where
   j is i % pairs. The magnitude of bounds is at most DK_MAX_EXTENT. */
dk_status dk_check_indices(
    dk_model* model, const char* what, const void* data, dk_dtype dtype, int64_t count, const int64_t* bounds,
    int32_t pairs
);

/* Report that `what` needs `needed` bytes and has `available`, which the capacity dim `dim` (-1: none) gave with its
   value `extent`. */
dk_status
dk_fail_capacity(dk_model* model, const char* what, int64_t needed, int64_t available, int32_t dim, int64_t extent);

/* Report DK_ERROR_SHAPE. Each `{}` in `message` is replaced by the next of `values`. */
dk_status dk_fail_shape(dk_model* model, const char* message, const int64_t* values);

/* The text of the last error; where `busy` is set, that a struct is in use: the text belongs to the other call then. */
const char* dk_error_text(const dk_model* model, const int32_t* busy);

/* Begin the text of another error. */
void dk_start_error(dk_model* model);

#ifdef DK_NO_ERROR_TEXT
#define dk_start_port_error(model, kind, name)                                                                         \
    do {                                                                                                               \
        (void)(kind);                                                                                                  \
        (void)(name);                                                                                                  \
        dk_start_error(model);                                                                                         \
    } while (0)
#define dk_add_text(model, text)                                                                                       \
    do {                                                                                                               \
        (void)(model);                                                                                                 \
        (void)(text);                                                                                                  \
    } while (0)
#define dk_add_number(model, text, value)                                                                              \
    do {                                                                                                               \
        (void)(model);                                                                                                 \
        (void)(text);                                                                                                  \
        (void)(value);                                                                                                 \
    } while (0)
#define dk_add_bounds(model, minimum, maximum, found)                                                                  \
    do {                                                                                                               \
        (void)(model);                                                                                                 \
        (void)(minimum);                                                                                               \
        (void)(maximum);                                                                                               \
        (void)(found);                                                                                                 \
    } while (0)
#else
/* The same, with "input 'x'". */
void dk_start_port_error(dk_model* model, const char* kind, const char* name);

/* Append to the text of the last error. */
void dk_add_text(dk_model* model, const char* text);

/* Append a text, then a number. */
void dk_add_number(dk_model* model, const char* text, int64_t value);

/* Append "1..5, found 7"; a missing bound is INT64_MIN or INT64_MAX. */
void dk_add_bounds(dk_model* model, int64_t minimum, int64_t maximum, int64_t found);
#endif

/* Report DK_ERROR_STOPPED; returns 1. */
int dk_fail_stopped(dk_model* model);

/* Whether `stop` ends a run, with this error. */
int dk_stopped(dk_model* model);

/* Defined by a program whose models are compiled with -DDK_PROFILE. It is called before each step, with the step's
   number in plan.json, and after the last one with -1. Another value than 0 ends the run before the step, with
   DK_ERROR_STOPPED; at the end it counts as 0. */
int32_t dk_profile_step(const dk_model* model, int32_t step);

#ifdef DK_PROFILE
#define DK_PROFILED(number) (dk_profile_step(base, number) != 0 && dk_fail_stopped(base))
#define DK_PROFILED_ALL (void)dk_profile_step(base, -1)
#else
#define DK_PROFILED(number) 0
#define DK_PROFILED_ALL (void)0
#endif
#ifdef DK_STOPPABLE
#define DK_STOPPED (base->stop != NULL && dk_stopped(base))
#else
#define DK_STOPPED 0
#endif

/* A model that is compiled with -DDK_GUARDED watches the end of the stack that it runs on: where that is overwritten, a
   run ends with DK_ERROR_CAPACITY before its next step, and so does each later one. */
#ifdef DK_GUARDED
#define DK_GUARD_WORDS 4

/* Watch the stack whose lowest address is `lowest`, a multiple of 4: a pattern is written to the 16 bytes there, which
   must not be in use yet, else this is the error. NULL ends it. Call it after init. */
dk_status dk_guard_stack(dk_model* model, void* lowest);

/* Whether the pattern is overwritten, or the stack is below it now, with this error. */
int dk_overflowed(dk_model* model);

#define DK_OVERFLOWED dk_overflowed(base)
#else
#define DK_OVERFLOWED 0
#endif

/* A model that is compiled with -DDK_SLICED can run some of its steps in a call (run_steps): the steps are in a switch,
   each with a label, and what variables hold meanwhile is in the struct. */
#ifdef DK_SLICED
#define DK_BEGIN_STEPS                                                                                                 \
    switch (dk_resume(base)) {                                                                                         \
    case 0:
#define DK_PAUSE(number)                                                                                               \
    if (base->steps_left == 0) {                                                                                       \
        base->resume = (number) + 1;                                                                                   \
        goto paused;                                                                                                   \
    case (number) + 1:;                                                                                                \
    }                                                                                                                  \
    base->steps_left -= (base->steps_left > 0)
#define DK_END_STEPS                                                                                                   \
    default:                                                                                                           \
        break;                                                                                                         \
        }
#define DK_SAVED(index) model->saved[index]

/* Where a run begins or goes on, whose steps are executed now. */
static inline int32_t dk_resume(dk_model* model) {
    const int32_t resume = model->resume;
    model->resume = 0;
    return resume;
}

/* Begin a call that executes `steps` steps, those of the run that goes on, if there is one: in the same memory. */
dk_status dk_begin_slice(dk_model* model, const dk_tensor* inputs, const dk_tensor* outputs, int32_t steps);

/* Begin a run that executes all steps, and give up one that goes on; DK_ERROR_USAGE where that one may have changed
   states, because it is behind step `change`. */
dk_status dk_begin_whole(dk_model* model, int32_t change);
#else
#define DK_BEGIN_STEPS
#define DK_PAUSE(number) (void)0
#define DK_END_STEPS
#define DK_SAVED(index) 0
#endif

/* Stands before each step that computes or copies, with its number in plan.json. It does nothing unless the model is
   compiled with one of these options. */
#define DK_STEP(number)                                                                                                \
    do {                                                                                                               \
        DK_PAUSE(number);                                                                                              \
        if (DK_OVERFLOWED) {                                                                                           \
            return DK_ERROR_CAPACITY;                                                                                  \
        }                                                                                                              \
        if (DK_STOPPED || DK_PROFILED(number)) {                                                                       \
            return DK_ERROR_STOPPED;                                                                                   \
        }                                                                                                              \
    } while (0)

/* Stands behind the last step. */
#define DK_LAST_STEP                                                                                                   \
    do {                                                                                                               \
        DK_PROFILED_ALL;                                                                                               \
        if (DK_OVERFLOWED) {                                                                                           \
            return DK_ERROR_CAPACITY;                                                                                  \
        }                                                                                                              \
    } while (0)

/* memcpy that also allows 0 bytes, and a target that equals the source. */
void dk_copy(void* target, const void* source, int64_t bytes);

/* The least effort that is worth waking a thread for: some microseconds of a CPU with vectors. */
#define DK_PIECE_EFFORT 262144.0

/* Run a loop on the model's executor, or on this thread if there is none or the loop is short. `effort` estimates the
   whole loop, in sixteenths of a cycle of a CPU with vectors; 0 if it is not known. */
void dk_parallel_for(const dk_model* model, int64_t extent, double effort, dk_range range, void* context);

/* Fill in the dtype and the rank of an output; generated code fills in the shape. */
dk_status dk_describe_output(const dk_model_descriptor* descriptor, int32_t output, dk_tensor* tensor);

/* Bytes that the shape of `tensor` needs; 0 while an extent is unknown (negative). */
int64_t dk_tensor_bytes(const dk_tensor* tensor);

/* Integer arithmetic on sizes. Division by 0 gives 0; `floor...` round down, the others towards 0. */

static inline int64_t dk_min(int64_t a, int64_t b) {
    return (a < b) ? a : b;
}

static inline int64_t dk_max(int64_t a, int64_t b) {
    return (a > b) ? a : b;
}

static inline int64_t dk_div(int64_t a, int64_t b) {
    return (b == 0) ? 0 : (a / b);
}

static inline int64_t dk_mod(int64_t a, int64_t b) {
    return (b == 0) ? 0 : (a % b);
}

static inline int64_t dk_floordiv(int64_t a, int64_t b) {
    return dk_div(a, b) - ((dk_mod(a, b) != 0) && ((a < 0) != (b < 0)));
}

static inline int64_t dk_floormod(int64_t a, int64_t b) {
    return a - (dk_floordiv(a, b) * b);
}

/* Estimates of the same functions in floating point. */

static inline double dk_estimate_min(double a, double b) {
    return (a < b) ? a : b;
}

static inline double dk_estimate_max(double a, double b) {
    return (a > b) ? a : b;
}

static inline double dk_estimate_div(double a, double b) {
    return (b == 0) ? 0 : (a / b);
}

static inline double dk_estimate_mod(double a, double b) {
    (void)a;
    return b;
}

static inline double dk_estimate_floordiv(double a, double b) {
    return dk_estimate_div(a, b);
}

static inline double dk_estimate_floormod(double a, double b) {
    return dk_estimate_mod(a, b);
}

#ifdef __cplusplus
}
#endif

#endif
