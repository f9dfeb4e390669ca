/* A run in slices: prints what each call gives. Compiled with -DDK_SLICED and -DDK_PROFILE. */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "weights.h"

enum { BATCH = 2 };

static DK_ALIGNED unsigned char arena[MLP_ARENA_BYTES + 1], other[MLP_ARENA_BYTES + 1];
static mlp_model model;
static float x[BATCH * 8], y[BATCH * 3], whole[BATCH * 3];
static int32_t steps, ends_before = -1;

int32_t dk_profile_step(const dk_model* base, int32_t step) {
    steps += base == &model.base && step >= 0;
    return step == ends_before;
}

static void show(const char* call, dk_status status) {
    printf("%s: %d %s", call, (int)status, status == DK_OK || status == DK_PENDING ? "" : mlp_last_error(&model));
    printf("(%d)\n", (int)steps);
    steps = 0;
}

int main(void) {
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 2, {BATCH, 8}}};
    dk_tensor outputs[] = {{y, sizeof y, DK_FLOAT32, 2, {0}}};
    dk_tensor expected[] = {{whole, sizeof whole, DK_FLOAT32, 2, {0}}};
    int index;
    for (index = 0; index < BATCH * 8; ++index) {
        x[index] = (float)(index % 5) - 1.5f;
    }
    show("slice before init", mlp_run_steps(&model, inputs, outputs, 1));
    show("init", mlp_init(&model, &mlp_weights, MLP_WEIGHTS_BYTES, arena, sizeof arena));
    show("run", mlp_run(&model, inputs, expected));
    show("first", mlp_run_steps(&model, inputs, outputs, 1));
    show("second", mlp_run_steps(&model, inputs, outputs, 1));
    memset(y, 0xff, sizeof y);
    show("third", mlp_run_steps(&model, inputs, outputs, 1));
    printf("same: %d, rows: %d\n", memcmp(y, whole, sizeof y) == 0, (int)outputs[0].shape[0]);
    show("most", mlp_run_steps(&model, inputs, outputs, INT32_MAX));
    show("two", mlp_run_steps(&model, inputs, outputs, 2));
    show("no steps", mlp_run_steps(&model, inputs, outputs, 0));
    show("no inputs", mlp_run_steps(&model, NULL, outputs, 1));
    inputs[0].shape[0] = 1;
    show("other sizes", mlp_run_steps(&model, inputs, outputs, 1));
    inputs[0].shape[0] = BATCH;
    show("other outputs", mlp_run_steps(&model, inputs, expected, 1));
    show("another arena", dk_set_arena(&model.base, other, sizeof other));
    show("in another arena", mlp_run_steps(&model, inputs, outputs, 1));
    show("the arena", dk_set_arena(&model.base, arena, sizeof arena));
    show("goes on", mlp_run_steps(&model, inputs, outputs, 2));
    printf("same: %d\n", memcmp(y, whole, sizeof y) == 0);
    show("begins", mlp_run_steps(&model, inputs, outputs, 1));
    show("run between", mlp_run(&model, inputs, outputs));
    show("begins again", mlp_run_steps(&model, inputs, outputs, 2));
    ends_before = 2;
    show("ended", mlp_run_steps(&model, inputs, outputs, 2));
    show("run ended", mlp_run(&model, inputs, outputs));
    ends_before = -1;
    memset(y, 0xff, sizeof y);
    show("after the end", mlp_run_steps(&model, inputs, outputs, 3));
    printf("same: %d\n", memcmp(y, whole, sizeof y) == 0);
    inputs[0].dtype = DK_INT32;
    show("a wrong dtype", mlp_run_steps(&model, inputs, outputs, 3));
    return 0;
}
