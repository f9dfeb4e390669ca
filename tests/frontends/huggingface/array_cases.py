"""Small models of pictures and sound: the classes of transformers, their configurations and the sizes of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Size = tuple[int, ...]

BATCHES = ((1, 16, 16), (2, 16, 16), (3, 16, 16))
"""Batches of pictures of one size: batch, height and width."""


@dataclass(frozen=True)
class ArrayCase:
    """`architecture` is a class of transformers; `settings` are entries of its configuration. `sizes` has, for each
    input, its shape at each of three runs. `outputs` are compared, within `tolerance` of the largest expected value."""

    architecture: str
    settings: Mapping[str, Any]
    sizes: Mapping[str, tuple[Size, Size, Size]]
    outputs: tuple[str, ...] = ("logits",)
    tolerance: float = 1e-4

    def inputs(self, run: int) -> dict[str, np.ndarray]:
        """Normally distributed pictures and sound; ids of tokens, and masks of texts that have different lengths."""
        random = np.random.default_rng(run)
        arrays: dict[str, np.ndarray] = {}
        for name, sizes in self.sizes.items():
            shape = sizes[run]
            if name == "input_ids":
                arrays[name] = random.integers(3, 50, shape)
            elif name == "attention_mask":
                lengths = np.array([shape[1], *random.integers(1, shape[1] + 1, shape[0] - 1)])
                arrays[name] = (np.arange(shape[1]) < lengths[:, None]).astype(np.int64)
            else:
                arrays[name] = random.standard_normal(shape).astype(np.float32)
        return arrays


def pictures(*sizes: tuple[int, int, int]) -> dict[str, tuple[Size, Size, Size]]:
    a, b, c = ((batch, 3, height, width) for batch, height, width in sizes)
    return {"pixel_values": (a, b, c)}


VIT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "image_size": 16,
    "patch_size": 4,
}
DINO = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 16, "patch_size": 4}
HIDDEN = ("last_hidden_state", "pooler_output")

ARRAY_CASES: Mapping[str, ArrayCase] = {
    "vit": ArrayCase("ViTModel", VIT, pictures(*BATCHES), HIDDEN),
    "vit-classes": ArrayCase(
        "ViTForImageClassification", {**VIT, "image_size": [12, 8], "qkv_bias": False},
        pictures((1, 12, 8), (2, 12, 8), (3, 12, 8)),
    ),
    "deit": ArrayCase("DeiTModel", VIT, pictures(*BATCHES), HIDDEN),
    "deit-classes": ArrayCase("DeiTForImageClassification", VIT, pictures(*BATCHES)),
    "deit-classes-of-both": ArrayCase(
        "DeiTForImageClassificationWithTeacher", VIT, pictures(*BATCHES), ("logits", "cls_logits", "distillation_logits")
    ),
    "dinov2": ArrayCase("Dinov2Model", DINO, pictures((1, 16, 16), (2, 25, 9), (3, 8, 30)), HIDDEN),
    "dinov2-classes": ArrayCase(
        "Dinov2ForImageClassification", {**DINO, "use_swiglu_ffn": True}, pictures((1, 12, 12), (2, 16, 16), (3, 9, 30))
    ),
}
