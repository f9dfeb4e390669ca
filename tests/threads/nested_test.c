/* Calls of a model from inside of its own run, where the run hands a loop to its executor. Prints what each gives
   there, then what it gives after the run. */
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "weights.h"

static DK_ALIGNED unsigned char arena[MODEL_ARENA_BYTES];
static float x[MODEL_INPUT_X_BYTES / sizeof(float)], y[MODEL_OUTPUT_Y_BYTES / sizeof(float)];
static model_model model;
static dk_tensor input = {x, sizeof x, DK_FLOAT32, 2, {MODEL_ROWS, MODEL_ROWS}};

static void call_all(const char* when) {
    static float other[sizeof y / sizeof *y];
    dk_tensor output = {other, sizeof other, DK_FLOAT32, 0, {0}};
    model_dims dims;
    printf("%s %d", when, (int)model_run(&model, &input, &output));
    printf(" %d", (int)model_bind(&model, &input, &dims));
    printf(" %d", (int)dk_set_arena(&model.base, arena, sizeof arena));
    printf(" %d %s\n", (int)model_run(&model, NULL, NULL), model_last_error(&model));
}

static void run_loop(dk_executor* self, int64_t extent, int64_t grain, dk_range range, void* context) {
    (void)self;
    (void)grain;
    range(context, 0, extent / 2);
    call_all("inside");
    range(context, extent / 2, extent);
}

int main(void) {
    dk_executor executor = {run_loop};
    dk_tensor output = {y, sizeof y, DK_FLOAT32, 0, {0}};
    static float expected[sizeof y / sizeof *y];
    size_t i;
    for (i = 0; i < sizeof x / sizeof *x; ++i) {
        x[i] = (float)(i % 7) - 3;
    }
    model_init(&model, &model_weights, MODEL_WEIGHTS_BYTES, arena, sizeof arena);
    model_run(&model, &input, &output);
    memcpy(expected, y, sizeof y);
    memset(y, 0, sizeof y);
    model.base.executor = &executor;
    printf("%d ", (int)model_run(&model, &input, &output));
    printf("%s, %d\n", memcmp(y, expected, sizeof y) == 0 ? "same" : "different", model.base.error[0]);
    model.base.executor = NULL;
    call_all("after");
    return 0;
}
