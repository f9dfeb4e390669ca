/* A run that changes states, in slices: prints what a whole run gives behind each step, and after set_state. */
#include <stdio.h>

#include "model.h"
#include "weights.h"

enum { STREAMS = 2, MOST = 20 };

static DK_ALIGNED unsigned char arena[MEAN_UPDATE_ARENA_BYTES + 1], state[MEAN_UPDATE_STATE_BYTES + 1];
static mean_update_model model;
static float x[STREAMS * 6], samples;

int main(void) {
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 2, {STREAMS, 6}}};
    dk_tensor outputs[] = {{&samples, sizeof samples, DK_FLOAT32, 0, {0}}};
    mean_update_dims dims = {STREAMS};
    dk_status status = DK_PENDING;
    int done, next;
    for (done = 1; status == DK_PENDING && done < MOST; ++done) {
        (void)mean_update_init(&model, &mean_weights, MEAN_UPDATE_WEIGHTS_BYTES, arena, sizeof arena);
        (void)mean_update_reset_state(&dims, state, sizeof state);
        (void)mean_update_set_state(&model, state, sizeof state);
        for (next = 0; next < done; ++next) {
            status = mean_update_run_steps(&model, inputs, outputs, 1);
        }
        printf("%d steps: %d, run: %d", done, (int)status, (int)mean_update_run(&model, inputs, outputs));
        printf(" %s", mean_update_last_error(&model));
        (void)mean_update_set_state(&model, state, sizeof state);
        printf("; run after set_state: %d\n", (int)mean_update_run(&model, inputs, outputs));
    }
    return 0;
}
