"""From a model in float32 to one of 8-bit integers, with ranges of activations from samples.

`samples` reads and checks what a user gives, `quantizer` makes the model with ONNX Runtime's quantiser, `ends` takes
floats off its inputs and outputs, `accuracy` compares both models.
"""

from deploykit.quantization.static.accuracy import LayerLoss, OutputAccuracy
from deploykit.quantization.static.quantizer import METHODS, Quantized, quantize

__all__ = ["METHODS", "LayerLoss", "OutputAccuracy", "Quantized", "quantize"]
"""What the command line needs."""
