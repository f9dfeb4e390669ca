/* Scores, and runs of models that take one tensor. */
#include "answers.h"

#include <math.h>
#include <string.h>

dk_status dk_fail(dk_model* model, dk_status status, const char* words) {
    dk_start_error(model);
    dk_add_text(model, words);
    return status;
}

dk_status dk_check_workspace(dk_model* model, const char* what, const void* workspace, size_t bytes, size_t needed) {
    if (workspace != NULL && (uintptr_t)workspace % DK_ALIGNMENT == 0 && bytes >= needed) {
        return DK_OK;
    }
    dk_fail(model, DK_ERROR_ARENA, "the workspace is misaligned or too small: ");
    dk_add_text(model, what);
    dk_add_number(model, " needs ", (int64_t)needed);
    dk_add_number(model, " bytes, found ", (int64_t)bytes);
    model->need.bytes = (int64_t)needed;
    return DK_ERROR_ARENA;
}

dk_status dk_use_workspace(dk_model* model, dk_workspace* workspace, void* data, size_t bytes) {
    const bool usable = data != NULL && (uintptr_t)data % DK_ALIGNMENT == 0 && bytes > 0;
    workspace->data = usable ? data : NULL;
    workspace->bytes = bytes;
    if (usable) {
        return DK_OK;
    }
    return dk_fail(model, DK_ERROR_ARENA, "the workspace is NULL or empty, or not at a multiple of 64 bytes");
}

dk_status dk_check_single(dk_model* model, const dk_workspace* workspace, const void* results, const char* wrong) {
    wrong = results == NULL ? "the results are NULL" : wrong;
    wrong = workspace->data == NULL ? "there is no workspace: set one" : wrong;
    return wrong == NULL ? DK_OK : dk_fail(model, DK_ERROR_USAGE, wrong);
}

void dk_fill_tensor(dk_tensor* tensor, void* data, size_t bytes, dk_dtype dtype) {
    memset(tensor, 0, sizeof *tensor);
    tensor->data = data;
    tensor->bytes = bytes;
    tensor->dtype = dtype;
}

void dk_softmax(float* values, int64_t count) {
    float most = values[0];
    double sum = 0;
    for (int64_t i = 1; i < count; ++i) {
        most = values[i] > most ? values[i] : most;
    }
    for (int64_t i = 0; i < count; ++i) {
        values[i] = expf(values[i] - most);
        sum += (double)values[i];
    }
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)((double)values[i] / sum);
    }
}

void dk_make_scores(dk_scores scores, float* values, int64_t count) {
    if (scores == DK_SCORES_SOFTMAX) {
        dk_softmax(values, count);
    }
    for (int64_t i = 0; scores == DK_SCORES_SIGMOID && i < count; ++i) {
        values[i] = 1.0f / (1.0f + expf(-values[i]));
    }
}

bool dk_set_axis(const dk_model_descriptor* descriptor, int64_t* dims, int32_t input, int32_t axis, int64_t extent) {
    const dk_axis* found = &descriptor->inputs[input].shape[axis];
    const dk_dim* dim;
    if (found->dim < 0) {
        return found->dim != DK_AXIS_FIXED || found->extent == extent;
    }
    dim = &descriptor->dims[found->dim];
    dims[found->dim] = extent;
    return dim->minimum <= extent && (dim->maximum < 0 || extent <= dim->maximum);
}

dk_status dk_plan_run(
    const dk_functions* functions, dk_model* model, int32_t rank, const int64_t* shape, uint64_t before, uint64_t after,
    dk_single_run* run
) {
    int64_t dims[DK_MAX_RANK] = {0}, input, arena;
    uint64_t outputs = 0, bytes;
    dk_status status;
    run->bytes = SIZE_MAX;
    dk_fill_tensor(&run->input, dims, SIZE_MAX, DK_FLOAT32); /* there is no memory yet, and bind reads none */
    run->input.rank = rank;
    memcpy(run->input.shape, shape, (size_t)rank * sizeof *shape);
    status = functions->bind(model, &run->input, dims);
    run->input.data = NULL;
    if (status != DK_OK) {
        return status;
    }
    input = dk_tensor_bytes(&run->input);
    arena = functions->arena_bytes(dims);
    for (int32_t i = 0; i < functions->descriptor->output_count; ++i) {
        functions->output_shape(dims, i, &run->outputs[i]);
        outputs += DK_ROOM((uint64_t)run->outputs[i].bytes);
    }
    if (input > INT64_MAX / 4 || arena > INT64_MAX / 4 || outputs > INT64_MAX / 4) {
        return dk_fail(model, DK_ERROR_USAGE, "the model needs more memory for this input than there is anywhere");
    }
    bytes = DK_RUN_BYTES((uint64_t)input, outputs, (uint64_t)arena, before, after);
    if (bytes >= SIZE_MAX) {
        return dk_fail(model, DK_ERROR_USAGE, "the model needs more memory for this input than this machine addresses");
    }
    run->input.bytes = (size_t)input;
    run->arena_bytes = (size_t)DK_LARGER((uint64_t)arena, after);
    run->bytes = (size_t)bytes;
    return DK_OK;
}

dk_status dk_place_run(
    const dk_functions* functions, dk_model* model, const char* what, const dk_workspace* workspace, dk_single_run* run
) {
    const dk_status status = dk_check_workspace(model, what, workspace->data, workspace->bytes, run->bytes);
    unsigned char* next = (unsigned char*)workspace->data;
    if (status != DK_OK) {
        return status;
    }
    run->input.data = next;
    next += DK_ROOM(run->input.bytes);
    run->before = next;
    for (int32_t i = 0; i < functions->descriptor->output_count; ++i) {
        run->outputs[i].data = next;
        next += DK_ROOM(run->outputs[i].bytes);
    }
    run->after = next;
    return DK_OK;
}

dk_status dk_do_run(const dk_functions* functions, dk_model* model, dk_single_run* run) {
    const dk_status status = dk_set_arena(model, run->after, run->arena_bytes);
    return status == DK_OK ? functions->run(model, &run->input, run->outputs) : status;
}
