/* The host of tests of drivers on native machines: the kernels, and helpers of the tests. */
#ifndef DRIVER_NATIVE_H
#define DRIVER_NATIVE_H

#include "cases.h"
#include "gpu.h"

enum { SUM = ADD + 1, TWICE, KERNELS };

#define WEIGHTS_BYTES 4096

typedef struct native_test {
    const char* name;
    int32_t (*holds)(void); /* prints what is wrong */
} native_test;

extern const native_test native_tests[]; /* of any driver */
extern const native_test vulkan_tests[];
extern const native_test opencl_tests[];

/* A failed expectation ends the test. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not %s\n", __FILE__, __LINE__, #condition);                                                 \
            return 0;                                                                                                  \
        }                                                                                                              \
    } while (0)

extern const char* argument; /* of the test, such as the path of a library */

extern const dk_gpu_program native_program;

/* Open a device of the driver that is tested; prints why it is not possible. */
dk_gpu* open_gpu(const dk_gpu_options* options);
dk_gpu* try_open(const dk_gpu_options* options, char error[256]);

dk_slice at(int32_t buffer, int64_t offset, int64_t bytes);
dk_status add(dk_gpu* gpu, dk_slice from, dk_slice to, int32_t by, int32_t count);

/* A run that provides buffers for `count` elements and adds one to each. Returns whether the result is right. */
int32_t small_run(dk_gpu* gpu, int32_t count);

/* A kernel that doubles floats of 16 bits, of which it has two forms. Returns whether the results are right. */
int32_t halves_are_doubled(dk_gpu* gpu);

/* Runs on values that stay on the device, and tests of them: native_kept.c. */
dk_status counted_up(dk_gpu* gpu, int32_t* buffer, int32_t count);
dk_status handed_on(dk_gpu* gpu, int32_t from, int32_t* to, int32_t by, int32_t count);
int32_t kept_values(void);
int32_t kept_loop(void);

/* Whether the last error has these words. */
int32_t says(const dk_gpu* gpu, const char* words);

#endif
