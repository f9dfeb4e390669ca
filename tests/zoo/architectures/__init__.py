"""The architectures of the zoo, by kind of input."""

from __future__ import annotations

from tests.zoo.architectures import audio, decoders, joint, pairs, series, text, vision
from tests.zoo.case import Case

CASES: dict[str, Case] = {
    case.name: case
    for cases in (text.CASES, decoders.CASES, pairs.CASES, vision.CASES, audio.CASES, joint.CASES, series.CASES)
    for case in cases
}
"""Every case by its name."""
