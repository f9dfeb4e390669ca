"""`DeviceArray`: an output that stays where the model runs, so that a later run can take it as an input.

On a GPU it is in the memory of the device, and handing it on copies nothing. A session on the CPU gives one that is in
host memory, so the same program runs there. So does a session on a GPU where the CPU uses the value, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.basics.dtypes import LogicalDtype, from_storage
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from deploykit.engines.native.held import Held


class DeviceArray:
    """A dense array that a run left on its device (`keep`). Runs never change it.

    Runs of the same session, and of other functions of its model, take it as an input. Its memory is released when the
    last reference to it goes, or by `free`."""

    def __init__(self, value: np.ndarray | Held, dtype: LogicalDtype) -> None:
        """`value` has the elements as they are stored in memory."""
        self._value: np.ndarray | Held | None = value
        self._logical = dtype
        self.shape: tuple[int, ...] = value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements, as `numpy` gives them."""
        return self._logical.array

    @property
    def on_device(self) -> bool:
        """Whether it is in the memory of a device other than the CPU."""
        return not isinstance(self._stored, np.ndarray)

    @property
    def value(self) -> np.ndarray | Held:
        """The value as an input of a run. Raises `UsageError` after `free`."""
        stored = self._stored
        return from_storage(stored, self._logical) if isinstance(stored, np.ndarray) else stored

    def numpy(self) -> np.ndarray:
        """A copy as an array in host memory.

        Raises `UsageError` after `free`, and on a device also after the session was closed; `DeviceError` if the device
        fails."""
        stored = self._stored
        return from_storage(stored.copy() if isinstance(stored, np.ndarray) else stored.read(), self._logical)

    def free(self) -> None:
        """Release the memory now. The array cannot be used afterwards."""
        if self._value is not None and not isinstance(self._value, np.ndarray):
            self._value.release()
        self._value = None

    @property
    def _stored(self) -> np.ndarray | Held:
        if self._value is None:
            raise UsageError("this DeviceArray was freed: keep the output of another run")
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """NumPy's protocol: the same as `numpy`."""
        if copy is False:
            raise ValueError("the array of a DeviceArray is a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"
