"""Signals while native code runs: the process stops waiting for it, its child programs end, and no files remain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from deploykit.cli.build import StageProgress

SECONDS = 15.0
"""Time limit for the reaction to a signal, which is immediate on an idle machine. The native code runs much longer."""

CPU_SECONDS = 0.3
"""Limit of processor time after a signal while no native code runs."""

NATIVE = """
import ctypes, os, signal, threading, time
from deploykit.basics.parallel import busy, each, interruptible, run_program

sleep = ctypes.CDLL(None).sleep
cleaned = []

def stopped(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stopped)

@interruptible
def work(function):
    try:
        return function()
    finally:
        cleaned.append(True)

def interrupted(function):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    start = time.monotonic()
    try:
        work(function)
    except KeyboardInterrupt:
        return time.monotonic() - start
"""


def run(script: str) -> list[str]:
    command = [sys.executable, "-c", NATIVE + script + "\nos._exit(0)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("call", ["sleep(90)", "each(lambda _: sleep(90), range(4))"])
def test_nobody_waits_for_native_code(call: str) -> None:
    seconds, left = run(f"print(interrupted(lambda: {call})); print(busy(), flush=True)")
    assert float(seconds) < SECONDS
    assert left == "True"


def test_programs_end_and_the_caller_cleans_up() -> None:
    seconds, left, cleaned = run(
        "print(interrupted(lambda: run_program(['sh', '-c', 'sleep 90; echo'])))\nprint(busy(), cleaned, flush=True)"
    )
    assert float(seconds) < SECONDS
    assert (left, cleaned) == ("False", "[True]")


def test_results_and_errors_are_those_of_the_function() -> None:
    found = run(
        "print(work(lambda: sum(each(lambda n: n * n, range(10)))))\n"
        "try:\n    work(lambda: each(lambda n: 1 // (n - 3), range(9)))\n"
        "except ZeroDivisionError as error:\n    print(type(error).__name__, flush=True)"
    )
    assert found == ["285", "ZeroDivisionError"]


def waves(folder: Path) -> list[str | Path]:
    """A command that builds a model whose machine code takes long to generate."""
    operators = ["Sin", "Cos"] * 150
    names = ["x", *(f"v{k}" for k in range(len(operators) - 1)), "y"]
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:], strict=False)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph(nodes, "waves", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "m.onnx")
    return [sys.executable, "-m", "deploykit", "build", folder / "m.onnx", "-o", folder / "out"]


def until(build: subprocess.Popen[str], stage: str) -> None:
    """Wait until a stage of the build is done."""
    assert build.stderr is not None
    for line in build.stderr:
        if line.split()[:1] == [stage]:
            break


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_build_stops_while_machine_code_is_made(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(waves(tmp_path), stderr=subprocess.PIPE, text=True) as build:
        until(build, "program")
        time.sleep(2)
        start = time.monotonic()
        build.send_signal(number)
        assert build.wait() == 128 + number
        assert time.monotonic() - start < SECONDS
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_a_build_that_is_interrupted_computes_no_more(tmp_path: Path) -> None:
    """Nor does it free its objects one by one. Processor time is measured, which other load does not change."""
    with subprocess.Popen(waves(tmp_path), stderr=subprocess.PIPE, text=True) as build:
        until(build, "import")
        fields = Path(f"/proc/{build.pid}/stat").read_text().rpartition(")")[2].split()
        before = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        build.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(build.pid, 0)
        build.returncode = os.waitstatus_to_exitcode(status)
    assert build.returncode == 128 + signal.SIGTERM
    assert used.ru_utime + used.ru_stime - before < CPU_SECONDS
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_the_progress_of_a_build_starts_no_thread() -> None:
    """A thread that waits for another one to start cannot receive the exception that should end it."""
    with StageProgress() as progress:
        before = threading.enumerate()
        progress.begin("import")
        progress.begin("program")
        assert threading.enumerate() == before
