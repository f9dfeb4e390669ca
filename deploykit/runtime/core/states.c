/* Blocks of states. A block begins with MADE and the dims that it was made for. */
#include "states.h"

#include <string.h>

/* The first number of a block. */
#define MADE INT64_C(0x6465706c6f796b74)

int dk_state_dims_within(const dk_model_descriptor* descriptor, const int64_t* dims, int32_t first, int32_t count) {
    int32_t index;
    for (index = first; index < (first + count); ++index) {
        const dk_dim* dim = &descriptor->dims[index];
        const int64_t maximum = (dim->maximum < 0) ? DK_MAX_EXTENT : dim->maximum;
        if ((dims[index] < dim->minimum) || (dims[index] > maximum)) {
            return 0;
        }
    }
    return 1;
}

dk_status dk_reset_state(const int64_t* dims, int32_t first, int32_t count, void* state, size_t bytes, int64_t needed) {
    int64_t* header = state;
    if ((state == NULL) || (((uintptr_t)state % DK_ALIGNMENT) != 0) || ((uint64_t)needed > bytes)) {
        return DK_ERROR_BUFFER;
    }
    (void)memset(state, 0, (size_t)needed);
    header[0] = MADE;
    (void)memcpy(&header[1], &dims[first], (size_t)count * sizeof(*dims));
    return DK_OK;
}

dk_status dk_take_state(dk_model* model, int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes) {
    const int64_t* header = state;
    int64_t made = 0;
    const size_t head = ((size_t)count + 1u) * sizeof(*dims);
#ifdef DK_SLICED
    model->resume = 0; /* a run that goes on is given up */
#endif
    if ((state != NULL) && (((uintptr_t)state % DK_ALIGNMENT) == 0) && (bytes >= head)) {
        made = header[0];
    }
    if (made != MADE) {
        return dk_fail_shape(model, "the state is missing, misaligned, or was never reset", NULL);
    }
    (void)memcpy(&dims[first], &header[1], (size_t)count * sizeof(*dims));
    return DK_OK;
}

dk_status dk_check_state(
    dk_model* model, const int64_t* dims, int32_t first, int32_t count, const void* state, size_t bytes, int64_t needed
) {
    const int64_t sizes[] = {needed, (int64_t)bytes};
    const int64_t* made = state;
    int32_t index;
    if (state == NULL) {
        return dk_fail_shape(model, "the model has states: give it a block by set_state", NULL);
    }
    for (index = 0; index < count; ++index) {
        if (made[1 + index] != dims[first + index]) {
            return dk_fail_shape(model, "the state was made for other sizes: give it to set_state again", NULL);
        }
    }
    return ((uint64_t)needed <= bytes) ? DK_OK : dk_fail_shape(model, "the state needs {} bytes, found {}", sizes);
}
