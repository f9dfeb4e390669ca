/* Runs the cases in cases.c, and others, with the driver for OpenCL. The first argument is a scenario; the others are
   `name=value`. Prints what happened. */
#define _POSIX_C_SOURCE 200809L

#include "cases.c"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define RUNS 10000
#define PART 4096

static const char source[] =
    "__kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void add(__global uint4* from_base, uint from_at, __global uint4* to_base, uint to_at, int by, int threads) {\n"
    "    __global const int* from = (__global const int*)(from_base + from_at);\n"
    "    __global int* to = (__global int*)(to_base + to_at);\n"
    "    int thread = (get_group_id(0) + get_group_id(1) * 65535) * 64 + get_local_id(0);\n"
    "    if (thread < threads) { to[thread] = from[thread] + by; }\n"
    "}\n";

static const dk_gpu_form form = {0, 0, 0, sizeof source - 1};
static const dk_gpu_kernel kernel = {"add", 2, 2, 2, 0, 1, &form};
static const int64_t starts[] = {0, PART, 2 * PART, 3 * PART};
static const dk_gpu_program program = {&kernel, 1, 64, 65535, 4, starts, 4 * PART, sizeof source - 1, 0x5ead};

static dk_gpu_options options;
static const char* code = source;
static char error[512];

static dk_gpu* opened(void) {
    dk_gpu_program own = program;
    own.code_bytes = (int64_t)strlen(code);
    dk_gpu* gpu = dk_opencl_open(&own, code, &options, error, sizeof error);
    if (gpu == NULL) {
        printf("not open: %s\n", error);
        exit(1);
    }
    return gpu;
}

static void show(const char* name, dk_gpu* gpu, dk_status status) {
    printf("%s: %d %s\n", name, (int)status, status == DK_ERROR_DEVICE ? gpu->driver.error : "");
}

static dk_status provide_both(dk_gpu* gpu, int64_t bytes) {
    dk_driver* driver = &gpu->driver;
    dk_status status = driver->restart(driver);
    status = status != DK_OK ? status : driver->provide(driver, FIRST, bytes);
    return status != DK_OK ? status : driver->provide(driver, SECOND, bytes);
}

static dk_status run_case(dk_gpu* gpu, int32_t index, int32_t* holds) {
    dk_status status = provide_both(gpu, BUFFER_BYTES);
    status = status != DK_OK ? status : cases[index].ask(&gpu->driver);
    status = status != DK_OK ? status : gpu->driver.wait(&gpu->driver);
    *holds = status == DK_OK && cases[index].holds();
    return status;
}

static int all_cases(dk_gpu* gpu) {
    int good = 1;
    for (int32_t i = 0; i < (int32_t)(sizeof cases / sizeof *cases); ++i) {
        int32_t holds = 0;
        const dk_status status = run_case(gpu, i, &holds);
        printf("%s: %d %d\n", cases[i].name, (int)status, (int)holds);
        good = good && holds;
    }
    return good;
}

/* One run of `count` numbers: in[i] + by. */
static dk_status run_once(dk_gpu* gpu, int32_t count, int32_t by, const int32_t* in, int32_t* out) {
    dk_driver* driver = &gpu->driver;
    const dk_slice from = at(FIRST, 0, 4 * (int64_t)count), to = at(SECOND, 0, 4 * (int64_t)count);
    dk_status status = provide_both(gpu, from.bytes);
    status = status != DK_OK ? status : driver->upload(driver, &from, in);
    status = status != DK_OK ? status : add(driver, from, to, by, count);
    status = status != DK_OK ? status : driver->download(driver, out, &to);
    return status != DK_OK ? status : driver->wait(driver);
}

static long resident(void) {
    long whole = 0, pages = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &whole, &pages) != 2) {
        pages = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * 4;
}

static void sizes(dk_gpu* gpu) {
    long before = 0;
    for (int32_t run = 0; run < RUNS; ++run) {
        const int32_t count = 1 + run * 7919 % 3000;
        data[0] = run;
        result[0] = -1;
        if (run_once(gpu, count, 5, data, result) != DK_OK || result[0] != run + 5) {
            printf("wrong in run %d\n", (int)run);
            return;
        }
        before = run == RUNS / 10 ? resident() : before;
    }
    printf("grew: %s\n", resident() - before > 4096 ? "yes" : "no");
}

static void* thread(void* given) {
    static const int32_t in[100] = {1, 2, 3};
    int32_t out[100], *good = given;
    dk_gpu* gpu = opened();
    *good = 1;
    for (int32_t run = 0; run < 500; ++run) {
        *good = *good && run_once(gpu, 100, run, in, out) == DK_OK && out[2] == 3 + run && out[99] == run;
    }
    gpu->close(gpu);
    return NULL;
}

static void threads(void) {
    pthread_t both[2];
    int32_t good[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
        pthread_create(&both[i], NULL, thread, &good[i]);
    }
    for (int i = 0; i < 2; ++i) {
        pthread_join(both[i], NULL);
    }
    printf("threads: %d %d\n", (int)good[0], (int)good[1]);
}

/* Sums of each part of the weights, and of their middle. */
static void weights(dk_gpu* gpu) {
    dk_driver* driver = &gpu->driver;
    fill(PART, 1);
    show("load", gpu, gpu->load(gpu, data));
    for (int32_t i = 0; i < 4; ++i) {
        const dk_slice from = at(DK_BUFFER_WEIGHTS, i * PART + 256, 512), to = at(SECOND, 0, 512);
        dk_status status = provide_both(gpu, 512);
        status = status != DK_OK ? status : add(driver, from, to, 1, 128);
        status = status != DK_OK ? status : driver->download(driver, result, &to);
        status = status != DK_OK ? status : driver->wait(driver);
        printf("part %d: %d %d\n", (int)i, (int)status, result[0] == i * 1024 + 65 && result[127] == i * 1024 + 192);
    }
}

static void limits(dk_gpu* gpu) {
    const dk_slice large = at(FIRST, 0, 1 << 20);
    printf("binding: %lld\n", (long long)gpu->driver.binding_bytes);
    show("provide", gpu, gpu->driver.provide(&gpu->driver, FIRST, (int64_t)1 << 40));
    show("arena", gpu, gpu->driver.provide(&gpu->driver, DK_BUFFER_ARENA, (int64_t)1 << 40));
    show("clear", gpu, gpu->clear(gpu, DK_BUFFER_STATES, (int64_t)1 << 40));
    gpu->driver.provide(&gpu->driver, FIRST, 1 << 20);
    show("dispatch", gpu, add(&gpu->driver, large, large, 1, 1));
    show("outside", gpu, gpu->driver.upload(&gpu->driver, &large, data));
    show("after", gpu, run_once(gpu, 100, 1, data, result));
}

static void states(dk_gpu* gpu) {
    dk_driver* driver = &gpu->driver;
    const dk_slice all = at(DK_BUFFER_STATES, 0, 400);
    fill(100, 7);
    for (int turn = 0; turn < 2; ++turn) {
        dk_status status = gpu->clear(gpu, DK_BUFFER_STATES, 400);
        status = status != DK_OK ? status : driver->download(driver, result, &all);
        status = status != DK_OK ? status : driver->wait(driver);
        printf("zeros: %d %d\n", (int)status, result[0] == 0 && result[99] == 0);
        driver->upload(driver, &all, data);
    }
}

/* A copy within a buffer between places that overlap, in both directions. */
static void overlap(dk_gpu* gpu) {
    dk_driver* driver = &gpu->driver;
    const dk_slice all = at(FIRST, 0, 800), low = at(FIRST, 0, 400), high = at(FIRST, 256, 400);
    for (int turn = 0; turn < 2; ++turn) {
        fill(200, 1);
        dk_status status = provide_both(gpu, 800);
        status = status != DK_OK ? status : driver->upload(driver, &all, data);
        status = status != DK_OK ? status : driver->copy(driver, turn ? &low : &high, 0, turn ? &high : &low);
        status = status != DK_OK ? status : driver->copy(driver, &low, 0, &low);
        status = status != DK_OK ? status : driver->download(driver, result, &all);
        status = status != DK_OK ? status : driver->wait(driver);
        int good = status == DK_OK;
        for (int i = 0; i < 100; ++i) {
            good = good && result[turn ? i : i + 64] == (turn ? i + 64 : i);
        }
        printf("overlap: %d\n", good);
    }
}

static void profile(dk_gpu* gpu) {
    double nanoseconds[8];
    int32_t steps[8];
    run_once(gpu, 1000, 1, data, result);
    printf("off: %d\n", (int)gpu->times(gpu, nanoseconds, steps, 8));
    gpu->profile(gpu, 1);
    for (int32_t i = 0; i < 3; ++i) {
        gpu->step = 10 + i;
        run_once(gpu, 1000, 1, data, result);
    }
    const dk_slice from = at(FIRST, 0, 400), to = at(SECOND, 0, 400);
    gpu->step = 20;
    gpu->driver.copy(&gpu->driver, &to, 0, &from);
    printf("asked: %d\n", (int)gpu->times(gpu, nanoseconds, steps, 0));
    const int32_t count = gpu->times(gpu, nanoseconds, steps, 8);
    for (int32_t i = 0; i < count; ++i) {
        printf("step %d: %s\n", (int)steps[i], nanoseconds[i] > 0 && nanoseconds[i] < 1e9 ? "timed" : "no time");
    }
    printf("again: %d\n", (int)gpu->times(gpu, nanoseconds, steps, 8));
    gpu->profile(gpu, 0);
    run_once(gpu, 1000, 1, data, result);
    printf("off: %d\n", (int)gpu->times(gpu, nanoseconds, steps, 8));
}

/* Runs until one fails, then three more. */
static void failing(dk_gpu* gpu) {
    int32_t more = -1;
    for (int32_t run = 0; run < 50 && more != 0; ++run, more -= more > 0) {
        const dk_status status = run_once(gpu, 100 + 100 * run, 1, data, result);
        if (status != DK_OK || more > 0) {
            show("run", gpu, status);
            more = more < 0 ? 4 : more;
        }
    }
}

static void adapters(void) {
    dk_gpu_adapter found[4];
    const int32_t count = dk_opencl_adapters(&options, found, 4, error, sizeof error);
    for (int32_t i = 0; i < count && i < 4; ++i) {
        const char* unusable = found[i].unusable;
        printf(
            "adapter: %s | %s | %d %u %d\n", found[i].name, found[i].driver, (int)found[i].kind, found[i].features,
            found[i].memory_bytes > 0 && found[i].buffer_bytes >= found[i].binding_bytes
        );
        printf("usable: %s\n", unusable == NULL ? "yes" : unusable);
    }
    printf("adapters: %d %s\n", (int)count, count == 0 ? error : "");
}

static void take(const char* argument) {
    const char* value = strchr(argument, '=');
    if (value == NULL) {
        return;
    }
    ++value;
    switch (argument[0]) {
    case 'l':
        options.library = value;
        break;
    case 'c':
        options.cache = value;
        break;
    case 'a':
        options.adapter = atoi(value);
        break;
    case 'b':
        options.buffer_bytes = atoll(value);
        break;
    case 't':
        options.binding_bytes = atoll(value);
        break;
    default:
        code = value;
    }
}

int main(int count, char** arguments) {
    static const struct {
        const char* name;
        void (*run)(dk_gpu* gpu);
    } scenarios[] = {
        {"sizes", sizes},     {"weights", weights}, {"limits", limits},   {"states", states},
        {"overlap", overlap}, {"profile", profile}, {"failing", failing},
    };
    const char* scenario = count > 1 ? arguments[1] : "cases";
    for (int i = 2; i < count; ++i) {
        take(arguments[i]);
    }
    if (strcmp(scenario, "adapters") == 0) {
        adapters();
        return 0;
    }
    if (strcmp(scenario, "threads") == 0) {
        threads();
        return 0;
    }
    dk_gpu* gpu = opened();
    int good = 1;
    if (strcmp(scenario, "cases") == 0) {
        good = all_cases(gpu);
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; ++i) {
        if (strcmp(scenario, scenarios[i].name) == 0) {
            scenarios[i].run(gpu);
        }
    }
    gpu->close(gpu);
    return good ? 0 : 1;
}
