"""The runtimes on which built models are tested.

A suite is a list of cases that does not depend on a runtime. The suites are the operators, the ONNX project's suite and
its dynamic variants, programs made step by step, and models of several functions. A case takes the fixture `runtime`,
builds with it, and opens the artifact with it. A new target needs only an entry in `RUNTIMES` to get every case.

`tests/exceptions/NAME.txt` lists what a runtime cannot do, in lines `case: reason`. The file exists only if there is
something to list. A case is the id of a test without the runtime, for instance
`tests/conformance/test_onnx_suite.py::test_case[test_abs]`. A listed case must fail.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import deploykit
from deploykit import onnx_backend, runtime
from deploykit.artifact.devices import CODE
from deploykit.compiler.model import ImportedModel
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.bionic import can_run
from deploykit.engines.web.chromium import find_chromium
from deploykit.engines.web.node import find_node, node_options
from deploykit.frontends.onnx.names import dim_name
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.running import CHOICE, JAVA
from deploykit.targets.base import Target, find_target
from deploykit.targets.embedded import EmbeddedTarget
from deploykit.targets.embedded.boards import Board, cores, find_board
from deploykit.targets.embedded.boards.image import missing
from deploykit.targets.webgpu import CPU_MODULES, GPU_MODULE, WebTarget
from tests.placing import grouping, placing

if TYPE_CHECKING:
    import onnx

    from deploykit.compiler.program.inplace import InPlace
    from deploykit.sessions.session import Session

Dims: TypeAlias = "Mapping[str, int | tuple[int, int]] | None"

BOUND = 16

EXCEPTIONS = Path(__file__).with_name("exceptions")


@dataclass(frozen=True, eq=False)
class Runtime:
    """A target, and how its artifacts run.

    `target`, `cpu` and `devices` are described in `deploykit.build`; `device`, `sanitize` and `threads` in
    `deploykit.open`.
    `needs` is the program without which nothing runs here, and a function that finds it. `cost` is about how many times
    longer a case takes than on the host, so that slices of long suites hold fewer cases. `bounded` says whether every
    dim needs an upper bound. `environment` is set while an artifact is opened.
    """

    name: str
    target: Callable[[], Target]
    needs: tuple[str, Callable[[], object]]
    cost: int
    cpu: str = "native"
    devices: tuple[str, ...] = ()
    device: str | None = None
    sanitize: bool = False
    threads: int = 1
    bounded: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        """The reason why nothing runs here; `None` if the runtime works."""
        name, find = self.needs
        return None if find() else f"needs {name}"

    def build(self, model: onnx.ModelProto | ImportedModel, folder: Path, dims: Dims = None, **options: Any) -> None:
        """`options` are those of `deploykit.build`. A dim that needs an upper bound and has none in `dims` gets
        `BOUND`."""
        if self.bounded and not isinstance(model, ImportedModel):
            shapes = ((value.name, value.type.tensor_type.shape.dim) for value in model.graph.input)
            named = ((port, axis, dim) for port, shape in shapes for axis, dim in enumerate(shape) if dim.dim_param)
            names = {dim_name(port, axis, dim.dim_param) for port, axis, dim in named}
            dims = dict.fromkeys(sorted(names), (1, BOUND)) | dict(dims or {})
        deploykit.build(model, self.target(), dims, folder, cpu=self.cpu, devices=self.devices, **options)

    def open(self, folder: Path) -> Session:
        with _set(self.environment):
            return deploykit.open(folder, device=self.device, sanitize=self.sanitize, threads=self.threads)

    @contextlib.contextmanager
    def session(self, model: onnx.ModelProto | ImportedModel, **options: Any) -> Iterator[Session]:
        """A session of the model, which is built in a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="deploykit-") as folder:
            self.build(model, Path(folder) / "model", **options)
            with self.open(Path(folder) / "model") as session:
                yield session

    @contextlib.contextmanager
    def as_backend(self) -> Iterator[None]:
        """Let `deploykit.onnx_backend` build for this runtime and run on it."""
        own = {
            "TARGET": self.target(),
            "CPU": self.cpu,
            "DEVICES": self.devices,
            "DEVICE": self.device,
            "SANITIZE": self.sanitize,
            "THREADS": self.threads,
        }
        before = {name: getattr(onnx_backend, name) for name in own}
        for name, value in own.items():
            setattr(onnx_backend, name, value)
        try:
            with _set(self.environment):
                yield
        finally:
            for name, value in before.items():
                setattr(onnx_backend, name, value)

    def placing(self, in_place: InPlace) -> Runtime:
        """This runtime, but with results placed over their operands' memory as `in_place` says."""
        return replace(self, target=lambda: placing(self.target(), in_place))

    def grouping(self, tokens: int) -> Runtime:
        """This runtime, but with ragged batches in groups of `tokens` tokens."""
        return replace(self, target=lambda: grouping(self.target(), tokens))

    @functools.cached_property
    def exceptions(self) -> Mapping[str, str]:
        """The reason for each case that is known to fail."""
        path = EXCEPTIONS / f"{self.name}.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split(": ", 1) for line in lines)


@contextlib.contextmanager
def _set(environment: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@functools.cache
def _module_of_node() -> str:
    """The name of the module that node loads."""
    modules = runtime.JS_RUNNER.with_name("module.mjs").as_uri()
    script = f"import('{modules}').then((module) => console.log(module.FEATURES.relaxed()))"
    call = [find_node(), *node_options(find_node()), "-e", script]
    relaxed = subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()
    return CPU_MODULES[relaxed == "true"]


def _web_in_node() -> Target:
    """A package for the web with only the module that node loads. Making all modules takes three times as long."""
    return WebTarget([_module_of_node()])


def _board(name: str, core: str) -> Board:
    """A board with this core on it, and with the memories of its emulator."""
    own = cores()[core]
    assert own.emulator is not None
    return find_board(name).model_copy(update={"core": own, "flash": own.emulator.flash, "ram": own.emulator.ram})


def _emulates(name: str, core: str) -> bool:
    return missing(_board(name, core)) is None


def _opens(driver: str) -> bool:
    """Whether a driver finds a device that it can open."""
    return any(adapter.unusable is None for adapter in adapters(driver))


def _has_java() -> bool:
    """Whether a JVM of this machine can load a library that is built for tests."""
    return platform.machine() == "x86_64" and shutil.which("java") is not None and shutil.which("javac") is not None


NOTHING = ("nothing", lambda: True)
NODE = ("node", functools.partial(shutil.which, "node"))

HOST = Runtime("host", functools.partial(find_target, "host"), NOTHING, cost=1)

RUNTIMES = (
    HOST,
    Runtime(
        "arm64",
        functools.partial(find_target, "host"),
        ("qemu-user", functools.partial(shutil.which, "qemu-aarch64")),
        cost=25,
        cpu="armv8.2-a+dotprod",
    ),
    Runtime(
        "arm64-baseline",
        functools.partial(find_target, "host"),
        ("qemu-user", functools.partial(shutil.which, "qemu-aarch64")),
        cost=50,
        cpu="armv8-a",
    ),
    Runtime(
        "embedded",
        functools.partial(find_target, "embedded"),
        NOTHING,
        cost=5,
        sanitize=True,
        bounded=True,
    ),
    Runtime(
        "embedded-sliced",
        functools.partial(find_target, "embedded"),
        NOTHING,
        cost=60,
        sanitize=True,
        bounded=True,
        environment={"CFLAGS": "-DDK_SLICED=1"},
    ),
    *(
        Runtime(
            core,
            functools.partial(EmbeddedTarget, _board(board, core)),
            (f"a compiler and an emulator for {core}", functools.partial(_emulates, board, core)),
            cost=cost,
            bounded=True,
        )
        for core, board, cost in (
            ("cortex-m0plus", "mps2-an385", 40),
            ("cortex-m4", "mps2-an386", 25),
            ("cortex-m55", "mps3-an547", 40),
            ("rv32imafc", "riscv32-virt", 25),
            ("rv32imafcv", "riscv32-virt-v", 40),
        )
    ),
    Runtime("android", lambda: AndroidTarget(["x86_64"], "so"), NOTHING, cost=3),
    Runtime(
        "android-java",
        lambda: AndroidTarget(["x86_64"]),
        ("a JDK, and x86-64", _has_java),
        cost=60,
        environment={CHOICE: JAVA},
    ),
    Runtime(
        "android-arm64",
        lambda: AndroidTarget(["arm64-v8a"], "so"),
        ("qemu-user and a C library for 64-bit Arm", functools.partial(can_run, "aarch64")),
        cost=50,
    ),
    Runtime(
        "android-arm32",
        lambda: AndroidTarget(["armeabi-v7a"], "so"),
        ("qemu-user and a C library for 32-bit Arm", functools.partial(can_run, "arm")),
        cost=25,
    ),
    Runtime("wasm", _web_in_node, NODE, cost=3),
    Runtime("wasm-threads", _web_in_node, NODE, cost=25, threads=2),
    *(
        Runtime(
            driver,
            functools.partial(find_target, "host"),
            (f"a device with {driver}", functools.partial(_opens, driver)),
            cost=4,
            devices=(driver,),
            device=driver,
        )
        for driver in CODE
    ),
    Runtime("webgpu", lambda: WebTarget([GPU_MODULE]), ("Chromium", find_chromium), cost=5, device="webgpu"),
)


def named(name: str) -> Runtime:
    """The runtime of this name."""
    return next(runtime for runtime in RUNTIMES if runtime.name == name)
