/* Builds the kernels of a model with OpenCL, and keeps them in a file.

   The file holds a header and the program as the device's driver gives it. Whoever can write to it decides what runs on
   the device. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opencl.h"
#include "work.h"

#define MAGIC 0x314c434bu /* changes with the layout of the file */
#define MOST_OPTIONS 160
#define MOST_LOG 1000 /* characters of the compiler's text, in whole lines */

typedef struct cache_header {
    uint32_t magic;
    uint32_t reserved;
    uint64_t key;  /* of the device, its driver, the code and the options */
    uint64_t hash; /* of the program */
    uint64_t bytes;
} cache_header;

static uint64_t key_of(const dk_opencl_device* device, const dk_gpu_program* program, const char* options) {
    const dk_gpu_adapter* adapter = &device->adapter;
    uint64_t hash = dk_hash(0, adapter->name, strlen(adapter->name) + 1);
    hash = dk_hash(hash, adapter->driver, strlen(adapter->driver) + 1);
    hash = dk_hash(hash, options, strlen(options) + 1);
    hash = dk_hash(hash, &program->code_hash, sizeof program->code_hash);
    return dk_hash(hash, &program->code_bytes, sizeof program->code_bytes);
}

static void release(const dk_opencl_api* api, cl_program* program) {
    if (*program != NULL) {
        api->ReleaseProgram(*program);
    }
    *program = NULL;
}

/* The program in the file, on the heap; NULL if there is none for this key. */
static unsigned char* read_cache(const char* path, uint64_t key, size_t* bytes) {
    cache_header header;
    unsigned char* found = NULL;
    FILE* file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    if (fread(&header, sizeof header, 1, file) == 1 && header.magic == MAGIC && header.key == key && header.bytes > 0 &&
        fseek(file, 0, SEEK_END) == 0 && ftell(file) - (long)sizeof header == (long)header.bytes &&
        fseek(file, (long)sizeof header, SEEK_SET) == 0) {
        *bytes = (size_t)header.bytes;
        found = malloc(*bytes);
    }
    if (found != NULL && (fread(found, *bytes, 1, file) != 1 || dk_hash(0, found, *bytes) != header.hash)) {
        free(found);
        found = NULL;
    }
    fclose(file);
    return found;
}

/* Replace the file, whole or not at all. A failure to do so is no error. */
static void write_cache(const char* path, uint64_t key, const unsigned char* program, size_t bytes) {
    const cache_header header = {MAGIC, 0, key, dk_hash(0, program, bytes), bytes};
    const size_t length = strlen(path);
    char* other = malloc(length + sizeof ".XXXXXX");
    if (other == NULL) {
        return;
    }
    memcpy(other, path, length);
    memcpy(other + length, ".XXXXXX", sizeof ".XXXXXX");
    const int descriptor = mkstemp(other);
    FILE* file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file != NULL) {
        const int whole = fwrite(&header, sizeof header, 1, file) == 1 && fwrite(program, bytes, 1, file) == 1;
        if (fclose(file) != 0 || !whole || rename(other, path) != 0) {
            remove(other);
        }
    } else if (descriptor >= 0) {
        close(descriptor);
        remove(other);
    }
    free(other);
}

static cl_program from_cache(
    const dk_opencl_api* api, cl_context context, cl_device_id device, const char* options, const char* path,
    uint64_t key
) {
    size_t bytes = 0;
    cl_int code = CL_SUCCESS, refused = CL_SUCCESS;
    unsigned char* binary = read_cache(path, key, &bytes);
    if (binary == NULL) {
        return NULL;
    }
    const unsigned char* parts[] = {binary};
    cl_program program = api->CreateProgramWithBinary(context, 1, &device, &bytes, parts, &refused, &code);
    free(binary);
    if (code != CL_SUCCESS || refused != CL_SUCCESS ||
        api->BuildProgram(program, 1, &device, options, NULL, NULL) != CL_SUCCESS) {
        release(api, &program);
    }
    return program;
}

static void to_cache(const dk_opencl_api* api, cl_program program, const char* path, uint64_t key) {
    size_t bytes = 0;
    if (api->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || bytes == 0) {
        return;
    }
    unsigned char* binary = malloc(bytes);
    unsigned char* parts[] = {binary};
    if (binary != NULL && api->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof parts, parts, NULL) == CL_SUCCESS) {
        write_cache(path, key, binary, bytes);
    }
    free(binary);
}

/* Report a failure with the first lines of the compiler's text. */
static void
refuse(const dk_opencl_api* api, cl_program program, cl_device_id device, cl_int code, dk_opencl_text error) {
    size_t bytes = 0;
    char* log = NULL;
    if (program != NULL &&
        api->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) == CL_SUCCESS) {
        log = calloc(bytes + 1, 1);
    }
    if (log != NULL &&
        api->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) != CL_SUCCESS) {
        log[0] = '\0';
    }
    if (log != NULL && bytes > MOST_LOG) {
        log[MOST_LOG] = '\0';
        char* end = strrchr(log, '\n');
        if (end != NULL) {
            *end = '\0';
        }
    }
    dk_opencl_say(
        error, "the GPU's driver cannot compile the kernels (%" PRId32 "): %s", code, log == NULL ? "no text" : log
    );
    free(log);
}

cl_program dk_opencl_build(
    const dk_opencl_api* api, cl_context context, const dk_opencl_device* device, const dk_gpu_program* program,
    const void* code, const char* cache, dk_opencl_text error
) {
    char options[MOST_OPTIONS];
    const int exact = (device->floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    snprintf(
        options, sizeof options, "-cl-std=%s -DDK_BINDING_BYTES=%" PRId64 "%s%s%s", device->language,
        device->adapter.binding_bytes, device->adapter.features & DK_GPU_F16 ? " -DDK_F16" : "",
        device->adapter.features & DK_GPU_DOT ? " -DDK_DOT" : "", exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : ""
    );
    if (dk_hash(0, code, (size_t)program->code_bytes) != program->code_hash) {
        dk_opencl_say(error, "%s", DK_GPU_CODE_DIFFERS);
        return NULL;
    }
    const uint64_t key = key_of(device, program, options);
    const char* text = code;
    const size_t bytes = (size_t)program->code_bytes;
    cl_int failed = CL_SUCCESS;
    cl_program built = cache == NULL ? NULL : from_cache(api, context, device->device, options, cache, key);
    if (built != NULL) {
        return built;
    }
    built = api->CreateProgramWithSource(context, 1, &text, &bytes, &failed);
    if (failed == CL_SUCCESS) {
        failed = api->BuildProgram(built, 1, &device->device, options, NULL, NULL);
    }
    if (failed != CL_SUCCESS) {
        refuse(api, built, device->device, failed, error);
        release(api, &built);
        return NULL;
    }
    if (cache != NULL) {
        to_cache(api, built, cache, key);
    }
    return built;
}
