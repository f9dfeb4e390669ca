"""Rotary position embeddings as configurations describe them.

Pair i of the channels of a head turns by position * frequency[i], with the frequencies theta^(-2i / channels), changed
by the type of scaling. Cosines and sines are tables, computed here for all positions.

    default   as they are
    linear    divided by a factor
    dynamic   as they are: texts longer than the model was trained for are refused
    longrope  divided by a factor for each pair, and the table is scaled; for texts of the length that the model was
              first trained for
    llama3    long waves are divided by a factor, and those between long and short ones by a share of it
    yarn      the same by a ramp over the pairs, and the table is scaled

(Source: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; "The Llama 3 Herd of Models", 2024.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.entries import OBJECT, ROTARY, check_settings
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Tensor

Settings: TypeAlias = Mapping[str, Any]

MOST_POSITIONS = 1 << 22
"""The longest texts that have tables of positions."""

WIDEST = 1 << 16
"""The most channels of a head that have tables of positions."""

TRAINED = "original_max_position_embeddings"
"""The length of the texts that a model was first trained for."""


@dataclass(frozen=True)
class Rotary:
    """Tables of cosines and sines (1, length, pairs)."""

    cosines: Tensor
    sines: Tensor

    def __call__(self, x: Tensor, heads: int) -> Tensor:
        """`x` (batch, length, heads * size), turned by its positions."""
        return x.turned(self.cosines, self.sines, heads)


def rotary(c: Config, text: Text, size: int, settings: Settings) -> Rotary:
    """The tables for heads of `size` channels."""
    if text.longest is None or text.longest > MOST_POSITIONS:
        raise UsageError("positions are tables here: say how long texts are, as in --dim seq=1..512")
    if size > WIDEST:
        raise UnsupportedModelError(f"heads of {size} channels, which turn by their positions; the most are {WIDEST}")
    turns, scale = frequencies(c, size, text.longest, settings)
    angles = np.arange(text.longest, dtype=np.float32)[:, None] * turns[None, :]

    def table(values: np.ndarray) -> Tensor:
        whole = text.ids.of(text.ids.ctx.constant((values * np.float32(scale))[None], "float32"))
        return text.placed(whole)

    return Rotary(table(np.cos(angles)), table(np.sin(angles)))


def settings_of(c: Config, kind: str | None = None, theta: str = "rope_theta", *, scaled: bool = True) -> Settings:
    """The settings of a configuration, for layers of a `kind` if they differ. Older ones say them as `rope_scaling`,
    which counts if they are `scaled`, and as entries of their own, `theta` among them."""
    found, scaling = c.get("rope_parameters"), c.get("rope_scaling")
    if isinstance(found, dict) and kind is not None:
        found = found.get(kind) or {}
    for given in (found, scaling):
        if not OBJECT.holds(given or {}):
            raise UsageError(f"the settings of rotary positions in {c.path} are {given!r:.60}; they must be an object")
    settings = {**(found or {}), **((scaling or {}) if scaled else {})}
    if c.get("partial_rotary_factor") is not None:
        settings = {"partial_rotary_factor": c.partial_rotary_factor, **settings}
    if c.get(TRAINED) is not None:
        settings[TRAINED] = c[TRAINED]
    return {"rope_theta": c.get(theta), TRAINED: c.max_position_embeddings, **settings}


def frequencies(c: Config, size: int, longest: int, settings: Settings) -> tuple[np.ndarray, float]:
    """The frequency of each pair of channels, and what the tables are scaled by."""
    check_settings(c.path, settings, ROTARY)
    kind = settings.get("rope_type", settings.get("type", "default"))
    channels = int(size * float(settings.get("partial_rotary_factor") or 1.0))
    powers = np.float32(_needed(c, settings, "rope_theta")) ** (
        np.arange(0, channels, 2, dtype=np.float32) / np.float32(channels)
    )
    plain = (np.float32(1) / powers).astype(np.float32)
    match kind:
        case "default" | "dynamic":
            return plain, 1.0
        case "linear":
            return plain / np.float32(_needed(c, settings, "factor")), 1.0
        case "llama3":
            return _llama3(c, plain, settings), 1.0
        case "longrope" | "su":
            return _longrope(c, plain, longest, settings)
        case "yarn":
            return _yarn(c, plain, channels, settings)
    raise UnsupportedModelError(
        f"the type '{kind}' of rotary positions in {c.path} is unknown; there are default, linear, dynamic, llama3, "
        "longrope and yarn"
    )


def _needed(c: Config, settings: Settings, name: str) -> Any:
    """A setting. Raises `UsageError` if it is missing or null."""
    if settings.get(name) is None:
        raise UsageError(f"{c.path} has no '{name}', which its rotary positions need; it must be {ROTARY[name].text}")
    return settings[name]


def _llama3(c: Config, plain: np.ndarray, settings: Settings) -> np.ndarray:
    names = ("factor", "low_freq_factor", "high_freq_factor")
    factor, low, high = (float(_needed(c, settings, name)) for name in names)
    trained = float(settings[TRAINED])
    turns = trained * plain.astype(np.float64) / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (plain * (share + (1 - share) / factor)).astype(np.float32)


def _longrope(c: Config, plain: np.ndarray, longest: int, settings: Settings) -> tuple[np.ndarray, float]:
    trained = int(settings[TRAINED])
    if longest > trained:
        raise UnsupportedModelError(
            f"texts of up to {longest} tokens with positions of the type 'longrope', which turn in another way from "
            f"{trained + 1} tokens on: ask for texts of up to {trained}, with --dim seq=1..{trained}"
        )
    factor = float(settings.get("factor") or c.max_position_embeddings / trained)
    scale = settings.get("attention_factor")
    if scale is None:
        scale = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    factors = np.asarray(_needed(c, settings, "short_factor"), np.float32)
    if factors.shape != plain.shape:
        raise UsageError(
            f"'short_factor' in {c.path} has {factors.size} numbers; it must have {plain.size}, one for each pair of "
            "channels that turn"
        )
    return plain / factors, float(scale)


def _yarn(c: Config, plain: np.ndarray, channels: int, settings: Settings) -> tuple[np.ndarray, float]:
    trained = float(settings[TRAINED])
    factor = float(settings.get("factor") or c.max_position_embeddings / trained)
    theta = float(_needed(c, settings, "rope_theta"))

    def pair(turns: float) -> float:
        """The pair that turns so often in a text of the trained length."""
        return channels * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair(settings.get("beta_fast") or 32), pair(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, channels - 1)
    ramp = np.clip((np.arange(channels // 2) - first) / ((last - first) or 0.001), 0, 1)
    return (plain * (1 - ramp + ramp / factor)).astype(np.float32), _yarn_scale(factor, settings)


def _yarn_scale(factor: float, settings: Settings) -> float:
    if settings.get("attention_factor") is not None:
        return float(settings["attention_factor"])

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    if settings.get("mscale") and settings.get("mscale_all_dim"):
        return scale(settings["mscale"]) / scale(settings["mscale_all_dim"])
    return scale(1.0)
