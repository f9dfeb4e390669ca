"""The columns of the matrix: targets, kinds of CPUs and devices."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.targets.android import AAR, LIBRARIES, AndroidTarget
from deploykit.targets.android.abis import ABIS
from deploykit.targets.android.running import CHOICE, JAVA
from deploykit.targets.base import Target, find_target

SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")
"""A second Vulkan driver in software, which comes with Debian's Chromium."""


@dataclass(frozen=True)
class Column:
    """A target with what it is built for, and how its artifacts run. `target`, `cpu` and `devices` are those of
    `deploykit.build`, `device` and `threads` those of `deploykit.open`. `environment` is set before anything is loaded.
    `missing` says what this machine lacks to run the artifacts, or None."""

    target: Callable[[], Target]
    cpu: str = "native"
    devices: tuple[str, ...] = ()
    device: str | None = None
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None


def _host() -> Target:
    return find_target("host")


def _android(abi: str, form: str = LIBRARIES) -> Callable[[], Target]:
    return lambda: AndroidTarget([abi], form)


def _without(program: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(program) else f"no {program}"


def _without_device(driver: str) -> Callable[[], str | None]:
    return lambda: None if any(each.unusable is None for each in adapters(driver)) else f"no device with {driver}"


def _on_gpu(target: Callable[[], Target], driver: str) -> Column:
    return Column(target, devices=(driver,), device=driver, missing=_without_device(driver))


COLUMNS: Mapping[str, Column] = {
    **{f"host {cpu}": Column(_host, cpu) for cpu in ("x86-64-v2", "x86-64-v3", "portable")},
    "host 2 threads": Column(_host, threads=2),
    **{
        f"host {cpu}": Column(_host, cpu, missing=_without("qemu-aarch64"))
        for cpu in ("armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+fullfp16")
    },
    **{f"host {driver}": _on_gpu(_host, driver) for driver in CODE},
    "host vulkan SwiftShader": Column(
        _host,
        devices=("vulkan",),
        device="vulkan",
        environment={"VK_DRIVER_FILES": str(SWIFTSHADER)},
        missing=lambda: None if SWIFTSHADER.exists() else "no SwiftShader",
    ),
    **{f"android {abi}": Column(_android(abi)) for abi in ABIS},
    "android x86_64 Java": Column(_android("x86_64", AAR), environment={CHOICE: JAVA}, missing=_without("java")),
    **{f"android x86_64 {driver}": _on_gpu(_android("x86_64"), driver) for driver in CODE},
    "embedded": Column(lambda: find_target("embedded")),
    "webgpu wasm": Column(lambda: find_target("webgpu"), device="wasm", missing=_without("node")),
    "webgpu wasm 2 threads": Column(lambda: find_target("webgpu"), device="wasm", threads=2, missing=_without("node")),
    "webgpu webgpu": Column(lambda: find_target("webgpu"), device="webgpu", missing=_without("chromium")),
}
