"""What to do about operators of ONNX Runtime that the importer does not know."""

from __future__ import annotations

_LOOPS = ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")


def unknown_of_onnxruntime(name: str) -> str:
    """Why an operator of ONNX Runtime is refused, and what helps."""
    if name in _LOOPS:
        return "it holds the loop of a generation; export the encoder and the decoder without it"
    if name.startswith(("QOrdered", "Packed")) or "BlockQuantized" in name:
        return "ONNX Runtime has it for graphics cards only; export the model for CPUs"
    return (
        "an operator of ONNX Runtime that is not known. If its optimiser wrote it, save the model with the "
        "optimisation level 'basic' (SessionOptions.graph_optimization_level = ORT_ENABLE_BASIC)"
    )
