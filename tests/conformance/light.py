"""Verify the networks in the onnx package on both devices of the web: `python -m tests.conformance.light [NAME ...]`.

Each topology gets random weights, since constants of one value hide most mistakes. Its results are compared with those
of ONNX Runtime. Prints one line for each network and device. The exit code is 1 if a result is out of tolerance.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import onnx

import deploykit
from bench.models import light
from deploykit.checks.verify import Report, verify
from deploykit.cli.console import results

DEVICES = ("wasm", "webgpu")


def reports(name: str, devices: tuple[str, ...], folder: Path) -> dict[str, Report]:
    """Build the network for the web in `folder` and verify it on each device."""
    model = folder / f"{name}.onnx"
    onnx.save(light.with_random_weights(name), model)
    deploykit.build(model, target="webgpu", output=folder / name)
    found = {}
    for device in devices:
        found[device] = verify(folder / name, model, device=device)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(light.names())}; by default all")
    parser.add_argument("--device", choices=DEVICES, help="by default both")
    options = parser.parse_args()
    devices = (options.device,) if options.device else DEVICES
    within = True
    for name in options.names or light.names():
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="deploykit-") as folder:
            for device, report in reports(name, devices, Path(folder)).items():
                error = max(difference.relative for check in report.checks for difference in check.differences)
                outcome = "agrees" if report.within else "IS OUT OF TOLERANCE"
                results.print(f"{name:16} {device:8} {outcome}, largest relative error {error:.1e}", highlight=False)
                within = within and report.within
        results.print(f"{name:16} took {time.monotonic() - began:.0f} s", highlight=False)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
