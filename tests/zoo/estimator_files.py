"""The stored exports of `tests.zoo.estimators`: `python -m tests.zoo.estimator_files [PART OF A NAME]` writes them.

    NAME.onnx.xz   the model as skl2onnx wrote it
    NAME.json      the name of the case, the inputs, and what ONNX Runtime answers for all rows and for the first one

It needs scikit-learn and skl2onnx; reading the files does not. ONNX Runtime changes the case of strings only
where there is a locale `en_US.UTF-8`.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.zoo.estimator_data import GIVEN, ROWS, Case, table, target
from tests.zoo.estimators import groups

BATCHES = (GIVEN, 1)
"""The number of rows in each run."""

FOLDER = Path(__file__).with_name("estimators")


@dataclass(frozen=True)
class Export:
    """A stored case, the inputs of each run, and the outputs."""

    group: str
    name: str
    model: onnx.ModelProto
    runs: tuple[Mapping[str, np.ndarray], ...]
    answers: tuple[Mapping[str, Any], ...]


def names() -> list[str]:
    """The names of the files."""
    return sorted(path.name.removesuffix(".onnx.xz") for path in FOLDER.glob("*.onnx.xz"))


def read(file: str) -> Export:
    document = json.loads((FOLDER / f"{file}.json").read_text())
    model = lzma.decompress((FOLDER / f"{file}.onnx.xz").read_bytes())
    inputs = {key: _array(value) for key, value in document["inputs"].items()}
    runs = tuple({key: array[:count] for key, array in inputs.items()} for count in BATCHES)
    answers = tuple({key: _answer(value) for key, value in answer.items()} for answer in document["answers"])
    return Export(document["group"], document["name"], onnx.load_from_string(model), runs, answers)


def file_name(case: str) -> str:
    """The name of a case's files."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "-", case).lower()


def export(group: str, name: str, case: Case) -> None:
    """Fit a case, convert it, and store it with the answers of ONNX Runtime."""
    import onnxruntime
    import skl2onnx

    data, given = table(case.data, ROWS, 0), table(case.data, GIVEN, 1)
    fitted = case.make().fit(*_arguments(case, data))
    final = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted
    options = None if case.options is None else {id(final): dict(case.options)}
    types = [(key, _type(array)) for key, array in data.items()]
    model = skl2onnx.convert_sklearn(
        fitted, name, types, options=options, target_opset={"": case.opset, "ai.onnx.ml": 3}
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ports = [port.name for port in session.get_outputs()]
    answers = []
    for count in BATCHES:
        results = session.run(None, {key: array[:count] for key, array in given.items()})
        answers.append(_documents(dict(zip(ports, results, strict=True))))
    document = {"group": group, "name": name, "inputs": _documents(given), "answers": answers}
    FOLDER.mkdir(exist_ok=True)
    packed = lzma.compress(model.SerializeToString(), preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / f"{file_name(name)}.onnx.xz").write_bytes(packed)
    (FOLDER / f"{file_name(name)}.json").write_text(json.dumps(document, ensure_ascii=False) + "\n")


def _arguments(case: Case, data: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
    """What the estimator is fitted to."""
    if case.data == "columns":
        rows = np.concatenate([array.astype(object) for array in data.values()], axis=1)
    else:
        rows = data["x"][:, 0] if case.data == "texts" else data["x"]
    return (rows,) if case.target is None else (rows, target(case.target, data))


def _type(array: np.ndarray) -> Any:
    from skl2onnx.common import data_types

    kinds = {"f4": "Float", "f8": "Double", "i8": "Int64"}
    kind = kinds.get(array.dtype.str[1:], "String")
    return getattr(data_types, f"{kind}TensorType")([None, *array.shape[1:]])


def _documents(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays, and lists of arrays, as JSON. The maps of a classifier are left out."""
    arrays = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    lists = {
        key: value for key, value in values.items() if isinstance(value, list) and isinstance(value[0], np.ndarray)
    }
    found = {key: _document(array) for key, array in arrays.items()}
    return found | {key: [_document(array) for array in items] for key, items in lists.items()}


def _document(array: np.ndarray) -> dict[str, Any]:
    dtype = "str" if array.dtype == object else str(array.dtype)
    return {"dtype": dtype, "shape": array.shape, "values": [_value(value) for value in array.reshape(-1).tolist()]}


def _value(value: Any) -> Any:
    return value if not isinstance(value, float) else float(f"{value:.9g}") if np.isfinite(value) else str(value)


def _answer(document: Any) -> Any:
    return [_array(item) for item in document] if isinstance(document, list) else _array(document)


def _array(document: Mapping[str, Any]) -> np.ndarray:
    dtype = object if document["dtype"] == "str" else document["dtype"]
    named = dtype is not object  # NaN and infinities have names
    values = [float(value) if named and isinstance(value, str) else value for value in document["values"]]
    return np.array(values, dtype).reshape(document["shape"])


def main(part: str) -> None:
    warnings.simplefilter("ignore")
    for group, cases in groups().items():
        for name, case in cases.items():
            if part in name:
                export(group, name, case)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
