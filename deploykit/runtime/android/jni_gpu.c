/* The devices that a model runs on beside the CPU: see jni.c. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>

#include "model_on_gpu.h"
#include "work.h"

#define JOIN(a, b) a##b
#define PROGRAM_OF(prefix, name) JOIN(prefix, name)
#define PROGRAM(name) PROGRAM_OF(DK_ON_GPU, name)

extern const dk_gpu_program PROGRAM(_vulkan);
extern const dk_gpu_program PROGRAM(_opencl);

static const struct {
    const dk_gpu_program* program;
    dk_gpu* (*open)(const dk_gpu_program*, const void*, const dk_gpu_options*, char*, size_t);
    int32_t (*list)(const dk_gpu_options*, dk_gpu_adapter*, int32_t, char*, size_t);
} drivers[] = {
#ifdef DK_VULKAN
    {&PROGRAM(_vulkan), dk_vulkan_open, dk_vulkan_adapters},
#endif
#ifdef DK_OPENCL
    {&PROGRAM(_opencl), dk_opencl_open, dk_opencl_adapters},
#endif
};

void dk_leave_gpu(session* own) {
    if (own->gpu != NULL) {
        dk_forget_gpu(own->gpu);
        own->gpu->close(own->gpu);
        own->gpu = NULL;
        dk_share_memory(own);
    }
}

/* Go on with the CPU. */
void JNI_leave(jni_environment* env, jobject type, jlong handle) {
    (void)env;
    (void)type;
    dk_leave_gpu(session_of(handle));
}

/* A copy of the bytes of an array, and a zero; NULL if there is no array, or no memory. */
static char* copied(jni_environment* env, jobject bytes) {
    const jint length = bytes == NULL ? 0 : jni_length(env, bytes);
    char* copy = bytes == NULL ? NULL : (char*)calloc((size_t)length + 1, 1);
    if (copy != NULL) {
        jni_read_bytes(env, bytes, 0, length, copy);
    }
    return copy;
}

/* Copy the weights to the device, and make the model ready to run there. */
static jint prepare(session* own, const dk_gpu_program* program) {
    const unsigned char* weights = (const unsigned char*)own->blobs[WEIGHTS].data + program->first_weight;
    dk_status status = program->weights_bytes > 0 ? own->gpu->load(own->gpu, weights) : DK_OK;
    int32_t index;
    failed(own, status, own->gpu->driver.error != NULL ? own->gpu->driver.error : "the device failed");
    for (index = 0; index < dk_function_count && status == DK_OK; ++index) {
        const runner* on = &own->parts[index].on_gpu;
        status = on->program->init(on->model, weights, (size_t)program->weights_bytes);
        on->model->executor = own->parts[index].on_cpu.model->executor;
        on->model->stop = &own->stop;
        on->program->drive(on->model, &own->gpu->driver);
        failed(own, status, on->model->error);
    }
    dk_share_memory(own);
    return (jint)status;
}

/* The size of the file with the code. */
static int64_t file_bytes(const dk_gpu_program* program) {
    return program->packed_bytes > 0 ? program->packed_bytes : program->code_bytes;
}

/* Open adapter `adapter` of a driver, or the best one with 0, and copy the weights to it. `cache` is the path of a
   file, or NULL. `text` receives the adapter's name, or why there is none. */
jint JNI_open(
    jni_environment* env, jobject type, jlong handle, jint driver, jint adapter, jobject code, jobject cache,
    jobject text
) {
    session* own = session_of(handle);
    char error[DK_ERROR_TEXT] = "there is not enough memory for the kernels";
    char* bytes = copied(env, code);
    char* path = copied(env, cache);
    dk_gpu_options options;
    jint status = DK_ERROR_DEVICE;
    (void)type;
    memset(&options, 0, sizeof options);
    options.cache = path;
    options.adapter = adapter;
    if (bytes != NULL && jni_length(env, code) != file_bytes(drivers[driver].program)) {
        snprintf(error, sizeof error, "%s", DK_GPU_CODE_DIFFERS);
    } else if (bytes != NULL) {
        own->gpu = drivers[driver].open(drivers[driver].program, bytes, &options, error, sizeof error);
    }
    free(bytes);
    free(path);
    if (own->gpu == NULL) {
        write_text(env, text, error);
        return status;
    }
    status = prepare(own, drivers[driver].program);
    write_text(env, text, status == DK_OK ? own->gpu->adapter.name : own->error);
    if (status != DK_OK) {
        dk_leave_gpu(own);
    }
    return status;
}

/* The kind of adapter `index` of a driver, from 0 on, in `name` its name and in `version` its driver; -1: it cannot be
   used; -2: there is none. */
jint JNI_adapter(jni_environment* env, jobject type, jint driver, jint index, jobject name, jobject version) {
    enum { MOST = 16 };
    dk_gpu_adapter* found = (dk_gpu_adapter*)calloc(MOST, sizeof *found);
    char error[DK_ERROR_TEXT];
    jint kind = -2;
    (void)type;
    if (found != NULL && index < MOST && index < drivers[driver].list(NULL, found, MOST, error, sizeof error)) {
        kind = found[index].unusable != NULL ? -1 : (jint)found[index].kind;
        write_text(env, name, found[index].name);
        write_text(env, version, found[index].driver);
    }
    free(found);
    return kind;
}
