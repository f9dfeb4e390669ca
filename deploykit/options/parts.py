"""The options of what every build has. Those of a source are with its frontend (`deploykit.sources`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deploykit.errors import UsageError
from deploykit.options.option import option

if TYPE_CHECKING:
    from deploykit.compiler.decisions import Explanation


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set takes NAME=VALUE, found '{text}'")
    return name, value


@dataclass(frozen=True)
class PlatformOptions:
    """What a target is asked for. Which of these it has is on the page of the target."""

    cpu: str = option(
        "native",
        "The CPU that native kernels are compiled for: native (this machine), x86-64-v2, x86-64-v3, x86-64-v4, "
        "x86-64-amx, armv8-a or armv8.2-a; + adds features, as in armv8.2-a+dotprod. Several names with commas between "
        "them, the best first, put kernels for each of them into one artifact; portable stands for x86-64-v4 to v2. "
        "Target android has levels of its own, down to armv7-a, and target embedded has cores, such as cortex-m4, for "
        "which its C is arranged.",
        metavar="CPU",
    )
    devices: Sequence[str] = option(
        (),
        "What else to make kernels for, with the targets host and android: [b]vulkan[/], [b]opencl[/] or both, with a "
        "comma between them. vulkan:discrete is for graphics cards; further classes are mobile (the usual one), "
        "integrated and software.",
        flags="--device",
        metavar="DEVICES",
        many=True,
        read=lambda texts: tuple(name for text in texts for name in text.split(",")),
    )
    format: str = option(
        "",
        "The form of the artifact, for targets that have several: for android, aar (a library for Java and Kotlin) or "
        "so (libraries for C and C++); for embedded, c (sources for make and CMake), or arduino, platformio, zephyr, "
        "esp-idf, cmsis-pack or rust, a package for that build system.",
        metavar="FORMAT",
    )
    name: str | None = option(
        None,
        "The name of the model, by default that of its file: symbols in C, classes and files begin with it. Several "
        "models have theirs with commas between them, [b]kws,vad[/].",
        metavar="NAME",
    )
    settings: Mapping[str, str] | None = option(
        None,
        "What only this target can be told: for android, [b]package=com.acme.model[/], [b]class=Digits[/], "
        "[b]group=com.acme[/], [b]version=1.2.0[/], [b]weights=apart[/], [b]jvm=linux,macos[/], [b]license=MIT[/] and "
        "[b]url=https://...[/]; for webgpu, [b]device=wasm[/] or [b]device=webgpu[/], which leaves "
        "out the files for the other one, and [b]name=@me/cnn[/], [b]version=1.2.0[/] and [b]license=MIT[/] of "
        "the npm package; for embedded, [b]version=1.2.0[/], [b]author=Acme[/], [b]url=https://...[/] and "
        "[b]license=MIT[/] of a package.",
        flags="--set",
        metavar="NAME=VALUE",
        many=True,
        read=lambda texts: dict(map(_setting, texts)),
    )
    board: str | None = option(
        None,
        "The board that the target embedded makes sources for, such as nucleo-f767zi, nrf52840dk, rp2350 or esp32c3; "
        "deploykit boards lists them. Or the path of a .toml file that describes one.",
        metavar="BOARD",
    )

    @property
    def target_settings(self) -> Mapping[str, str]:
        """The settings, with the board among them: targets take it as one."""
        return {**(self.settings or {}), **({} if self.board is None else {"board": self.board})}


@dataclass(frozen=True)
class CompileOptions:
    """What the compiler is asked for."""

    fuse: bool = option(
        True,
        "Compute several operators in one kernel, which is faster. With --no-fuse each operator has its own kernels, "
        "which shows what each computes and costs; in a dynamic model, equal products stay apart, too.",
    )
    fast_math: bool = option(
        False,
        "Use shorter forms of exp, tanh, sigmoid, erf, log, sin, cos and pow, with errors of up to 4 units in the last "
        "place instead of 2; and compute products with weights of q4, q4_1 or q8 with inputs of 8 bits instead of 16, "
        "which reads prompts faster.",
    )
    precision: Literal["float32", "bf16"] = option(
        "float32",
        "The numbers in which products and convolutions with weights are computed: [b]bf16[/] rounds both factors to "
        "bfloat16, of 16 bits, and adds in float32. It takes half of the bytes of weights, and half of the time or "
        "less on CPUs with instructions for it. The change of results is measured and printed.",
        choices=("float32", "bf16"),
    )
    keep: Sequence[str] = option(
        (),
        "With --precision bf16: an operator of the model, or an output, whose product or convolution stays in float32; "
        "for an output it is the last one before it. [b]*[/] stands for any characters, as in [b]--keep 'head*'[/]. It "
        "may be given several times.",
        metavar="NAME",
        many=True,
        read=tuple,
    )
    index_checks: bool = option(
        True,
        "Refuse runs with indices out of range, such as a token that is not in the vocabulary. With --no-index-checks "
        "such an index takes the nearest element.",
    )
    exact: bool = option(
        False,
        "Compute every row in the same order, whatever the size of the batch: the results of a sequence then have the "
        "same bits alone and in any batch. Products with a single row are slower.",
    )
    optimize: Literal["speed", "memory", "size", "memory,size"] = option(
        "speed",
        "What the program is arranged for. With [b]memory[/], chains of convolutions, poolings and elementwise "
        "operators compute their tensors a few rows at a time, where that lowers the memory of intermediate results. "
        "The results have the same bits, and nothing is computed twice. It has no effect on GPUs. With [b]size[/], for "
        "the target embedded, layers that differ in their sizes share code: half of the bytes of a large net, with "
        "results of the same bits. "
        "Both is [b]memory,size[/].",
        choices=("speed", "memory", "size", "memory,size"),
    )
    reuse: bool = option(
        True,
        "Take kernels that an earlier build has compiled, and keep new ones for later builds, in the user's folder for "
        "caches; deploykit doctor shows how many. With --no-cache all are compiled, and none are kept.",
        flags="--reuse/--no-cache",
    )

    @property
    def saves_memory(self) -> bool:
        return "memory" in self.optimize

    @property
    def saves_code(self) -> bool:
        return "size" in self.optimize

    @property
    def wide(self) -> bool:
        """Whether products are computed in the dtype of the model."""
        return self.precision == "float32"


USUAL = CompileOptions()


@dataclass(frozen=True)
class QuantizeOptions:
    """How weights are made smaller. `samples` is the path of a .json list of texts to measure with."""

    quantize: str | None = option(
        None,
        "Store large weights as [b]int8[/], a quarter of the bytes, and compute with integers; as [b]q4[/], [b]q4_1[/] "
        "or [b]q8[/], in groups of 32 with a scale each, as language models have them; or as [b]fp16[/], half of the "
        "bytes. The change of results is measured and printed; for a model of texts, on those in the .json list "
        "of --samples, if given.",
        metavar="KIND",
    )
    head: Literal["q4", "q4_1", "q8"] | None = option(
        None,
        "Store the output layer of a language model, which scores all words, as this kind, and the table of words with "
        "it if both are the same; also where weights keep the bits of a GGUF or ONNX file, and without --quantize. By "
        "default it is q8 with --quantize of such a kind.",
        choices=("q4", "q4_1", "q8"),
    )
    samples: str | Path | None = option(
        None, "A .json file with a list of texts to measure the change on.", metavar="FILE"
    )


@dataclass(frozen=True)
class CheckOptions:
    """Whether the artifact is compared with ONNX Runtime before it is put at its place, and at which sizes and on which
    inputs."""

    check: bool | None = False
    check_at: Mapping[str, int | Sequence[int]] | None = None
    check_inputs: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for given, what in ((self.check_inputs, "inputs are"), (self.check_at, "sizes are")):
            if given and not self.check:
                raise UsageError(f"{what} for a check, which is not asked for: --check, or check=True")


@dataclass(frozen=True)
class WatchOptions:
    """How far a build goes, and what it tells on its way."""

    dump_dir: str | Path | None = option(None, "Write what each stage produced.", metavar="DIR")
    stop_after: str | None = None
    on_stage: Callable[[str], None] = lambda _: None
    on_explanation: Callable[[Explanation], None] = lambda _: None
