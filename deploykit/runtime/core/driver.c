/* Checked calls of a device's driver. The compile command defines DK_MAX_SCALARS, the most sizes that a kernel takes on
   this class of devices. */
#include "driver.h"

#include <stdint.h>

/* Report a tensor that is larger than the device can bind. */
static dk_status fail_size(dk_model* model, const dk_slice* slice, int64_t most) {
    const dk_status status = dk_fail_capacity(model, slice->name, slice->bytes, most, -1, 0);
    dk_add_text(
        model, " that this GPU binds at once: use smaller inputs, build with bounds of dims, or run without the GPU"
    );
    model->need.bytes = slice->bytes;
    return status;
}

static int countable(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

dk_status dk_require_driver(dk_model* model, const dk_driver* driver) {
    if (driver != NULL) {
        return DK_OK;
    }
    dk_fail_shape(model, "the driver is NULL: set that of the model behind init", NULL);
    return DK_ERROR_USAGE;
}

dk_status dk_check_driver(dk_model* model, const dk_driver* driver, dk_status status) {
    if (status == DK_ERROR_DEVICE) {
        model->error[0] = '\0';
        dk_add_text(model, driver->error == NULL ? "the device failed" : driver->error);
    }
    return status;
}

dk_status dk_upload(dk_model* model, dk_driver* driver, const dk_slice* target, const void* source) {
    if (target->buffer >= DK_BUFFER_KEPT) {
        return DK_OK;
    }
    driver->uploaded += target->bytes;
    return dk_check_driver(model, driver, driver->upload(driver, target, source));
}

dk_status dk_download(dk_model* model, dk_driver* driver, void* target, const dk_slice* source) {
    if (source->buffer >= DK_BUFFER_KEPT) {
        return DK_OK;
    }
    driver->downloaded += source->bytes;
    return dk_check_driver(model, driver, driver->download(driver, target, source));
}

/* Report what is wrong with an input or output, by its number among both. */
static dk_status fail_port(dk_model* model, int32_t port, const char* text) {
    const dk_model_descriptor* descriptor = model->descriptor;
    const int32_t output = port - descriptor->input_count;
    model->error[0] = '\0';
    dk_add_text(model, output < 0 ? "input '" : "output '");
    dk_add_text(model, output < 0 ? descriptor->inputs[port].name : descriptor->outputs[output].name);
    dk_add_text(model, text);
    return DK_ERROR_USAGE;
}

/* Check where the caller has an input or output. */
static dk_status check_port(
    dk_model* model, const dk_driver* driver, int32_t port, const dk_tensor* tensor, const unsigned char* resident
) {
    const int32_t first_output = model->descriptor->input_count;
    const int32_t buffer = driver->kept == NULL ? 0 : driver->kept[port];
    if (buffer == 0) {
        return tensor->bytes == 0 || tensor->data != DK_ON_DEVICE
                   ? DK_OK
                   : fail_port(model, port, "' is on the device: name its buffer in `kept` of the driver");
    }
    if (!resident[port]) {
        return fail_port(model, port, "' cannot stay on the device: the CPU uses it, too");
    }
    for (int32_t i = 0; port >= first_output && i < port; ++i) {
        if (driver->kept[i] == buffer) {
            return fail_port(model, port, "' cannot have the buffer of another input or output");
        }
    }
    return DK_OK;
}

dk_status dk_begin_run(
    dk_model* model, dk_driver* driver, int64_t arena_bytes, const dk_tensor* inputs, const dk_tensor* outputs,
    const unsigned char* resident
) {
    const dk_model_descriptor* descriptor = model->descriptor;
    const int32_t ports = driver->provide == NULL ? 0 : descriptor->input_count + descriptor->output_count;
    dk_status status = driver->restart == NULL ? DK_OK : driver->restart(driver);
    if (status == DK_OK && driver->provide != NULL) {
        status = driver->provide(driver, DK_BUFFER_ARENA, arena_bytes);
    }
    for (int32_t i = 0; status == DK_OK && i < ports; ++i) {
        const int32_t output = i - descriptor->input_count;
        const dk_tensor* tensor = output < 0 ? &inputs[i] : &outputs[output];
        status = check_port(model, driver, i, tensor, resident);
        if (status == DK_OK) {
            status = driver->provide(driver, dk_port_buffer(driver, i), (int64_t)tensor->bytes);
        }
    }
    return dk_check_driver(model, driver, status);
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
        if (slices[i].bytes > driver->binding_bytes) {
            return fail_size(model, &slices[i], driver->binding_bytes);
        }
    }
    if (!countable(invocations)) {
        return dk_fail_shape(model, "{} elements are more than a GPU can count", &invocations);
    }
    return dk_check_driver(
        model, driver, driver->dispatch(driver, kernel, slices, slice_count, narrow, scalar_count, (int32_t)invocations)
    );
}
