"""The devices of native machines beside the CPU, and where an artifact has what they need."""

from __future__ import annotations

from collections.abc import Iterable

CODE = {"vulkan": "kernels.spv", "opencl": "kernels.cl"}
"""The file with the code of the kernels, by the name of the device, which is also that of its driver."""


def names_of(devices: Iterable[str]) -> tuple[str, ...]:
    """The names of devices that may have a class, such as `vulkan:mobile`, each once."""
    return tuple(dict.fromkeys(device.partition(":")[0] for device in devices))


ON_GPU = "_on_gpu"
"""What follows the prefix of a model in the names of functions that run it on such a device."""
