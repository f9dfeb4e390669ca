"""Writes the outputs of a run to an .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.basics.whole_file import whole_file
from deploykit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from deploykit.sessions.ragged_array import Ragged


def save(path: Path, outputs: Mapping[str, np.ndarray | Ragged | None]) -> None:
    """Write the file whole or not at all. Strings have NumPy's dtype `str`; absent outputs are left out. The lengths of
    a ragged output are an array with `_lengths` behind its name."""
    import numpy as np

    from deploykit.sessions.ragged_array import Ragged

    arrays: dict[str, np.ndarray | None] = {}
    for name, value in outputs.items():
        arrays[name] = value.values if isinstance(value, Ragged) else value
        if isinstance(value, Ragged):
            if f"{name}_lengths" in outputs:
                raise UsageError(f"cannot write {path}: '{name}_lengths' is an output beside the ragged '{name}'")
            arrays[f"{name}_lengths"] = value.lengths
    if path.suffix != ".npz":
        raise UsageError(f"cannot write {path}: outputs are written as .npz")
    with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
        for key, value in arrays.items():
            if value is None:
                continue
            array = _as_text(key, value) if value.dtype == object else value
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _as_text(name: str, array: np.ndarray) -> np.ndarray:
    """Strings as NumPy stores them in files. Raises `UsageError` for strings that end in NUL, which NumPy drops."""
    text = array.astype(str)
    if (text.astype(object) != array).any():
        raise UsageError(f"output '{name}' has strings that end in NUL, which .npz files do not keep: use --json")
    return text
