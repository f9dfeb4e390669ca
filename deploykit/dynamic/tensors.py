"""The annotation of tensors: `Tensor[128]`, `Tensor[4, 64]`; `Tensor[()]` is a single number. `Tensor["n", 64]` has as
many rows as the instance gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np


@dataclass(frozen=True)
class TensorType:
    """float32 tensors of this shape."""

    shape: tuple[int | str, ...]

    def __or__(self, other: object) -> Any:
        return NotImplemented


if TYPE_CHECKING:
    from typing import TypeAlias

    Tensor: TypeAlias = np.ndarray
else:

    class Tensor:
        """A float32 array of NumPy, with its shape: `Tensor[128]`."""

        def __class_getitem__(cls, shape: int | str | tuple[int | str, ...]) -> TensorType:
            return TensorType(shape if isinstance(shape, tuple) else (shape,))
