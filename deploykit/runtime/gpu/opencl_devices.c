/* Loads the system's OpenCL library and lists the devices. */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

#define MOST_OBJECTS 16 /* platforms, and devices of a platform */
#define LEAST_WORKGROUP 64
/* A tensor has at most so many bytes, because kernels count in 32 bits. */
#define MOST_BOUND 0x7fffffff
#define BLOCK 256 /* bytes: what a kernel binds consists of whole blocks */

#if UINTPTR_MAX > 0xffffffffu
#define LIB "lib64"
#else
#define LIB "lib"
#endif

/* Where the library usually is: by its name, then in the places of Android devices. */
static const char* const libraries[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
    "/vendor/" LIB "/libOpenCL.so",
    "/system/vendor/" LIB "/libOpenCL.so",
    "/system/" LIB "/libOpenCL.so",
    "/vendor/" LIB "/libOpenCL-pixel.so",
    "/system/vendor/" LIB "/libOpenCL-pixel.so",
    "/vendor/" LIB "/egl/libGLES_mali.so",
    "/system/vendor/" LIB "/egl/libGLES_mali.so",
    "/vendor/" LIB "/libPVROCL.so",
    "/system/vendor/" LIB "/libPVROCL.so",
    NULL,
};

/* Some drivers cannot be asked by two threads at once until they were asked. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static const char* const functions[] = {
#define NAME(result, name, parameters) "cl" #name,
    DK_OPENCL_FUNCTIONS(NAME)
#undef NAME
};

typedef void (*enable_function)(void);
typedef void* (*find_function)(const char* name);

void dk_opencl_say(dk_opencl_text error, const char* format, ...) {
    va_list values;
    va_start(values, format);
    if (error.bytes > 0) {
        vsnprintf(error.text, error.bytes, format, values);
    }
    va_end(values);
}

/* Get all functions. Some libraries give them only through a function of their own. Returns the name of one that is
   missing, or NULL. */
static const char* take_functions(dk_opencl_api* api, void* library) {
    enable_function enable = NULL;
    find_function find = NULL;
    void* entries[] = {dlsym(library, "enableOpenCL"), dlsym(library, "loadOpenCLPointer")};
    if (entries[0] != NULL && entries[1] != NULL) {
        memcpy(&enable, &entries[0], sizeof enable);
        memcpy(&find, &entries[1], sizeof find);
        enable();
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
        void* found = find != NULL ? find(functions[i]) : dlsym(library, functions[i]);
        if (found == NULL) {
            return functions[i];
        }
        memcpy((char*)api + i * sizeof found, &found, sizeof found);
    }
    return NULL;
}

int dk_opencl_load(dk_opencl_api* api, const char* path, dk_opencl_text error) {
    const char* const given[] = {path, NULL};
    const char* missing = NULL;
    for (const char* const* name = path == NULL ? libraries : given; *name != NULL; ++name) {
        void* library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            continue;
        }
        const char* lacks = take_functions(api, library);
        if (lacks == NULL) {
            return 1;
        }
        missing = missing == NULL ? lacks : missing;
        dlclose(library);
    }
    if (missing != NULL) {
        dk_opencl_say(error, "the OpenCL library has no %s: OpenCL 1.2 is needed", missing);
    } else {
        dk_opencl_say(error, "there is no OpenCL library %s", path == NULL ? libraries[0] : path);
    }
    return 0;
}

/* A number that a device states, of 32 or 64 bits; 0 if it states none. */
static cl_ulong number_of(const dk_opencl_api* api, cl_device_id device, cl_uint what) {
    cl_ulong wide = 0;
    cl_uint narrow = 0;
    size_t bytes = 0;
    if (api->GetDeviceInfo(device, what, 0, NULL, &bytes) != CL_SUCCESS) {
        return 0;
    }
    if (bytes == sizeof narrow) {
        return api->GetDeviceInfo(device, what, bytes, &narrow, NULL) == CL_SUCCESS ? narrow : 0;
    }
    return bytes == sizeof wide && api->GetDeviceInfo(device, what, bytes, &wide, NULL) == CL_SUCCESS ? wide : 0;
}

/* A text that a device, or its platform, states, on the heap; empty if it states none, NULL without memory. */
static char* text_of(const dk_opencl_api* api, const dk_opencl_device* of, cl_uint what) {
    const int platform = what == CL_PLATFORM_NAME;
    size_t bytes = 0;
    cl_int code = platform ? api->GetPlatformInfo(of->platform, what, 0, NULL, &bytes)
                           : api->GetDeviceInfo(of->device, what, 0, NULL, &bytes);
    char* text = calloc(bytes + 1, 1);
    if (text != NULL && code == CL_SUCCESS) {
        code = platform ? api->GetPlatformInfo(of->platform, what, bytes, text, NULL)
                        : api->GetDeviceInfo(of->device, what, bytes, text, NULL);
        text[code == CL_SUCCESS ? bytes : 0] = '\0';
    }
    return text;
}

static const char* or_empty(const char* text) {
    return text == NULL ? "" : text;
}

static const char* why_unusable(const dk_opencl_api* api, const dk_opencl_device* of, const char* version) {
    int major = 0, minor = 0;
    if (sscanf(or_empty(version), "OpenCL %d.%d", &major, &minor) != 2 || (major == 1 && minor < 2) || major < 1) {
        return "its OpenCL is older than 1.2";
    }
    if (!number_of(api, of->device, CL_DEVICE_AVAILABLE)) {
        return "it is not available";
    }
    if (!number_of(api, of->device, CL_DEVICE_COMPILER_AVAILABLE)) {
        return "it has no compiler of OpenCL C";
    }
    if (!number_of(api, of->device, CL_DEVICE_ENDIAN_LITTLE)) {
        return "it is not little-endian";
    }
    if (number_of(api, of->device, CL_DEVICE_MAX_WORK_GROUP_SIZE) < LEAST_WORKGROUP) {
        return "its workgroups have fewer than 64 invocations";
    }
    if ((of->floats & CL_FP_INF_NAN) == 0 || (of->floats & CL_FP_ROUND_TO_NEAREST) == 0) {
        return "its floats are not those of IEEE 754";
    }
    return NULL;
}

static int64_t least(int64_t limit, int64_t other) {
    return other > 0 && other < limit ? other : limit;
}

static dk_gpu_kind kind_of(const dk_opencl_api* api, cl_device_id device) {
    const cl_ulong type = number_of(api, device, CL_DEVICE_TYPE);
    if (type & CL_DEVICE_TYPE_GPU) {
        return number_of(api, device, CL_DEVICE_HOST_UNIFIED_MEMORY) ? DK_GPU_INTEGRATED : DK_GPU_DISCRETE;
    }
    return type & CL_DEVICE_TYPE_CPU ? DK_GPU_SOFTWARE : DK_GPU_OTHER;
}

/* The Khronos extension for dot products belongs to OpenCL C 3.0. */
static void find_features(dk_opencl_device* of, const char* extensions) {
    const int dot = strstr(extensions, "cl_khr_integer_dot_product") != NULL;
    of->language = dot ? "CL3.0" : "CL1.2";
    of->adapter.features = strstr(extensions, "cl_khr_fp16") == NULL ? 0 : DK_GPU_F16;
    of->adapter.features |= dot || strstr(extensions, "cl_arm_integer_dot_product_int8") != NULL ? DK_GPU_DOT : 0;
}

static void describe(const dk_opencl_api* api, const dk_gpu_options* options, dk_opencl_device* of) {
    static const dk_gpu_options none;
    const dk_gpu_options* chosen = options == NULL ? &none : options;
    dk_gpu_adapter* adapter = &of->adapter;
    char* name = text_of(api, of, CL_DEVICE_NAME);
    char* platform = text_of(api, of, CL_PLATFORM_NAME);
    char* driver = text_of(api, of, CL_DRIVER_VERSION);
    char* version = text_of(api, of, CL_DEVICE_VERSION);
    char* extensions = text_of(api, of, CL_DEVICE_EXTENSIONS);
    memset(adapter, 0, sizeof *adapter);
    of->floats = number_of(api, of->device, CL_DEVICE_SINGLE_FP_CONFIG);
    snprintf(adapter->name, sizeof adapter->name, "%s", or_empty(name));
    snprintf(adapter->driver, sizeof adapter->driver, "%s %s", or_empty(platform), or_empty(driver));
    adapter->kind = kind_of(api, of->device);
    find_features(of, or_empty(extensions));
    adapter->features &= ~chosen->without;
    const cl_ulong most = number_of(api, of->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    adapter->memory_bytes = (int64_t)number_of(api, of->device, CL_DEVICE_GLOBAL_MEM_SIZE);
    adapter->buffer_bytes = least(most > SIZE_MAX / 2 ? (int64_t)(SIZE_MAX / 2) : (int64_t)most, chosen->buffer_bytes);
    adapter->binding_bytes = least(least(MOST_BOUND, adapter->buffer_bytes), chosen->binding_bytes) / BLOCK * BLOCK;
    adapter->unusable = why_unusable(api, of, version);
    free(name);
    free(platform);
    free(driver);
    free(version);
    free(extensions);
}

static int find(const dk_opencl_api* api, const dk_gpu_options* options, int32_t number, dk_opencl_device* found) {
    cl_platform_id platforms[MOST_OBJECTS];
    cl_device_id devices[MOST_OBJECTS];
    cl_uint platform_count = 0, device_count = 0;
    int32_t seen = 0;
    if (api->GetPlatformIDs(MOST_OBJECTS, platforms, &platform_count) != CL_SUCCESS) {
        return 0;
    }
    for (cl_uint i = 0; i < platform_count && i < MOST_OBJECTS; ++i) {
        if (api->GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MOST_OBJECTS, devices, &device_count) != CL_SUCCESS) {
            continue;
        }
        for (cl_uint j = 0; j < device_count && j < MOST_OBJECTS; ++j) {
            if (++seen == number) {
                found->platform = platforms[i];
                found->device = devices[j];
                describe(api, options, found);
                return 1;
            }
        }
    }
    return 0;
}

int dk_opencl_find(const dk_opencl_api* api, const dk_gpu_options* options, int32_t number, dk_opencl_device* found) {
    pthread_mutex_lock(&asking);
    const int there = find(api, options, number, found);
    pthread_mutex_unlock(&asking);
    return there;
}

int32_t dk_opencl_adapters(
    const dk_gpu_options* options, dk_gpu_adapter* adapters, int32_t most, char* error, size_t error_bytes
) {
    const dk_opencl_text text = {error, error_bytes};
    dk_opencl_api api;
    dk_opencl_device device;
    int32_t count = 0;
    if (!dk_opencl_load(&api, options == NULL ? NULL : options->library, text)) {
        return 0;
    }
    while (dk_opencl_find(&api, options, count + 1, &device)) {
        if (count < most) {
            adapters[count] = device.adapter;
        }
        ++count;
    }
    if (count == 0) {
        dk_opencl_say(text, "there is no device with an OpenCL driver");
    }
    return count;
}
