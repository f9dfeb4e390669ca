/* The interface of a model's library for the class `Native` of its Java package. A session is a model struct with its
   memory. Java calls the functions of a session one at a time, and turns statuses into exceptions.

   Compile with -DDK_PREFIX=<prefix of the model>, -DDK_JAVA_CLASS="<package>/Native" and -DDK_WEIGHTS_ALIGNMENT=<the
   alignment that kernels need>: inside of an app's file, weights start at multiples of 4 bytes.
   For a model with kernels for GPUs also with -DDK_GPU_PREFIX=<prefix of its functions for them>, and -DDK_VULKAN,
   -DDK_OPENCL or both. */
#include "jni.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"
#include "threads.h"
#ifdef DK_GPU_PREFIX
#include "gpu.h"
#include "model_on_gpu.h"
#include "work.h"
#endif

#define JOIN(a, b) a##b
#define MODEL_OF(prefix, name) JOIN(prefix, name)
#define MODEL(name) MODEL_OF(DK_PREFIX, name)
#define ON_GPU(name) MODEL_OF(DK_GPU_PREFIX, name)

/* Statuses beside those of deploykit.h. */
#define NO_MEMORY 100
#define NOT_MAPPED 101

/* Mapped ranges of files start at multiples of any page size. */
#define PAGE_BYTES 65536

#define FIRST_ROOM 4096
#define SHAPE_LONGS (1 + DK_MAX_RANK)
#define MOST_DIMS (sizeof(MODEL(_dims)) / sizeof(int64_t))

typedef struct {
    MODEL(_model) model;
    dk_pool* pool;
    void* mapped;
    size_t mapped_bytes;
    void* copied; /* weights that cannot be mapped */
    const void* weights;
    size_t weights_bytes;
    void* arena;
    size_t arena_bytes;
    dk_tensor* inputs;
    dk_tensor* outputs;
    int64_t* room; /* by output, for sizes that only a run can tell */
#ifdef DK_GPU_PREFIX
    dk_gpu* gpu; /* NULL: runs are on the CPU */
    ON_GPU(_model) on_gpu;
    int32_t failed_on_gpu; /* the last error is that of `on_gpu` */
#endif
} session;

static const dk_model_descriptor* const interface = &MODEL(_descriptor);

static session* session_of(jlong handle) {
    return (session*)(intptr_t)handle;
}

/* Go on with the CPU. */
static void JNI_leave(jni_environment* env, jobject type, jlong handle) {
    (void)env;
    (void)type;
#ifdef DK_GPU_PREFIX
    if (session_of(handle)->gpu != NULL) {
        session_of(handle)->gpu->close(session_of(handle)->gpu);
        session_of(handle)->gpu = NULL;
        dk_set_arena(&session_of(handle)->model.base, session_of(handle)->arena, session_of(handle)->arena_bytes);
    }
#else
    (void)handle;
#endif
}

static void JNI_close(jni_environment* env, jobject type, jlong handle) {
    session* own = session_of(handle);
    JNI_leave(env, type, handle);
    dk_pool_stop(own->pool);
    if (own->mapped != NULL) {
        munmap(own->mapped, own->mapped_bytes);
    }
    free(own->copied);
    free(own->arena);
    free(own->inputs);
    free(own->outputs);
    free(own->room);
    free(own);
}

static jlong JNI_create(jni_environment* env, jobject type, jint threads) {
    session* own = calloc(1, sizeof *own);
    int32_t index;
    if (own == NULL) {
        return 0;
    }
    own->inputs = calloc((size_t)interface->input_count + 1, sizeof *own->inputs);
    own->outputs = calloc((size_t)interface->output_count + 1, sizeof *own->outputs);
    own->room = calloc((size_t)interface->output_count + 1, sizeof *own->room);
    own->pool = threads > 1 ? dk_pool_start(threads) : NULL;
    if (own->inputs == NULL || own->outputs == NULL || own->room == NULL || (threads > 1 && own->pool == NULL)) {
        JNI_close(env, type, (jlong)(intptr_t)own);
        return 0;
    }
    for (index = 0; index < interface->output_count; ++index) {
        own->room[index] = FIRST_ROOM;
    }
    return (jlong)(intptr_t)own;
}

/* Room for weights that Java fills. */
static jint JNI_allocate(jni_environment* env, jobject type, jlong handle, jlong bytes) {
    session* own = session_of(handle);
    (void)env;
    (void)type;
    if ((uint64_t)bytes > SIZE_MAX - DK_ALIGNMENT ||
        posix_memalign(&own->copied, DK_ALIGNMENT, (size_t)bytes + DK_ALIGNMENT) != 0) {
        own->copied = NULL;
        return NO_MEMORY;
    }
    own->weights = own->copied;
    own->weights_bytes = (size_t)bytes;
    return DK_OK;
}

static void JNI_fill(jni_environment* env, jobject type, jlong handle, jlong offset, jobject bytes, jint count) {
    session* own = session_of(handle);
    (void)type;
    if (offset >= 0 && (uint64_t)offset + (uint64_t)count <= own->weights_bytes) {
        jni_read_bytes(env, bytes, 0, count, (unsigned char*)own->copied + offset);
    }
}

/* Use a range of an open file, or of the file `path`, a text that ends with zero, as weights. */
static jint
JNI_map(jni_environment* env, jobject type, jlong handle, jint file, jobject path, jlong offset, jlong bytes) {
    session* own = session_of(handle);
    const jlong start = offset / PAGE_BYTES * PAGE_BYTES;
    const unsigned char* found;
    void* mapped;
    int opened = file;
    if (bytes <= 0 || (uint64_t)(bytes + offset - start) > SIZE_MAX) {
        return bytes == 0 ? DK_OK : NOT_MAPPED;
    }
    if (path != NULL) {
        jint length = jni_length(env, path);
        char* name = calloc((size_t)length + 1, 1);
        if (name == NULL) {
            return NO_MEMORY;
        }
        jni_read_bytes(env, path, 0, length, name);
        opened = open(name, O_RDONLY | O_CLOEXEC);
        free(name);
    }
    mapped = mmap64(NULL, (size_t)(bytes + offset - start), PROT_READ, MAP_PRIVATE, opened, start);
    if (path != NULL && opened >= 0) {
        close(opened);
    }
    if (mapped == MAP_FAILED) {
        return NOT_MAPPED;
    }
    own->mapped = mapped;
    own->mapped_bytes = (size_t)(bytes + offset - start);
    found = (const unsigned char*)mapped + (offset - start);
    if ((uintptr_t)found % DK_WEIGHTS_ALIGNMENT != 0) {
        jint status = JNI_allocate(env, type, handle, bytes);
        if (status == DK_OK) {
            memcpy(own->copied, found, (size_t)bytes);
        }
        munmap(own->mapped, own->mapped_bytes);
        own->mapped = NULL;
        return status;
    }
    own->weights = found;
    own->weights_bytes = (size_t)bytes;
    return DK_OK;
}

static jint JNI_init(jni_environment* env, jobject type, jlong handle) {
    session* own = session_of(handle);
    const size_t of_cpu = interface->weights_bytes; /* those for GPUs follow */
    const size_t bytes = own->weights_bytes < of_cpu ? own->weights_bytes : of_cpu;
    dk_status status = MODEL(_init)(&own->model, own->weights, bytes, NULL, 0);
    (void)env;
    (void)type;
    own->model.base.executor = own->pool == NULL ? NULL : dk_pool_executor(own->pool);
    return (jint)status;
}

static void write_text(jni_environment* env, jobject target, const char* text) {
    const size_t bytes = strlen(text) + 1;
    const jint room = jni_length(env, target);
    jni_write_bytes(env, target, 0, bytes < (size_t)room ? (jint)bytes : room, text);
}

/* The text of the last error, as UTF-8 that ends with zero. */
static void JNI_error(jni_environment* env, jobject type, jlong handle, jobject text) {
    const session* own = session_of(handle);
    const char* error = MODEL(_last_error)(&own->model);
    (void)type;
#ifdef DK_GPU_PREFIX
    error = own->failed_on_gpu ? ON_GPU(_last_error)(&own->on_gpu) : error;
#endif
    write_text(env, text, error);
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* The memory of buffers; those of tensors without elements may have none. */
static void read_buffers(jni_environment* env, jobject buffers, dk_tensor* tensors, int32_t count) {
    int32_t index;
    for (index = 0; index < count; ++index) {
        jobject buffer = jni_element(env, buffers, index);
        tensors[index].data = jni_buffer_address(env, buffer);
        tensors[index].bytes = (size_t)jni_buffer_bytes(env, buffer);
        jni_delete_local(env, buffer);
    }
}

/* Check the inputs. `described` has for each input its dtype, its rank and DK_MAX_RANK extents; `needs` receives the
   bytes of the arena and of each output. */
static jint
JNI_bind(jni_environment* env, jobject type, jlong handle, jobject buffers, jobject described, jobject needs) {
    session* own = session_of(handle);
    MODEL(_dims) dims;
    dk_status status;
    int32_t index;
    jlong need;
    (void)type;
#ifdef DK_GPU_PREFIX
    own->failed_on_gpu = 0;
#endif
    read_buffers(env, buffers, own->inputs, interface->input_count);
    for (index = 0; index < interface->input_count; ++index) {
        dk_tensor* input = &own->inputs[index];
        jlong numbers[1 + SHAPE_LONGS];
        jni_read_longs(env, described, index * (1 + SHAPE_LONGS), 1 + SHAPE_LONGS, numbers);
        input->dtype = (dk_dtype)numbers[0];
        input->rank = (int32_t)numbers[1];
        memcpy(input->shape, numbers + 2, sizeof input->shape);
    }
    status = MODEL(_bind)(&own->model, own->inputs, &dims);
    if (status != DK_OK) {
        return (jint)status;
    }
    need = MODEL(_arena_bytes)(&dims);
#ifdef DK_GPU_PREFIX
    need = own->gpu != NULL ? 0 : need; /* the arena is on the device */
#endif
    jni_write_longs(env, needs, 0, 1, &need);
    for (index = 0; index < interface->output_count && status == DK_OK; ++index) {
        dk_tensor* output = &own->outputs[index];
        int32_t axis;
        status = MODEL(_output_shape)(&dims, index, output);
        need = (jlong)output->bytes;
        for (axis = 0; axis < output->rank; ++axis) {
            need = output->shape[axis] < 0 ? own->room[index] : need;
        }
        jni_write_longs(env, needs, 1 + index, 1, &need);
    }
    return (jint)status;
}

/* Give the model an arena of so many bytes, unless it has a larger one. */
static jint JNI_reserve(jni_environment* env, jobject type, jlong handle, jlong bytes) {
    session* own = session_of(handle);
    (void)env;
    (void)type;
    if ((uint64_t)bytes <= own->arena_bytes && own->arena != NULL) {
        return DK_OK;
    }
    free(own->arena);
    own->arena = NULL;
    own->arena_bytes = 0;
    dk_set_arena(&own->model.base, NULL, 0);
#ifdef DK_GPU_PREFIX
    dk_set_arena(&own->on_gpu.base, NULL, 0);
#endif
    if ((uint64_t)bytes > SIZE_MAX - DK_ALIGNMENT ||
        posix_memalign(&own->arena, DK_ALIGNMENT, (size_t)bytes + DK_ALIGNMENT) != 0) {
        own->arena = NULL;
        return NO_MEMORY;
    }
    own->arena_bytes = (size_t)bytes;
#ifdef DK_GPU_PREFIX
    if (own->gpu != NULL) {
        return (jint)dk_set_arena(&own->on_gpu.base, own->arena, own->arena_bytes);
    }
#endif
    return (jint)dk_set_arena(&own->model.base, own->arena, own->arena_bytes);
}

#ifdef DK_GPU_PREFIX
/* Run on the GPU. Steps on the CPU may need an arena, too, which the run asks for. */
static dk_status run_on_gpu(jni_environment* env, session* own) {
    dk_status status = ON_GPU(_run)(&own->on_gpu, own->inputs, own->outputs);
    if (status == DK_ERROR_ARENA) {
        status = (dk_status)JNI_reserve(env, NULL, (jlong)(intptr_t)own, (jlong)own->on_gpu.base.need.bytes);
        status = status != DK_OK ? status : ON_GPU(_run)(&own->on_gpu, own->inputs, own->outputs);
    }
    own->failed_on_gpu = status != DK_OK;
    return status;
}
#endif

/* Run with the inputs that were bound; Java passes them again, so that they stay in memory. `shapes` receives for each
   output its rank and DK_MAX_RANK extents. After DK_ERROR_CAPACITY, bind says what the next run needs. */
static jint JNI_run(jni_environment* env, jobject type, jlong handle, jobject inputs, jobject buffers, jobject shapes) {
    session* own = session_of(handle);
    const dk_need* need = &own->model.base.need;
    dk_status status = DK_OK;
    int32_t index;
    (void)type;
    (void)inputs;
    read_buffers(env, buffers, own->outputs, interface->output_count);
#ifdef DK_GPU_PREFIX
    if (own->gpu != NULL) {
        need = &own->on_gpu.base.need;
        status = run_on_gpu(env, own);
    } else
#endif
        status = MODEL(_run)(&own->model, own->inputs, own->outputs);
    if (status == DK_ERROR_CAPACITY && need->output >= 0) {
        own->room[need->output] = need->bytes;
    } else if (status == DK_ERROR_CAPACITY && need->dim >= 0) {
        memcpy((char*)&own->model.dims + (size_t)need->dim * sizeof(int64_t), &need->extent, sizeof(int64_t));
#ifdef DK_GPU_PREFIX
        memcpy((char*)&own->on_gpu.dims + (size_t)need->dim * sizeof(int64_t), &need->extent, sizeof(int64_t));
#endif
    } else if (status == DK_ERROR_CAPACITY) {
        status = (dk_status)NO_MEMORY;
    }
    for (index = 0; index < interface->output_count && status == DK_OK; ++index) {
        jlong rank = own->outputs[index].rank;
        jni_write_longs(env, shapes, index * SHAPE_LONGS, 1, &rank);
        jni_write_longs(env, shapes, index * SHAPE_LONGS + 1, (jint)rank, own->outputs[index].shape);
    }
    return (jint)status;
}

static void read_dims(jni_environment* env, jobject numbers, MODEL(_dims) * dims) {
    jlong values[MOST_DIMS] = {0};
    jni_read_longs(env, numbers, 0, smaller(jni_length(env, numbers), (int32_t)MOST_DIMS), values);
    memcpy(dims, values, sizeof *dims);
}

/* The bytes of arena and outputs of a run with these dims; the greatest number if a dim is out of its bounds. */
static jlong JNI_memory(jni_environment* env, jobject type, jobject numbers) {
    MODEL(_dims) dims;
    int64_t bytes;
    int32_t index;
    (void)type;
    read_dims(env, numbers, &dims);
    bytes = MODEL(_arena_bytes)(&dims);
    for (index = 0; index < interface->output_count && bytes != INT64_MAX; ++index) {
        dk_tensor output;
        if (MODEL(_output_shape)(&dims, index, &output) != DK_OK || output.bytes > (uint64_t)(INT64_MAX - bytes)) {
            return INT64_MAX;
        }
        bytes += (int64_t)output.bytes;
    }
    return bytes;
}

#ifdef DK_GPU_PREFIX
extern const dk_gpu_program ON_GPU(_vulkan);
extern const dk_gpu_program ON_GPU(_opencl);

static const struct {
    const dk_gpu_program* program;
    dk_gpu* (*open)(const dk_gpu_program*, const void*, const dk_gpu_options*, char*, size_t);
    int32_t (*list)(const dk_gpu_options*, dk_gpu_adapter*, int32_t, char*, size_t);
} drivers[] = {
#ifdef DK_VULKAN
    {&ON_GPU(_vulkan), dk_vulkan_open, dk_vulkan_adapters},
#endif
#ifdef DK_OPENCL
    {&ON_GPU(_opencl), dk_opencl_open, dk_opencl_adapters},
#endif
};

/* A copy of the bytes of an array, and a zero; NULL if there is no array, or no memory. */
static char* copied(jni_environment* env, jobject bytes) {
    const jint length = bytes == NULL ? 0 : jni_length(env, bytes);
    char* copy = bytes == NULL ? NULL : (char*)calloc((size_t)length + 1, 1);
    if (copy != NULL) {
        jni_read_bytes(env, bytes, 0, length, copy);
    }
    return copy;
}

/* Open adapter `adapter` of a driver, or the best one with 0, and copy the weights to it. `cache` is the path of a
   file, or NULL. `text` receives the adapter's name, or why there is none. */
static jint JNI_open(
    jni_environment* env, jobject type, jlong handle, jint driver, jint adapter, jobject code, jobject cache,
    jobject text
) {
    session* own = session_of(handle);
    const dk_gpu_program* program = drivers[driver].program;
    const unsigned char* weights = (const unsigned char*)own->weights + program->first_weight;
    const int64_t file_bytes = program->packed_bytes > 0 ? program->packed_bytes : program->code_bytes;
    char error[DK_ERROR_TEXT] = "there is not enough memory for the kernels";
    char* bytes = copied(env, code);
    char* path = copied(env, cache);
    dk_gpu_options options;
    dk_status status = DK_ERROR_DEVICE;
    memset(&options, 0, sizeof options);
    options.cache = path;
    options.adapter = adapter;
    if (bytes != NULL && jni_length(env, code) != file_bytes) {
        snprintf(error, sizeof error, "%s", DK_GPU_CODE_DIFFERS);
    } else if (bytes != NULL) {
        own->gpu = drivers[driver].open(program, bytes, &options, error, sizeof error);
    }
    free(bytes);
    free(path);
    if (own->gpu != NULL) {
        status = program->weights_bytes > 0 ? own->gpu->load(own->gpu, weights) : DK_OK;
        if (status == DK_OK) {
            status = ON_GPU(_init)(&own->on_gpu, weights, (size_t)program->weights_bytes, NULL, 0);
            own->on_gpu.base.executor = own->model.base.executor;
            own->on_gpu.driver = &own->gpu->driver;
            write_text(env, text, status == DK_OK ? own->gpu->adapter.name : ON_GPU(_last_error)(&own->on_gpu));
        } else {
            write_text(env, text, own->gpu->driver.error != NULL ? own->gpu->driver.error : "the device failed");
        }
    } else {
        write_text(env, text, error);
    }
    if (status != DK_OK) {
        JNI_leave(env, type, handle);
    }
    return (jint)status;
}

/* The kind of adapter `index` of a driver, from 0 on, and in `text` its name; -1: it cannot be used; -2: there is none.
 */
static jint JNI_adapter(jni_environment* env, jobject type, jint driver, jint index, jobject text) {
    enum { MOST = 16 };
    dk_gpu_adapter* found = (dk_gpu_adapter*)calloc(MOST, sizeof *found);
    char error[DK_ERROR_TEXT];
    jint kind = -2;
    (void)type;
    if (found != NULL && index < MOST && index < drivers[driver].list(NULL, found, MOST, error, sizeof error)) {
        kind = found[index].unusable != NULL ? -1 : (jint)found[index].kind;
        write_text(env, text, found[index].name);
    }
    free(found);
    return kind;
}
#endif

static const jni_method methods[] = {
#ifdef DK_GPU_PREFIX
    {"open", "(JII[B[B[B)I", (jni_function)JNI_open},
    {"adapter", "(II[B)I", (jni_function)JNI_adapter},
    {"leave", "(J)V", (jni_function)JNI_leave},
#endif
    {"create", "(I)J", (jni_function)JNI_create},
    {"close", "(J)V", (jni_function)JNI_close},
    {"allocate", "(JJ)I", (jni_function)JNI_allocate},
    {"fill", "(JJ[BI)V", (jni_function)JNI_fill},
    {"map", "(JI[BJJ)I", (jni_function)JNI_map},
    {"init", "(J)I", (jni_function)JNI_init},
    {"error", "(J[B)V", (jni_function)JNI_error},
    {"bind", "(J[Ljava/nio/ByteBuffer;[J[J)I", (jni_function)JNI_bind},
    {"reserve", "(JJ)I", (jni_function)JNI_reserve},
    {"run", "(J[Ljava/nio/ByteBuffer;[Ljava/nio/ByteBuffer;[J)I", (jni_function)JNI_run},
    {"memory", "([J)J", (jni_function)JNI_memory},
};

jint JNI_OnLoad(jni_machine* machine, void* reserved);

jint JNI_OnLoad(jni_machine* machine, void* reserved) {
    void* env = NULL;
    jobject type;
    (void)reserved;
    if (jni_environment_of(machine, &env) != 0) {
        return JNI_ERROR;
    }
    type = jni_find_class(env, DK_JAVA_CLASS);
    if (type == NULL || jni_register(env, type, methods, (jint)(sizeof methods / sizeof methods[0])) != 0) {
        return JNI_ERROR;
    }
    return JNI_VERSION_1_6;
}
