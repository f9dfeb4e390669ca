/* The states of a model: tensors that keep their contents between runs, in one block of the caller's memory. The block
   begins with the sizes that it was made for, so that all functions of the model can use it, and reject other memory.
   There may be any number of blocks, and they may be exchanged between runs. One function uses a block at a time: each
   has a model struct of its own, which does not know of the others, so that callers on several threads must take turns.
 */
#ifndef DEPLOYKIT_STATES_H
#define DEPLOYKIT_STATES_H

#include "deploykit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For generated code. `count` dims, from index `first` on, are sizes of states; a block has `needed` bytes. */

/* Whether these dims are within their bounds. */
int dk_state_dims_within(const dk_model_descriptor* descriptor, const int64_t* dims, int32_t first, int32_t count);

/* Make a block whose states are zeros. DK_ERROR_BUFFER if it is NULL, too small or misaligned. */
dk_status dk_reset_state(const int64_t* dims, int32_t first, int32_t count, void* state, size_t bytes, int64_t needed);

/* Copy the sizes that a block was made for to `dims`. */
dk_status dk_take_state(dk_model* model, int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes);

/* Check that the block is there, was made for these dims, and is large enough. */
dk_status dk_check_state(
    dk_model* model, const int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes, int64_t needed
);

#ifdef __cplusplus
}
#endif

#endif
