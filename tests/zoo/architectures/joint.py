"""Models of images and text, and of other combinations of inputs."""

from __future__ import annotations

from typing import Any

from tests.zoo.architectures.text import BOXES, IDS, MASK, TINY, UNSET
from tests.zoo.architectures.vision import SQUARE
from tests.zoo.architectures.vision import TINY as VISION
from tests.zoo.case import Case, Input

LABELS = Input("input_ids", ("images", "seq"), "ids")
LABEL_MASK = Input("attention_mask", ("images", "seq"), "mask")
QUERIES = (Input("input_ids", ("batch", 16), "ids"), SQUARE, Input("attention_mask", ("batch", 16), "mask"))
TOWER = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {**TINY, "projection_dim": 16}
IMAGE = {**VISION, "projection_dim": 16}


def joint(name: str, model: str, *inputs: Input, **config: Any) -> Case:
    full = {"text_config": TEXT, "vision_config": IMAGE, "projection_dim": 16, **config}
    full = {key: value for key, value in full.items() if value is not UNSET}
    return Case(name, "multimodal", model, full, inputs or (LABELS, SQUARE, LABEL_MASK))


CASES = (
    joint("aimv2", "Aimv2Model", LABELS, SQUARE),
    joint(
        "align",
        "AlignModel",
        vision_config={"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 80, "image_size": 64},
        projection_dim=80,
    ),
    joint("altclip", "AltCLIPModel", text_config={**TEXT, "project_dim": 16}),
    joint("blip", "BlipModel", text_config={**TEXT, "encoder_hidden_size": 32, "is_decoder": False}),
    joint(
        "bridgetower",
        "BridgeTowerModel",
        IDS,
        MASK,
        SQUARE,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        text_config={**TEXT, "hidden_size": 64},
        vision_config={"hidden_size": 64, "num_hidden_layers": 3, "patch_size": 16, "image_size": 64},
    ),
    joint("chinese-clip", "ChineseCLIPModel"),
    joint("clip", "CLIPModel"),
    joint(
        "clipseg",
        "CLIPSegForImageSegmentation",
        IDS,
        SQUARE,
        MASK,
        extract_layers=[0, 1],
        reduce_dim=16,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=24,
    ),
    joint("clip-vision", "CLIPVisionModelWithProjection", SQUARE, **IMAGE),
    joint("clip-text", "CLIPTextModelWithProjection", IDS, MASK, **TEXT),
    joint(
        "flava",
        "FlavaModel",
        IDS,
        MASK,
        SQUARE,
        image_config=VISION,
        text_config=TEXT,
        multimodal_config={**TOWER},
        hidden_size=32,
    ),
    joint("siglip", "SiglipModel", LABELS, SQUARE),
    joint("git", "GitForCausalLM", IDS, MASK, SQUARE, vision_config=VISION, text_config=UNSET, **TINY),
    joint(
        "groupvit",
        "GroupViTModel",
        vision_config={
            **VISION,
            "depths": [1, 1, 1],
            "num_group_tokens": [8, 4, 0],
            "num_output_groups": [8, 4, 0],
            "image_size": 64,
            "patch_size": 16,
        },
        projection_intermediate_dim=16,
    ),
    joint(
        "layoutlmv3-joint",
        "LayoutLMv3Model",
        IDS,
        BOXES,
        SQUARE,
        **{
            **TINY,
            "max_2d_position_embeddings": 128,
            "coordinate_size": 6,
            "shape_size": 4,
            "input_size": 64,
            "patch_size": 16,
        },
    ),
    joint(
        "lxmert",
        "LxmertModel",
        IDS,
        Input("visual_feats", ("batch", "images", 16)),
        Input("visual_pos", ("batch", "images", 4), "uniform"),
        **{
            **TINY,
            "visual_feat_dim": 16,
            "l_layers": 1,
            "x_layers": 1,
            "r_layers": 1,
            "num_hidden_layers": {"vision": 1, "cross_encoder": 1, "language": 1},
        },
    ),
    joint(
        "llava",
        "LlavaForConditionalGeneration",
        IDS,
        MASK,
        image_token_index=98,
        vision_config={**VISION, "model_type": "clip_vision_model"},
        text_config={**TINY, "model_type": "llama", "num_key_value_heads": 2},
    ),
    joint("metaclip-2", "MetaClip2Model"),
    joint("owlvit", "OwlViTForObjectDetection", *QUERIES, projection_dim=32),
    joint("owlv2", "Owlv2ForObjectDetection", *QUERIES, projection_dim=32),
    joint("paligemma-vision", "SiglipVisionModel", SQUARE, **VISION),
    joint(
        "trocr",
        "TrOCRForCausalLM",
        IDS,
        text_config=UNSET,
        vision_config=UNSET,
        **{**TINY, "d_model": 32, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 40},
    ),
    joint("vilt", "ViltModel", IDS, MASK, SQUARE, **{**TINY, **VISION, "max_image_length": -1}),
    joint(
        "visual-bert",
        "VisualBertModel",
        IDS,
        MASK,
        Input("visual_embeds", ("batch", "images", 16)),
        **{**TINY, "visual_embedding_dim": 16},
    ),
    joint(
        "x-clip",
        "XCLIPModel",
        LABELS,
        Input("pixel_values", ("batch", 2, 3, 64, 64)),
        LABEL_MASK,
        vision_config={
            **VISION,
            "mit_hidden_size": 16,
            "mit_intermediate_size": 24,
            "mit_num_hidden_layers": 1,
            "mit_num_attention_heads": 2,
            "num_frames": 2,
        },
        prompt_layers=1,
        prompt_num_attention_heads=4,
    ),
)
