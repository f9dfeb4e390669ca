/* Tests of any driver. */
#define _POSIX_C_SOURCE 200809L

#include "native.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counted.h"

#define RUNS 10000

/* Kilobytes of memory that the process has. */
static long resident(void) {
    long pages = 0, all;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &all, &pages) != 2) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Many runs, most with sizes that were not seen lately, do not take more and more memory. */
static int32_t changing_sizes(void) {
    dk_gpu* gpu = open_gpu(NULL);
    long before = 0;
    int blocks = 0;
    EXPECT(small_run(gpu, 1024));
    for (int32_t i = 0; i < RUNS; ++i) {
        EXPECT(small_run(gpu, 1 + i * 37 % 997));
        if (i == RUNS / 4) {
            before = resident();
            blocks = counted_blocks();
        }
    }
    printf("%ld kB, then %ld kB\n", before, resident());
    EXPECT(resident() < before + 1024);
    EXPECT(counted_blocks() == blocks);
    gpu->close(gpu);
    return 1;
}

static int32_t two_devices(void) {
    dk_gpu* one = open_gpu(NULL);
    dk_gpu* two = open_gpu(NULL);
    for (int32_t i = 0; i < 20; ++i) {
        EXPECT(small_run(one, 10 + i));
        EXPECT(small_run(two, 200 - i));
    }
    one->close(one);
    EXPECT(small_run(two, 100));
    two->close(two);
    return 1;
}

static void* run_often(void* right) {
    dk_gpu* gpu = open_gpu(NULL);
    *(int32_t*)right = 1;
    for (int32_t i = 0; i < 200; ++i) {
        *(int32_t*)right &= small_run(gpu, 1 + i % 16);
    }
    gpu->close(gpu);
    return NULL;
}

static int32_t two_threads(void) {
    pthread_t threads[2];
    int32_t right[2] = {0, 0};
    for (int32_t i = 0; i < 2; ++i) {
        EXPECT(pthread_create(&threads[i], NULL, run_often, &right[i]) == 0);
    }
    for (int32_t i = 0; i < 2; ++i) {
        pthread_join(threads[i], NULL);
    }
    EXPECT(right[0] && right[1]);
    return 1;
}

/* What is too large is refused; what is not runs after that. Data larger than a buffer of the device passes in pieces.
 */
static int32_t limits(void) {
    dk_gpu_options options = {NULL, NULL, 0, 0, 65536, 1000};
    dk_gpu* gpu = open_gpu(&options);
    dk_driver* calls = &gpu->driver;
    static int32_t data[3 * 16384], results[3 * 16384];
    EXPECT(gpu->adapter.buffer_bytes == 65536 && gpu->adapter.binding_bytes <= 1000 && calls->binding_bytes <= 1000);
    EXPECT(calls->provide(calls, DK_BUFFER_ARENA, 65537) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "intermediate results would take 65537 bytes of the GPU, whose buffers have at most 65536"));
    EXPECT(calls->provide(calls, DK_BUFFER_ARENA, INT64_MAX) == DK_ERROR_DEVICE);
    EXPECT(calls->provide(calls, DK_BUFFER_ARENA, 65536) == DK_OK);
    EXPECT(add(gpu, at(DK_BUFFER_ARENA, 0, 1004), at(DK_BUFFER_ARENA, 2048, 1004), 1, 1) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "a tensor of 1004 bytes is larger than the 768 that this GPU can bind"));
    EXPECT(add(gpu, at(DK_BUFFER_ARENA, 65536, 4), at(DK_BUFFER_ARENA, 0, 4), 1, 1) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "tensor has 16 bytes from 65536 on in a buffer of 65536"));
    EXPECT(add(gpu, at(99, 0, 4), at(DK_BUFFER_ARENA, 0, 4), 1, 1) == DK_ERROR_DEVICE);
    EXPECT(calls->provide(calls, -1, 4) == DK_ERROR_DEVICE);
    EXPECT(small_run(gpu, 100));
    for (int32_t i = 0; i < 3 * 16384; ++i) {
        data[i] = 3 * i;
    }
    EXPECT(calls->restart(calls) == DK_OK);
    for (int32_t i = 0; i < 3; ++i) {
        const dk_slice all = at(DK_BUFFER_PORTS + i, 0, 65536);
        EXPECT(calls->provide(calls, all.buffer, 65536) == DK_OK);
        EXPECT(calls->upload(calls, &all, data + i * 16384) == DK_OK);
    }
    for (int32_t i = 0; i < 3; ++i) {
        const dk_slice all = at(DK_BUFFER_PORTS + i, 0, 65536);
        EXPECT(calls->download(calls, results + i * 16384, &all) == DK_OK);
    }
    EXPECT(calls->wait(calls) == DK_OK && memcmp(data, results, sizeof data) == 0);
    gpu->close(gpu);
    return 1;
}

/* Weights in one buffer, and divided: between tensors, and inside of one that is too large to be bound as a whole. */
static int32_t weights(void) {
    static const int64_t limits[][2] = {{0, 0}, {2048, 2048}, {1024, 1024}};
    static const int64_t pieces[] = {0, 1024, 2048, 3072, 4096};
    static int32_t data[WEIGHTS_BYTES / 4], results[WEIGHTS_BYTES / 4];
    for (int32_t i = 0; i < WEIGHTS_BYTES / 4; ++i) {
        data[i] = 7 * i;
    }
    for (int32_t turn = 0; turn < 3; ++turn) {
        const dk_gpu_options options = {NULL, NULL, 0, 0, limits[turn][0], limits[turn][1]};
        dk_gpu* gpu = open_gpu(&options);
        dk_driver* calls = &gpu->driver;
        const dk_slice target = at(DK_BUFFER_ARENA, 0, 1024);
        memset(results, 0, sizeof results);
        EXPECT(gpu->load(gpu, data) == DK_OK);
        EXPECT(calls->provide(calls, DK_BUFFER_ARENA, 1024) == DK_OK);
        for (int32_t i = 0; i < 4; ++i) {
            EXPECT(add(gpu, at(DK_BUFFER_WEIGHTS, pieces[i], 1024), target, i, 256) == DK_OK);
            EXPECT(calls->download(calls, results + 256 * i, &target) == DK_OK);
        }
        EXPECT(calls->wait(calls) == DK_OK);
        for (int32_t i = 0; i < WEIGHTS_BYTES / 4; ++i) {
            EXPECT(results[i] == data[i] + i / 256);
        }
        if (turn < 2) {
            const dk_slice tensor = at(DK_BUFFER_WEIGHTS, 1024, 2048);
            EXPECT(calls->download(calls, results, &tensor) == DK_OK && calls->wait(calls) == DK_OK);
            EXPECT(memcmp(results, data + 256, 2048) == 0);
        }
        gpu->close(gpu);
    }
    return 1;
}

static int32_t tensors_too_large(void) {
    const dk_gpu_options options = {NULL, NULL, 0, 0, 512, 512};
    char error[256];
    EXPECT(try_open(&options, error) == NULL);
    printf("%s\n", error);
    EXPECT(strstr(error, "the weights have a tensor of 1024 bytes; buffers of the GPU have at most 512") != NULL);
    return 1;
}

int32_t halves_are_doubled(dk_gpu* gpu) {
    static uint16_t halves[128];
    static float doubled[128];
    const dk_slice floats[] = {at(FIRST, 0, sizeof halves), at(SECOND, 0, sizeof doubled)};
    dk_driver* calls = &gpu->driver;
    for (uint32_t i = 0; i < 128; ++i) {
        halves[i] = (uint16_t)(0x3c00u + 8 * i); /* 1 + i / 128 */
    }
    EXPECT(calls->provide(calls, FIRST, sizeof halves) == DK_OK);
    EXPECT(calls->provide(calls, SECOND, sizeof doubled) == DK_OK);
    EXPECT(calls->upload(calls, &floats[0], halves) == DK_OK);
    EXPECT(calls->dispatch(calls, TWICE, floats, 2, NULL, 0, 128) == DK_OK);
    EXPECT(calls->download(calls, doubled, &floats[1]) == DK_OK && calls->wait(calls) == DK_OK);
    for (int32_t i = 0; i < 128; ++i) {
        EXPECT(doubled[i] == 2 + (float)i / 64);
    }
    return 1;
}

/* Teams with subgroups and without; floats of 16 bits in buffers of their own and in words. */
static int32_t forms(void) {
    enum { ROWS = 131, COLUMNS = 75 };
    static int32_t rows[ROWS * COLUMNS], sums[ROWS];
    for (int32_t i = 0; i < ROWS * COLUMNS; ++i) {
        rows[i] = i % 1009 - 500;
    }
    for (uint32_t without = 0; without < 4; ++without) {
        const dk_gpu_options options = {NULL, NULL, 0, without, 0, 0};
        dk_gpu* gpu = open_gpu(&options);
        dk_driver* calls = &gpu->driver;
        const dk_slice slices[] = {at(FIRST, 0, sizeof rows), at(SECOND, 0, sizeof sums)};
        const int32_t columns = COLUMNS;
        printf("features %u\n", (unsigned)gpu->adapter.features);
        EXPECT((gpu->adapter.features & without) == 0);
        EXPECT(calls->provide(calls, FIRST, sizeof rows) == DK_OK);
        EXPECT(calls->provide(calls, SECOND, sizeof sums) == DK_OK);
        EXPECT(calls->upload(calls, &slices[0], rows) == DK_OK);
        EXPECT(calls->dispatch(calls, SUM, slices, 2, &columns, 1, ROWS * 64) == DK_OK);
        EXPECT(calls->download(calls, sums, &slices[1]) == DK_OK && calls->wait(calls) == DK_OK);
        for (int32_t i = 0; i < ROWS; ++i) {
            int32_t sum = 0;
            for (int32_t j = 0; j < COLUMNS; ++j) {
                sum += rows[i * COLUMNS + j];
            }
            EXPECT(sums[i] == sum);
        }
        EXPECT(halves_are_doubled(gpu));
        gpu->close(gpu);
    }
    return 1;
}

/* States are zeros, also in a buffer that was used. Empty tensors can be bound, also at the end of a buffer. */
static int32_t states(void) {
    dk_gpu* gpu = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    int32_t results[300];
    for (int32_t turn = 0; turn < 4; ++turn) {
        const int32_t count = turn < 2 ? 100 : 300;
        const dk_slice all = at(DK_BUFFER_STATES, 0, 4 * count);
        memset(results, 0x55, sizeof results);
        EXPECT(gpu->clear(gpu, DK_BUFFER_STATES, all.bytes) == DK_OK);
        EXPECT(calls->restart(calls) == DK_OK && calls->download(calls, results, &all) == DK_OK);
        EXPECT(add(gpu, all, all, 5, count) == DK_OK);
        EXPECT(add(gpu, at(DK_BUFFER_STATES, 512, 0), at(DK_BUFFER_STATES, 512, 0), 5, 7) == DK_OK);
        EXPECT(calls->wait(calls) == DK_OK);
        for (int32_t i = 0; i < count; ++i) {
            EXPECT(results[i] == 0);
        }
        EXPECT(calls->download(calls, results, &all) == DK_OK && calls->wait(calls) == DK_OK);
        EXPECT(results[0] == 5 && results[count - 1] == 5);
    }
    gpu->close(gpu);
    return 1;
}

/* Calls in any order are carried out in that order: compared with the same on the host. */
static int32_t orders(void) {
    enum { PLACES = 12, WORDS = 64, CALLS = 40 };
    static int32_t memory[2][PLACES * WORDS], results[2][PLACES * WORDS];
    uint32_t random = 1;
    dk_gpu* gpu = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    memset(memory, 0, sizeof memory);
    EXPECT(gpu->clear(gpu, FIRST, sizeof memory[0]) == DK_OK && gpu->clear(gpu, SECOND, sizeof memory[1]) == DK_OK);
    for (int32_t turn = 0; turn < 50; ++turn) {
        EXPECT(calls->restart(calls) == DK_OK);
        for (int32_t i = 0; i < CALLS; ++i) {
            int32_t words[WORDS];
            const uint32_t choice = (random = random * 1664525u + 1013904223u) >> 8;
            const int32_t to = (int32_t)(choice % (2 * PLACES)), from = (int32_t)(choice / 32 % (2 * PLACES));
            int32_t* target = memory[to / PLACES] + to % PLACES * WORDS;
            const int32_t* source = memory[from / PLACES] + from % PLACES * WORDS;
            const dk_slice target_slice = at(FIRST + to / PLACES, to % PLACES * 4 * WORDS, 4 * WORDS);
            const dk_slice source_slice = at(FIRST + from / PLACES, from % PLACES * 4 * WORDS, 4 * WORDS);
            if (choice / 1024 % 4 == 0) {
                for (int32_t j = 0; j < WORDS; ++j) {
                    words[j] = target[j] = turn + i * j;
                }
                EXPECT(calls->upload(calls, &target_slice, words) == DK_OK);
            } else if (choice / 1024 % 4 == 1 && from != to) {
                memcpy(target, source, 4 * WORDS);
                EXPECT(calls->copy(calls, &target_slice, 0, &source_slice) == DK_OK);
            } else {
                for (int32_t j = 0; j < WORDS; ++j) {
                    target[j] = source[j] + i;
                }
                EXPECT(add(gpu, source_slice, target_slice, i, WORDS) == DK_OK);
            }
        }
        for (int32_t i = 0; i < 2; ++i) {
            const dk_slice all = at(FIRST + i, 0, sizeof results[i]);
            EXPECT(calls->download(calls, results[i], &all) == DK_OK);
        }
        EXPECT(calls->wait(calls) == DK_OK && memcmp(memory, results, sizeof memory) == 0);
    }
    gpu->close(gpu);
    return 1;
}

/* A buffer that is provided in the middle of a run leaves what was asked for before. */
static int32_t growing(void) {
    dk_gpu* gpu = open_gpu(NULL);
    dk_driver* calls = &gpu->driver;
    const dk_slice first = at(FIRST, 0, 16), second = at(SECOND, 0, 16);
    const int32_t data[] = {1, 2, 3, 4};
    int32_t results[8] = {0};
    EXPECT(calls->provide(calls, FIRST, 16) == DK_OK && calls->provide(calls, SECOND, 16) == DK_OK);
    EXPECT(calls->upload(calls, &first, data) == DK_OK && calls->copy(calls, &second, 0, &first) == DK_OK);
    EXPECT(calls->download(calls, results, &first) == DK_OK);
    EXPECT(calls->provide(calls, FIRST, 100000) == DK_OK);
    EXPECT(calls->download(calls, results + 4, &second) == DK_OK && calls->wait(calls) == DK_OK);
    EXPECT(memcmp(results, data, sizeof data) == 0 && memcmp(results + 4, data, sizeof data) == 0);
    EXPECT(calls->upload(calls, &first, data) == DK_OK && calls->restart(calls) == DK_OK);
    EXPECT(calls->wait(calls) == DK_OK);
    gpu->close(gpu);
    return 1;
}

/* Wherever memory of the host runs out, there is an error, and nothing is lost. */
static int32_t no_memory(void) {
    int32_t opened = 0, n = 1;
    for (int32_t done = 0; !done; ++n) {
        char error[256];
        dk_gpu* gpu;
        counted_fail(n);
        gpu = try_open(NULL, error);
        if (gpu != NULL) {
            ++opened;
            gpu->profile(gpu, 1);
            int32_t one, two;
            done = small_run(gpu, 100) && small_run(gpu, 1000) && opened > 1 && n > 20;
            done = counted_up(gpu, &one, 10) == DK_OK && handed_on(gpu, one, &two, 1, 10) == DK_OK && done;
            counted_fail(0);
            EXPECT(small_run(gpu, 100));
            gpu->close(gpu);
        } else {
            EXPECT(error[0] != '\0');
        }
        EXPECT(counted_blocks() == 0);
    }
    printf("%d allocations\n", (int)n);
    return 1;
}

static int32_t profiles(void) {
    dk_gpu* gpu = open_gpu(NULL);
    double nanoseconds[64];
    int32_t steps[64];
    EXPECT(small_run(gpu, 1000));
    EXPECT(gpu->times(gpu, nanoseconds, steps, 64) == 0);
    gpu->profile(gpu, 1);
    gpu->step = 7;
    EXPECT(small_run(gpu, 1000));
    gpu->step = 8;
    EXPECT(small_run(gpu, 1000));
    EXPECT(gpu->times(gpu, NULL, NULL, 0) == 6);
    EXPECT(gpu->times(gpu, nanoseconds, steps, 64) == 6);
    for (int32_t i = 0; i < 6; ++i) {
        printf("step %d: %.0f ns\n", (int)steps[i], nanoseconds[i]);
        EXPECT(steps[i] == 7 + i / 3 && nanoseconds[i] >= 0 && nanoseconds[i] < 1e9);
    }
    EXPECT(nanoseconds[1] > 0);
    EXPECT(gpu->times(gpu, nanoseconds, steps, 64) == 0);
    gpu->profile(gpu, 0);
    EXPECT(small_run(gpu, 1000));
    EXPECT(gpu->times(gpu, nanoseconds, steps, 64) == 0);
    gpu->close(gpu);
    return 1;
}

/* Options that cannot be followed. */
static int32_t refusals(void) {
    const dk_gpu_options missing = {"/nowhere/library.so", NULL, 0, 0, 0, 0}, other = {NULL, NULL, 99, 0, 0, 0};
    char error[256];
    dk_gpu* gpu;
    EXPECT(try_open(&missing, error) == NULL);
    printf("%s\n", error);
    EXPECT(strstr(error, "/nowhere/library.so") != NULL);
    EXPECT(try_open(&other, error) == NULL);
    printf("%s\n", error);
    EXPECT(strstr(error, "there is no adapter 99") != NULL);
    gpu = open_gpu(NULL);
    EXPECT(gpu->driver.dispatch(&gpu->driver, KERNELS, NULL, 0, NULL, 0, 1) == DK_ERROR_DEVICE);
    EXPECT(gpu->driver.dispatch(&gpu->driver, ADD, NULL, 0, NULL, 0, 1) == DK_ERROR_DEVICE);
    EXPECT(small_run(gpu, 10));
    gpu->close(gpu);
    return 1;
}

const native_test native_tests[] = {
    {"changing sizes", changing_sizes},
    {"two devices", two_devices},
    {"two threads", two_threads},
    {"limits", limits},
    {"weights", weights},
    {"tensors too large", tensors_too_large},
    {"forms", forms},
    {"states", states},
    {"orders", orders},
    {"growing", growing},
    {"no memory", no_memory},
    {"profiles", profiles},
    {"refusals", refusals},
    {"kept values", kept_values},
    {"kept loop", kept_loop},
    {NULL, NULL},
};
