/* Runs a model for a GPU without a driver, then with one that does nothing. Prints the results. */
#include <stdio.h>
#include <string.h>

#include "model.h"

static DK_ALIGNED unsigned char arena[4096];

static dk_status dispatch(
    dk_driver* self, int32_t kernel, const dk_slice* slices, int32_t slice_count, const int32_t* scalars,
    int32_t scalar_count, int32_t invocations
) {
    (void)self, (void)slices, (void)slice_count, (void)scalars, (void)scalar_count;
    printf("kernel %d, %d invocations\n", (int)kernel, (int)invocations);
    return DK_OK;
}

static dk_status copy(dk_driver* self, const dk_slice* target, int64_t offset, const dk_slice* source) {
    (void)self, (void)target, (void)offset, (void)source;
    return DK_OK;
}

static dk_status upload(dk_driver* self, const dk_slice* target, const void* source) {
    (void)self, (void)target, (void)source;
    return DK_OK;
}

static dk_status download(dk_driver* self, void* target, const dk_slice* source) {
    (void)self, (void)target, (void)source;
    return DK_OK;
}

static dk_status wait(dk_driver* self) {
    (void)self;
    return DK_OK;
}

int main(void) {
    static float x[8], y[8];
    dk_driver driver = {1 << 20, NULL, dispatch, copy, upload, download, wait, NULL, NULL, NULL, 0, 0};
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 1, {8}}};
    dk_tensor outputs[] = {{y, sizeof y, DK_FLOAT32, 1, {0}}};
    model_model model;
    memset(&model, 0xa5, sizeof model);
    printf("init: %d\n", (int)model_init(&model, NULL, 0, arena, sizeof arena));
    printf("run: %d %s\n", (int)model_run(&model, inputs, outputs), model_last_error(&model));
    model.driver = &driver;
    printf("run: %d\n", (int)model_run(&model, inputs, outputs));
    return 0;
}
