/* The weights of mlp: pass `&mlp_weights` and MLP_WEIGHTS_BYTES to mlp_init. */
#ifndef MLP_WEIGHTS_H
#define MLP_WEIGHTS_H

#include "deploykit.h"

/* Compare with dk_crc32(&mlp_weights, MLP_WEIGHTS_BYTES) to find weights that have changed in flash. */
#define MLP_WEIGHTS_CRC32 0xa213658eu

typedef struct mlp_weights_t {
    float w[32]; /* [8, 4] */
    float v[12]; /* [4, 3] */
} mlp_weights_t;

extern const mlp_weights_t mlp_weights;

#endif
