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
    processor: Mapping[str, Any] | None = None
    """Entries of a WhisperFeatureExtractor, whose results are the inputs of the reference."""

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
BOTH_TOKENS = ("logits", "cls_logits", "distillation_logits")
HIDDEN = ("last_hidden_state", "pooler_output")

VISION = {**VIT, "projection_dim": 8}
TEXT = {
    "vocab_size": 50,
    "hidden_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 30,
    "max_position_embeddings": 20,
    "projection_dim": 8,
    "eos_token_id": 7,
}
TOWERS = {"vision_config": VISION, "text_config": TEXT}
SIGLIP_TEXT = {**{k: v for k, v in TEXT.items() if k != "projection_dim"}, "projection_size": 24}
SIGLIP_TOWERS = {"vision_config": VIT, "text_config": SIGLIP_TEXT}
IDS = ((1, 1), (2, 20), (4, 13))
MASKED = {"input_ids": IDS, "attention_mask": IDS}
BOTH = ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds")
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 2]}
CONVNEXT = {"num_stages": 2, "hidden_sizes": [8, 12], "depths": [1, 2], "layer_scale_init_value": 0.5}
SWIN = {
    "image_size": [18, 30],
    "patch_size": 2,
    "embed_dim": 8,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
    "mlp_ratio": 1.5,
}
SEGFORMER = {
    "num_encoder_blocks": 2,
    "depths": [1, 2],
    "sr_ratios": [2, 1],
    "hidden_sizes": [8, 12],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 1],
    "decoder_hidden_size": 8,
}
ANY = pictures((1, 5, 5), (2, 33, 20), (3, 16, 50))
BACKBONE = {"model_type": "resnet", **RESNET}
DETR = {
    "num_queries": 5,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "d_model": 16,
    "backbone_config": {**BACKBONE, "out_features": ["stage1", "stage2"]},
}
WAV2VEC2 = {
    "vocab_size": 12,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "conv_dim": [8, 6],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 10,
}
SOUND = {"input_values": ((1, 20), (2, 333), (3, 200))}
WHISPER = {
    "vocab_size": 50,
    "num_mel_bins": 8,
    "encoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_layers": 1,
    "decoder_attention_heads": 3,
    "decoder_ffn_dim": 24,
    "encoder_ffn_dim": 20,
    "d_model": 24,
    "max_source_positions": 15,
    "max_target_positions": 10,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "decoder_start_token_id": 0,
    "classifier_proj_size": 10,
}
SPECTRA = {"input_features": ((1, 8, 30), (2, 8, 30), (3, 8, 30))}

ARRAY_CASES: Mapping[str, ArrayCase] = {
    "vit": ArrayCase("ViTModel", VIT, pictures(*BATCHES), HIDDEN),
    "vit-classes": ArrayCase(
        "ViTForImageClassification",
        {**VIT, "image_size": [12, 8], "qkv_bias": False},
        pictures((1, 12, 8), (2, 12, 8), (3, 12, 8)),
    ),
    "deit": ArrayCase("DeiTModel", VIT, pictures(*BATCHES), HIDDEN),
    "deit-classes": ArrayCase("DeiTForImageClassification", VIT, pictures(*BATCHES)),
    "deit-classes-of-both": ArrayCase(
        "DeiTForImageClassificationWithTeacher",
        VIT,
        pictures(*BATCHES),
        ("logits", "cls_logits", "distillation_logits"),
    ),
    "dinov2": ArrayCase("Dinov2Model", DINO, pictures((1, 16, 16), (2, 25, 9), (3, 8, 30)), HIDDEN),
    "dinov2-classes": ArrayCase(
        "Dinov2ForImageClassification", {**DINO, "use_swiglu_ffn": True}, pictures((1, 12, 12), (2, 16, 16), (3, 9, 30))
    ),
    "clip": ArrayCase("CLIPModel", {**TOWERS, "projection_dim": 6}, {**MASKED, **pictures(*BATCHES)}, BOTH),
    "clip-classes": ArrayCase("CLIPForImageClassification", TOWERS, pictures(*BATCHES)),
    "clip-vision": ArrayCase("CLIPVisionModel", VISION, pictures(*BATCHES), HIDDEN),
    "clip-vision-projection": ArrayCase(
        "CLIPVisionModelWithProjection", VISION, pictures(*BATCHES), ("image_embeds", "last_hidden_state")
    ),
    "clip-text": ArrayCase("CLIPTextModel", {**TEXT, "eos_token_id": 2}, MASKED, ("pooler_output",)),
    "clip-text-projection": ArrayCase("CLIPTextModelWithProjection", TEXT, MASKED, ("text_embeds",)),
    "siglip": ArrayCase("SiglipModel", SIGLIP_TOWERS, {"input_ids": IDS, **pictures(*BATCHES)}, BOTH),
    "siglip-classes": ArrayCase("SiglipForImageClassification", SIGLIP_TOWERS, pictures(*BATCHES)),
    "siglip-vision": ArrayCase("SiglipVisionModel", VIT, pictures(*BATCHES), HIDDEN),
    "siglip-text": ArrayCase("SiglipTextModel", SIGLIP_TEXT, {"input_ids": IDS}, HIDDEN),
    "resnet": ArrayCase("ResNetModel", RESNET, pictures((1, 1, 1), (2, 33, 20), (3, 16, 64)), HIDDEN),
    "resnet-classes": ArrayCase(
        "ResNetForImageClassification",
        {**RESNET, "layer_type": "basic", "downsample_in_first_stage": True},
        pictures((1, 30, 31), (2, 33, 20), (3, 16, 64)),
    ),
    "convnext": ArrayCase("ConvNextModel", CONVNEXT, pictures((1, 8, 8), (2, 33, 20), (3, 16, 30)), HIDDEN),
    "convnext-classes": ArrayCase(
        "ConvNextForImageClassification",
        {**CONVNEXT, "layer_scale_init_value": 0.0},
        pictures((1, 30, 31), (2, 33, 20), (3, 16, 64)),
    ),
    "segformer": ArrayCase("SegformerModel", SEGFORMER, ANY, HIDDEN[:1]),
    "segformer-classes": ArrayCase("SegformerForImageClassification", SEGFORMER, ANY),
    "segformer-segments": ArrayCase("SegformerForSemanticSegmentation", {**SEGFORMER, "num_labels": 3}, ANY),
    "swin": ArrayCase("SwinModel", SWIN, pictures((1, 18, 30), (2, 18, 30), (3, 18, 30)), HIDDEN),
    "swin-classes": ArrayCase(
        "SwinForImageClassification",
        {**SWIN, "image_size": 16, "use_absolute_embeddings": True, "qkv_bias": False},
        pictures(*BATCHES),
    ),
    "detr": ArrayCase("DetrModel", DETR, ANY, ("last_hidden_state", "encoder_last_hidden_state")),
    "detr-objects": ArrayCase("DetrForObjectDetection", DETR, ANY, ("logits", "pred_boxes")),
    "wav2vec2": ArrayCase("Wav2Vec2Model", WAV2VEC2, SOUND, ("last_hidden_state", "extract_features")),
    "wav2vec2-letters": ArrayCase("Wav2Vec2ForCTC", WAV2VEC2, SOUND),
    "wav2vec2-classes": ArrayCase(
        "Wav2Vec2ForSequenceClassification",
        {
            **WAV2VEC2,
            "feat_extract_norm": "layer",
            "do_stable_layer_norm": True,
            "conv_bias": True,
            "num_conv_pos_embeddings": 7,
        },
        SOUND,
    ),
    "whisper": ArrayCase("WhisperModel", WHISPER, SPECTRA, ("encoder_last_hidden_state",)),
    "whisper-generation": ArrayCase(
        "WhisperForConditionalGeneration", WHISPER, SPECTRA, ("encoder_last_hidden_state",)
    ),
    "whisper-classes": ArrayCase("WhisperForAudioClassification", WHISPER, SPECTRA),
    "whisper-samples": ArrayCase(
        "WhisperModel",
        {**WHISPER, "max_source_positions": 50},
        {"samples": ((1, 1), (2, 16000), (3, 5000))},
        ("encoder_last_hidden_state",),
        processor={"feature_size": 8, "chunk_length": 1},
    ),
}
