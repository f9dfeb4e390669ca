/* Runs a model in ONNX Runtime, so that the instructions of one run can be counted: those of `counted`, which follows
   two runs, because the first ones plan memory. It has one thread.

       onnxruntime MODEL IN,... OUT,... < REQUEST > REPLY

   A request holds for each input its type as ONNX numbers it, its rank, the extents and the bytes as int64, then the
   data; a reply the same for each output. Only the functions of ONNX Runtime's interface in C that are needed are
   declared, by their places in its table, which stay the same in all versions. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 16
#define MOST 64
#define MOST_AXES 8

enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    SET_INTRA_OP_NUM_THREADS = 24,
    CREATE_TENSOR_WITH_DATA = 49,
    GET_TENSOR_MUTABLE_DATA = 51,
    GET_TENSOR_ELEMENT_TYPE = 60,
    GET_DIMENSIONS_COUNT = 61,
    GET_DIMENSIONS = 62,
    GET_TENSOR_SHAPE_ELEMENT_COUNT = 64,
    GET_TENSOR_TYPE_AND_SHAPE = 65,
    CREATE_CPU_MEMORY_INFO = 69
};
enum { WARNING = 2, ARENA_ALLOCATOR = 1, DEFAULT_MEMORY = 0 };

struct base {
    const void* const* (*get_api)(uint32_t version);
    const char* (*get_version)(void);
};

extern const struct base* OrtGetApiBase(void);

static const void* const* api;
static void* session;
static const char* input_names[MOST];
static const char* output_names[MOST];
static void* inputs[MOST];
static void* outputs[MOST];
static size_t input_count, output_count;

/* Functions return a status, which is null if all went well. */
#define CALL(place, types, ...) checked(((void*(*)types)api[place])(__VA_ARGS__))

static void stop(const char* reason) {
    (void)fprintf(stderr, "onnxruntime: %s\n", reason);
    exit(2);
}

static void checked(void* status) {
    if (status != NULL) {
        stop(((const char* (*)(void*))api[GET_ERROR_MESSAGE])(status));
    }
}

static size_t names_of(char* text, const char** names) {
    size_t count = 0;
    for (char* name = strtok(text, ","); name != NULL && count < MOST; name = strtok(NULL, ",")) {
        names[count++] = name;
    }
    return count;
}

static int64_t number(void) {
    int64_t value;
    if (fread(&value, sizeof value, 1, stdin) != 1) {
        stop("the request ends early");
    }
    return value;
}

static void write_number(int64_t value) {
    (void)fwrite(&value, sizeof value, 1, stdout);
}

static void* input(void* memory) {
    int64_t type = number(), rank = number(), shape[MOST_AXES], bytes;
    void *data, *made = NULL;
    if (rank > MOST_AXES) {
        stop("an input has too many axes");
    }
    for (int64_t axis = 0; axis < rank; ++axis) {
        shape[axis] = number();
    }
    bytes = number();
    data = malloc((size_t)bytes + 1);
    if (data == NULL || fread(data, 1, (size_t)bytes, stdin) != (size_t)bytes) {
        stop("the request ends early");
    }
    CALL(
        CREATE_TENSOR_WITH_DATA, (void*, void*, size_t, const int64_t*, size_t, int, void**), memory, data,
        (size_t)bytes, shape, (size_t)rank, (int)type, &made
    );
    return made;
}

/* The bytes of an element of the types of which outputs are. */
static int64_t size_of(int type) {
    static const int sizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8};
    if (type < 0 || type >= (int)(sizeof sizes / sizeof sizes[0]) || sizes[type] == 0) {
        stop("an output has a type that is not written");
    }
    return sizes[type];
}

static void output(void* value) {
    void *info = NULL, *data = NULL;
    size_t rank = 0, count = 0;
    int64_t shape[MOST_AXES];
    int type = 0;
    CALL(GET_TENSOR_TYPE_AND_SHAPE, (void*, void**), value, &info);
    CALL(GET_TENSOR_ELEMENT_TYPE, (void*, int*), info, &type);
    CALL(GET_DIMENSIONS_COUNT, (void*, size_t*), info, &rank);
    if (rank > MOST_AXES) {
        stop("an output has too many axes");
    }
    CALL(GET_DIMENSIONS, (void*, int64_t*, size_t), info, shape, rank);
    CALL(GET_TENSOR_SHAPE_ELEMENT_COUNT, (void*, size_t*), info, &count);
    CALL(GET_TENSOR_MUTABLE_DATA, (void*, void**), value, &data);
    write_number(type);
    write_number((int64_t)rank);
    for (size_t axis = 0; axis < rank; ++axis) {
        write_number(shape[axis]);
    }
    write_number((int64_t)count * size_of(type));
    (void)fwrite(data, 1, count * (size_t)size_of(type), stdout);
}

static void run(void) {
    CALL(
        RUN, (void*, void*, const char**, void**, size_t, const char**, size_t, void**), session, NULL, input_names,
        inputs, input_count, output_names, output_count, outputs
    );
}

__attribute__((noinline)) void counted(void) {
    run();
    __asm__ volatile("");
}

int main(int argc, char** argv) {
    void *environment = NULL, *options = NULL, *memory = NULL;
    if (argc != 4) {
        stop("expected MODEL INPUTS OUTPUTS");
    }
    api = OrtGetApiBase()->get_api(VERSION);
    if (api == NULL) {
        stop("the library is too old");
    }
    input_count = names_of(argv[2], input_names);
    output_count = names_of(argv[3], output_names);
    CALL(CREATE_ENV, (int, const char*, void**), WARNING, "count", &environment);
    CALL(CREATE_SESSION_OPTIONS, (void**), &options);
    CALL(SET_INTRA_OP_NUM_THREADS, (void*, int), options, 1);
    CALL(CREATE_SESSION, (void*, const char*, void*, void**), environment, argv[1], options, &session);
    CALL(CREATE_CPU_MEMORY_INFO, (int, int, void**), ARENA_ALLOCATOR, DEFAULT_MEMORY, &memory);
    for (size_t i = 0; i < input_count; ++i) {
        inputs[i] = input(memory);
    }
    for (int i = 0; i < 2; ++i) {
        run();
        memset(outputs, 0, sizeof outputs); /* Each run makes its own. */
    }
    counted();
    for (size_t i = 0; i < output_count; ++i) {
        output(outputs[i]);
    }
    (void)fflush(stdout);
    _Exit(0);
}
