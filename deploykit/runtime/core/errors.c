/* The texts of errors: appended piece by piece, cut at the end of the buffer. And runs that end early, or pause. No
   heap, no globals, no stdio. */
#include "deploykit.h"

#include <string.h>

#ifndef DK_NO_ERROR_TEXT
void dk_add_text(dk_model* model, const char* text) {
    size_t used = strlen(model->error);
    while ((used < (DK_ERROR_TEXT - 1)) && (*text != '\0')) {
        model->error[used] = *text;
        ++used;
        ++text;
    }
    model->error[used] = '\0';
}

void dk_add_number(dk_model* model, const char* text, int64_t value) {
    char digits[24];
    size_t at = sizeof(digits) - 1u;
    uint64_t rest = (value < 0) ? (0 - (uint64_t)value) : (uint64_t)value;
    digits[at] = '\0';
    do {
        --at;
        digits[at] = (char)('0' + (int)(rest % 10u));
        rest /= 10u;
    } while (rest != 0u);
    if (value < 0) {
        --at;
        digits[at] = '-';
    }
    dk_add_text(model, text);
    dk_add_text(model, &digits[at]);
}

void dk_start_port_error(dk_model* model, const char* kind, const char* name) {
    dk_start_error(model);
    dk_add_text(model, kind);
    dk_add_text(model, " '");
    dk_add_text(model, name);
    dk_add_text(model, "'");
}

void dk_add_bounds(dk_model* model, int64_t minimum, int64_t maximum, int64_t found) {
    if (maximum == INT64_MAX) {
        dk_add_number(model, "at least ", minimum);
    } else if (minimum == INT64_MIN) {
        dk_add_number(model, "at most ", maximum);
    } else {
        dk_add_number(model, "", minimum);
        dk_add_number(model, "..", maximum);
    }
    dk_add_number(model, ", found ", found);
}
#endif

int dk_fail_stopped(dk_model* model) {
    dk_start_error(model);
    dk_add_text(model, "the run was stopped");
    return 1;
}

int dk_stopped(dk_model* model) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4)
    const int32_t stopped = __atomic_load_n(model->stop, __ATOMIC_RELAXED);
#else
    const int32_t stopped = *(const volatile int32_t*)model->stop;
#endif
    return (stopped != 0) && dk_fail_stopped(model);
}

#ifdef DK_GUARDED
static uint32_t pattern_of(int32_t index) {
    return 0x5aa55aa5u + (uint32_t)index;
}

dk_status dk_guard_stack(dk_model* model, void* lowest) {
    int32_t index;
    if (((uintptr_t)(const unsigned char*)lowest % sizeof *model->guard) != 0u) {
        dk_start_error(model);
        dk_add_text(model, "the end of the stack must be at a multiple of 4 bytes");
        return DK_ERROR_USAGE;
    }
    model->guard = lowest;
    for (index = 0; (lowest != NULL) && (index < DK_GUARD_WORDS); ++index) {
        model->guard[index] = pattern_of(index);
    }
    return dk_overflowed(model) ? DK_ERROR_CAPACITY : DK_OK;
}

int dk_overflowed(dk_model* model) {
    volatile int32_t index; /* on the stack */
    int found = (model->guard != NULL) && ((uintptr_t)&index < (uintptr_t)&model->guard[DK_GUARD_WORDS]);
    for (index = 0; (model->guard != NULL) && (index < DK_GUARD_WORDS); ++index) {
        found = found || (model->guard[index] != pattern_of(index));
    }
    if (found != 0) {
        dk_start_error(model);
        dk_add_text(model, "the stack reached its end, and what is there may be overwritten: give it more bytes");
    }
    return found;
}
#endif

#ifdef DK_SLICED
static uint32_t mixed(uint32_t sum, uint64_t value) {
    sum = (sum ^ (uint32_t)value) * 0x01000193u;
    return (sum ^ (uint32_t)(value >> 32)) * 0x01000193u;
}

/* A checksum (FNV-1a, of words) of where the tensors of a run are, and of the shapes of inputs. */
static uint32_t memory_of(const dk_model* model, const dk_tensor* inputs, const dk_tensor* outputs) {
    uint32_t sum = mixed(mixed(0x811c9dc5u, (uintptr_t)model->arena), model->arena_bytes);
    int32_t index;
    int32_t axis;
    for (index = 0; index < model->descriptor->input_count; ++index) {
        sum = mixed(mixed(sum, (uintptr_t)inputs[index].data), inputs[index].bytes);
        for (axis = 0; axis < model->descriptor->inputs[index].rank; ++axis) {
            sum = mixed(sum, (uint64_t)inputs[index].shape[axis]);
        }
    }
    for (index = 0; index < model->descriptor->output_count; ++index) {
        sum = mixed(mixed(sum, (uintptr_t)outputs[index].data), outputs[index].bytes);
    }
    return sum;
}

dk_status dk_begin_slice(dk_model* model, const dk_tensor* inputs, const dk_tensor* outputs, int32_t steps) {
    const uint32_t memory = memory_of(model, inputs, outputs);
    dk_start_error(model);
    if (steps < 1) {
        dk_add_number(model, "steps: at least 1, found ", steps);
        return DK_ERROR_USAGE;
    }
    if ((model->resume != 0) && (model->memory != memory)) {
        dk_add_text(model, "a run goes on with the inputs, outputs and arena that it began with");
        return DK_ERROR_USAGE;
    }
    model->memory = memory;
    model->steps_left = steps;
    return DK_OK;
}

dk_status dk_begin_whole(dk_model* model, int32_t change) {
    dk_start_error(model);
    if (model->resume > (change + 1)) {
        dk_add_text(model, "a run that goes on may have changed states: call run_steps to its end, or set_state first");
        return DK_ERROR_USAGE;
    }
    model->resume = 0;
    return DK_OK;
}
#endif

const char* dk_error_text(const dk_model* model, const int32_t* busy) {
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4)
    const int32_t used = __atomic_load_n(busy, __ATOMIC_RELAXED);
#else
    const int32_t used = *(const volatile int32_t*)busy;
#endif
    return (used != 0) ? "it is in use: wait for the other call, or give each thread a struct of its own"
                       : model->error;
}

void dk_start_error(dk_model* model) {
    model->error[0] = '\0';
    model->need.bytes = 0;
    model->need.output = -1;
    model->need.dim = -1;
    model->need.extent = 0;
}

/* The smallest extent that gives `needed` bytes, if bytes are proportional and `extent` gives `available`. */
static int64_t scaled_extent(int64_t extent, int64_t needed, int64_t available) {
    int64_t whole;
    if ((extent <= 0) || (available <= 0)) {
        return needed;
    }
    whole = (needed / available) + ((needed % available) != 0);
    if (needed <= (INT64_MAX / extent)) {
        return ((needed * extent) / available) + (((needed * extent) % available) != 0);
    }
    if (whole > (INT64_MAX / extent)) {
        return INT64_MAX;
    }
    return whole * extent;
}

dk_status
dk_fail_capacity(dk_model* model, const char* what, int64_t needed, int64_t available, int32_t dim, int64_t extent) {
    dk_start_error(model);
    dk_add_text(model, "'");
    dk_add_text(model, what);
    dk_add_number(model, "' needs ", needed);
    dk_add_number(model, " bytes, found ", available);
    if (dim >= 0) {
        model->need.dim = dim;
        model->need.extent = scaled_extent(extent, needed, available);
        dk_add_text(model, "; set capacity dim '");
        dk_add_text(model, model->descriptor->dims[dim].name);
        dk_add_number(model, "' to ", model->need.extent);
    }
    return DK_ERROR_CAPACITY;
}

dk_status dk_fail_shape(dk_model* model, const char* message, const int64_t* values) {
    char piece[2] = {0, 0};
    dk_start_error(model);
    for (; (DK_ERROR_TEXT > 1) && (*message != '\0'); ++message) {
        if ((message[0] == '{') && (message[1] == '}')) {
            dk_add_number(model, "", *values++);
            ++message;
        } else {
            piece[0] = *message;
            dk_add_text(model, piece);
        }
    }
    return DK_ERROR_SHAPE;
}
