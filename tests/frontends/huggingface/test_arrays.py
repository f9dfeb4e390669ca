"""Every architecture of pictures and sound computes what transformers computes in eager mode."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deploykit
from deploykit.compiler.model import Port
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import find_architecture
from deploykit.frontends.huggingface.arrays import load_arrays
from deploykit.frontends.huggingface.families.resnet import RESNET, TIMM, resnet
from deploykit.frontends.huggingface.folder import Config, read_folder
from deploykit.frontends.huggingface.importer import load_folder
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights
from tests.frontends.huggingface.array_cases import ARRAY_CASES
from tests.frontends.huggingface.seeds import GOLDENS, Shapes, write_folder


@dataclass(frozen=True)
class Golden:
    """The configuration, the shapes of the weights, the results by the number of the run and their names, and the
    entries of `preprocessor_config.json`."""

    config: dict[str, Any]
    shapes: Shapes
    results: Mapping[str, np.ndarray]
    preprocessor: dict[str, Any] | None

    def write(self, folder: Path) -> Path:
        write_folder(folder, self.config, self.shapes)
        if self.preprocessor is not None:
            (folder / "preprocessor_config.json").write_text(json.dumps(self.preprocessor))
        return folder


def golden(name: str) -> Golden:
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    with np.load(GOLDENS / f"{name}.npz") as arrays:
        return Golden(facts["config"], facts["shapes"], dict(arrays), facts.get("preprocessor"))


@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("name", ARRAY_CASES)
def test_results(tmp_path: Path, name: str) -> None:
    case, stored = ARRAY_CASES[name], golden(name)
    deploykit.build(stored.write(tmp_path / "model"), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        for run in range(3):
            found = session(**case.inputs(run))
            for output in case.outputs:
                value = stored.results[f"{run}/out/{output}"]
                limit = case.tolerance * max(1.0, float(np.abs(value).max()))
                np.testing.assert_allclose(found[output], value, rtol=0, atol=limit, err_msg=output)


class Recorder(dict[str, Any]):
    """Entries of a configuration that note which of them are read."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__({k: Recorder(v) if isinstance(v, dict) else v for k, v in entries.items()})
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def unread(self) -> set[str]:
        """The entries that were not read, here and, as `part.entry`, in the parts that were read."""
        parts = {name: part.unread() for name, part in self.items() if name in self.read and isinstance(part, Recorder)}
        return (self.keys() - self.read) | {f"{name}.{entry}" for name, part in parts.items() for entry in part}


WITHOUT_EFFECT = re.compile(
    r"initializer_\w+|layerscale_value|init_\w*std|logit_scale_init_value"  # weights at the start of a training
    r"|\w*drop\w*|mask_\w+|apply_spec_augment|\w+_cost|\w+_coefficient|auxiliary_loss|\w*_loss_\w+"  # training
    r"|feat_quantizer_\w+|num_codevector\w+|contrastive_\w+|num_negatives|codevector_dim|proj_codevector_dim|ctc_\w+"
    r"|encoder_stride|use_mask_token|classifier_proj_size|tdnn_\w+|xvector_\w+"  # heads of other architectures
    r"|stage_names|out_features|out_indices|apply_layernorm|reshape_hidden_states"  # backbones
    r"|(pad|bos|eos|decoder_start)_token_id|\w*suppress_tokens|use_cache|tie_word_embeddings|is_encoder_decoder"
    r"|id2label|label2id|problem_type|return_dict|output_attentions|output_hidden_states|chunk_size_feed_forward"
    r"|dtype|architectures|transformers_version|_name_or_path"
)
"""Entries of configurations that change no result of the architectures here."""

WITHOUT_EFFECT_FOR = {
    "clip": {"text_config.projection_dim", "vision_config.projection_dim"},
    "convnext": {"image_size"},
    "detr": {"backbone_config.num_channels"},
    "segformer": {"layer_norm_eps"},
    "swin": {"hidden_size", "num_layers"},
    "wav2vec2": {
        *("adapter_kernel_size", "adapter_stride", "num_adapter_layers", "output_hidden_size"),
        "num_feat_extract_layers",
    },
    "whisper": {
        *("decoder_attention_heads", "decoder_ffn_dim", "decoder_layers", "max_target_positions", "vocab_size"),
        *("median_filter_width", "scale_embedding"),
    },
}
"""More of them, by the type of the model."""


def by_type() -> dict[str, list[str]]:
    """The names of the cases of each type of model."""
    types: dict[str, list[str]] = {}
    for name in ARRAY_CASES:
        types.setdefault(golden(name).config["model_type"], []).append(name)
    return types


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("kind", by_type())
def test_every_entry_of_a_configuration_counts(tmp_path: Path, kind: str) -> None:
    left: list[set[str]] = []
    for name in by_type()[kind]:
        stored = golden(name)
        folder = read_folder(stored.write(tmp_path / name))
        entries = Recorder(folder.config.entries)
        found = find_architecture(folder.config)
        assert found is not None
        load_arrays(replace(folder, config=Config(folder.config.path, entries)), found)
        left.append(entries.unread() - WITHOUT_EFFECT_FOR.get(kind, set()))
    assert not {entry for entry in set.intersection(*left) if not WITHOUT_EFFECT.fullmatch(entry.split(".")[-1])}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_weights_of_other_floats_become_float32(dtype: Any) -> None:
    stored = np.linspace(-3, 3, 7).astype(dtype)
    builder = ModelBuilder("weights")

    def body(ctx: Context, _given: Values, _states: Values) -> tuple[Values, Values]:
        return {"y": Weights(Path("model"), {"w": stored}).take(ctx, "w")}, {}

    builder.function("main", [], body)
    (output,) = builder.signatures["main"].outputs
    assert output.dtype == "float32"


def test_entries_that_a_family_does_not_know(tmp_path: Path) -> None:
    stored = golden("segformer")
    for entry, value in {"reshape_last_stage": False, "head_dim": 3, "quantization_config": {"bits": 4}}.items():
        write_folder(tmp_path, {**stored.config, entry: value}, stored.shapes)
        with pytest.raises(UnsupportedModelError, match=f"says {entry}=.*; models of type 'segformer' need"):
            load_folder(tmp_path)


@pytest.mark.parametrize(
    "change", [{"qkv_bias": False}, {"intermediate_size": 41}, {"image_size": 20}, {"patch_size": 2}]
)
def test_weights_of_another_configuration(tmp_path: Path, change: dict[str, Any]) -> None:
    stored = golden("vit")
    write_folder(tmp_path, {**stored.config, **change}, stored.shapes)
    with pytest.raises(UsageError, match=r"configuration (needs|has no)"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("resnet", {"depths": [1]}),
        ("convnext", {"num_stages": 3}),
        ("segformer", {"mlp_ratios": [1]}),
        ("swin", {"num_heads": [2, 4, 8]}),
        ("wav2vec2", {"conv_kernel": [10]}),
    ],
)
def test_lists_that_differ_in_length(tmp_path: Path, name: str, change: dict[str, Any]) -> None:
    stored = golden(name)
    write_folder(tmp_path, {**stored.config, **change}, stored.shapes)
    with pytest.raises(UsageError, match=r"must be lists of one length|says num_stages=3, but depths has 2 numbers"):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"image_size": 2},
            UnsupportedModelError,
            r"at 'embeddings.patch_embeddings.projection': the window is larger",
        ),
        ({"num_attention_heads": 5}, UnsupportedModelError, "24 channels do not split into 5 heads"),
        ({"hidden_act": "maxout"}, UnsupportedModelError, "the activation 'maxout' is unknown"),
        ({"image_size": [16, 16, 16]}, UsageError, "it must be a positive integer, or two"),
        ({"num_hidden_layers": 3}, UsageError, "no weights 'encoder.layer.2"),
    ],
)
def test_configurations_that_make_no_model(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    stored = golden("vit")
    write_folder(tmp_path, {**stored.config, **change}, stored.shapes)
    with pytest.raises(error, match=message):
        load_folder(tmp_path)


def test_weights_that_are_not_used(tmp_path: Path) -> None:
    stored = golden("vit")
    assert load_folder(stored.write(tmp_path)).notes == ()
    write_folder(tmp_path, {**stored.config, "num_hidden_layers": 1}, stored.shapes)
    assert load_folder(tmp_path).notes == (
        "16 of 40 weights are not used, such as 'encoder.layer.1.attention.attention.key.bias'",
    )


def test_an_architecture_that_is_unknown(tmp_path: Path) -> None:
    stored = golden("vit")
    write_folder(tmp_path, {**stored.config, "architectures": ["ViTForMaskedImageModeling"]}, stored.shapes)
    with pytest.raises(UnsupportedModelError, match=r"ViTForMaskedImageModeling, which is unknown; .* ViTModel"):
        load_folder(tmp_path)
    write_folder(tmp_path, {**stored.config, "model_type": "mystery"}, stored.shapes)
    with pytest.raises(UnsupportedModelError, match=r"ViTModel: models of type 'mystery' have no importer"):
        load_folder(tmp_path)


def test_dims_of_pictures(tmp_path: Path) -> None:
    for name, dims, message in (
        ("vit", {"height": 32}, "no dim 'height'; it has batch"),
        ("convnext", {"height": 4}, "'height' is at least 8 in this model"),
        ("clip", {"seq": 21}, "'seq' is at most 20 in this model"),
    ):
        stored = golden(name)
        write_folder(tmp_path, stored.config, stored.shapes)
        with pytest.raises(UsageError, match=message):
            load_folder(tmp_path, dims)
    stored = golden("convnext")
    write_folder(tmp_path, stored.config, stored.shapes)
    (pixels,) = load_folder(tmp_path, {"batch": 2, "height": 32, "width": 40}).functions[0].inputs
    assert pixels.shape == (2, 3, 32, 40)


def test_texts_of_two_towers_have_no_tokens(tmp_path: Path) -> None:
    stored = golden("clip")
    write_folder(tmp_path, stored.config, stored.shapes)
    with pytest.raises(UsageError, match="no dim 'tokens'"):
        deploykit.load(tmp_path, {"tokens": 9})


@pytest.mark.sampled(part=8)
def test_resnets_with_the_names_of_timm(tmp_path: Path) -> None:
    """The same weights under other names make the same model."""
    stored = golden("resnet")
    write_folder(tmp_path, stored.config, stored.shapes)
    folder = read_folder(tmp_path)
    parts = {"convolution": ("conv", "downsample.0"), "normalization": ("bn", "downsample.1")}

    place = re.compile(
        r"(?:embedder\.embedder|encoder\.stages\.(\d)\.layers\.(\d)\.(?:layer\.(\d)|shortcut))\.(\w+)\.(\w+)"
    )

    def renamed(name: str) -> str:
        found = place.fullmatch(name)
        assert found is not None
        stage, number, step, part, end = found.groups()
        own, shortcut = parts[part]
        if stage is None:
            return f"{own}1.{end}"
        return f"layer{int(stage) + 1}.{number}.{shortcut if step is None else f'{own}{int(step) + 1}'}.{end}"

    weights = Weights(tmp_path, {renamed(name): array for name, array in folder.weights.items()})
    builder = ModelBuilder("resnet")
    shape = (builder.dim("batch"), 3, builder.dim("height"), builder.dim("width"))

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        pixels = Tensor(ctx, given["pixel_values"])
        return {"map": resnet(Module(ctx, weights), RESNET.of(folder.config), pixels, TIMM)[-1].value}, {}

    builder.function("main", [Port("pixel_values", "float32", shape)], body)
    deploykit.build(builder.model(), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        found = session(**ARRAY_CASES["resnet"].inputs(1))["map"]
    np.testing.assert_allclose(found, stored.results["1/out/last_hidden_state"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"backbone_config": None, "backbone": "resnet18"},
            "says backbone='resnet18' .*; there are resnet50, resnet101",
        ),
        ({"backbone_config": None, "backbone_kwargs": {"out_indices": [1, 2]}}, "with the map 2; there are"),
        ({"backbone_config": None, "backbone_kwargs": {"output_stride": 16}}, "says output_stride=16; models of type"),
        ({"backbone_config": {"model_type": "swin"}}, "says model_type='swin'; models of type 'resnet' need"),
        ({"dilation": True}, "says dilation=True; models of type 'detr' need False"),
        ({"position_embedding_type": "learned"}, "says position_embedding_type='learned'"),
    ],
)
def test_backbones_that_are_unknown(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    stored = golden("detr")
    write_folder(tmp_path, {**stored.config, **change}, stored.shapes)
    with pytest.raises(UnsupportedModelError, match=message):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dither": 0.1}, UnsupportedModelError, "says dither=0.1, but only 0.0 is known"),
        ({"feature_extractor_type": "SpeechT5FeatureExtractor"}, UnsupportedModelError, "there is WhisperFeature"),
        ({"hop_length": 0}, UsageError, "'hop_length' is 0 .* it must be a positive integer"),
        ({"chunk_length": 2}, UsageError, "describes spectra of 8 bins and 200 frames, .* needs 8 and 100"),
    ],
)
def test_spectra_that_are_unknown(tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str) -> None:
    stored = golden("whisper-samples")
    assert stored.preprocessor is not None
    with pytest.raises(error, match=message):
        load_folder(replace(stored, preprocessor=stored.preprocessor | change).write(tmp_path))
