/* The interface of a model's library for the class `Native` of its Java package: loading, memory and runs. Java calls
   the functions of a session one at a time, and turns statuses into exceptions.

   Compile with -DDK_JAVA_CLASS="<package>/Native" and -DDK_WEIGHTS_ALIGNMENT=<the alignment that kernels need>: inside
   of an app's file, weights start at multiples of 4 bytes. DK_WEIGHTS_HASH is the text that they begin with. DK_LEVELS
   are the names of the CPUs that there are kernels for, as string literals, the best first. In a library of several
   models, without DK_JAVA_CLASS: `jni_models.c` gives each model its class. For a model of texts also with -DDK_TEXTS,
   and with -DDK_MASKS if it fills masks; for one that generates with -DDK_TEXTS and DK_MESSAGES as `jni_messages.c`
   says; for one of pictures or of sound with DK_PICTURES or DK_SOUNDS as `jni_pictures.c` and `jni_sounds.c` say.
   DK_MOST_DIMS is at least the number of dims of each function. For a model with kernels for GPUs also with
   -DDK_ON_GPU=<prefix of its functions for them>, and with -DDK_VULKAN, -DDK_OPENCL or both. The model is compiled with
   -DDK_PROFILE. */
#include "session.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Mapped ranges of files start at multiples of any page size. */
#define PAGE_BYTES 65536
/* DK_TEXT_ALIGNMENT. */
#define TABLES_ALIGNMENT 8

#define FIRST_ROOM 4096
#define SHAPE_LONGS (1 + DK_MAX_RANK)

static void free_part(part* own) {
    free(own->on_cpu.model);
    free(own->on_gpu.model);
    free(own->inputs);
    free(own->outputs);
    free(own->room);
    free(own->dims);
    free(own->kept);
}

static void JNI_close(jni_environment* env, jobject type, jlong handle) {
    session* own = session_of(handle);
    int32_t index;
    (void)env;
    (void)type;
#ifdef DK_ON_GPU
    dk_leave_gpu(own);
#endif
#ifdef DK_TEXTS
    dk_close_tokenizer(own);
#endif
#ifdef DK_MESSAGES
    dk_close_writer(own);
#endif
    dk_pool_stop(own->pool);
    for (index = 0; index < BLOBS; ++index) {
        if (own->blobs[index].mapped != NULL) {
            munmap(own->blobs[index].mapped, own->blobs[index].mapped_bytes);
        }
        free(own->blobs[index].copied);
    }
    for (index = 0; own->parts != NULL && index < dk_function_count; ++index) {
        free_part(&own->parts[index]);
    }
    free(own->parts);
    free(own->arena);
    free(own->state);
    free(own);
}

/* Memory for a function; 0 if there is none. */
static int make_part(part* own, int32_t function) {
    const dk_model_descriptor* interface = dk_on_cpu[function].descriptor;
    const size_t inputs = (size_t)interface->input_count + 1, outputs = (size_t)interface->output_count + 1;
    const size_t dims = (size_t)interface->dim_count + 1;
    int32_t index;
    own->on_cpu.program = &dk_on_cpu[function];
    own->on_cpu.model = calloc(1, interface->model_bytes);
    own->inputs = calloc(inputs, sizeof *own->inputs);
    own->outputs = calloc(outputs, sizeof *own->outputs);
    own->room = calloc(outputs, sizeof *own->room);
    own->dims = calloc(dims, sizeof *own->dims);
    own->kept = calloc(outputs + dims, sizeof *own->kept);
    if (dk_on_gpu != NULL) {
        own->on_gpu.program = &dk_on_gpu[function];
        own->on_gpu.model = calloc(1, dk_on_gpu[function].descriptor->model_bytes);
    }
    for (index = 0; own->room != NULL && index < interface->output_count; ++index) {
        own->room[index] = FIRST_ROOM;
    }
    return own->on_cpu.model != NULL && own->inputs != NULL && own->outputs != NULL && own->room != NULL &&
           own->dims != NULL && own->kept != NULL && (dk_on_gpu == NULL || own->on_gpu.model != NULL);
}

static jlong JNI_create(jni_environment* env, jobject type, jint threads) {
    session* own = calloc(1, sizeof *own);
    int32_t index;
    int made = own != NULL;
    if (made) {
        own->parts = calloc((size_t)dk_function_count, sizeof *own->parts);
        own->pool = threads > 1 ? dk_pool_start(threads) : NULL;
        made = own->parts != NULL && (threads == 1 || own->pool != NULL);
    }
    for (index = 0; made && index < dk_function_count; ++index) {
        made = make_part(&own->parts[index], index);
    }
    if (own != NULL && !made) {
        JNI_close(env, type, (jlong)(intptr_t)own);
        own = NULL;
    }
    return (jlong)(intptr_t)own;
}

/* Room for a file that Java fills. */
static jint JNI_allocate(jni_environment* env, jobject type, jlong handle, jint file, jlong bytes) {
    blob* own = &session_of(handle)->blobs[file];
    (void)env;
    (void)type;
    if ((uint64_t)bytes > SIZE_MAX - DK_ALIGNMENT ||
        posix_memalign(&own->copied, DK_ALIGNMENT, (size_t)bytes + DK_ALIGNMENT) != 0) {
        own->copied = NULL;
        return NO_MEMORY;
    }
    own->data = own->copied;
    own->bytes = (size_t)bytes;
    return DK_OK;
}

static void
JNI_fill(jni_environment* env, jobject type, jlong handle, jint file, jlong offset, jobject bytes, jint count) {
    blob* own = &session_of(handle)->blobs[file];
    (void)type;
    if (offset >= 0 && (uint64_t)offset + (uint64_t)count <= own->bytes) {
        jni_read_bytes(env, bytes, 0, count, (unsigned char*)own->copied + offset);
    }
}

/* Use a range of an open file, or of the file `path`, a text that ends with zero, as a file of the model. */
static jint JNI_map(
    jni_environment* env, jobject type, jlong handle, jint file, jint descriptor, jobject path, jlong offset,
    jlong bytes
) {
    blob* own = &session_of(handle)->blobs[file];
    const jlong start = offset / PAGE_BYTES * PAGE_BYTES;
    const size_t alignment = file == TABLES ? TABLES_ALIGNMENT : DK_WEIGHTS_ALIGNMENT;
    const unsigned char* found;
    void* mapped;
    int opened = descriptor;
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
    if ((uintptr_t)found % alignment != 0) {
        jint status = JNI_allocate(env, type, handle, file, bytes);
        if (status == DK_OK) {
            memcpy(own->copied, found, (size_t)bytes);
        }
        munmap(own->mapped, own->mapped_bytes);
        own->mapped = NULL;
        return status;
    }
    own->data = found;
    own->bytes = (size_t)bytes;
    return DK_OK;
}

/* Leave out the hash that weights begin with. 0 if it is not that of this build. */
static int skip_hash(blob* weights) {
    static const char hash[] = DK_WEIGHTS_HASH;
    const size_t bytes = sizeof hash - 1;
    if (weights->bytes < bytes || (bytes > 0 && memcmp(weights->data, hash, bytes) != 0)) {
        return 0;
    }
    if (bytes > 0) {
        weights->data = (const unsigned char*)weights->data + bytes;
        weights->bytes -= bytes;
    }
    return 1;
}

static jint JNI_init(jni_environment* env, jobject type, jlong handle) {
    session* own = session_of(handle);
    blob* weights = &own->blobs[WEIGHTS];
    int32_t index;
    jint result = DK_OK;
    (void)env;
    (void)type;
    if (!skip_hash(weights)) {
        return failed(own, DK_ERROR_WEIGHTS, "the weights are not those of this build of the model");
    }
    for (index = 0; index < dk_function_count && result == DK_OK; ++index) {
        const runner* cpu = &own->parts[index].on_cpu;
        const size_t of_cpu = cpu->program->descriptor->weights_bytes; /* those for GPUs follow */
        const size_t bytes = weights->bytes < of_cpu ? weights->bytes : of_cpu;
        result = failed(own, cpu->program->init(cpu->model, weights->data, bytes), cpu->model->error);
        cpu->model->executor = own->pool == NULL ? NULL : dk_pool_executor(own->pool);
        cpu->model->stop = &own->stop;
    }
    return result;
}

/* Whether the weights are mapped into memory, not copied. */
static jint JNI_mapped(jni_environment* env, jobject type, jlong handle) {
    (void)env;
    (void)type;
    return session_of(handle)->blobs[WEIGHTS].copied == NULL;
}

/* End the run that is under way, or let runs begin again. Any thread may do so. */
static void JNI_stop(jni_environment* env, jobject type, jlong handle, jboolean stop) {
    (void)env;
    (void)type;
    __atomic_store_n(&session_of(handle)->stop, (int32_t)stop, __ATOMIC_RELAXED);
}

/* The text of the last error, as UTF-8 that ends with zero. */
static void JNI_error(jni_environment* env, jobject type, jlong handle, jobject text) {
    (void)type;
    write_text(env, text, session_of(handle)->error);
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
static jint JNI_bind(
    jni_environment* env, jobject type, jlong handle, jint function, jobject buffers, jobject described, jobject needs
) {
    session* own = session_of(handle);
    part* called = &own->parts[function];
    const runner* on = running(own, function);
    const dk_model_descriptor* interface = on->program->descriptor;
    dk_status status;
    int32_t index;
    jlong need;
    (void)type;
    read_buffers(env, buffers, called->inputs, interface->input_count);
    for (index = 0; index < interface->input_count; ++index) {
        dk_tensor* input = &called->inputs[index];
        jlong numbers[1 + SHAPE_LONGS];
        jni_read_longs(env, described, index * (1 + SHAPE_LONGS), 1 + SHAPE_LONGS, numbers);
        input->dtype = (dk_dtype)numbers[0];
        input->rank = (int32_t)numbers[1];
        memcpy(input->shape, numbers + 2, sizeof input->shape);
    }
    status = on->program->bind(on->model, called->inputs, called->dims);
    if (status != DK_OK) {
        return failed(own, status, on->model->error);
    }
    need = own->gpu != NULL ? 0 : on->program->arena_bytes(called->dims); /* on a GPU the arena is there */
    jni_write_longs(env, needs, 0, 1, &need);
    for (index = 0; index < interface->output_count && status == DK_OK; ++index) {
        dk_tensor* output = &called->outputs[index];
        int32_t axis;
        status = on->program->output_shape(called->dims, index, output);
        need = (jlong)output->bytes;
        for (axis = 0; axis < output->rank; ++axis) {
            need = output->shape[axis] < 0 ? called->room[index] : need;
        }
        jni_write_longs(env, needs, 1 + index, 1, &need);
    }
    return failed(own, status, on->model->error);
}

/* Note, with `keep`, which memory and which capacities a call begins with; without, go back to these. */
static void JNI_keep(jni_environment* env, jobject type, jlong handle, jint function, jboolean keep) {
    session* own = session_of(handle);
    part* called = &own->parts[function];
    const runner* on = running(own, function);
    const size_t outputs = (size_t)on->program->descriptor->output_count * sizeof(int64_t);
    const size_t dims = (size_t)on->program->descriptor->dim_count * sizeof(int64_t);
    int64_t* kept_dims = called->kept + on->program->descriptor->output_count;
    (void)env;
    (void)type;
    memcpy(keep ? called->kept : called->room, keep ? called->room : called->kept, outputs);
    memcpy(keep ? kept_dims : dims_of(on->model), keep ? dims_of(on->model) : kept_dims, dims);
}

void dk_share_memory(session* own) {
    int32_t index;
    for (index = 0; index < dk_function_count; ++index) {
        const runner* on = running(own, index);
        dk_set_arena(on->model, own->arena, own->arena_bytes);
    }
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
    if ((uint64_t)bytes <= SIZE_MAX - DK_ALIGNMENT &&
        posix_memalign(&own->arena, DK_ALIGNMENT, (size_t)bytes + DK_ALIGNMENT) == 0) {
        own->arena_bytes = (size_t)bytes;
    } else {
        own->arena = NULL;
    }
    dk_share_memory(own);
    return own->arena == NULL ? NO_MEMORY : DK_OK;
}

/* Run with the inputs that were bound; Java passes them again, so that they stay in memory. `shapes` receives for each
   output its rank and DK_MAX_RANK extents. After DK_ERROR_ARENA the first of `needs` is what the arena has to have;
   after DK_ERROR_CAPACITY, bind says what the next run needs. */
static jint JNI_run(
    jni_environment* env, jobject type, jlong handle, jint function, jobject inputs, jobject buffers, jobject shapes,
    jobject needs
) {
    session* own = session_of(handle);
    part* called = &own->parts[function];
    const runner* on = running(own, function);
    const dk_need* need = &on->model->need;
    dk_status status;
    int32_t index;
    (void)type;
    (void)inputs;
    read_buffers(env, buffers, called->outputs, on->program->descriptor->output_count);
    status = on->program->run(on->model, called->inputs, called->outputs);
#ifdef DK_ON_GPU
    dk_collect_times(own->gpu);
#endif
    if (status == DK_ERROR_ARENA) {
        jni_write_longs(env, needs, 0, 1, &need->bytes);
    } else if (status == DK_ERROR_CAPACITY && need->output >= 0) {
        called->room[need->output] = need->bytes;
    } else if (status == DK_ERROR_CAPACITY && need->dim >= 0) {
        dims_of(on->model)[need->dim] = need->extent;
    } else if (status == DK_ERROR_CAPACITY) {
        /* More memory does not help: a GPU cannot bind so large a tensor, or its place has a fixed size. */
        status = own->gpu != NULL ? DK_ERROR_DEVICE : (dk_status)FIXED_MEMORY;
    }
    for (index = 0; index < on->program->descriptor->output_count && status == DK_OK; ++index) {
        jlong rank = called->outputs[index].rank;
        jni_write_longs(env, shapes, index * SHAPE_LONGS, 1, &rank);
        jni_write_longs(env, shapes, index * SHAPE_LONGS + 1, (jint)rank, called->outputs[index].shape);
    }
    return failed(own, status, on->model->error);
}

/* Read at most DK_MOST_DIMS numbers. */
static void read_dims(jni_environment* env, jobject numbers, int64_t* dims) {
    const jint count = jni_length(env, numbers);
    memset(dims, 0, DK_MOST_DIMS * sizeof *dims);
    jni_read_longs(env, numbers, 0, count < DK_MOST_DIMS ? count : DK_MOST_DIMS, dims);
}

/* The bytes of arena and outputs of a run with these dims; the greatest number if a dim is out of its bounds. */
static jlong JNI_memory(jni_environment* env, jobject type, jint function, jobject numbers) {
    const program* called = &dk_on_cpu[function];
    int64_t dims[DK_MOST_DIMS];
    int64_t bytes;
    int32_t index;
    (void)type;
    read_dims(env, numbers, dims);
    bytes = called->arena_bytes(dims);
    for (index = 0; index < called->descriptor->output_count && bytes != INT64_MAX; ++index) {
        dk_tensor output;
        if (called->output_shape(dims, index, &output) != DK_OK || output.bytes > (uint64_t)(INT64_MAX - bytes)) {
            return INT64_MAX;
        }
        bytes += (int64_t)output.bytes;
    }
    return bytes;
}

/* The bytes of states of these sizes; the greatest number if one is out of its bounds. */
static jlong JNI_stateBytes(jni_environment* env, jobject type, jobject sizes) {
    int32_t index = 0;
    int64_t dims[2 * DK_MOST_DIMS] = {0};
    (void)type;
    while (index < dk_function_count && dk_on_cpu[index].state_bytes == NULL) {
        ++index;
    }
    if (index == dk_function_count) {
        return INT64_MAX;
    }
    read_dims(env, sizes, dims + dk_on_cpu[index].first);
    return dk_on_cpu[index].state_bytes(dims);
}

/* Make all states zeros, of these sizes. After an error they are as they were, unless the device failed. */
static jint JNI_reset(jni_environment* env, jobject type, jlong handle, jobject sizes) {
    session* own = session_of(handle);
    int64_t dims[2 * DK_MOST_DIMS], whole = 0, host = 0;
    int32_t index;
    jint status = DK_OK;
    void* made = NULL;
    (void)type;
    for (index = 0; index < dk_function_count; ++index) {
        const program* each = running(own, index)->program;
        if (each->state_bytes != NULL) {
            const int64_t bytes = (read_dims(env, sizes, dims + each->first), each->host_state_bytes(dims));
            whole = each->state_bytes(dims);
            host = bytes > host ? bytes : host;
        }
    }
    if ((uint64_t)host > SIZE_MAX || posix_memalign(&made, DK_ALIGNMENT, (size_t)host) != 0) {
        return NO_MEMORY;
    }
    if (own->gpu != NULL) {
        status = (jint)own->gpu->clear(own->gpu, DK_BUFFER_STATES, whole);
        failed(own, (dk_status)status, own->gpu->driver.error != NULL ? own->gpu->driver.error : "the device failed");
    }
    for (index = 0; index < dk_function_count && status == DK_OK; ++index) {
        const runner* on = running(own, index);
        if (on->program->state_bytes != NULL) {
            read_dims(env, sizes, dims + on->program->first);
            status = failed(own, on->program->reset_state(dims, made, (size_t)host), "there are no such states");
        }
    }
    for (index = 0; index < dk_function_count && status == DK_OK; ++index) {
        const runner* on = running(own, index);
        if (on->program->state_bytes != NULL) {
            status = failed(own, on->program->set_state(on->model, made, (size_t)host), on->model->error);
        }
    }
    free(status == DK_OK ? own->state : made);
    own->state = status == DK_OK ? made : own->state;
    return status;
}

/* What the kernels that run are for: a CPU, or GPUs. */
static void JNI_level(jni_environment* env, jobject type, jlong handle, jobject name) {
    static const char* const levels[] = {DK_LEVELS};
    const session* own = session_of(handle);
    (void)type;
    write_text(env, name, own->gpu != NULL ? "gpu" : levels[own->parts[0].on_cpu.model->level]);
}

static const jni_method methods[] = {
#ifdef DK_ON_GPU
    {"open", "(JII[B[B[B)I", (jni_function)JNI_open},
    {"adapter", "(II[B[B)I", (jni_function)JNI_adapter},
    {"leave", "(J)V", (jni_function)JNI_leave},
#endif
#ifdef DK_TEXTS
    {"openTexts", "(J)I", (jni_function)JNI_openTexts},
    {"encode", "(J[B[BIZ[J)I", (jni_function)JNI_encode},
    {"tokens", "(J[J[J[J[J)V", (jni_function)JNI_tokens},
#endif
#ifdef DK_MASKS
    {"decode", "(JI[B[J)I", (jni_function)JNI_decode},
#endif
#ifdef DK_MESSAGES
    {"answerBytes", "(II)J", (jni_function)JNI_answerBytes},
    {"openAnswers", "(JII)I", (jni_function)JNI_openAnswers},
    {"beginAnswer", "(J[J[J[J[B[J[J)I", (jni_function)JNI_beginAnswer},
    {"stepAnswer", "(J[B[J)I", (jni_function)JNI_stepAnswer},
    {"saveAnswer", "(J[B[J)I", (jni_function)JNI_saveAnswer},
    {"readSaved", "(JJ[BI)V", (jni_function)JNI_readSaved},
    {"addSaved", "(J[BI)I", (jni_function)JNI_addSaved},
    {"restoreAnswer", "(J[J)I", (jni_function)JNI_restoreAnswer},
    {"dropSaved", "(J)V", (jni_function)JNI_dropSaved},
#ifdef DK_SPEAKS
    {"render", "(J[BJ[B[J)I", (jni_function)JNI_render},
#endif
#endif
#ifdef DK_PICTURES
    {"pictureSize", "(JII[J)I", (jni_function)JNI_pictureSize},
    {"preparePicture", "(J[Ljava/nio/ByteBuffer;[J)I", (jni_function)JNI_preparePicture},
    {"prepareFrame", "([Ljava/nio/ByteBuffer;[J)I", (jni_function)JNI_prepareFrame},
    {"objects", "([Ljava/nio/ByteBuffer;[J)I", (jni_function)JNI_objects},
    {"segments", "([Ljava/nio/ByteBuffer;[J)V", (jni_function)JNI_segments},
#endif
#ifdef DK_SOUNDS
    {"soundCount", "(JI)J", (jni_function)JNI_soundCount},
    {"prepareSound", "(J[Ljava/nio/ByteBuffer;[J)I", (jni_function)JNI_prepareSound},
    {"letters", "([Ljava/nio/ByteBuffer;J[J)V", (jni_function)JNI_letters},
#endif
    {"create", "(I)J", (jni_function)JNI_create},
    {"close", "(J)V", (jni_function)JNI_close},
    {"allocate", "(JIJ)I", (jni_function)JNI_allocate},
    {"fill", "(JIJ[BI)V", (jni_function)JNI_fill},
    {"map", "(JII[BJJ)I", (jni_function)JNI_map},
    {"init", "(J)I", (jni_function)JNI_init},
    {"mapped", "(J)I", (jni_function)JNI_mapped},
    {"stop", "(JZ)V", (jni_function)JNI_stop},
    {"error", "(J[B)V", (jni_function)JNI_error},
    {"bind", "(JI[Ljava/nio/ByteBuffer;[J[J)I", (jni_function)JNI_bind},
    {"keep", "(JIZ)V", (jni_function)JNI_keep},
    {"reserve", "(JJ)I", (jni_function)JNI_reserve},
    {"run", "(JI[Ljava/nio/ByteBuffer;[Ljava/nio/ByteBuffer;[J[J)I", (jni_function)JNI_run},
    {"memory", "(I[J)J", (jni_function)JNI_memory},
    {"stateBytes", "([J)J", (jni_function)JNI_stateBytes},
    {"reset", "(J[J)I", (jni_function)JNI_reset},
    {"level", "(J[B)V", (jni_function)JNI_level},
    {"measure", "(JI)I", (jni_function)JNI_measure},
    {"measured", "([J[J[J)V", (jni_function)JNI_measured},
};

jint dk_register(jni_environment* env, jobject type) {
    return jni_register(env, type, methods, (jint)(sizeof methods / sizeof methods[0]));
}

#ifdef DK_JAVA_CLASS
JNI_EXPORTED jint JNI_OnLoad(jni_machine* machine, void* reserved);

jint JNI_OnLoad(jni_machine* machine, void* reserved) {
    (void)reserved;
    return jni_load(machine, DK_JAVA_CLASS, dk_register);
}
#endif
