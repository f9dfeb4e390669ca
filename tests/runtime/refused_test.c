/* A model that could not start stays refused, with the text of the cause. Prints the statuses. */
#include <stdio.h>

#include "model.h"
#include "weights.h"

static DK_ALIGNED unsigned char arena[NET_ARENA_BYTES + 2 * DK_ALIGNMENT];
static float x[NET_INPUT_X_BYTES / 4];
static float y[NET_OUTPUT_Y_BYTES / 4];
static net_model model;
static dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 2, {2, 32}}};
static dk_tensor outputs[] = {{y, sizeof y, DK_FLOAT32, 2, {0}}};

static void show(const char* call, dk_status status) {
    printf("%s: %d %s\n", call, (int)status, status == DK_OK ? "" : net_last_error(&model));
}

static void start(const void* weights, size_t weights_bytes, void* memory, size_t bytes) {
    show("init", net_init(&model, weights, weights_bytes, memory, bytes));
    show("run", net_run(&model, inputs, outputs));
    show("arena", dk_set_arena(&model.base, arena, sizeof arena));
    show("run", net_run(&model, inputs, outputs));
}

int main(void) {
    show("before init", dk_set_arena(&model.base, arena, sizeof arena));
    start(NULL, 0, NULL, 0);
    start(NULL, NET_WEIGHTS_BYTES, arena, sizeof arena);
    start((const char*)&net_weights + 4, NET_WEIGHTS_BYTES, arena, sizeof arena);
    start(&net_weights, NET_WEIGHTS_BYTES - 1, arena, sizeof arena);
    start(&net_weights, NET_WEIGHTS_BYTES, arena, 4);
    start(&net_weights, NET_WEIGHTS_BYTES, arena + 8, sizeof arena - 8);
    start(&net_weights, NET_WEIGHTS_BYTES, NULL, 0);
    inputs[0].data = arena + DK_ALIGNMENT;
    show("input", net_run(&model, inputs, outputs));
    inputs[0].data = x;
    outputs[0].data = arena;
    show("output", net_run(&model, inputs, outputs));
    outputs[0].data = y;
    show("again", net_run(&model, inputs, outputs));
    printf("checksum: %d\n", dk_crc32(&net_weights, NET_WEIGHTS_BYTES) == NET_WEIGHTS_CRC32);
    printf("of nine digits: %08lx\n", (unsigned long)dk_crc32("123456789", 9));
    return 0;
}
