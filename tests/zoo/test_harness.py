"""The parts of the zoo: the judge, work with limits, the list of cases, and the page."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.runtimes import RUNTIMES
from tests.zoo import __main__ as main
from tests.zoo import forked, page
from tests.zoo.architectures import CASES
from tests.zoo.case import ROUNDS, SIZES, Input
from tests.zoo.check import largest, summary
from tests.zoo.judge import verdict
from tests.zoo.results import ROOT, TARGETS, Result, exceptions, read, store

ONES = np.ones((2, 3), np.float32)


def test_there_are_enough_architectures() -> None:
    names = {name.removesuffix("-past").removesuffix("-static") for name in CASES}
    assert len(names) >= 120
    assert {case.family for case in CASES.values()} >= {
        "text",
        "vision",
        "audio",
        "multimodal",
        "time series",
        "decoder",
    }
    forms = {case.form for case in CASES.values()}
    assert forms == {"plain", "past", "static"}


def test_every_case_has_sizes_for_its_dims() -> None:
    for case in CASES.values():
        for number in range(ROUNDS + 1):
            arrays = case.samples(number)
            assert all(array.size for array in arrays.values()), case.name
    for name, sizes in SIZES.items():
        assert len(sizes) == ROUNDS + 1, name


def test_samples_are_the_same_every_time() -> None:
    one = Input("x", ("batch", "past+seq"))
    arrays = [one.sample({"batch": 2, "past": 3, "seq": 4}, np.random.default_rng(1)) for _ in range(2)]
    assert arrays[0].shape == (2, 7)
    np.testing.assert_array_equal(*arrays)


def test_masks_begin_with_ones() -> None:
    mask = Input("mask", ("batch", "seq"), "mask").sample({"batch": 9, "seq": 6}, np.random.default_rng(0))
    assert mask[:, 0].all()
    assert (np.diff(mask, axis=-1) <= 0).all()


@pytest.mark.parametrize(
    ("runtime", "exact", "fault", "judge"),
    [
        (ONES, ONES, False, "onnxruntime"),
        (ONES, None, False, "onnxruntime"),
        (ONES, ONES * 2, False, "onnxruntime"),  # the exporter changed the model; the file decides
        (ONES * 2, ONES, False, "pytorch"),  # ONNX Runtime is wrong
        (None, ONES, False, "pytorch"),
        (ONES * 2, ONES * 3, True, "onnxruntime"),
        (ONES * 2, None, True, "onnxruntime"),
        (None, ONES * 2, True, "pytorch"),
        (np.ones((3, 2), np.float32), None, True, "onnxruntime"),
        (ONES * np.nan, None, True, "onnxruntime"),
        (None, None, True, "nothing"),
    ],
)
def test_who_decides(runtime: np.ndarray | None, exact: np.ndarray | None, fault: bool, judge: str) -> None:
    found = verdict("y", ONES, runtime, exact, exact)
    assert (found.fault is not None, found.judge) == (fault, judge)


def test_an_output_may_be_off_by_what_onnxruntime_is() -> None:
    """An error of three times that of ONNX Runtime counts as rounding if ONNX Runtime is beyond the tolerance
    itself."""
    assert verdict("y", ONES * (1 + 6e-4), ONES * (1 - 2e-4), None, ONES).fault is None
    assert verdict("y", ONES * (1 + 1e-2), ONES * (1 - 2e-4), None, ONES).fault is not None


def test_a_case_is_wrong_when_one_output_is() -> None:
    verdicts = [verdict("y", ONES, ONES, None, None), verdict("z", ONES, ONES * 2, None, None)]
    assert summary(verdicts)["status"] == "wrong"
    assert summary(verdicts[:1])["status"] == "right"
    assert summary([])["status"] == "unjudged"


def test_work_returns_what_it_finds(tmp_path: Path) -> None:
    assert forked.run(lambda: {"a": 1}, tmp_path / "log", forked.Limits(20)) == {"a": 1}


def test_exceptions_are_results(tmp_path: Path) -> None:
    def work() -> dict[str, object]:
        raise KeyError("lost")

    found = forked.run(work, tmp_path / "log", forked.Limits(20))
    assert (found["kind"], found["error"]) == ("KeyError", "'lost'")
    assert "Traceback" in (tmp_path / "log").read_text()


def test_time_is_limited(tmp_path: Path) -> None:
    began = time.monotonic()
    found = forked.run(lambda: time.sleep(60) or {}, tmp_path / "log", forked.Limits(1))
    assert found["kind"] == "Timeout"
    assert time.monotonic() - began < 30


def test_memory_is_limited(tmp_path: Path) -> None:
    found = forked.run(lambda: {"n": len(bytearray(4 << 30))}, tmp_path / "log", forked.Limits(60, 1 << 30))
    assert found["kind"] == "MemoryError"


def test_a_signal_is_a_result(tmp_path: Path) -> None:
    found = forked.run(lambda: os.kill(os.getpid(), signal.SIGKILL) or {}, tmp_path / "log", forked.Limits(20))
    assert found["kind"] == "Killed"
    assert "SIGKILL" in found["error"]


def test_the_page_shows_faults_and_measurements() -> None:
    right = {"status": "right", "error_max": 3e-7, "ratio": 2.04, "build": 4.44}
    wrong = {"status": "wrong", "error": "logits off by 0.3 of the scale"}
    results = {
        "bert.dynamo": Result("bert.dynamo", {"dims": ["batch", "seq"]}, {"host": right, "wasm": wrong}),
        "gpt2.legacy": Result("gpt2.legacy", {"error": "cannot be traced"}, {}),
    }
    text = page.text(results)
    assert "| bert | dynamo | batch, seq | ✓ |  |  | **wrong** |  |  |  | 3e-07 | 2.0 | 4.4 s |" in text
    assert "- bert.dynamo wasm: wrong: logits off by 0.3 of the scale" in text
    assert "- gpt2.legacy: cannot be traced" in text
    assert "| host | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in text


def test_a_run_adds_to_what_others_found(tmp_path: Path) -> None:
    stored, folder = tmp_path / "measured.json", tmp_path / "zoo"
    right = {"status": "right", "ratio": 2.5}
    crash = {"status": "crash", "error": f"cannot load {ROOT}/build/zoo/m " + "x" * 9999}
    elsewhere = {
        "bert.dynamo": Result("bert.dynamo", {"dims": ["seq"], "seconds": 3}, {"host": crash, "wasm": right}),
        "vit.dynamo": Result("vit.dynamo", {"dims": []}, {"host": right}),
        "vit.legacy": Result("vit.legacy", {"error": "no"}, {}),
    }
    store(elsewhere, stored)
    (folder / "bert.dynamo").mkdir(parents=True)
    (folder / "bert.dynamo" / "export.json").write_text('{"dims": ["batch"]}')
    (folder / "bert.dynamo" / "host.json").write_text('{"status": "right", "judges": ["onnxruntime"]}')
    (folder / "vit.dynamo").mkdir()
    (folder / "vit.dynamo" / "export.json").write_text('{"error": "no"}')
    found = read(folder, stored)
    assert found["vit.dynamo"].targets == {"host": right}
    assert found["bert.dynamo"].export == {"dims": ["batch"]}
    assert found["bert.dynamo"].targets["host"]["status"] == "right"
    assert found["bert.dynamo"].targets["wasm"] == right
    assert found["vit.legacy"].export == {"error": "no"}
    error = read(tmp_path / "none", stored)["bert.dynamo"].targets["host"]["error"]
    assert error.startswith("cannot load build/zoo/m x")
    assert len(error) < 999


def test_a_target_of_the_zoo_is_a_runtime() -> None:
    assert set(TARGETS) <= {runtime.name for runtime in RUNTIMES}


def test_an_exception_may_be_for_all_targets() -> None:
    assert {f"informer.dynamo {target}" for target in TARGETS} <= exceptions().keys()


def test_what_onnxruntime_does_not_run_is_not_timed() -> None:
    rounds = [{"x": np.ones(n)} for n in (1, 4, 9)]
    assert largest(rounds, [{"y": ONES}, {"y": ONES}, None]) is rounds[1]


def test_unmeasured_exports_begin_with_the_quickest(monkeypatch: pytest.MonkeyPatch) -> None:
    def host(status: str, build: float, *others: str) -> dict[str, dict[str, object]]:
        return {"host": {"status": status, "build": build}, **{other: {"status": "right"} for other in others}}

    known = {
        "slow.a": host("right", 9.0),
        "quick.a": host("right", 1.0, "wasm"),
        "done.a": host("right", 1.0, "wasm", "embedded"),
        "wrong.a": host("wrong", 1.0),
        "new.a": {},
    }
    results = {name: Result(name, {}, targets) for name, targets in known.items()}
    monkeypatch.setattr(main, "read", lambda: results)
    assert main.unmeasured([*known, "unknown.a"], ["wasm", "embedded"]) == ["quick.a", "slow.a"]
