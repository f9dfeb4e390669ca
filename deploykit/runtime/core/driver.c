/* Calls of a device's driver, checked. */
#include "driver.h"

#include <stdint.h>
#include <string.h>

static int countable(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

dk_status dk_check_driver(dk_model* model, dk_status status) {
    if (status == DK_ERROR_DEVICE) {
        static const char text[] = "the device failed";
        memcpy(model->error, text, sizeof text);
    }
    return status;
}

dk_status dk_dispatch(
    dk_model* model, dk_driver* driver, int32_t kernel, const dk_slice* slices, int32_t slice_count,
    const int64_t* scalars, int32_t scalar_count, int64_t invocations
) {
    int32_t narrow[DK_MAX_SCALARS];
    if (invocations <= 0) {
        return DK_OK;
    }
    for (int32_t i = 0; i < scalar_count; ++i) {
        if (!countable(scalars[i])) {
            return dk_fail_shape(model, "a size of {} is more than a GPU can count", &scalars[i]);
        }
        narrow[i] = (int32_t)scalars[i];
    }
    for (int32_t i = 0; i < slice_count; ++i) {
        if (!countable(slices[i].bytes)) {
            return dk_fail_shape(model, "a tensor of {} bytes is more than a GPU can count", &slices[i].bytes);
        }
    }
    if (!countable(invocations)) {
        return dk_fail_shape(model, "{} elements are more than a GPU can count", &invocations);
    }
    return dk_check_driver(
        model, driver->dispatch(driver, kernel, slices, slice_count, narrow, scalar_count, (int32_t)invocations)
    );
}
