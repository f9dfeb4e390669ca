/* Tests of the driver for Vulkan. The argument is the path of a library made of failing_vulkan.c, or of a file that
   keeps compiled kernels. */
#include "native.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "counted.h"
#include "vulkan.h"
#include "work.h"

typedef struct failing {
    int32_t (*calls)(const char* name);
    void (*call)(const char* name, int32_t n, VkResult result);
    void (*adapters)(const char* what);
} failing;

static failing load_failing(void) {
    void* library = dlopen(argument, RTLD_NOW);
    void* symbols[] = {NULL, NULL, NULL};
    failing found;
    if (library != NULL) {
        symbols[0] = dlsym(library, "failing_calls");
        symbols[1] = dlsym(library, "failing_call");
        symbols[2] = dlsym(library, "failing_adapters");
    }
    memcpy(&found.calls, &symbols[0], sizeof found.calls);
    memcpy(&found.call, &symbols[1], sizeof found.call);
    memcpy(&found.adapters, &symbols[2], sizeof found.adapters);
    return found;
}

/* A device without memory says so and takes a smaller run. */
static int32_t device_memory(void) {
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    dk_gpu* gpu = open_gpu(&options);
    dk_driver* calls = &gpu->driver;
    static int32_t weights[WEIGHTS_BYTES / 4];
    EXPECT(small_run(gpu, 100));
    library.call("vkAllocateMemory", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT(calls->provide(calls, DK_BUFFER_ARENA, 1000) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "the GPU has not enough memory: intermediate results would take 1000 bytes"));
    EXPECT(add(gpu, at(DK_BUFFER_ARENA, 0, 4), at(DK_BUFFER_ARENA, 0, 4), 1, 1) == DK_ERROR_DEVICE);
    EXPECT(small_run(gpu, 50));
    library.call("vkAllocateMemory", 1, VK_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT(gpu->load(gpu, weights) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "the GPU has not enough memory: weights would take 4096 bytes"));
    EXPECT(gpu->load(gpu, weights) == DK_OK);
    library.call("vkAllocateMemory", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT(gpu->clear(gpu, DK_BUFFER_STATES, 500) == DK_ERROR_DEVICE);
    EXPECT(says(gpu, "the GPU has not enough memory: states would take 500 bytes"));
    EXPECT(gpu->clear(gpu, DK_BUFFER_STATES, 500) == DK_OK);
    library.call("vkBeginCommandBuffer", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT(small_run(gpu, 51));
    library.call("vkQueueSubmit", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT(!small_run(gpu, 52));
    EXPECT(says(gpu, "the GPU has not enough memory for the commands of a run"));
    EXPECT(small_run(gpu, 52));
    gpu->close(gpu);
    for (int32_t n = 1; n < 4; ++n) {
        char error[256];
        library.call("vkAllocateMemory", n, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        gpu = try_open(&options, error);
        if (gpu != NULL) {
            EXPECT(!small_run(gpu, 10));
            EXPECT(small_run(gpu, 10));
            gpu->close(gpu);
        }
    }
    return 1;
}

/* The libraries of the driver are in the process after the device is closed. */
static int32_t driver_stays(void) {
    dk_gpu* gpu = open_gpu(NULL);
    char* with = dk_vk_loaded();
    gpu->close(gpu);
    char* after = dk_vk_loaded();
    int32_t count = 0;
    EXPECT(with != NULL && after != NULL);
    for (const char *a = with, *b = after; *a != '\0'; a += strlen(a) + 1, b += strlen(b) + 1, ++count) {
        EXPECT(strcmp(a, b) == 0);
    }
    printf("%d libraries\n", count);
    counted_free(with);
    counted_free(after);
    return count > 0;
}

/* A device that is lost stays so; another one can be opened. */
static int32_t lost_device(void) {
    static const char* const where[] = {"vkQueueSubmit", "vkWaitForFences", "vkBeginCommandBuffer"};
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    for (int32_t i = 0; i < 3; ++i) {
        dk_gpu* gpu = open_gpu(&options);
        dk_driver* calls = &gpu->driver;
        const dk_slice place = at(FIRST, 0, 16);
        int32_t data[4] = {0};
        EXPECT(small_run(gpu, 100));
        library.call(where[i], 1, VK_ERROR_DEVICE_LOST);
        EXPECT(!small_run(gpu, 101));
        EXPECT(says(gpu, "the GPU device is lost: open the model again"));
        EXPECT(calls->restart(calls) == DK_ERROR_DEVICE && calls->provide(calls, FIRST, 16) == DK_ERROR_DEVICE);
        EXPECT(calls->upload(calls, &place, data) == DK_ERROR_DEVICE);
        EXPECT(calls->download(calls, data, &place) == DK_ERROR_DEVICE);
        EXPECT(calls->copy(calls, &place, 0, &place) == DK_ERROR_DEVICE);
        EXPECT(add(gpu, place, place, 1, 1) == DK_ERROR_DEVICE && calls->wait(calls) == DK_ERROR_DEVICE);
        EXPECT(gpu->load(gpu, data) == DK_ERROR_DEVICE && gpu->clear(gpu, FIRST, 16) == DK_ERROR_DEVICE);
        EXPECT(says(gpu, "the GPU device is lost: open the model again"));
        gpu->close(gpu);
    }
    return 1;
}

static int32_t lost_at_opening(void) {
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    char error[256];
    library.call("vkCreateComputePipelines", 2, VK_ERROR_DEVICE_LOST);
    EXPECT(try_open(&options, error) == NULL && strstr(error, "lost") != NULL);
    /* A form that the driver cannot compile is left out if there is another one. */
    library.call("vkCreateComputePipelines", 2, -3);
    dk_gpu* gpu = open_gpu(&options);
    EXPECT(small_run(gpu, 10));
    gpu->close(gpu);
    library.call("vkCreateComputePipelines", 1, -3);
    EXPECT(try_open(&options, error) == NULL && strstr(error, "refused add") != NULL);
    return 1;
}

/* Adapters that cannot run kernels say why. */
static int32_t unusable(void) {
    static const char* const reasons[][2] = {
        {"version", "its driver has Vulkan 1.0: at least 1.1 is needed"},
        {"bindings", "its kernels have fewer than 9 buffers"},
        {"constants", "its kernels have fewer than 128 bytes of constants"},
        {"invocations", "its workgroups have fewer than 64 invocations"},
        {"queue", "it has no queue that computes"},
    };
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    for (int32_t i = 0; i < 5; ++i) {
        dk_gpu_adapter adapter;
        char error[256] = "";
        library.adapters(reasons[i][0]);
        EXPECT(dk_vulkan_adapters(&options, &adapter, 1, error, sizeof error) == 1);
        EXPECT(adapter.name[0] != '\0' && adapter.unusable != NULL && strcmp(adapter.unusable, reasons[i][1]) == 0);
        EXPECT(try_open(&options, error) == NULL && strstr(error, reasons[i][1]) != NULL);
    }
    return 1;
}

/* A device without a feature takes the other forms. No form needs arithmetic on 16-bit floats. */
static int32_t fewer_features(void) {
    static const struct {
        const char* lacking;
        uint32_t feature;
    } features[] = {{"", 0}, {"16-bit storage", DK_GPU_F16}, {"dots", DK_GPU_DOT}};
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    dk_gpu* gpu = open_gpu(&options);
    const uint32_t all = gpu->adapter.features;
    gpu->close(gpu);
    for (int32_t i = 0; i < 3; ++i) {
        library.adapters(features[i].lacking);
        gpu = open_gpu(&options);
        EXPECT(gpu->adapter.features == (all & ~features[i].feature));
        EXPECT(small_run(gpu, 100) && halves_are_doubled(gpu));
        gpu->close(gpu);
    }
    return 1;
}

/* A device without a clock runs, but has no times. */
static int32_t no_clock(void) {
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    dk_gpu* gpu;
    library.adapters("clock");
    gpu = open_gpu(&options);
    gpu->profile(gpu, 1);
    EXPECT(small_run(gpu, 100) && gpu->times(gpu, NULL, NULL, 0) == 0);
    gpu->close(gpu);
    return 1;
}

/* Runs with sizes that were seen lately are not recorded again. */
static int32_t replays(void) {
    const dk_gpu_options options = {argument, NULL, 0, 0, 0, 0};
    const failing library = load_failing();
    dk_gpu* gpu = open_gpu(&options);
    int32_t current, next;
    EXPECT(small_run(gpu, 1000));
    library.calls("vkBeginCommandBuffer");
    library.calls("vkQueueSubmit");
    for (int32_t i = 0; i < 80; ++i) {
        EXPECT(small_run(gpu, 100 + i % 8));
    }
    EXPECT(library.calls("vkBeginCommandBuffer") == 8 && library.calls("vkQueueSubmit") == 80);
    EXPECT(small_run(gpu, 99) && small_run(gpu, 107) && small_run(gpu, 101));
    EXPECT(library.calls("vkBeginCommandBuffer") == 1);
    EXPECT(small_run(gpu, 100) && library.calls("vkBeginCommandBuffer") == 1);
    EXPECT(gpu->driver.provide(&gpu->driver, FIRST, 8192) == DK_OK);
    EXPECT(small_run(gpu, 100) && library.calls("vkBeginCommandBuffer") == 1);
    /* A loop that hands on its result alternates between two buffers. */
    EXPECT(counted_up(gpu, &current, 100) == DK_OK && library.calls("vkBeginCommandBuffer") == 1);
    for (int32_t i = 0; i < 50; ++i) {
        EXPECT(handed_on(gpu, current, &next, 1, 100) == DK_OK);
        gpu->discard(gpu, current);
        current = next;
    }
    EXPECT(library.calls("vkBeginCommandBuffer") == 2 && small_run(gpu, 100));
    EXPECT(library.calls("vkBeginCommandBuffer") == 0);
    gpu->profile(gpu, 1);
    EXPECT(small_run(gpu, 100) && small_run(gpu, 100) && library.calls("vkBeginCommandBuffer") == 2);
    gpu->profile(gpu, 0);
    EXPECT(small_run(gpu, 100) && small_run(gpu, 100) && library.calls("vkBeginCommandBuffer") <= 1);
    gpu->close(gpu);
    return 1;
}

/* The file of compiled kernels is the argument. */
static int32_t open_with_cache(void) {
    const dk_gpu_options options = {NULL, argument, 0, 0, 0, 0};
    dk_gpu* gpu = open_gpu(&options);
    EXPECT(small_run(gpu, 10));
    gpu->close(gpu);
    return 1;
}

/* An operation waits only for one that uses the same bytes, if one of them writes. */
static int32_t hazards(void) {
    static const struct {
        dk_region from, to;
        int32_t waits;
    } steps[] = {
        {{0, 0, 16}, {1, 0, 16}, 0},  {{0, 0, 16}, {1, 16, 16}, 0}, {{0, 8, 16}, {2, 0, 32}, 0},
        {{3, 0, 16}, {0, 24, 16}, 0}, {{0, 32, 8}, {4, 0, 16}, 1},  {{0, 0, 8}, {3, 8, 4}, 0},
        {{0, 0, 8}, {4, 12, 4}, 1},   {{5, 0, 8}, {0, 0, 1}, 1},    {{0, 0, 0}, {0, 0, 0}, 0},
        {{5, 0, 4}, {5, 0, 4}, 1},    {{6, 0, 4}, {6, 0, 4}, 0},    {{6, 3, 4}, {7, 0, 4}, 1},
    };
    dk_hazards seen;
    int32_t waits = 0;
    seen.count = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
        const dk_region places[] = {steps[i].from, steps[i].to};
        const dk_operation operation = {0, 0, 2, 0, places, NULL};
        EXPECT(dk_must_wait(&seen, &operation, 2) == steps[i].waits);
    }
    for (int32_t i = 0; i < 10 * DK_MOST_USES; ++i) {
        const dk_region places[] = {{8, 0, 16}, {9 + i, 0, 16}};
        const dk_operation operation = {0, 0, 2, 0, places, NULL};
        waits += dk_must_wait(&seen, &operation, 2);
    }
    EXPECT(waits > 0 && waits <= 21);
    return 1;
}

const native_test vulkan_tests[] = {
    {"hazards", hazards},
    {"device memory", device_memory},
    {"lost device", lost_device},
    {"lost at opening", lost_at_opening},
    {"unusable", unusable},
    {"fewer features", fewer_features},
    {"no clock", no_clock},
    {"replays", replays},
    {"cache", open_with_cache},
    {"driver stays", driver_stays},
    {NULL, NULL},
};
