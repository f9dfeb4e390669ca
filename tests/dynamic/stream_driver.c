/* Drives a stream of instances in a process of its own, for tests under sanitizers.

       driver WEIGHTS < REQUEST > REPLY

   A request is int64 numbers and arrays: the policy, the number of instances, then for each instance the step at
   which it arrives, the step at which it is cancelled (-1: never), and the numbers and the data of its words, roots and
   elements. A reply is, for each event: -1 and an instance that failed; or the count of instances that have finished,
   their numbers, and for each output its rank, extents, bytes and data. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "weights.h"

#define JOIN(a, b) a##b
#define NAMED(prefix, name) JOIN(prefix, name)
#define MODEL(name) NAMED(DK_PREFIX, name)

enum { WAITING, RUNNING, DONE };

typedef struct instance {
    int64_t arrival;
    int64_t cancelled;
    int64_t counts[3];
    void* data[3];
    int32_t ticket;
    int state;
} instance;

static MODEL(_model) model;
static int64_t policy, count;
static instance* all;

static void stop(const char* reason) {
    fprintf(stderr, "driver: %s: %s\n", reason, MODEL(_last_error)(&model));
    exit(2);
}

static void* take(int64_t bytes) {
    void* memory = NULL;
    if (posix_memalign(&memory, DK_ALIGNMENT, (size_t)bytes + (bytes == 0)) != 0) {
        stop("no memory");
    }
    memset(memory, 0xff, (size_t)bytes);
    return memory;
}

static int64_t read_number(void) {
    int64_t value;
    if (fread(&value, sizeof value, 1, stdin) != 1) {
        stop("the request ends early");
    }
    return value;
}

static void write_number(int64_t value) {
    fwrite(&value, sizeof value, 1, stdout);
}

static void read_instances(void) {
    int64_t i;
    int part;
    all = calloc((size_t)count, sizeof *all);
    for (i = 0; i < count; ++i) {
        all[i].arrival = read_number();
        all[i].cancelled = read_number();
        for (part = 0; part < 3; ++part) {
            all[i].counts[part] = read_number();
            all[i].data[part] = take(4 * all[i].counts[part]);
            if (fread(all[i].data[part], 4, (size_t)all[i].counts[part], stdin) != (size_t)all[i].counts[part]) {
                stop("the request ends early");
            }
        }
    }
}

/* After a failure that left no instance: all begin again, in the memory that was missing. */
static void begin_again(void) {
    int64_t* dims = (int64_t*)(void*)&model.dims;
    int64_t i;
    if (model.stream.running + model.stream.finished != 0 || model.base.need.dim < 0) {
        stop("instances are left");
    }
    dims[model.base.need.dim] = model.base.need.extent;
    free(model.base.arena);
    dk_set_arena(&model.base, take(MODEL(_arena_bytes)(&model.dims)), (size_t)MODEL(_arena_bytes)(&model.dims));
    for (i = 0; i < count; ++i) {
        all[i].state = all[i].state == RUNNING ? WAITING : all[i].state;
    }
}

static void submit(instance* one) {
    int32_t number = (int32_t)policy;
    int32_t* const words = take(4 * one->counts[0]); /* the memory of the inputs ends with the call */
    dk_tensor inputs[4] = {
        {words, 4 * (size_t)one->counts[0], DK_INT32, 1, {one->counts[0]}},
        {one->data[1], 4 * (size_t)one->counts[1], DK_INT32, 2, {1, one->counts[1]}},
        {&number, 4, DK_INT32, 0, {0}},
        {one->data[2], 4 * (size_t)one->counts[2], DK_FLOAT32, 1, {one->counts[2]}},
    };
    const int32_t before = model.stream.running;
    dk_status status;
    memcpy(words, one->data[0], 4 * (size_t)one->counts[0]);
    status = MODEL(_submit)(&model, inputs, &one->ticket);
    free(words);
    if (status == DK_OK) {
        one->state = RUNNING;
    } else if (status == DK_ERROR_DATA) {
        write_number(-1);
        write_number(one - all);
        one->state = DONE;
    } else if (status != DK_ERROR_CAPACITY || model.stream.running != before) {
        stop("submit");
    } else if (before == 0) {
        begin_again();
    }
}

static instance* with_ticket(int32_t ticket) {
    int64_t i = 0;
    while (i < count && (all[i].state != RUNNING || all[i].ticket != ticket)) {
        ++i;
    }
    if (i == count) {
        stop("there is no such ticket");
    }
    return &all[i];
}

static void write_results(void) {
    const int32_t finished = model.stream.finished;
    int32_t* tickets = take(4 * (int64_t)finished);
    dk_tensor outputs[16];
    int64_t room[16] = {0};
    dk_status status = DK_ERROR_CAPACITY;
    MODEL(_dims) dims = model.dims;
    int32_t i, axis, outputs_count = model.base.descriptor->output_count;
    dims.batch = finished;
    while (status == DK_ERROR_CAPACITY && model.stream.finished == finished) {
        for (i = 0; i < outputs_count; ++i) {
            MODEL(_output_shape)(&dims, i, &outputs[i]);
            outputs[i].bytes = outputs[i].bytes > (size_t)room[i] ? outputs[i].bytes : (size_t)room[i];
            outputs[i].data = take((int64_t)outputs[i].bytes);
        }
        status = MODEL(_take)(&model, outputs, tickets);
        if (status == DK_ERROR_CAPACITY && model.base.need.output >= 0) {
            room[model.base.need.output] = model.base.need.bytes;
        } else if (status != DK_OK && status != DK_ERROR_CAPACITY) {
            stop("take");
        }
        for (i = 0; i < outputs_count && status != DK_OK; ++i) {
            free(outputs[i].data);
        }
    }
    if (status != DK_OK) {
        free(tickets);
        begin_again();
        return;
    }
    write_number(finished);
    for (i = 0; i < finished; ++i) {
        instance* one = with_ticket(tickets[i]);
        write_number(one - all);
        one->state = DONE;
    }
    for (i = 0; i < outputs_count; ++i) {
        write_number(outputs[i].rank);
        for (axis = 0; axis < outputs[i].rank; ++axis) {
            write_number(outputs[i].shape[axis]);
        }
        write_number(dk_tensor_bytes(&outputs[i]));
        fwrite(outputs[i].data, 1, (size_t)dk_tensor_bytes(&outputs[i]), stdout);
        free(outputs[i].data);
    }
    free(tickets);
}

static void step(void) {
    const dk_status status = MODEL(_step)(&model);
    if (status == DK_ERROR_DATA && model.stream.failed >= 0) {
        instance* one = with_ticket(model.stream.failed);
        write_number(-1);
        write_number(one - all);
        one->state = DONE;
    } else if (status == DK_ERROR_CAPACITY) {
        begin_again();
    } else if (status != DK_OK) {
        stop("step");
    }
    if (model.stream.finished > 0) {
        write_results();
    }
}

/* The instances that arrive and those that are cancelled at this time. Returns whether any is left. */
static int arrive(int64_t now) {
    int left = 0;
    int64_t i;
    for (i = 0; i < count; ++i) {
        instance* one = &all[i];
        if (one->state != DONE && one->cancelled >= 0 && one->cancelled <= now) {
            if (one->state == RUNNING && !MODEL(_cancel)(&model, one->ticket)) {
                stop("cancel");
            }
            one->state = DONE;
        }
        if (one->state == WAITING && one->arrival <= now && MODEL(_has_room)(&model)) {
            submit(one);
        }
        left |= one->state != DONE;
    }
    return left;
}

int main(void) {
    int64_t now, i;
    policy = read_number();
    count = read_number();
    read_instances();
    MODEL(_init)(&model, &MODEL(_weights), MODEL(_descriptor).weights_bytes, NULL, 0);
    dk_set_arena(&model.base, take(MODEL(_arena_bytes)(&model.dims)), (size_t)MODEL(_arena_bytes)(&model.dims));
    for (now = 0; arrive(now); ++now) {
        step();
    }
    for (i = 0; i < count; ++i) {
        free(all[i].data[0]);
        free(all[i].data[1]);
        free(all[i].data[2]);
    }
    free(all);
    free(model.base.arena);
    return 0;
}
