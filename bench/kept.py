"""Times a loop that hands the output of a model on GPUs to its next run, as an array and kept on the device.

    python -m bench.kept

The model is elementwise, so the loop is mostly transfers. Milliseconds are means over 20 steps; the fastest of five
loops counts, and the loops of both kinds take turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters

TEXT = """<ir_version: 9, opset_import: ["": 20]>
filter (float[n, 1024] h) => (float[n, 1024] g) { a = Mul(h, h) g = Sqrt(a) }"""
ROWS = (1, 64, 1024, 4096)
STEPS, LOOPS = 20, 5


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "filter"
        devices = [device for device in CODE if adapters(device)]
        deploykit.build(onnx.parser.parse_model(TEXT), output=folder, devices=devices)
        for device in devices:
            with deploykit.open(folder, device=device) as session:
                for rows in ROWS:
                    array, kept = milliseconds(session, rows)
                    print(f"{device}  {4 * rows} kB  array {array:.3f} ms  kept {kept:.3f} ms  {array / kept:.1f} x")


def milliseconds(session: deploykit.Session, rows: int) -> tuple[float, float]:
    """The time of a step of both kinds of loops."""
    best = [float("inf")] * 2
    for _ in range(LOOPS):
        for kind, keep in enumerate(([], ["g"])):
            value: Any = np.full((rows, 1024), 0.5, np.float32)
            value = session.run({"h": value}, keep)["g"]
            start = time.perf_counter()
            for _ in range(STEPS):
                value = session.run({"h": value}, keep)["g"]
            best[kind] = min(best[kind], 1e3 * (time.perf_counter() - start) / STEPS)
    return best[0], best[1]


if __name__ == "__main__":
    main()
