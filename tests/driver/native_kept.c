/* Tests of any driver: values that stay on the device between runs. */
#include "native.h"

#include <stdio.h>
#include <string.h>

#include "counted.h"

#define LOOPS 10000

/* A run that adds `by` to each of `count` elements of the buffer `from`, in a new buffer. */
dk_status handed_on(dk_gpu* gpu, int32_t from, int32_t* to, int32_t by, int32_t count) {
    dk_driver* calls = &gpu->driver;
    dk_status status = gpu->keep(gpu, 4 * (int64_t)count, to);
    status = status != DK_OK ? status : calls->restart(calls);
    status = status != DK_OK ? status : calls->provide(calls, from, 4 * (int64_t)count);
    status = status != DK_OK ? status : calls->provide(calls, *to, 4 * (int64_t)count);
    status = status != DK_OK ? status : add(gpu, at(from, 0, 4 * count), at(*to, 0, 4 * count), by, count);
    return status != DK_OK ? status : calls->wait(calls);
}

/* A new buffer with 0, 1, 2, ... */
dk_status counted_up(dk_gpu* gpu, int32_t* buffer, int32_t count) {
    dk_driver* calls = &gpu->driver;
    static int32_t data[1024];
    const dk_status status = gpu->keep(gpu, 4 * (int64_t)count, buffer);
    const dk_slice all = at(*buffer, 0, 4 * count);
    for (int32_t i = 0; i < count; ++i) {
        data[i] = i;
    }
    if (status != DK_OK || calls->restart(calls) != DK_OK || calls->upload(calls, &all, data) != DK_OK) {
        return DK_ERROR_DEVICE;
    }
    return calls->wait(calls);
}

/* Values stay as they are while others are made, are discarded, and fail. */
int32_t kept_values(void) {
    dk_gpu* gpu = open_gpu(NULL);
    dk_gpu* other = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    int32_t first, second, third, results[256], wrong = 0;
    EXPECT(counted_up(gpu, &first, 256) == DK_OK && first >= DK_BUFFER_KEPT);
    EXPECT(handed_on(gpu, first, &second, 5, 256) == DK_OK && second != first);
    EXPECT(handed_on(gpu, second, &third, 7, 256) == DK_OK);
    gpu->discard(gpu, second);
    gpu->discard(gpu, second);
    EXPECT(gpu->read(gpu, second, 4, results) == DK_ERROR_DEVICE);
    EXPECT(calls->provide(calls, second, 4) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "this GPU keeps no buffer"));
    EXPECT(counted_up(gpu, &second, 200) == DK_OK); /* in the same buffer */
    EXPECT(calls->provide(calls, first, 4 * 256 + 1024) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "a kept buffer has "));
    EXPECT(add(gpu, at(first, 0, 1024), at(third, 1024, 1024), 1, 256) == DK_ERROR_DEVICE);
    EXPECT(other->driver.provide(&other->driver, first, 4) == DK_ERROR_DEVICE);
    EXPECT(small_run(gpu, 100) && calls->provide(calls, DK_BUFFER_ARENA, 1 << 20) == DK_OK);
    EXPECT(gpu->read(gpu, third, 1024, results) == DK_OK);
    for (int32_t i = 0; i < 256; ++i) {
        wrong += results[i] != i + 12;
    }
    EXPECT(wrong == 0 && gpu->read(gpu, first, 1024, results) == DK_OK && results[255] == 255);
    EXPECT(gpu->read(gpu, second, 800, results) == DK_OK && results[199] == 199);
    EXPECT(gpu->keep(gpu, 0, &third) == DK_OK && gpu->read(gpu, third, 0, results) == DK_OK);
    EXPECT(gpu->keep(gpu, INT64_MAX / 2, &third) == DK_ERROR_DEVICE);
    other->close(other);
    gpu->close(gpu);
    return 1;
}

/* A loop that hands on its result takes no more memory, also with sizes that change. */
int32_t kept_loop(void) {
    dk_gpu* gpu = open_gpu(NULL);
    int32_t current, next, result[2], blocks = 0, sum = 0;
    EXPECT(counted_up(gpu, &current, 1000) == DK_OK && gpu->read(gpu, current, 8, result) == DK_OK);
    for (int32_t i = 0; i < LOOPS; ++i) {
        const int32_t count = i < LOOPS / 2 ? 1000 : 2 + (LOOPS - i) * 7 % 900;
        EXPECT(handed_on(gpu, current, &next, i % 5, i < LOOPS / 2 ? count : 2) == DK_OK);
        gpu->discard(gpu, current);
        current = next;
        sum += i % 5;
        if (i > LOOPS / 2) {
            int32_t apart;
            EXPECT(counted_up(gpu, &apart, count) == DK_OK);
            gpu->discard(gpu, apart);
        }
        if (i == LOOPS / 4 || i == LOOPS - LOOPS / 4) {
            blocks = counted_blocks();
        }
    }
    EXPECT(gpu->read(gpu, current, 8, result) == DK_OK && result[0] == sum && result[1] == sum + 1);
    EXPECT(counted_blocks() == blocks);
    gpu->close(gpu);
    return 1;
}
