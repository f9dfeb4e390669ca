/* An example of mlp: fills the inputs with numbers that are the same on every machine, runs the model at the
   upper bounds of its dims, and prints the start and a checksum of each output. */
#include <stdio.h>

#include "model.h"
#include "weights.h"

/* All memory that the model needs; its size is known at compile time. */
static DK_ALIGNED unsigned char arena[MLP_ARENA_BYTES + 1];
static DK_ALIGNED unsigned char input_0[MLP_INPUT_X_BYTES + 1];
static DK_ALIGNED unsigned char output_0[MLP_OUTPUT_Y_BYTES + 1];

static mlp_model model;

static dk_tensor inputs[] = {
    {input_0, sizeof input_0, DK_FLOAT32, 2, {64, 8}}, /* x  float32[batch, 8] */
};

static dk_tensor outputs[] = {
    {output_0, sizeof output_0, DK_FLOAT32, 2, {0}}, /* y  float32[batch, 3] */
};

static uint32_t seed = 1;

static uint32_t next_random(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Fill a tensor with floats between -1 and 1, or with integers or booleans 0 and 1. */
static void fill(dk_tensor* tensor) {
    size_t count = (size_t)dk_tensor_bytes(tensor) / dk_dtype_bytes(tensor->dtype);
    size_t index;
    for (index = 0; index < count; ++index) {
        uint32_t bits = next_random();
        double value = (double)bits / 8388608.0 - 1.0;
        switch (tensor->dtype) {
        case DK_FLOAT32:
            ((float*)tensor->data)[index] = (float)value;
            break;
        case DK_FLOAT64:
            ((double*)tensor->data)[index] = value;
            break;
        case DK_FLOAT16: /* from 0.5 to 1 */
            ((uint16_t*)tensor->data)[index] = (uint16_t)(0x3800u | (bits & 0x3ffu));
            break;
        case DK_BFLOAT16: /* from 0.5 to 1 */
            ((uint16_t*)tensor->data)[index] = (uint16_t)(0x3f00u | (bits & 0x7fu));
            break;
        case DK_INT16:
        case DK_UINT16:
            ((uint16_t*)tensor->data)[index] = (uint16_t)(bits & 1u);
            break;
        case DK_INT32:
        case DK_UINT32:
            ((uint32_t*)tensor->data)[index] = bits & 1u;
            break;
        case DK_INT64:
        case DK_UINT64:
            ((uint64_t*)tensor->data)[index] = bits & 1u;
            break;
        case DK_FLOAT8_E4M3FN:
        case DK_FLOAT8_E4M3FNUZ:
        case DK_FLOAT8_E5M2:
        case DK_FLOAT8_E5M2FNUZ: /* small positive numbers */
            ((uint8_t*)tensor->data)[index] = (uint8_t)(0x30u | (bits & 7u));
            break;
        case DK_FLOAT8_E8M0: /* 1 or 2 */
            ((uint8_t*)tensor->data)[index] = (uint8_t)(0x7fu + (bits & 1u));
            break;
        default:
            ((uint8_t*)tensor->data)[index] = (uint8_t)(bits & 1u);
            break;
        }
    }
}

/* Print the shape, the first elements (floats as numbers, others as bytes), and a checksum of all bytes (FNV-1a). */
static void print(const char* name, const dk_tensor* tensor) {
    const unsigned char* bytes = tensor->data;
    size_t size = (size_t)dk_tensor_bytes(tensor);
    uint32_t checksum = 2166136261u;
    size_t index;
    int32_t axis;
    printf("%s %s[", name, dk_dtype_name(tensor->dtype));
    for (axis = 0; axis < tensor->rank; ++axis) {
        printf("%s%ld", axis == 0 ? "" : ", ", (long)tensor->shape[axis]);
    }
    printf("]:");
    for (index = 0; index < 4 && index < size / dk_dtype_bytes(tensor->dtype); ++index) {
        if (tensor->dtype == DK_FLOAT32) {
            printf(" %.6g", (double)((const float*)tensor->data)[index]);
        } else {
            printf(" %02x", bytes[index * dk_dtype_bytes(tensor->dtype)]);
        }
    }
    for (index = 0; index < size; ++index) {
        checksum = (checksum ^ bytes[index]) * 16777619u;
    }
    printf(" ... checksum %08lx\n", (unsigned long)checksum);
}

static dk_status run(void) {
    dk_status status;
    int index;
    for (index = 0; index < MLP_INPUTS; ++index) {
        fill(&inputs[index]);
    }
    status = mlp_init(&model, &mlp_weights, MLP_WEIGHTS_BYTES, arena, sizeof arena);
#ifdef DK_GUARDED
    if (status == DK_OK) {
        extern unsigned char DK_STACK_END[]; /* of the linker script */
        status = dk_guard_stack(&model.base, DK_STACK_END);
    }
#endif
    if (status == DK_OK) {
        status = mlp_run(&model, inputs, outputs);
    }
    if (status != DK_OK) {
        printf("error %d: %s\n", (int)status, mlp_last_error(&model));
        return status;
    }
    for (index = 0; index < MLP_OUTPUTS; ++index) {
        print(mlp_descriptor.outputs[index].name, &outputs[index]);
    }
    return DK_OK;
}

int main(void) {
    if (run() != DK_OK) {
        return 1;
    }
    return 0;
}
