"""A model with weights of int8 or fp16 instead of float32, and how much its answers change.

`kinds` says what weights can become, `steps` what a build does, `measures` how the change is told, `trials` what a
model of texts is tried on. How weights are stored and computed with is `compiler/graph/quantize_weights.py`.
"""

from deploykit.quantization.kinds import KINDS, Kind
from deploykit.quantization.measures import MEASURES
from deploykit.quantization.steps import Quantization
from deploykit.quantization.trials import QUESTIONS, TEXTS

__all__ = ["KINDS", "MEASURES", "QUESTIONS", "TEXTS", "Kind", "Quantization"]
