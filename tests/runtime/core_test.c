/* What the portable core reports, for a model that is written by hand. Prints each status and text. */
#include <stdio.h>
#include <string.h>

#include "deploykit.h"

static const dk_axis x_axes[] = {{0, 0, "n"}, {DK_AXIS_FIXED, 3, "3"}};
static const dk_axis z_axes[] = {{0, 0, "n"}};
static const dk_port inputs_of_model[] = {{"x", DK_FLOAT32, 2, x_axes}, {"z", DK_INT64, 1, z_axes}};
static const dk_port outputs_of_model[] = {{"y", DK_FLOAT64, 1, z_axes}};
static const dk_dim dims_of_model[] = {{"n", 2, 5, NULL}, {"room", 1, -1, "things"}};
static const dk_model_descriptor descriptor = {
    "m", 2, 1, 2, inputs_of_model, outputs_of_model, dims_of_model, 64, 0, sizeof(dk_model) + 2 * sizeof(int64_t)
};

static DK_ALIGNED unsigned char memory[256];
static DK_ALIGNED unsigned char arena[256];
static dk_model model;

static void show(dk_status status) {
    printf("%d %s\n", (int)status, status == DK_OK ? "" : model.error);
}

static void bind(int64_t n, int64_t z, int64_t columns) {
    dk_tensor inputs[2] = {
        {memory, sizeof memory, DK_FLOAT32, 2, {n, columns}},
        {memory, sizeof memory, DK_INT64, 1, {z}},
    };
    int64_t dims[2] = {0, 7};
    show(dk_bind(&model, inputs, dims));
    printf("  n=%ld room=%ld\n", (long)dims[0], (long)dims[1]);
}

static void bind_broken_inputs(void) {
    dk_tensor inputs[2] = {{memory, 23, DK_FLOAT32, 2, {2, 3}}, {memory, sizeof memory, DK_INT64, 1, {2}}};
    int64_t dims[2] = {0, 1};
    show(dk_bind(&model, inputs, dims));
    inputs[0].bytes = 24;
    show(dk_bind(&model, inputs, dims));
    inputs[0].data = memory + 2;
    show(dk_bind(&model, inputs, dims));
    inputs[0].data = NULL;
    show(dk_bind(&model, inputs, dims));
    inputs[0].data = memory;
    inputs[0].dtype = DK_INT32;
    show(dk_bind(&model, inputs, dims));
    inputs[0].dtype = (dk_dtype)99;
    show(dk_bind(&model, inputs, dims));
    inputs[0].dtype = DK_FLOAT32;
    inputs[0].rank = 1;
    show(dk_bind(&model, inputs, dims));
    inputs[0].rank = 2;
    inputs[0].shape[1] = -3;
    show(dk_bind(&model, inputs, dims));
    inputs[0].shape[0] = DK_MAX_EXTENT;
    inputs[0].shape[1] = DK_MAX_EXTENT;
    show(dk_bind(&model, inputs, dims));
    dims[1] = 0;
    show(dk_bind(&model, inputs, dims));
}

static void fail(void) {
    char text[2 * DK_ERROR_TEXT];
    const int64_t values[] = {INT64_MIN, INT64_MAX};
    const dk_tensor output = {memory, 16, DK_FLOAT64, 1, {3}};
    show(dk_fail_shape(&model, "from {} to {}, and { }", values));
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    dk_fail_shape(&model, text, NULL);
    printf("%lu of %d\n", (unsigned long)strlen(model.error), DK_ERROR_TEXT);
    show(dk_check_data(&model, "count", -1, 0, 9));
    show(dk_check_data(&model, "count", -1, 0, INT64_MAX));
    show(dk_check_data(&model, "count", 10, INT64_MIN, 9));
    show(dk_check_data(&model, "count", 9, 0, 9));
    show(dk_check_arena(&model, 256));
    show(dk_check_arena(&model, 257));
    show(dk_check_arena(&model, -1));
    show(dk_check_output(&model, &output, 0, 16));
    show(dk_check_output(&model, &output, 0, 24));
    printf("  bytes=%ld output=%d dim=%d\n", (long)model.need.bytes, model.need.output, model.need.dim);
    show(dk_fail_capacity(&model, "things", 100, 64, 1, 8));
    printf("  output=%d dim=%d extent=%ld\n", model.need.output, model.need.dim, (long)model.need.extent);
    show(dk_fail_capacity(&model, "things", INT64_MAX, 64, 1, 8));
    show(dk_fail_capacity(&model, "things", 5, 0, 1, 8));
    show(dk_fail_capacity(&model, "things", 5, 4, -1, 0));
}

static void note(void* context, int64_t begin, int64_t end) {
    printf("  %s %ld..%ld\n", (const char*)context, (long)begin, (long)end);
}

static void call_back(dk_executor* self, int64_t extent, int64_t grain, dk_range range, void* context) {
    (void)self;
    printf("%ld iterations, at least %ld at once:\n", (long)extent, (long)grain);
    range(context, 0, extent);
}

static void parallel_for(void) {
    dk_executor executor = {call_back};
    char here[] = "here", there[] = "there";
    dk_parallel_for(&model, 100, 0, note, here);
    model.executor = &executor;
    dk_parallel_for(&model, 100, 0, note, there);
    dk_parallel_for(&model, 1, 0, note, here);
    dk_parallel_for(&model, 0, 0, note, here);
    dk_parallel_for(&model, 100, 2 * DK_PIECE_EFFORT - 1, note, here);
    dk_parallel_for(&model, 100, 2 * DK_PIECE_EFFORT, note, there);
    dk_parallel_for(&model, 100, 20 * DK_PIECE_EFFORT, note, there);
    dk_parallel_for(&model, 100, 1e30, note, there);
    model.executor = NULL;
}

static uint64_t present;

static uint64_t present_of(uint64_t asked) {
    return present & asked;
}

static void choose_level(void) {
    static const dk_level levels[] = {{"large", 7}, {"middle", 3}, {"small", 1}};
    for (present = 8; present-- > 0;) {
        show(dk_choose_level(&model, levels, 3, present_of));
        printf("  %lu: level %d\n", (unsigned long)present, (int)model.level);
    }
}

int main(void) {
    show(dk_init(&model, &descriptor, memory, 63, arena, sizeof arena));
    show(dk_init(&model, &descriptor, NULL, 64, arena, sizeof arena));
    show(dk_init(&model, &descriptor, memory + 1, 64, arena, sizeof arena));
    show(dk_init(&model, &descriptor, memory, 64, arena + 8, 64));
    show(dk_init(&model, &descriptor, memory, 64, arena, sizeof arena));
    bind(2, 2, 3);
    bind(5, 5, 3);
    bind(1, 1, 3);
    bind(6, 6, 3);
    bind(2, 3, 3);
    bind(2, 2, 4);
    bind_broken_inputs();
    fail();
    parallel_for();
    choose_level();
    return 0;
}
