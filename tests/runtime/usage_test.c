/* Invalid calls: each gives a status and never crashes. Prints the statuses. */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "weights.h"

static DK_ALIGNED unsigned char arena[4096];
static float x[8];
static float y[8];

static void show(const char* call, dk_status status, const model_model* model) {
    printf("%s: %d %s\n", call, (int)status, status == DK_OK ? "" : model_last_error(model));
}

int main(void) {
    static model_model blank;
    model_model model, noise;
    model_dims dims = {0};
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 1, {2}}};
    dk_tensor outputs[] = {{y, sizeof y, DK_FLOAT32, 1, {0}}};
    memset(&noise, 0xa5, sizeof noise);
    show("init of NULL", model_init(NULL, &model_weights, MODEL_WEIGHTS_BYTES, arena, sizeof arena), NULL);
    show("arena of NULL", dk_set_arena(NULL, arena, sizeof arena), NULL);
    show("run of NULL", model_run(NULL, inputs, outputs), NULL);
    show("run before init", model_run(&blank, inputs, outputs), &blank);
    show("run of noise", model_run(&noise, inputs, outputs), &noise);
    show("bind before init", model_bind(&blank, inputs, &dims), &blank);
    show("bind of NULL", model_bind(NULL, inputs, &dims), NULL);
    show("init", model_init(&model, &model_weights, MODEL_WEIGHTS_BYTES, arena, sizeof arena), &model);
    show("run without inputs", model_run(&model, NULL, outputs), &model);
    show("run without outputs", model_run(&model, inputs, NULL), &model);
    show("bind without inputs", model_bind(&model, NULL, &dims), &model);
    show("bind without dims", model_bind(&model, inputs, NULL), &model);
    show("shape without dims", model_output_shape(NULL, 0, outputs), &model);
    show("shape without a tensor", model_output_shape(&dims, 0, NULL), &model);
    printf("arena of no dims: %d\n", model_arena_bytes(NULL) == INT64_MAX);
    for (dims.n = -1; dims.n < 10; ++dims.n) {
        dk_status status = model_output_shape(&dims, 0, outputs);
        printf("n = %ld: %d, %d\n", (long)dims.n, model_arena_bytes(&dims) == INT64_MAX, (int)status);
    }
    dims.n = INT64_MIN;
    printf("%d\n", model_arena_bytes(&dims) == INT64_MAX);
    dims.n = INT64_MAX;
    printf("%d\n", model_arena_bytes(&dims) == INT64_MAX);
    dims.n = 2;
    printf("an output that there is not: %d\n", (int)model_output_shape(&dims, 1, outputs));
    show("run", model_run(&model, inputs, outputs), &model);
    return 0;
}
