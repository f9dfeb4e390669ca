/* The checks that all models share. No heap, no globals, no stdio. */
#include "deploykit.h"

#include <string.h>

/* What the weights start at a multiple of, in bytes. Fewer suffice where no kernel relies on more. */
#ifndef DK_WEIGHTS_ALIGNMENT
#define DK_WEIGHTS_ALIGNMENT DK_ALIGNMENT
#endif

static const struct {
    const char* name;
    size_t bytes;
} dtypes[] = {
    {"float32", 4},
    {"float64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"bool", 1},
    {"int4", 1},
    {"uint4", 1},
    {"int2", 1},
    {"uint2", 1},
    {"float8_e4m3fn", 1},
    {"float8_e4m3fnuz", 1},
    {"float8_e5m2", 1},
    {"float8_e5m2fnuz", 1},
    {"float8_e8m0", 1},
    {"float4_e2m1", 1},
    {"string", 8},
};

static int known_dtype(dk_dtype dtype) {
    return (size_t)dtype < (sizeof(dtypes) / sizeof(dtypes[0]));
}

size_t dk_dtype_bytes(dk_dtype dtype) {
    return known_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

const char* dk_dtype_name(dk_dtype dtype) {
    return known_dtype(dtype) ? dtypes[dtype].name : "unknown";
}

/* Setting up */

static int aligned(const void* address, size_t alignment) {
    return ((uintptr_t)address & (alignment - 1)) == 0; /* a power of two */
}

static dk_status fail_blank(dk_model* model) {
    model->busy = 0; /* whatever was there */
    dk_start_error(model);
    dk_add_text(model, "the model is not initialised");
    return DK_ERROR_USAGE;
}

dk_status dk_begin_call(dk_model* model, const dk_model_descriptor* descriptor) {
    if (model == NULL) {
        return DK_ERROR_USAGE;
    }
    if (model->descriptor != descriptor) {
        return fail_blank(model);
    }
    if (model->refused != DK_OK) {
        return model->refused; /* with the text of its cause */
    }
    return dk_acquire(&model->busy) ? DK_OK : DK_ERROR_BUSY;
}

void dk_begin_callee(dk_model* callee, const dk_model* model, const dk_model_descriptor* descriptor) {
    callee->descriptor = descriptor;
    callee->weights = model->weights;
    callee->arena = model->arena;
    callee->arena_bytes = model->arena_bytes;
    callee->executor = model->executor;
    callee->stop = model->stop;
    callee->level = model->level;
    callee->busy = 1;
    callee->refused = DK_OK;
#ifdef DK_GUARDED
    callee->guard = model->guard;
#endif
#ifdef DK_SLICED
    callee->resume = 0;
    callee->steps_left = -1;
#endif
    dk_start_error(callee);
}

dk_status dk_check_call(
    dk_model* model, const dk_model_descriptor* descriptor, const dk_tensor* inputs, const void* result,
    const char* what
) {
    const char* missing =
        ((inputs == NULL) && (descriptor->input_count > 0)) ? "inputs" : ((result == NULL) ? what : NULL);
    if (missing != NULL) {
        dk_start_error(model);
        dk_add_text(model, "the ");
        dk_add_text(model, missing);
        dk_add_text(model, " are NULL");
        return DK_ERROR_USAGE;
    }
    return DK_OK;
}

int dk_dims_within(const dk_model_descriptor* descriptor, const int64_t* dims) {
    int32_t index;
    for (index = 0; index < descriptor->dim_count; ++index) {
        const dk_dim* dim = &descriptor->dims[index];
        const int64_t maximum = (dim->maximum < 0) ? DK_MAX_EXTENT : dim->maximum;
        if ((dims == NULL) || (dims[index] < dim->minimum) || (dims[index] > maximum)) {
            return 0;
        }
    }
    return dims != NULL;
}

static dk_status fail_arena(dk_model* model, int64_t needed, int64_t found) {
    model->need.bytes = needed;
    dk_add_number(model, "arena: needs ", needed);
    dk_add_number(model, " bytes, found ", found);
    return DK_ERROR_ARENA;
}

dk_status dk_set_arena(dk_model* model, void* arena, size_t bytes) {
    dk_status status = DK_OK;
    if (model == NULL) {
        return DK_ERROR_USAGE;
    }
    if (model->descriptor == NULL) {
        return fail_blank(model);
    }
    if ((model->refused != DK_OK) && (model->refused != DK_ERROR_ARENA)) {
        return model->refused;
    }
    if (!dk_acquire(&model->busy)) {
        return DK_ERROR_BUSY;
    }
    dk_start_error(model);
    if ((bytes > 0) && !aligned(arena, DK_ALIGNMENT)) {
        dk_add_number(model, "the arena must start at a multiple of ", DK_ALIGNMENT);
        dk_add_text(model, " bytes");
        status = DK_ERROR_ARENA;
    } else if ((arena != NULL) && (bytes > 0) && (bytes < (uint64_t)model->descriptor->arena_least)) {
        status = fail_arena(model, model->descriptor->arena_least, (int64_t)bytes);
    } else {
        model->arena = arena;
        model->arena_bytes = (arena == NULL) ? 0 : bytes;
        model->refused = DK_OK;
    }
    return dk_release(&model->busy, status);
}

/* Refuse the model from now on. */
static dk_status refuse(dk_model* model, dk_status status) {
    model->refused = status;
    return status;
}

dk_status dk_init(
    dk_model* model, const dk_model_descriptor* descriptor, const void* weights, size_t weights_bytes, void* arena,
    size_t arena_bytes
) {
    (void)memset(model, 0, sizeof *model);
    dk_start_error(model);
    model->descriptor = descriptor;
#ifdef DK_SLICED
    model->steps_left = -1;
#endif
    if ((weights_bytes != descriptor->weights_bytes) || ((weights == NULL) && (weights_bytes != 0))) {
        dk_add_number(model, "weights: expected ", (int64_t)descriptor->weights_bytes);
        dk_add_number(model, " bytes, found ", (weights == NULL) ? 0 : (int64_t)weights_bytes);
        return refuse(model, DK_ERROR_WEIGHTS);
    }
    if ((weights_bytes > 0) && !aligned(weights, DK_WEIGHTS_ALIGNMENT)) {
        dk_add_number(model, "the weights must start at a multiple of ", DK_WEIGHTS_ALIGNMENT);
        dk_add_text(model, " bytes");
        return refuse(model, DK_ERROR_WEIGHTS);
    }
    model->weights = weights;
    return refuse(model, dk_set_arena(model, arena, arena_bytes));
}

dk_status
dk_choose_level(dk_model* model, const dk_level* levels, int32_t count, uint64_t (*features)(uint64_t asked)) {
    for (model->level = 0; model->level < count; ++model->level) {
        const uint64_t needed = levels[model->level].features;
        if (features(needed) == needed) {
            return DK_OK;
        }
    }
    dk_start_error(model);
    dk_add_text(model, "the model is compiled for CPU ");
    dk_add_text(model, levels[count - 1].cpu);
    dk_add_text(model, ", and this one lacks some of its instructions: build it with --cpu portable, or for this CPU");
    return refuse(model, DK_ERROR_CPU);
}

uint32_t dk_crc32(const void* data, size_t bytes) {
    /* The remainders of four bits. */
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
    };
    const unsigned char* all = data;
    uint32_t rest = 0xffffffffu;
    size_t at;
    for (at = 0; at < bytes; ++at) {
        rest ^= all[at];
        rest = (rest >> 4) ^ table[rest & 15u];
        rest = (rest >> 4) ^ table[rest & 15u];
    }
    return ~rest;
}

/* Inputs */

int64_t dk_tensor_bytes(const dk_tensor* tensor) {
    int64_t bytes = (int64_t)dk_dtype_bytes(tensor->dtype);
    int32_t axis;
    for (axis = 0; axis < tensor->rank; ++axis) {
        if (tensor->shape[axis] <= 0) {
            return 0;
        }
    }
    for (axis = 0; axis < tensor->rank; ++axis) {
        if (bytes > (INT64_MAX / tensor->shape[axis])) {
            return INT64_MAX;
        }
        bytes *= tensor->shape[axis];
    }
    return bytes;
}

/* "input 'x' axis 1 (dim 'batch')" */
static void start_axis_error(dk_model* model, int32_t input, int32_t axis) {
    const dk_port* port = &model->descriptor->inputs[input];
    const dk_axis* extent = &port->shape[axis];
    dk_start_port_error(model, "input", port->name);
    dk_add_number(model, " axis ", axis);
    if (extent->dim != DK_AXIS_FIXED) {
        dk_add_text(model, extent->dim == DK_AXIS_FORMULA ? " (formula '" : " (dim '");
        dk_add_text(model, extent->text);
        dk_add_text(model, "')");
    }
}

static void add_expected(dk_model* model, const char* expected, const char* found) {
    dk_add_text(model, ": expected ");
    dk_add_text(model, expected);
    dk_add_text(model, ", found ");
    dk_add_text(model, found);
}

/* Check that a tensor is not in the arena of this run. */
static dk_status
check_apart(dk_model* model, const char* kind, const char* name, const dk_tensor* tensor, int64_t bytes) {
    const uintptr_t first = (uintptr_t)tensor->data;
    const uintptr_t start = (uintptr_t)model->arena;
    if ((bytes <= 0) || (first >= (start + model->arena_bytes)) || (start >= (first + (uintptr_t)bytes))) {
        return DK_OK;
    }
    dk_start_port_error(model, kind, name);
    dk_add_text(model, " is in the arena, which a run overwrites");
    return DK_ERROR_BUFFER;
}

static dk_status
check_memory(dk_model* model, const char* kind, const char* name, const dk_tensor* tensor, int64_t bytes) {
    if ((bytes > 0) && (tensor->data == NULL)) {
        dk_start_port_error(model, kind, name);
        dk_add_text(model, " has no data");
        return DK_ERROR_BUFFER;
    }
    if ((bytes > 0) && !aligned(tensor->data, dk_dtype_bytes(tensor->dtype))) {
        dk_start_port_error(model, kind, name);
        dk_add_text(model, " is not aligned for ");
        dk_add_text(model, dk_dtype_name(tensor->dtype));
        return DK_ERROR_BUFFER;
    }
    return DK_OK;
}

/* Check dtype, rank, extents and memory of one input. */
static dk_status check_input(dk_model* model, const dk_port* port, const dk_tensor* tensor) {
    int64_t bytes;
    int32_t axis;
    if (tensor->dtype != port->dtype) {
        dk_start_port_error(model, "input", port->name);
        add_expected(model, dk_dtype_name(port->dtype), dk_dtype_name(tensor->dtype));
        return DK_ERROR_DTYPE;
    }
    if (tensor->rank != port->rank) {
        dk_start_port_error(model, "input", port->name);
        dk_add_number(model, ": expected rank ", port->rank);
        dk_add_text(model, " [");
        for (axis = 0; axis < port->rank; ++axis) {
            dk_add_text(model, (axis == 0) ? "" : ", ");
            dk_add_text(model, port->shape[axis].text);
        }
        dk_add_number(model, "], found rank ", tensor->rank);
        return DK_ERROR_SHAPE;
    }
    for (axis = 0; axis < tensor->rank; ++axis) {
        if ((tensor->shape[axis] < 0) || (tensor->shape[axis] > DK_MAX_EXTENT)) {
            dk_start_port_error(model, "input", port->name);
            dk_add_number(model, " axis ", axis);
            dk_add_number(model, ": no tensor has extent ", tensor->shape[axis]);
            return DK_ERROR_SHAPE;
        }
    }
    bytes = dk_tensor_bytes(tensor);
    if ((uint64_t)bytes > tensor->bytes) {
        dk_start_port_error(model, "input", port->name);
        dk_add_number(model, ": its shape needs ", bytes);
        dk_add_number(model, " bytes, found ", (int64_t)tensor->bytes);
        return DK_ERROR_BUFFER;
    }
    return check_memory(model, "input", port->name, tensor, bytes);
}

/* ", but is 3 in input 'x' axis 0": the first axis with the dim, which bound it. */
static void add_first_use(dk_model* model, int32_t dim, int64_t value) {
    const dk_model_descriptor* descriptor = model->descriptor;
    int32_t input;
    int32_t axis;
    if (descriptor->dims[dim].capacity_of != NULL) {
        dk_add_number(model, ", but the states are made for ", value);
        return;
    }
    for (input = 0; input < descriptor->input_count; ++input) {
        const dk_port* port = &descriptor->inputs[input];
        for (axis = 0; axis < port->rank; ++axis) {
            if (port->shape[axis].dim == dim) {
                dk_add_number(model, ", but is ", value);
                dk_add_text(model, " in input '");
                dk_add_text(model, port->name);
                dk_add_number(model, "' axis ", axis);
                return;
            }
        }
    }
}

dk_status dk_check_axis(dk_model* model, const dk_tensor* inputs, int32_t input, int32_t axis, int64_t expected) {
    int64_t found = inputs[input].shape[axis];
    if (found == expected) {
        return DK_OK;
    }
    start_axis_error(model, input, axis);
    dk_add_number(model, ": expected ", expected);
    dk_add_number(model, ", found ", found);
    return DK_ERROR_SHAPE;
}

/* Bind a dim at its first axis and check its bounds; compare at the other axes. */
static dk_status bind_axis(dk_model* model, int32_t input, int32_t axis, int64_t found, int64_t* value) {
    int32_t index = model->descriptor->inputs[input].shape[axis].dim;
    const dk_dim* dim = &model->descriptor->dims[index];
    if (*value >= 0) {
        if (*value == found) {
            return DK_OK;
        }
        start_axis_error(model, input, axis);
        dk_add_number(model, " is ", found);
        add_first_use(model, index, *value);
        return DK_ERROR_SHAPE;
    }
    if ((found < dim->minimum) || ((dim->maximum >= 0) && (found > dim->maximum))) {
        start_axis_error(model, input, axis);
        dk_add_text(model, ": expected ");
        dk_add_bounds(model, dim->minimum, (dim->maximum < 0) ? INT64_MAX : dim->maximum, found);
        return DK_ERROR_SHAPE;
    }
    *value = found;
    return DK_OK;
}

static dk_status bind_input(dk_model* model, const dk_tensor* inputs, int32_t input, int64_t* dims) {
    const dk_port* port = &model->descriptor->inputs[input];
    dk_status status = check_input(model, port, &inputs[input]);
    int32_t axis;
    for (axis = 0; (axis < port->rank) && (status == DK_OK); ++axis) {
        const dk_axis* expected = &port->shape[axis];
        if (expected->dim >= 0) {
            status = bind_axis(model, input, axis, inputs[input].shape[axis], &dims[expected->dim]);
        } else if (expected->dim == DK_AXIS_FIXED) {
            status = dk_check_axis(model, inputs, input, axis, expected->extent);
        }
    }
    return status;
}

static dk_status check_capacity_dim(dk_model* model, const dk_dim* dim, int64_t value) {
    if ((value >= dim->minimum) && ((dim->maximum < 0) || (value <= dim->maximum))) {
        return DK_OK;
    }
    dk_start_port_error(model, "capacity dim", dim->name);
    dk_add_text(model, ": expected ");
    dk_add_bounds(model, dim->minimum, (dim->maximum < 0) ? INT64_MAX : dim->maximum, value);
    return DK_ERROR_SHAPE;
}

dk_status dk_bind(dk_model* model, const dk_tensor* inputs, int64_t* dims) {
    const dk_model_descriptor* descriptor = model->descriptor;
    dk_status status = DK_OK;
    int32_t index;
    dk_start_error(model);
    for (index = 0; (index < descriptor->dim_count) && (status == DK_OK); ++index) {
        if (descriptor->dims[index].capacity_of != NULL) {
            status = check_capacity_dim(model, &descriptor->dims[index], dims[index]);
        } else {
            dims[index] = -1;
        }
    }
    for (index = 0; (index < descriptor->input_count) && (status == DK_OK); ++index) {
        status = bind_input(model, inputs, index, dims);
    }
    return status;
}

/* Running */

dk_status dk_check_inputs_apart(dk_model* model, const dk_tensor* inputs) {
    dk_status status = DK_OK;
    int32_t index;
    for (index = 0; (index < model->descriptor->input_count) && (status == DK_OK); ++index) {
        const char* name = model->descriptor->inputs[index].name;
        status = check_apart(model, "input", name, &inputs[index], dk_tensor_bytes(&inputs[index]));
    }
    return status;
}

dk_status dk_check_arena(dk_model* model, int64_t bytes) {
    if ((bytes >= 0) && ((uint64_t)bytes <= model->arena_bytes)) {
        return DK_OK;
    }
    dk_start_error(model);
    return fail_arena(model, bytes, (int64_t)model->arena_bytes);
}

dk_status dk_check_output(dk_model* model, const dk_tensor* outputs, int32_t output, int64_t bytes) {
    const dk_port* port = &model->descriptor->outputs[output];
    dk_status status;
    if ((bytes > 0) && ((uint64_t)bytes > outputs[output].bytes)) {
        dk_start_port_error(model, "output", port->name);
        model->need.bytes = bytes;
        model->need.output = output;
        dk_add_number(model, ": needs ", bytes);
        dk_add_number(model, " bytes, found ", (int64_t)outputs[output].bytes);
        return DK_ERROR_CAPACITY;
    }
    status = check_memory(model, "output", port->name, &outputs[output], bytes);
    return (status == DK_OK) ? check_apart(model, "output", port->name, &outputs[output], bytes) : status;
}

dk_status dk_check_data(dk_model* model, const char* what, int64_t value, int64_t minimum, int64_t maximum) {
    if ((value >= minimum) && (value <= maximum)) {
        return DK_OK;
    }
    dk_start_error(model);
    dk_add_text(model, "the value of '");
    dk_add_text(model, what);
    dk_add_text(model, "' must be ");
    dk_add_bounds(model, minimum, maximum, value);
    return DK_ERROR_DATA;
}

/* The largest distance above `low` of the elements first, first + step, ...; an element below `low` wraps around to a
   larger distance than any valid one. No branch depends on an element, and an iteration reads four. */

static uint64_t farther(uint64_t a, uint64_t b) {
    return (a > b) ? a : b;
}

#define FARTHEST(name, integer)                                                                                        \
    static uint64_t name(const integer* data, int64_t first, int64_t count, int64_t step, uint64_t low) {              \
        uint64_t found = 0;                                                                                            \
        int64_t i = first;                                                                                             \
        for (; i < (count - (3 * step)); i += 4 * step) {                                                              \
            found = farther(found, (uint64_t)data[i] - low);                                                           \
            found = farther(found, (uint64_t)data[i + step] - low);                                                    \
            found = farther(found, (uint64_t)data[i + (2 * step)] - low);                                              \
            found = farther(found, (uint64_t)data[i + (3 * step)] - low);                                              \
        }                                                                                                              \
        for (; i < count; i += step) {                                                                                 \
            found = farther(found, (uint64_t)data[i] - low);                                                           \
        }                                                                                                              \
        return found;                                                                                                  \
    }

FARTHEST(farthest_64, int64_t)
FARTHEST(farthest_32, int32_t)

static dk_status fail_index(dk_model* model, const char* what, int64_t at, int64_t value, const int64_t* bounds) {
    dk_start_error(model);
    dk_add_text(model, what);
    dk_add_text(model, " must be ");
    dk_add_bounds(model, bounds[0], bounds[1], value);
    dk_add_number(model, " at element ", at);
    return DK_ERROR_DATA;
}

dk_status dk_check_indices(
    dk_model* model, const char* what, const void* data, dk_dtype dtype, int64_t count, const int64_t* bounds,
    int32_t pairs
) {
    const int is_wide = dtype == DK_INT64;
    const int64_t* wide = data;
    const int32_t* narrow = data;
    int32_t pair;
    int64_t i;
    for (pair = 0; pair < pairs; ++pair) {
        const int64_t* own = &bounds[2 * pair];
        const uint64_t low = (uint64_t)own[0];
        const uint64_t found =
            is_wide ? farthest_64(wide, pair, count, pairs, low) : farthest_32(narrow, pair, count, pairs, low);
        if ((own[1] >= own[0]) && (found <= ((uint64_t)own[1] - low))) {
            continue;
        }
        for (i = pair; i < count; i += pairs) {
            int64_t value = is_wide ? wide[i] : narrow[i];
            if ((value < own[0]) || (value > own[1])) {
                return fail_index(model, what, i, value, own);
            }
        }
    }
    return DK_OK;
}

void dk_copy(void* target, const void* source, int64_t bytes) {
    if ((target != source) && (bytes > 0)) {
        (void)memcpy(target, source, (size_t)bytes);
    }
}

void dk_parallel_for(const dk_model* model, int64_t extent, double effort, dk_range range, void* context) {
    if ((model->executor == NULL) || (extent <= 1) || ((effort > 0) && (effort < (2 * DK_PIECE_EFFORT)))) {
        range(context, 0, extent);
    } else {
        int64_t grain = (effort > 0) ? (int64_t)((double)extent * (DK_PIECE_EFFORT / effort)) : 1;
        model->executor->run(model->executor, extent, (grain > 1) ? grain : 1, range, context);
    }
}

dk_status dk_describe_output(const dk_model_descriptor* descriptor, int32_t output, dk_tensor* tensor) {
    if ((output < 0) || (output >= descriptor->output_count)) {
        return DK_ERROR_USAGE;
    }
    tensor->dtype = descriptor->outputs[output].dtype;
    tensor->rank = descriptor->outputs[output].rank;
    return DK_OK;
}
