/* Runs a test with a driver: native DRIVER TEST [ARGUMENT]. The last line it prints is "ok" or "wrong". */
#include "native.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counted.h"
#ifdef NATIVE_OPENCL
extern const char* opencl_code;
#else
#include "kernels.h"
#endif

#define WORKGROUP 64
#define GROUPS 65535
#define MOST 1024

const char* argument;

typedef struct tested_driver {
    const char* name;
    int32_t (*adapters)(const dk_gpu_options*, dk_gpu_adapter*, int32_t, char*, size_t);
    dk_gpu* (*open)(const dk_gpu_program*, const void*, const dk_gpu_options*, char*, size_t);
    const native_test* tests; /* beside those of any driver */
} tested_driver;

#ifdef NATIVE_OPENCL
static const tested_driver drivers[] = {{"opencl", dk_opencl_adapters, dk_opencl_open, opencl_tests}};
#else
static const tested_driver drivers[] = {{"vulkan", dk_vulkan_adapters, dk_vulkan_open, vulkan_tests}};
#endif

static const tested_driver* driver = drivers;

#ifndef NATIVE_OPENCL

/* The code of all forms, one after the other. */
#define AT_SUBGROUPS ((int64_t)sizeof add_code)
#define AT_WORKGROUPS (AT_SUBGROUPS + (int64_t)sizeof sum_subgroups_code)
#define AT_F16 (AT_WORKGROUPS + (int64_t)sizeof sum_workgroups_code)
#define AT_TWICE (AT_F16 + (int64_t)sizeof twice_f16_code)
#define CODE_BYTES (AT_TWICE + (int64_t)sizeof twice_code)

static const dk_gpu_form add_forms[] = {{0, 0, 0, sizeof add_code}};
static const dk_gpu_form sum_forms[] = {
    {DK_GPU_SUBGROUPS, 0, AT_SUBGROUPS, sizeof sum_subgroups_code},
    {0, 0, AT_WORKGROUPS, sizeof sum_workgroups_code},
};
static const dk_gpu_form twice_forms[] = {
    {DK_GPU_F16, (int64_t)1 << 50, 0, 4},
    {DK_GPU_F16, 0, AT_F16, sizeof twice_f16_code},
    {0, 0, AT_TWICE, sizeof twice_code},
};
#else
#define add_forms NULL
#define sum_forms NULL
#define twice_forms NULL
#define CODE_BYTES 0 /* it depends on the test */
#endif

static const dk_gpu_kernel kernels[] = {
    {"add", 2, 2, 2, 0, 1, add_forms},
    {"sum", 2, 2, 2, 1, 2, sum_forms},
    {"twice", 2, 1, 2, 0, 3, twice_forms},
};
/* Tensors begin at 0, 1024 and 3072; the second one has two parts. */
static const int64_t starts[] = {0, 1024, -2048, 3072};

const dk_gpu_program native_program = {
    kernels, KERNELS, WORKGROUP, GROUPS, 4, starts, 0, WEIGHTS_BYTES, CODE_BYTES, 0, 0,
};

#ifdef NATIVE_OPENCL

dk_gpu* try_open(const dk_gpu_options* options, char error[256]) {
    dk_gpu_program program = native_program;
    program.code_bytes = (int64_t)strlen(opencl_code);
    program.code_hash = dk_hash(0, opencl_code, strlen(opencl_code));
    error[0] = '\0';
    return driver->open(&program, opencl_code, options, error, 256);
}

#else

dk_gpu* try_open(const dk_gpu_options* options, char error[256]) {
    unsigned char* code = (unsigned char*)malloc((size_t)CODE_BYTES);
    dk_gpu_program program = native_program;
    dk_gpu* gpu = NULL;
    error[0] = '\0';
    if (code == NULL) {
        return NULL;
    }
    memcpy(code, add_code, sizeof add_code);
    memcpy(code + AT_SUBGROUPS, sum_subgroups_code, sizeof sum_subgroups_code);
    memcpy(code + AT_WORKGROUPS, sum_workgroups_code, sizeof sum_workgroups_code);
    memcpy(code + AT_F16, twice_f16_code, sizeof twice_f16_code);
    memcpy(code + AT_TWICE, twice_code, sizeof twice_code);
    program.code_hash = dk_hash(0, code, (size_t)CODE_BYTES);
    gpu = driver->open(&program, code, options, error, 256);
    free(code);
    return gpu;
}

#endif

dk_gpu* open_gpu(const dk_gpu_options* options) {
    char error[256];
    dk_gpu* gpu = try_open(options, error);
    if (gpu == NULL) {
        printf("%s\n", error);
        exit(1);
    }
    return gpu;
}

dk_slice at(int32_t buffer, int64_t offset, int64_t bytes) {
    const dk_slice slice = {buffer, "tensor", offset, bytes};
    return slice;
}

dk_status add(dk_gpu* gpu, dk_slice from, dk_slice to, int32_t by, int32_t count) {
    const dk_slice slices[] = {from, to};
    return gpu->driver.dispatch(&gpu->driver, ADD, slices, 2, &by, 1, count);
}

int32_t small_run(dk_gpu* gpu, int32_t count) {
    dk_driver* calls = &gpu->driver;
    const dk_slice from = at(FIRST, 0, 4 * (int64_t)count), to = at(SECOND, 0, 4 * (int64_t)count);
    int32_t data[MOST], results[MOST], wrong = 0;
    dk_status status = calls->restart(calls);
    for (int32_t i = 0; i < count; ++i) {
        data[i] = i * count;
        results[i] = -1;
    }
    status = status != DK_OK ? status : calls->provide(calls, FIRST, from.bytes);
    status = status != DK_OK ? status : calls->provide(calls, SECOND, to.bytes);
    status = status != DK_OK ? status : calls->upload(calls, &from, data);
    status = status != DK_OK ? status : add(gpu, from, to, 1, count);
    status = status != DK_OK ? status : calls->download(calls, results, &to);
    status = status != DK_OK ? status : calls->wait(calls);
    for (int32_t i = 0; i < count; ++i) {
        wrong += results[i] != data[i] + 1;
    }
    return status == DK_OK && wrong == 0;
}

int32_t says(const dk_gpu* gpu, const char* words) {
    const char* text = gpu->driver.error;
    if (text != NULL && strstr(text, words) != NULL) {
        return 1;
    }
    printf("the error is: %s\n", text != NULL ? text : "none");
    return 0;
}

/* The cases of every driver, several times, so that they are replayed, too. */
static int32_t run_cases(void) {
    dk_gpu* gpu = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    EXPECT(calls->provide(calls, FIRST, BUFFER_BYTES) == DK_OK);
    EXPECT(calls->provide(calls, SECOND, BUFFER_BYTES) == DK_OK);
    int32_t kept;
    EXPECT(gpu->keep(gpu, BUFFER_BYTES, &kept) == DK_OK && kept == KEPT);
    for (int32_t turn = 0; turn < 2; ++turn) {
        for (int32_t i = 0; i < driver_case_count; ++i) {
            const driver_case* one = &driver_cases[i];
            dk_status status = calls->restart(calls);
            status = status != DK_OK ? status : one->ask(calls);
            status = status != DK_OK ? status : calls->wait(calls);
            printf("%s: %s\n", one->name, status == DK_OK && one->holds() ? "right" : "wrong");
            EXPECT(status == DK_OK && one->holds());
        }
    }
    gpu->close(gpu);
    return 1;
}

static int32_t list_adapters(void) {
    static const char* const kinds[] = {"other", "integrated", "discrete", "software"};
    dk_gpu_adapter adapters[8];
    char error[256] = "";
    const int32_t count = driver->adapters(NULL, adapters, 8, error, sizeof error);
    EXPECT(driver->adapters(NULL, NULL, 0, error, sizeof error) == count);
    for (int32_t i = 0; i < count && i < 8; ++i) {
        const dk_gpu_adapter* one = &adapters[i];
        printf("%s, %s, %s, ", one->name, one->driver, kinds[one->kind]);
        printf("features %u, subgroup %d, ", (unsigned)one->features, (int)one->subgroup);
        printf("memory %lld, buffer %lld, ", (long long)one->memory_bytes, (long long)one->buffer_bytes);
        printf("binding %lld: %s\n", (long long)one->binding_bytes, one->unusable != NULL ? one->unusable : "usable");
    }
    printf("%s\n", error);
    EXPECT(count > 0);
    for (int32_t i = 0; i < count && i < 8; ++i) {
        const dk_gpu_options options = {NULL, NULL, i + 1, 0, 0, 0};
        dk_gpu* gpu = open_gpu(&options);
        EXPECT(strcmp(gpu->adapter.name, adapters[i].name) == 0 && small_run(gpu, 100));
        gpu->close(gpu);
    }
    return 1;
}

static const native_test* find(const native_test* tests, const char* name) {
    while (tests->name != NULL && strcmp(tests->name, name) != 0) {
        ++tests;
    }
    return tests->name != NULL ? tests : NULL;
}

int main(int count, char** arguments) {
    static const native_test own[] = {{"cases", run_cases}, {"adapters", list_adapters}, {NULL, NULL}};
    const native_test* test = NULL;
    int32_t right;
    if (count < 3) {
        return 2;
    }
    while (strcmp(driver->name, arguments[1]) != 0) {
        if (++driver == drivers + sizeof drivers / sizeof *drivers) {
            return 2;
        }
    }
    argument = count > 3 ? arguments[3] : NULL;
    test = find(own, arguments[2]);
    test = test != NULL ? test : find(native_tests, arguments[2]);
    test = test != NULL ? test : find(driver->tests, arguments[2]);
    if (test == NULL) {
        return 2;
    }
    right = test->holds();
    if (right && counted_blocks() != 0) {
        printf("%d blocks of memory are left\n", counted_blocks());
        right = 0;
    }
    printf(right ? "ok\n" : "wrong\n");
    return right ? 0 : 1;
}
