/* Tests of the driver for OpenCL, and the kernels in OpenCL C. The environment has the path of an OpenCL library,
   DK_LIBRARY; the argument is the path of a file that keeps compiled kernels, or a text of kernels. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREAD "    int thread = (int)(get_group_id(0) + get_group_id(1) * 65535) * 64 + (int)get_local_id(0);\n"
#define KERNEL "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
#define TENSORS "__global const uint4* from_base, uint from_at, __global uint4* to_base, uint to_at"

const char* opencl_code =
    KERNEL "void add(" TENSORS ", int by, int threads) {\n"
           "    __global const int* from = (__global const int*)(from_base + from_at);\n"
           "    __global int* to = (__global int*)(to_base + to_at);\n" THREAD
           "    if (thread < threads) { to[thread] = from[thread] + by; }\n"
           "}\n" KERNEL "void sum(" TENSORS ", int count, int threads) {\n"
           "    __global const int* from = (__global const int*)(from_base + from_at);\n"
           "    __global int* to = (__global int*)(to_base + to_at);\n"
           "    __local int cells[64];\n"
           "    int row = (int)get_group_id(0), lane = (int)get_local_id(0), all = 0;\n"
           "    for (int i = lane; i < count; i += 64) { all += from[row * count + i]; }\n"
           "    cells[lane] = all;\n"
           "    barrier(CLK_LOCAL_MEM_FENCE);\n"
           "    if (lane == 0) { for (int i = 1; i < 64; ++i) { all += cells[i]; } to[row] = all; }\n"
           "}\n" KERNEL "void twice(" TENSORS ", int threads) {\n"
           "    __global const half* from = (__global const half*)(from_base + from_at);\n"
           "    __global float* to = (__global float*)(to_base + to_at);\n" THREAD
           "    if (thread < threads) { to[thread] = 2 * vload_half(thread, from); }\n"
           "}\n";

static dk_gpu_options with_library(void) {
    const dk_gpu_options options = {getenv("DK_LIBRARY"), argument, 0, 0, 0, 0};
    return options;
}

/* A copy within a buffer between places that overlap, in both directions. */
static int32_t overlap(void) {
    dk_gpu* gpu = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    const dk_slice all = at(FIRST, 0, 800), low = at(FIRST, 0, 400), high = at(FIRST, 256, 400);
    int32_t data[200], results[200];
    for (int32_t i = 0; i < 200; ++i) {
        data[i] = i;
    }
    EXPECT(calls->provide(calls, FIRST, 800) == DK_OK);
    for (int32_t turn = 0; turn < 2; ++turn) {
        EXPECT(calls->upload(calls, &all, data) == DK_OK);
        EXPECT(calls->copy(calls, turn ? &low : &high, 0, turn ? &high : &low) == DK_OK);
        EXPECT(calls->copy(calls, &low, 0, &low) == DK_OK);
        EXPECT(calls->download(calls, results, &all) == DK_OK && calls->wait(calls) == DK_OK);
        for (int32_t i = 0; i < 100; ++i) {
            EXPECT(results[turn ? i : i + 64] == (turn ? i + 64 : i));
        }
    }
    gpu->close(gpu);
    return 1;
}

/* Runs until one fails, then three more. The library lets a call fail. */
static int32_t failing(void) {
    const dk_gpu_options options = with_library();
    char error[256];
    dk_gpu* gpu = try_open(&options, error);
    int32_t failures = 0;
    EXPECT(gpu != NULL);
    gpu->profile(gpu, 1);
    EXPECT(gpu->driver.provide(&gpu->driver, DK_BUFFER_ARENA, 512) == DK_OK);
    for (int32_t run = 0; run < 20 && failures < 4; ++run) {
        const int32_t right = small_run(gpu, 100 + 30 * run);
        if (!right || failures > 0) {
            printf("%s\n", right ? "right" : gpu->driver.error);
            ++failures;
        }
    }
    gpu->close(gpu);
    return 1;
}

/* A run with kernels from a file. */
static int32_t cached(void) {
    const dk_gpu_options options = with_library();
    dk_gpu* gpu = open_gpu(&options);
    EXPECT(small_run(gpu, 100));
    gpu->close(gpu);
    return 1;
}

/* Kernels that cannot be compiled. */
static int32_t refused(void) {
    char error[256];
    opencl_code = argument;
    EXPECT(try_open(NULL, error) == NULL);
    printf("%s\n", error);
    return 1;
}

const native_test opencl_tests[] = {
    {"overlap", overlap}, {"failing", failing}, {"cached", cached}, {"refused", refused}, {NULL, NULL},
};
