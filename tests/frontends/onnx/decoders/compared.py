"""Compares a decoder that reads texts in parts with ONNX Runtime, which reads each with the file's own inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from deploykit.frontends.onnx.decoders.importer import Stepping
from tests.language.steps import Steps
from tests.runtimes import Runtime

PAGES = 12


def by_onnxruntime(model: onnx.ModelProto, text: list[int], cut: int) -> np.ndarray:
    """The scores after each token of a text that is read up to `cut`, and then from there."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    past = {
        port.name: np.zeros((1, port.shape[1], 0, port.shape[3]), np.float16 if "16" in port.type else np.float32)
        for port in session.get_inputs()
        if port.name.startswith("past")
    }
    names = {port.name for port in session.get_inputs()}
    scores = []
    for start, end in ((0, cut), (cut, len(text))):
        numbers = np.arange(start, end)
        given = {
            "input_ids": np.array([text[start:end]], np.int64),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": numbers[None],
            "cache_position": numbers,
            "use_cache_branch": np.array([True]),
        }
        outputs = [port.name for port in session.get_outputs()]
        found = dict(
            zip(outputs, session.run(outputs, {n: a for n, a in given.items() if n in names} | past), strict=True)
        )
        past = dict(zip(past, (found[name.replace("past_key_values", "present")] for name in past), strict=True))
        scores.append(found["logits"][0])
    return np.concatenate(scores)


def check(runtime: Runtime, model: onnx.ModelProto, found: Stepping, tolerance: float) -> None:
    """Texts in parts of random lengths, several in a step."""
    random = np.random.default_rng(4)
    waiting = [random.integers(0, found.words, count).tolist() for count in (33, 20, 7, 45)]
    going: dict[int, tuple[list[int], np.ndarray, int]] = {}
    with runtime.session(found.model) as session:
        session.reset({"pages": PAGES})
        run = Steps(session.run, PAGES, blocks=-(-found.context // 32), window=found.window)
        while waiting or going:
            while waiting and len(going) < 3:
                text = waiting.pop()
                going[run.begin()] = (text, by_onnxruntime(model, text, len(text) // 2), 0)
            parts = [
                (number, text[start : start + int(random.integers(1, 6))]) for number, (text, _, start) in going.items()
            ]
            for (number, part), got in zip(parts, run(*parts), strict=True):
                text, expected, start = going.pop(number)
                np.testing.assert_allclose(got, expected[start : start + len(part)], rtol=0, atol=tolerance)
                if start + len(part) < len(text):
                    going[number] = (text, expected, start + len(part))
                else:
                    run.pages.end(number)
    assert run.pages.unused == run.pages.count
