"""Architectures of pictures and sound: each is a function from named inputs to named results.

    VIT = Settings("vit", defaults={"hidden_act": "gelu"}, only={"num_channels": 3})

    @architecture("ViTForImageClassification", VIT, inputs=fixed_picture)
    def classification(m: Module, c: Config, pixels: Tensor) -> Outputs: ...

The name is that of the class of transformers, which a configuration has in `architectures`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Outputs, import_families

BATCH = "batch"

ANYWHERE: Mapping[str, Any] = {"head_dim": None, "pruned_heads": {}, "quantization_config": None}
"""Entries of all configurations that change results, with the only values that are known here."""


@dataclass(frozen=True)
class Axis:
    """A dim that a run chooses, within bounds."""

    name: str
    minimum: int = 1
    maximum: int | None = None


@dataclass(frozen=True)
class Input:
    """An input of a model."""

    name: str
    shape: tuple[int | Axis, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Settings:
    """How a type of configuration is read. `defaults` are the values of entries that may be left out. `only` are
    entries that change results, with the only value for which the family is right."""

    model_type: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    only: Mapping[str, Any] = field(default_factory=dict)

    def of(self, c: Config) -> Config:
        """The configuration with its defaults. Raises `UnsupportedModelError` for an entry with an unknown value,
        and `UsageError` for one of another type or out of its range."""
        for name, value in {**ANYWHERE, **self.only, "model_type": self.model_type}.items():
            if c.get(name, value) != value:
                raise UnsupportedModelError(
                    f"{c.path} says {name}={c[name]!r}; models of type '{self.model_type}' need {value!r} here"
                )
        return c.completed(self.defaults)


Build: TypeAlias = Callable[..., Outputs]
"""Takes the module of the whole model, its configuration, and a tensor for each input."""


@dataclass(frozen=True)
class Architecture:
    """`inputs(config)` are the inputs, in the order in which `build` takes them."""

    name: str
    settings: Settings
    inputs: Callable[[Config], Sequence[Input]]
    build: Build


ARCHITECTURES: dict[str, dict[str, Architecture]] = {}
"""Architectures by the type of their configurations and by name. The first one is that of folders that name none."""


def architecture(
    name: str, settings: Settings, inputs: Callable[[Config], Sequence[Input]]
) -> Callable[[Build], Build]:
    """Registers an architecture."""

    def register(build: Build) -> Build:
        ARCHITECTURES.setdefault(settings.model_type, {})[name] = Architecture(name, settings, inputs, build)
        return build

    return register


def find_architecture(config: Config) -> Architecture | None:
    """The architecture of a configuration; None if none of this type is known. Raises `UnsupportedModelError` if the
    configuration names another one of its type."""
    import_families()
    known = ARCHITECTURES.get(str(config["model_type"]))
    if known is None:
        return None
    name = str((config.get("architectures") or [next(iter(known))])[0])
    if name not in known:
        raise UnsupportedModelError(
            f"{config.path} names the architecture {name}, which is unknown; for models of type "
            f"'{config['model_type']}' there are {', '.join(known)}"
        )
    return known[name]


def pair(c: Config, name: str) -> tuple[int, int]:
    """An entry that is a number or a list of two, such as the size of a picture: (height, width)."""
    found = getattr(c, name)
    values = found if isinstance(found, list | tuple) else [found, found]
    if len(values) != 2 or not all(isinstance(n, int) and n > 0 for n in values):
        raise UsageError(f"{c.path} says {name}={found!r}, which is neither a number nor two")
    return values[0], values[1]


def lists(c: Config, *names: str) -> list[tuple[Any, ...]]:
    """The entries of lists that belong together, one tuple for each stage. Raises `UsageError` if they differ in
    length."""
    found = [getattr(c, name) for name in names]
    if not all(isinstance(each, list) for each in found) or len({len(each) for each in found}) != 1 or not found[0]:
        raise UsageError(f"{c.path}: {', '.join(names)} must be lists of one length")
    return list(zip(*found, strict=True))


def fixed_picture(c: Config) -> list[Input]:
    """Pictures of the size that the configuration says."""
    return [Input("pixel_values", (Axis(BATCH), c.num_channels, *pair(c, "image_size")))]


def any_picture(least: Callable[[Config], int]) -> Callable[[Config], list[Input]]:
    """Pictures of any size, from `least(config)` pixels on."""

    def inputs(c: Config) -> list[Input]:
        return [Input("pixel_values", (Axis(BATCH), c.num_channels, Axis("height", least(c)), Axis("width", least(c))))]

    return inputs
