"""Build exported models and compare their results: `python -m tests.zoo.check FOLDER TARGETS NAME.EXPORTER ...`.

TARGETS are some of `tests.zoo.results.TARGETS`, with commas between them. Writes `TARGET.json` into the folder of the
export. The `status` in it is

    right      every output agrees at all sizes
    wrong      some output does not
    refused    the model, or a size that ONNX Runtime takes, is refused with an error for users
    crash      any other exception, a signal, or too much time or memory
    unjudged   ONNX Runtime cannot run the model at some sizes, and the results of PyTorch differ there
    invalid    refused or not right, and ONNX Runtime runs it at none of the sizes: the exporter wrote an invalid model
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.runtimes import Runtime, named
from tests.zoo import forked
from tests.zoo.case import ROUNDS
from tests.zoo.judge import Verdict, verdict

TIMED_SECONDS = 0.4

HOST_LIMITS = forked.Limits(420)
LIMITS = forked.Limits(900, None)
"""Limits for other targets. JavaScript engines and sanitizers reserve more memory than there is."""

Arrays = Mapping[str, np.ndarray]


def check(folder: Path, target: str, *, timed: bool = True) -> dict[str, Any]:
    """The result of the export in `folder` on `target`."""
    from deploykit.errors import DeploykitError

    model = folder / "model.onnx"
    data = np.load(folder / "data.npz")
    rounds = [part(data, number, "input") for number in range(ROUNDS)]
    reference = _reference(model)
    expected = [_try(reference, inputs) for inputs in rounds]
    found: dict[str, Any] = {"nodes": len(onnx.load(model).graph.node)}
    if not any(expected):
        found["onnxruntime"] = "refuses the model at every size"
    place = folder / f"artifact-{target}"
    runtime = named(target)
    before = _cpu_seconds()
    try:
        found["check"] = _build(model, runtime, bounds(model, rounds), place, checked=target == "host")
        found["build"] = round(_cpu_seconds() - before, 2)
        found["bytes"] = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        with runtime.open(place) as session:
            found |= _compare(session, data, rounds, expected)
            if found["status"] != "right" and not any(expected):
                found["status"] = "invalid"
            if timed and found["status"] == "right" and any(expected) and target == "host":
                found["ratio"] = _ratio(place, model, largest(rounds, expected))
    except DeploykitError as error:
        found |= {"status": "refused" if any(expected) else "invalid", "error": str(error)[:2000]}
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found


def _compare(session: Any, data: Any, rounds: list[Arrays], expected: list[Arrays | None]) -> dict[str, Any]:
    from deploykit.errors import ShapeError

    verdicts: list[Verdict] = []
    for number, (inputs, runtime) in enumerate(zip(rounds, expected, strict=True)):
        try:
            actual = session.run(inputs)
        except ShapeError as error:
            if runtime is None:
                continue
            return {"status": "refused", "error": f"round {number}: {error}"[:2000]}
        torch, exact = part(data, number, "float32"), part(data, number, "float64")
        verdicts += [
            verdict(name, array, (runtime or {}).get(name), torch.get(name), exact.get(name))
            for name, array in actual.items()
        ]
    return summary(verdicts)


def summary(verdicts: list[Verdict]) -> dict[str, Any]:
    wrong = [one for one in verdicts if one.fault]
    if not verdicts:
        return {"status": "unjudged", "error": "no sizes were run"}
    found: dict[str, Any] = {
        "status": "wrong" if wrong else "right",
        "error_max": max((one.error for one in verdicts if not one.fault), default=None),
        "judges": sorted({one.judge for one in verdicts}),
        "torch_max": max((one.torch for one in verdicts if one.torch is not None), default=None),
    }
    if wrong:
        worst = {one.output: one for one in sorted(wrong, key=lambda one: one.error)}
        found["error"] = "; ".join(f"{one.output} {one.fault} ({one.judge})" for one in list(worst.values())[:6])
        found["wrong"] = [asdict(one) for one in wrong[:20]]
        if all(one.judge == "pytorch" for one in wrong):
            found["status"] = "unjudged"
    return found


def largest(rounds: Sequence[Arrays], expected: Sequence[Arrays | None]) -> Arrays:
    """The round with the most elements among those that ONNX Runtime runs."""
    run = [inputs for inputs, results in zip(rounds, expected, strict=True) if results]
    return max(run, key=lambda arrays: sum(array.size for array in arrays.values()))


def part(data: Any, number: int, what: str) -> dict[str, np.ndarray]:
    """The arrays of a round: `input`, `float32` or `float64`."""
    start = f"{number}/{what}/"
    return {name.removeprefix(start): data[name] for name in data.files if name.startswith(start)}


def bounds(model: onnx.ModelProto | Path, rounds: Sequence[Arrays]) -> dict[str, tuple[int, int]]:
    """The smallest and largest size that each dim of the inputs has in the rounds.

    The inputs are loaded without the graph, because size formulas of some graphs take minutes without bounds."""
    import deploykit

    interface = onnx.load(model, load_external_data=False) if isinstance(model, Path) else model
    weights = {tensor.name for tensor in interface.graph.initializer}
    inputs = [value for value in interface.graph.input if value.name not in weights]
    for values in (interface.graph.input, interface.graph.output):
        del values[:]
        values.extend(inputs)
    del interface.graph.node[:], interface.graph.initializer[:], interface.graph.value_info[:]
    found: dict[str, list[int]] = {}
    for port in deploykit.load(interface).inputs:
        for axis, dim in enumerate(port.shape):
            if not isinstance(dim, int):
                found.setdefault(dim.name, []).extend(arrays[port.name].shape[axis] for arrays in rounds)
    return {name: (min(sizes), max(sizes)) for name, sizes in found.items()}


def _build(
    model: Path, runtime: Runtime, dims: Mapping[str, tuple[int, int]], place: Path, *, checked: bool
) -> str | None:
    """Build, with a check at the ends of the bounds if `checked`; returns the outcome of the check. If the check finds
    a difference, which may be within the tolerance of the zoo, or is impossible because sizes depend on each other,
    build without it."""
    import deploykit
    from deploykit.errors import MismatchError, UsageError

    build = partial(deploykit.build, model, runtime.target(), dims, place, cpu=runtime.cpu, devices=runtime.devices)
    if checked:
        try:
            build(check=True)
        except (MismatchError, UsageError) as error:
            outcome = str(error)[:500]
        else:
            return "agrees"
    build(check=False)
    return outcome if checked else None


def _reference(model: Path) -> Any:
    from deploykit.checks import reference

    try:
        return reference.load(model)
    except Exception as error:  # noqa: BLE001  any exception means that it cannot be a reference
        print("ONNX Runtime:", error)
        return None


def _try(reference: Any, inputs: Arrays) -> Arrays | None:
    try:
        found: Arrays | None = reference(inputs) if reference is not None else None
    except Exception as error:  # noqa: BLE001
        print("ONNX Runtime:", error)
        return None
    return found


def _ratio(artifact: Path, model: Path, inputs: Arrays) -> float:
    """The time of ONNX Runtime divided by the time of deploykit."""
    from deploykit.checks.benchmark import bench

    found = bench(artifact, inputs=inputs, against="onnxruntime", model=model, seconds=TIMED_SECONDS)
    assert found.peer is not None
    return round(found.peer.fastest / found.ours.fastest, 2)


def _cpu_seconds() -> float:
    """CPU seconds of this process and of child processes that it waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("targets")
    parser.add_argument("--fresh", action="store_true", help="check again what has a result")
    parser.add_argument("exports", nargs="+", metavar="NAME.EXPORTER")
    options = parser.parse_args()
    prepare()
    for name, target in product(options.exports, options.targets.split(",")):
        folder = options.folder / name
        if not (folder / "model.onnx").exists() or ((folder / f"{target}.json").exists() and not options.fresh):
            continue
        began = time.monotonic()
        found = run(folder, target)
        seconds = time.monotonic() - began
        reason = found.get("error", "")[:200]
        print(f"{name} {target}: {found['status']} {reason!r} {seconds:.0f} s", file=sys.stderr, flush=True)


def run(folder: Path, target: str) -> dict[str, Any]:
    """Run `check` in a separate process and store its result."""
    limits = HOST_LIMITS if target == "host" else LIMITS
    found = forked.run(partial(check, folder, target), folder / f"{target}.log", limits)
    if "kind" in found:
        found["status"] = "crash"
        shutil.rmtree(folder / f"artifact-{target}", ignore_errors=True)
    (folder / f"{target}.json").write_text(json.dumps(found, indent=1))
    return found


def prepare() -> None:
    """Import the modules that every build needs, by a build."""
    import onnxruntime  # noqa: F401

    import deploykit

    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 21]> g (float[n] x) => (float[n] y) { y = Exp(x) }'
    )
    for target in ("host", "embedded"):
        deploykit.build(model, target, {"n": (1, 9)}, stop_after="emit")


if __name__ == "__main__":
    main()
