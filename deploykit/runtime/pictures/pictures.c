/* Pictures through a model: the memory of a run, and what its outputs mean. */
#include "pictures.h"

#include <string.h>

void dk_pictures_open(dk_pictures* own, const dk_pictures_task* task) {
    memset(own, 0, sizeof *own);
    own->task = task;
}

/* What a run with a picture of this size needs. */
static dk_status plan(const dk_pictures* own, dk_model* model, int32_t height, int32_t width, dk_single_run* run) {
    const dk_pictures_task* task = own->task;
    int64_t shape[4] = {1, 3, 0, 0};
    uint64_t after = 0;
    dk_picture_size(&task->steps, height, width, shape + 2);
    run->bytes = SIZE_MAX;
    if (shape[2] == 0) {
        dk_fail(model, DK_ERROR_USAGE, "a picture of ");
        dk_add_number(model, "", height);
        dk_add_number(model, "x", width);
        dk_add_text(model, " points cannot become one that the model takes: one of its edges is too short or too long");
        return DK_ERROR_USAGE;
    }
    if (task->boxes >= 0) {
        after = sizeof(dk_object) * (uint64_t)task->functions.descriptor->outputs[task->output].shape[1].extent;
    }
    return dk_plan_run(&task->functions, model, 4, shape, dk_picture_scratch(&task->steps, height, width), after, run);
}

size_t dk_pictures_bytes(const dk_pictures* own, dk_model* model, int32_t width, int32_t height) {
    static const uint8_t point = 0;
    const dk_picture picture = {&point, width, height, DK_GREY, 0};
    const char* wrong = dk_picture_error(&picture);
    dk_single_run run;
    if (own->task == NULL) {
        return SIZE_MAX;
    }
    if (wrong != NULL) {
        dk_fail(model, DK_ERROR_USAGE, wrong);
        return SIZE_MAX;
    }
    plan(own, model, height, width, &run);
    return run.bytes;
}

dk_status dk_pictures_use(dk_pictures* own, dk_model* model, void* workspace, size_t bytes) {
    return own->task == NULL ? DK_ERROR_USAGE : dk_use_workspace(model, &own->workspace, workspace, bytes);
}

/* Prepare a picture and run. */
static dk_status
run_on(dk_pictures* own, dk_model* model, const dk_picture* picture, const void* results, dk_single_run* run) {
    const dk_pictures_task* task = own->task;
    dk_status status;
    if (task == NULL) {
        return DK_ERROR_USAGE; /* opening failed, and the model says why */
    }
    status = dk_check_single(model, &own->workspace, results, dk_picture_error(picture));
    status = status != DK_OK ? status : plan(own, model, picture->height, picture->width, run);
    status = status != DK_OK ? status : dk_place_run(&task->functions, model, "this picture", &own->workspace, run);
    if (status != DK_OK) {
        return status;
    }
    dk_prepare_picture(&task->steps, picture, (float*)run->input.data, run->before);
    return dk_do_run(&task->functions, model, run);
}

dk_status dk_pictures_vector(dk_pictures* own, dk_model* model, const dk_picture* picture, float* vector) {
    dk_single_run run;
    const dk_status status = run_on(own, model, picture, vector, &run);
    if (status == DK_OK) {
        memcpy(vector, run.outputs[own->task->output].data, sizeof *vector * (size_t)own->task->width);
    }
    return status;
}

dk_status dk_pictures_classify(dk_pictures* own, dk_model* model, const dk_picture* picture, float* scores) {
    const dk_status status = dk_pictures_vector(own, model, picture, scores);
    if (status == DK_OK) {
        dk_make_scores(own->task->scores, scores, own->task->width);
    }
    return status;
}

dk_status dk_pictures_detect(
    dk_pictures* own, dk_model* model, const dk_picture* picture, float least, float overlap, dk_object* objects,
    size_t capacity, size_t* count
) {
    dk_single_run run;
    const dk_tensor *logits, *places;
    const dk_object* found;
    dk_status status = run_on(own, model, picture, objects == NULL && capacity > 0 ? NULL : count, &run);
    if (status == DK_OK && !(overlap >= 0 && overlap <= 1)) {
        status = dk_fail(model, DK_ERROR_USAGE, "boxes overlap by a part of 0 to 1; 1 drops none");
    }
    if (status != DK_OK) {
        return status;
    }
    logits = &run.outputs[own->task->output];
    places = &run.outputs[own->task->boxes];
    found = (const dk_object*)run.after;
    *count = (size_t)dk_find_objects(
        (const float*)logits->data, (const float*)places->data, (int32_t)logits->shape[1], (int32_t)logits->shape[2],
        picture->height, picture->width, least, overlap, (dk_object*)run.after
    );
    if (*count > capacity) {
        dk_fail(model, DK_ERROR_CAPACITY, "");
        dk_add_number(model, "the picture has ", (int64_t)*count);
        dk_add_number(model, " objects, and there is room for ", (int64_t)capacity);
        model->need.extent = (int64_t)*count;
        return DK_ERROR_CAPACITY;
    }
    if (*count > 0) {
        memcpy(objects, found, *count * sizeof *found);
    }
    return DK_OK;
}

dk_status
dk_pictures_segment(dk_pictures* own, dk_model* model, const dk_picture* picture, uint8_t* bytes, uint16_t* words) {
    dk_single_run run;
    const void* results = words != NULL ? (const void*)words : bytes;
    const dk_status status = run_on(own, model, picture, results, &run);
    if (status == DK_OK) {
        const dk_tensor* scores = &run.outputs[own->task->output];
        dk_find_segments(
            (const float*)scores->data, (int32_t)scores->shape[1], (int32_t)scores->shape[2], (int32_t)scores->shape[3],
            picture->height, picture->width, bytes, words
        );
    }
    return status;
}
