/* What models with answers share: how outputs become scores, and the memory of a run.

   A session of such a model works in one workspace of the caller, whose size is known beforehand. It serves one call at
   a time: another one gets DK_ERROR_BUSY. Nothing here allocates or writes a global. Errors have their text in the
   model, as those of its runs. */
#ifndef DEPLOYKIT_ANSWERS_H
#define DEPLOYKIT_ANSWERS_H

#include <stdbool.h>

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a class gets its score from an output. */
typedef enum dk_scores { DK_SCORES_SOFTMAX = 0, DK_SCORES_SIGMOID = 1, DK_SCORES_AS_IS = 2 } dk_scores;

/* Bytes of a workspace. The numbers are of one integer type, and none is negative. */
#define DK_ROOM(bytes) (((bytes) + 63) / 64 * 64)
#define DK_LARGER(a, b) ((a) > (b) ? (a) : (b))

/* Of a run that takes one tensor: `before` bytes are used until it runs, `after` bytes when it has run. */
#define DK_RUN_BYTES(input, outputs, arena, before, after)                                                             \
    (DK_ROOM(input) + DK_LARGER(DK_ROOM(before), (outputs) + DK_ROOM(DK_LARGER(arena, after))))

/* A call of a session, whose `busy` says whether another call uses it. */
#define DK_IN_SESSION(session, call)                                                                                   \
    ((session) == NULL               ? DK_ERROR_USAGE                                                                  \
     : !dk_acquire(&(session)->busy) ? DK_ERROR_BUSY                                                                   \
                                     : dk_release(&(session)->busy, (call)))

/* Outputs that a model with answers may have. */
#define DK_MOST_OUTPUTS 8

/* The functions of a model that takes one tensor. */
typedef struct dk_functions {
    const dk_model_descriptor* descriptor;
    dk_status (*bind)(dk_model* model, const dk_tensor* inputs, int64_t* dims);
    int64_t (*arena_bytes)(const int64_t* dims);
    dk_status (*output_shape)(const int64_t* dims, int32_t output, dk_tensor* tensor);
    dk_status (*run)(dk_model* model, const dk_tensor* inputs, dk_tensor* outputs);
} dk_functions;

/* A run of such a model: its tensors, the bytes that it needs, and where `before` and `after` bytes are. */
typedef struct dk_single_run {
    dk_tensor input;
    dk_tensor outputs[DK_MOST_OUTPUTS];
    size_t bytes;
    size_t arena_bytes;
    void* before;
    void* after;
} dk_single_run;

/* What a session of such a model works in; `data` is NULL while there is nothing. */
typedef struct dk_workspace {
    void* data;
    size_t bytes;
} dk_workspace;

/* Note an error. Returns `status`. */
dk_status dk_fail(dk_model* model, dk_status status, const char* words);

/* Check a workspace; `what` needs `needed` bytes of it. */
dk_status dk_check_workspace(dk_model* model, const char* what, const void* workspace, size_t bytes, size_t needed);

/* Take memory as the workspace of a model that takes one tensor; only a run says how much it needs. */
dk_status dk_use_workspace(dk_model* model, dk_workspace* workspace, void* data, size_t bytes);

/* Check a call: whether there are a workspace and results. `wrong` is what is wrong with the rest, or NULL. */
dk_status dk_check_single(dk_model* model, const dk_workspace* workspace, const void* results, const char* wrong);

/* A tensor without a shape. */
void dk_fill_tensor(dk_tensor* tensor, void* data, size_t bytes, dk_dtype dtype);

/* Replace numbers by their softmax, or by what `scores` says. */
void dk_softmax(float* values, int64_t count);
void dk_make_scores(dk_scores scores, float* values, int64_t count);

/* Set a dim that is an axis of an input. Returns whether the axis may have this extent. */
bool dk_set_axis(const dk_model_descriptor* descriptor, int64_t* dims, int32_t input, int32_t axis, int64_t extent);

/* Find what a run with a float32 input of this shape needs. After an error, `bytes` of `run` is SIZE_MAX. */
dk_status dk_plan_run(
    const dk_functions* functions, dk_model* model, int32_t rank, const int64_t* shape, uint64_t before, uint64_t after,
    dk_single_run* run
);

/* Put the tensors of a planned run into the workspace, if it has room; `what` is what the run is for. */
dk_status dk_place_run(
    const dk_functions* functions, dk_model* model, const char* what, const dk_workspace* workspace, dk_single_run* run
);

/* Run. */
dk_status dk_do_run(const dk_functions* functions, dk_model* model, dk_single_run* run);

#ifdef __cplusplus
}
#endif

#endif
