/* Runs a model once in a process of its own. So that sanitizers find every fault, each piece of memory is a heap block
   of exactly the size that the model asks for, filled with bytes that are NaNs as floats.

       runner run WEIGHTS < REQUEST > REPLY
       runner arena DIM...              prints the bytes of arena
       runner state DIM... > STATE      writes a new block of states (with -DDK_STATES)

   Compile with -DDK_PREFIX=<prefix of the model's function> and -DDK_SHARED_PREFIX=<prefix of the model>, and with
   -DDK_WEIGHTS_C if the weights are part of the program (WEIGHTS is then ignored). A request holds for each input
   `rank`, the extents and `bytes` as int64, then the data. A reply holds the status as int64; after DK_OK the outputs
   follow in the same form, else the error text. A block of states comes before the inputs and before the outputs.

   With -DDK_SEMIHOSTING, for microcontrollers, the words of the command, one a line, the request and the reply are
   files of these names. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#ifdef DK_WEIGHTS_C
#include "weights.h"
#endif

#define JOIN(a, b) a##b
#define MODEL_OF(prefix, name) JOIN(prefix, name)
#define MODEL(name) MODEL_OF(DK_PREFIX, name)
#define SHARED(name) MODEL_OF(DK_SHARED_PREFIX, name)

#define MOST_RUNS 64
#ifdef DK_SEMIHOSTING
#define MAX_PORTS 64
#else
#define MAX_PORTS 4096
#endif

static FILE* request;
static FILE* reply;

static void stop(const char* reason) {
    fprintf(stderr, "runner: %s\n", reason);
    exit(2);
}

static void* take(int64_t bytes) {
    void* memory = NULL;
    if (bytes < 0 || posix_memalign(&memory, DK_ALIGNMENT, (size_t)bytes) != 0) {
        stop("no memory");
    }
    if (bytes > 0) {
        memset(memory, 0xff, (size_t)bytes);
    }
    return memory;
}

static int64_t read_number(void) {
    int64_t value;
    if (fread(&value, sizeof value, 1, request) != 1) {
        stop("the request ends early");
    }
    return value;
}

static void write_number(int64_t value) {
    fwrite(&value, sizeof value, 1, reply);
}

static void read_tensor(dk_tensor* tensor, dk_dtype dtype) {
    int64_t bytes;
    int32_t axis;
    tensor->dtype = dtype;
    tensor->rank = (int32_t)read_number();
    for (axis = 0; axis < tensor->rank; ++axis) {
        tensor->shape[axis] = read_number();
    }
    bytes = read_number();
    tensor->data = take(bytes);
    tensor->bytes = (size_t)bytes;
    if (fread(tensor->data, 1, tensor->bytes, request) != tensor->bytes) {
        stop("the request ends early");
    }
}

static void write_output(const dk_tensor* tensor) {
    int64_t bytes = dk_tensor_bytes(tensor);
    int32_t axis;
    write_number(tensor->rank);
    for (axis = 0; axis < tensor->rank; ++axis) {
        write_number(tensor->shape[axis]);
    }
    write_number(bytes);
    fwrite(tensor->data, 1, (size_t)bytes, reply);
}

static const void* read_weights(const char* path) {
#ifdef DK_WEIGHTS_C
    (void)path;
    return &SHARED(_weights);
#else
    size_t bytes = MODEL(_descriptor).weights_bytes;
    void* weights = take((int64_t)bytes);
    FILE* file = fopen(path, "rb");
    if (file == NULL || fread(weights, 1, bytes, file) != bytes) {
        stop("the weights cannot be read");
    }
    fclose(file);
    return weights;
#endif
}

static MODEL(_model) model;
static dk_tensor inputs[MAX_PORTS];
static dk_tensor outputs[MAX_PORTS];
static int64_t room[MAX_PORTS];

/* Give the model memory for a run at the dims of the inputs. */
static dk_status provide(void) {
    MODEL(_dims) dims;
    dk_status status = MODEL(_bind)(&model, inputs, &dims);
    int64_t arena_bytes;
    int32_t index;
    if (status != DK_OK) {
        return status;
    }
    arena_bytes = MODEL(_arena_bytes)(&dims);
    free(model.base.arena);
    status = dk_set_arena(&model.base, take(arena_bytes), (size_t)arena_bytes);
    for (index = 0; index < model.base.descriptor->output_count && status == DK_OK; ++index) {
        dk_tensor* output = &outputs[index];
        free(output->data);
        status = MODEL(_output_shape)(&dims, index, output);
        if ((int64_t)output->bytes < room[index]) {
            output->bytes = (size_t)room[index];
        }
        output->data = take((int64_t)output->bytes);
    }
    return status;
}

/* Run once; in slices of DK_SLICED steps, where that is given. */
static dk_status run_once(void) {
#ifdef DK_SLICED
    dk_status status = DK_PENDING;
    while (status == DK_PENDING) {
        status = MODEL(_run_steps)(&model, inputs, outputs, DK_SLICED);
    }
    return status;
#else
    return MODEL(_run)(&model, inputs, outputs);
#endif
}

static dk_status run(void) {
    dk_status status = DK_ERROR_CAPACITY;
    int64_t* dims = (int64_t*)(void*)&model.dims;
    int runs;
    for (runs = 0; runs < MOST_RUNS && status == DK_ERROR_CAPACITY; ++runs) {
        status = provide();
        if (status == DK_OK) {
            status = run_once();
        }
        if (status != DK_ERROR_CAPACITY) {
            break;
        }
        if (model.base.need.output >= 0) {
            room[model.base.need.output] = model.base.need.bytes;
        } else if (model.base.need.dim >= 0) {
            dims[model.base.need.dim] = model.base.need.extent;
        } else {
            break;
        }
    }
    return status;
}

static MODEL(_dims) dims_of(int count, char** numbers) {
    int64_t dims[MAX_PORTS] = {0};
    MODEL(_dims) typed;
    int index;
    for (index = 0; index < count && index < MAX_PORTS; ++index) {
        dims[index] = strtoll(numbers[index], NULL, 10);
    }
    memcpy(&typed, dims, sizeof typed);
    return typed;
}

static void print_arena_bytes(const MODEL(_dims) * dims) {
    fprintf(reply, "%lld\n", (long long)MODEL(_arena_bytes)(dims));
}

#ifdef DK_STATES
static dk_tensor state;

static void write_new_state(const MODEL(_dims) * dims) {
    int64_t bytes = MODEL(_state_bytes)(dims);
    void* memory = bytes == INT64_MAX ? NULL : take(bytes);
    if (MODEL(_reset_state)(dims, memory, (size_t)bytes) != DK_OK) {
        stop("there are no states of these sizes");
    }
    fwrite(memory, 1, (size_t)bytes, reply);
}
#endif

static int serve(int argc, char** argv) {
    const dk_model_descriptor* descriptor = &MODEL(_descriptor);
    dk_status status;
    int32_t index;
    if (argc >= 2 && strcmp(argv[1], "arena") == 0) {
        MODEL(_dims) dims = dims_of(argc - 2, argv + 2);
        print_arena_bytes(&dims);
        return 0;
    }
#ifdef DK_STATES
    if (argc >= 2 && strcmp(argv[1], "state") == 0) {
        MODEL(_dims) dims = dims_of(argc - 2, argv + 2);
        write_new_state(&dims);
        return 0;
    }
#endif
    if (argc != 3 || descriptor->input_count > MAX_PORTS || descriptor->output_count > MAX_PORTS) {
        stop("usage: runner run WEIGHTS | runner arena DIM...");
    }
    status = MODEL(_init)(&model, read_weights(argv[2]), descriptor->weights_bytes, NULL, 0);
#ifdef DK_STATES
    read_tensor(&state, DK_UINT8);
    if (status == DK_OK) {
        status = MODEL(_set_state)(&model, state.data, state.bytes);
    }
#endif
    for (index = 0; index < descriptor->input_count; ++index) {
        read_tensor(&inputs[index], descriptor->inputs[index].dtype);
    }
    if (status == DK_OK) {
        status = run();
    }
    write_number((int64_t)status);
    if (status != DK_OK) {
        fputs(MODEL(_last_error)(&model), reply);
        return 0;
    }
#ifdef DK_STATES
    write_output(&state);
#endif
    for (index = 0; index < descriptor->output_count; ++index) {
        write_output(&outputs[index]);
    }
    return 0;
}

#ifdef DK_SEMIHOSTING
#define MAX_WORDS 32

int main(void) {
    static char text[1024];
    char* words[MAX_WORDS] = {text};
    int count = 0;
    int status;
    FILE* command = fopen("command", "rb");
    request = fopen("request", "rb");
    reply = fopen("reply", "wb");
    if (command == NULL || request == NULL || reply == NULL) {
        stop("the files of the command cannot be opened");
    }
    text[fread(text, 1, sizeof text - 1, command)] = '\0';
    for (words[0] = strtok(text, "\n"); words[count] != NULL && count + 1 < MAX_WORDS;) {
        words[++count] = strtok(NULL, "\n");
    }
    status = serve(count, words);
    fclose(reply);
    return status;
}
#else
int main(int argc, char** argv) {
    request = stdin;
    reply = stdout;
    return serve(argc, argv);
}
#endif
