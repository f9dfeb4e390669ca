"""A model on its way into a library for Android: what its programs became, and what templates say of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.compiler.codegen.host.header import package_view
from deploykit.compiler.codegen.weights.blob import write_weights
from deploykit.targets import answers
from deploykit.targets.android import weights_file
from deploykit.targets.android.abis import MACOS, Abi, by_abi
from deploykit.targets.android.java import is_profiled
from deploykit.targets.android.linking import Part, with_own_halves
from deploykit.targets.android.naming import AndroidOptions, names_of
from deploykit.targets.host import exported, split_gpu
from deploykit.targets.licenses import license_of_model
from deploykit.text import FILE

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program
    from deploykit.targets.base import PackageOptions

WEIGHTS = "weights.bin"
STEPS = "steps.txt"


@dataclass(frozen=True)
class Model:
    """A model: its programs for CPUs, what was emitted, its file of weights, the code for GPUs by name, and the assets
    of an AAR beside these. `view` is for templates."""

    programs: Sequence[Program]
    emitted: Mapping[str, bytes]
    view: dict[str, Any]
    weights: Path
    code: Mapping[str, bytes]
    assets: Mapping[str, bytes]

    @property
    def shared(self) -> list[Path]:
        """The C files that the model needs beside the core, and that models share."""
        program = self.programs[0]
        found = list(further_sources(program))
        if self.view["on_gpu"] is not None:
            found += runtime.gpu_sources(self.view["devices"], instances=program.runs_instances)
        return [path for path in found if path.suffix == ".c"]

    @property
    def exports(self) -> list[str]:
        """The symbols of its library for C."""
        program, on_gpu = self.programs[0], self.view["on_gpu"]
        names = exported(self.view["functions"], instances=program.runs_instances)
        found = [*names, "dk_*", *answers.exported(program)]
        if on_gpu is not None:
            found += exported(on_gpu["functions"], instances=False, on_gpu=True)
            found += [f"{on_gpu['prefix']}_{device}" for device in self.view["devices"]]
        return found

    def java_class(self, name: str) -> str:
        """The name of a class of its Java package, as the Java Native Interface has it."""
        return f"{self.view['package']}.{name}".replace(".", "/")

    @property
    def alignment(self) -> int:
        """The bytes that its weights start at multiples of."""
        return max((constant.data.dtype.itemsize for constant in self.programs[0].constants), default=4)

    def part(self, abi: Abi, place: Path, java: Mapping[str, str | int] | None, *, macos: bool = False) -> Part:
        """The model in the library for an ABI, with the macros of its interface for Java; with `macos` its objects are
        those for macOS. Its files are put into the new folder `place`."""
        place.mkdir(parents=True)
        start = f"{MACOS}-{abi.name}-" if macos else f"{abi.name}-"
        for file, data in self.emitted.items():
            if file.startswith(start if file.endswith(".o") else f"{abi.name}-"):
                name = file.removeprefix(f"{MACOS}-").removeprefix(f"{abi.name}-")
                (place / name).write_bytes(with_own_halves(data) if macos and name.endswith(".o") else data)
        levels = ",".join(f'"{part.cpu}"' for part in by_abi(self.programs, [abi])[abi.name])
        macros = None if java is None else {**java, "DK_LEVELS": levels}
        return Part(self.view["prefix"], place, tuple(sorted(place.glob("*.o"))), macros)


@dataclass(frozen=True)
class Libraries:
    """Libraries: for C, and for Java on Android by ABI, for Java on other systems by system and machine, as in
    `linux-x86_64`."""

    native: Mapping[str, Path]
    java: Mapping[str, Path]
    on_jvm: Mapping[str, Path]

    @property
    def sizes(self) -> dict[str, int]:
        """By ABI, the bytes of the library that ships."""
        return {abi: path.stat().st_size for abi, path in (self.java or self.native).items()}


def model_of(
    programs: Sequence[Program],
    emitted: Mapping[str, bytes],
    options: PackageOptions,
    own: AndroidOptions,
    scratch: Path,
    *,
    java: bool,
) -> Model:
    """The model, whose weights are put into `scratch`; with `java` for an AAR. Raises `UsageError` for names that
    cannot be."""
    levels, on_gpu = split_gpu(programs)
    program, weights = levels[0], scratch / WEIGHTS
    view = package_view(program, options.version)
    view |= {"on_gpu": on_gpu and package_view(on_gpu, options.version), "devices": options.devices, "files": CODE}
    view |= {"instances": program.dynamic, **answers.views(program, options.version)}
    view |= names_of(view["prefix"], own) | {"own": "", "library": ""}
    write_weights(program, weights, on_gpu)
    assets: dict[str, bytes] = {}
    if java:
        view |= {"weights_hash": weights_file.prepend_hash(weights), "build": _digest(emitted)}
        view |= _licenses(program, options, own)
        assets |= {STEPS: _steps(programs)} if is_profiled(view) else {}
        assets |= {FILE: program.task_files[FILE]} if view["texts"] or view["messages"] else {}
    view["file_bytes"] = weights.stat().st_size
    code = {name: emitted[name] for name in CODE.values() if name in emitted}
    return Model(levels, emitted, view, weights, code, assets)


def further_sources(program: Program) -> tuple[Path, ...]:
    """The sources beside the core that a model needs, except those for GPUs."""
    own = runtime.further_sources(states=bool(program.states.tensors), instances=program.runs_instances)
    return (*own, *answers.sources(program))


def _licenses(program: Program, options: PackageOptions, own: AndroidOptions) -> dict[str, Any]:
    """What the texts of an AAR say of licences, and of a page about the model."""
    license_ = license_of_model(options.place, program.license, own.license)
    return {"url": own.url, "model_license": license_.name, "license_file": license_.text}


def interface_for_java(model: Model, models: Sequence[Model]) -> dict[str, str | int]:
    """The macros of a model's interface for Java, in a library of `models`."""
    view = model.view
    macros: dict[str, str | int] = {
        "DK_WEIGHTS_ALIGNMENT": max(4, *(each.alignment for each in models)),
        "DK_WEIGHTS_HASH": f'"{view["weights_hash"]}"',
        "DK_MOST_DIMS": max(len(function["dims"]) for function in view["functions"]) or 1,
        "DK_PROGRAMS(PLAIN,STATEFUL)": _programs(view["functions"]),
    }
    macros |= {"DK_JAVA_CLASS": f'"{model.java_class("Native")}"'} if len(models) == 1 else {}
    macros |= {"DK_TEXTS": 1} if view["texts"] or view["messages"] else {}
    macros |= {"DK_SPEAKS": 1} if view["messages"] and view["messages"]["speaks"] else {}
    macros |= {"DK_MASKS": 1} if view["texts"] is not None and view["texts"]["kind"] == "fill" else {}
    macros |= {
        f"DK_{kind.upper()}": f"{view['prefix']}_task" for kind in ("messages", "pictures", "sounds") if view[kind]
    }
    if view["on_gpu"] is not None:
        macros |= {"DK_GPU_PROGRAMS(PLAIN,STATEFUL)": _programs(view["on_gpu"]["functions"])}
        macros |= {"DK_ON_GPU": view["on_gpu"]["prefix"]}
        macros |= {f"DK_{device.upper()}": 1 for device in view["devices"]}
    return macros


def _programs(functions: Sequence[Mapping[str, Any]]) -> str:
    """The functions of a model as `jni_programs.c` takes them."""
    return " ".join(
        f"STATEFUL({function['prefix']}, {function['states']['range']})"
        if function["states"]
        else f"PLAIN({function['prefix']})"
        for function in functions
    )


def _digest(emitted: Mapping[str, bytes]) -> str:
    """A text that is another one for other kernels."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(emitted):
        digest.update(name.encode())
        digest.update(emitted[name])
    return digest.hexdigest()


def _steps(programs: Sequence[Program]) -> bytes:
    """The names of the steps of each program, for profiles: lines `= <CPU> ...`, and behind each the steps of these
    programs in order, with a tab and what it computes if it takes time."""
    from deploykit.compiler.program.plan import plan_of

    texts: dict[str, list[str]] = {}
    for program in programs:
        plan = plan_of(program, program.public[0])
        results = {entry.step: f"\t{entry.result}" for entry in plan.work}
        text = "".join(f"{name}{results.get(number, '')}\n" for number, name in enumerate(plan.steps))
        texts.setdefault(text, []).append(program.level)
    return "".join(f"= {' '.join(names)}\n{text}" for text, names in texts.items()).encode()
