/* Memory that keeps its contents between runs: the states of a model, in one block of the caller's. In front of them it
   says for which sizes it was made, so that all functions of the model can take it, and none takes anything else. Any
   number of blocks can be made and exchanged between runs; a function at work has its block to itself. */
#ifndef DEPLOYKIT_STATES_H
#define DEPLOYKIT_STATES_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For generated code. `count` dims from the `first` on are the sizes of states; `needed`: bytes of the whole block. */

/* Whether these dims are within their bounds. */
int dk_state_dims_within(const dk_model_descriptor* descriptor, const int64_t* dims, int32_t first, int32_t count);

/* Make a block whose states are zeros. DK_ERROR_BUFFER when it is missing, too small or misaligned. */
dk_status dk_reset_state(const int64_t* dims, int32_t first, int32_t count, void* state, size_t bytes, int64_t needed);

/* Copy the sizes that a block was made for to `dims`. */
dk_status dk_take_state(dk_model* model, int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes);

/* Check that there is a block for these dims. */
dk_status dk_check_state(
    dk_model* model, const int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes, int64_t needed
);

#ifdef __cplusplus
}
#endif

#endif
