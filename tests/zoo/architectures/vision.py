"""Models of images and video."""

from __future__ import annotations

from typing import Any

from tests.zoo.case import Case, Input

TINY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "image_size": 64,
    "patch_size": 16,
    "num_labels": 5,
}

PIXELS = Input("pixel_values", ("batch", 3, "height", "width"), "normal")
SQUARE = Input("pixel_values", ("batch", 3, 64, 64), "normal")


def free(name: str, model: str, call: dict[str, Any] | None = None, **config: Any) -> Case:
    """A transformer for images of any size."""
    return Case(name, "vision", model, {**TINY, **config}, (PIXELS,), call=call or {})


def convolutions(name: str, model: str, sizes: dict[str, tuple[int, ...]] | None = None, **config: Any) -> Case:
    """A convolutional network for images of any size."""
    return Case(name, "vision", model, {"num_labels": 5, **config}, (PIXELS,), sizes=sizes or {})


def staged(name: str, model: str, **config: Any) -> Case:
    """A transformer with windows and stages, for images of any size."""
    return Case(name, "vision", model, config, (PIXELS,))


def fixed(name: str, model: str, *more: Input, **config: Any) -> Case:
    """A model for images of one size, in batches of any size."""
    return Case(name, "vision", model, {**TINY, **config}, (SQUARE, *more))


STAGES: dict[str, Any] = {
    "image_size": 64,
    "num_labels": 5,
    "embed_dim": 16,
    "depths": [1, 1],
    "num_heads": [2, 4],
    "window_size": 4,
    "patch_size": 4,
}
CONV = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32], "num_channels": 3}
TIMES = {"interpolate_pos_encoding": True}
PYRAMID: dict[str, Any] = {
    "hidden_sizes": [8, 16, 16, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
}
SWIN: dict[str, Any] = {
    "model_type": "swin",
    "embed_dim": 16,
    "depths": [1, 1, 1, 1],
    "num_heads": [2, 2, 4, 4],
    "window_size": 4,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
BASIC: dict[str, Any] = {
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}
RESNET: dict[str, Any] = {
    "backbone_config": {"model_type": "resnet", **BASIC},
    "backbone": None,
    "use_pretrained_backbone": False,
    "use_timm_backbone": False,
}
DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "num_queries": 5,
}

CASES = (
    fixed("aimv2-vision", "Aimv2VisionModel"),
    fixed("beit", "BeitModel", use_relative_position_bias=True),
    convolutions("bit", "BitModel", embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_groups=4),
    free(
        "conditional-detr",
        "ConditionalDetrForObjectDetection",
        **DETR,
        **{**RESNET, "backbone_config": {**RESNET["backbone_config"], "out_features": ["stage4"]}},
    ),
    convolutions("convnext", "ConvNextForImageClassification", **CONV),
    convolutions("convnextv2", "ConvNextV2ForImageClassification", **CONV),
    fixed(
        "cvt",
        "CvtForImageClassification",
        embed_dim=[8, 16, 32],
        num_heads=[1, 2, 4],
        depth=[1, 2, 3],
        cls_token=[False, False, True],
    ),
    fixed("data2vec-vision", "Data2VecVisionModel"),
    free(
        "deformable-detr",
        "DeformableDetrForObjectDetection",
        **{**DETR, "decoder_layers": 2},
        num_feature_levels=3,
        encoder_n_points=2,
        decoder_n_points=2,
        **RESNET,
    ),
    fixed("deit", "DeiTModel"),
    fixed(
        "depth-anything",
        "DepthAnythingForDepthEstimation",
        patch_size=16,
        reassemble_hidden_size=32,
        neck_hidden_sizes=[8, 16],
        reassemble_factors=[2, 1],
        fusion_hidden_size=8,
        head_hidden_size=4,
        backbone_config={
            "model_type": "dinov2",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 64,
            "patch_size": 16,
            "out_indices": [1, 2],
            "reshape_hidden_states": False,
            "apply_layernorm": True,
        },
    ),
    free(
        "detr",
        "DetrForObjectDetection",
        **DETR,
        **{**RESNET, "backbone_config": {**RESNET["backbone_config"], "out_features": ["stage4"]}},
    ),
    free("dinov2", "Dinov2Model"),
    free("dinov2-registers", "Dinov2WithRegistersModel", num_register_tokens=2),
    convolutions("dinov3-convnext", "DINOv3ConvNextModel", **CONV),
    free("dinov3-vit", "DINOv3ViTModel", num_register_tokens=2),
    staged("donut-swin", "DonutSwinModel", **STAGES),
    fixed(
        "dpt",
        "DPTForDepthEstimation",
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=8,
        backbone_out_indices=[0, 1, 2, 3],
        num_hidden_layers=4,
        reassemble_factors=[4, 2, 1, 0.5],
        is_hybrid=False,
    ),
    convolutions(
        "efficientnet",
        "EfficientNetForImageClassification",
        width_coefficient=0.25,
        depth_coefficient=0.25,
        hidden_dim=320,
    ),
    fixed("eomt", "EomtForUniversalSegmentation", num_upscale_blocks=1, num_blocks=1, num_queries=5),
    convolutions(
        "focalnet",
        "FocalNetForImageClassification",
        embed_dim=8,
        depths=[1, 1],
        hidden_sizes=[8, 16],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        patch_size=4,
    ),
    free(
        "glpn",
        "GLPNForDepthEstimation",
        **PYRAMID,
        decoder_hidden_size=16,
    ),
    fixed(
        "hiera",
        "HieraModel",
        embed_dim=16,
        depths=[1, 1, 1],
        num_heads=[1, 2, 4],
        patch_size=[7, 7],
        patch_stride=[4, 4],
        patch_padding=[3, 3],
        query_stride=[2, 2],
        num_query_pool=2,
        masked_unit_size=[4, 4],
        image_size=[64, 64],
    ),
    convolutions(
        "hgnet-v2",
        "HGNetV2ForImageClassification",
        embedding_size=8,
        hidden_sizes=[16, 32, 32, 64],
        stem_channels=[3, 8, 8],
        depths=[1, 1, 1, 1],
        stage_in_channels=[8, 16, 32, 32],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[16, 32, 32, 64],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[2, 2, 2, 2],
    ),
    fixed("ijepa", "IJepaModel"),
    fixed(
        "levit",
        "LevitForImageClassification",
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[2, 4, 6],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    ),
    free(
        "mask2former",
        "Mask2FormerForUniversalSegmentation",
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=40,
        encoder_layers=1,
        decoder_layers=2,
        dim_feedforward=40,
        num_queries=5,
        backbone_config=SWIN,
    ),
    free(
        "maskformer",
        "MaskFormerForInstanceSegmentation",
        fpn_feature_size=32,
        mask_feature_size=32,
        decoder_config={"model_type": "detr", **DETR},
        backbone_config=SWIN,
    ),
    convolutions("mobilenet-v1", "MobileNetV1ForImageClassification", depth_multiplier=0.25, min_depth=8),
    convolutions("mobilenet-v2", "MobileNetV2ForImageClassification", depth_multiplier=0.25, min_depth=8),
    free(
        "mobilevit",
        "MobileViTForImageClassification",
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
        last_hidden_size=32,
    ),
    convolutions(
        "mobilevitv2",
        "MobileViTV2ForImageClassification",
        width_multiplier=0.25,
        base_attn_unit_dims=[16, 24, 32],
        n_attn_blocks=[1, 1, 1],
        sizes={"height": (64, 128, 192, 64, 128), "width": (128, 64, 64, 192, 64)},
    ),
    convolutions("poolformer", "PoolFormerForImageClassification", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    fixed(
        "pvt",
        "PvtForImageClassification",
        **PYRAMID,
        mlp_ratios=[2, 2, 2, 2],
    ),
    free(
        "pvt-v2",
        "PvtV2ForImageClassification",
        **PYRAMID,
        mlp_ratios=[2, 2, 2, 2],
    ),
    convolutions(
        "regnet",
        "RegNetForImageClassification",
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        groups_width=8,
    ),
    convolutions(
        "resnet", "ResNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]
    ),
    convolutions(
        "rt-detr",
        "RTDetrForObjectDetection",
        initializer_range=0.3,
        d_model=32,
        encoder_hidden_dim=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_in_channels=[8, 16, 16],
        feat_strides=[8, 16, 32],
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        num_queries=5,
        num_denoising=0,
        decoder_in_channels=[32, 32, 32],
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        anchor_image_size=None,
        backbone_config={"model_type": "rt_detr_resnet", **BASIC},
    ),
    free(
        "segformer",
        "SegformerForSemanticSegmentation",
        **{**PYRAMID, "num_hidden_layers": 4},
        decoder_hidden_size=16,
    ),
    fixed("siglip-vision", "SiglipVisionModel"),
    convolutions("swiftformer", "SwiftFormerForImageClassification", embed_dims=[8, 16, 16, 32], depths=[1, 1, 1, 1]),
    staged("swin", "SwinForImageClassification", **STAGES),
    staged(
        "swin2sr",
        "Swin2SRForImageSuperResolution",
        image_size=64,
        embed_dim=16,
        depths=[1],
        num_heads=[2],
        window_size=4,
        patch_size=1,
        upscale=2,
    ),
    staged("swinv2", "Swinv2ForImageClassification", **STAGES),
    free(
        "table-transformer",
        "TableTransformerForObjectDetection",
        **DETR,
        **{**RESNET, "backbone_config": {**RESNET["backbone_config"], "out_features": ["stage4"]}},
    ),
    convolutions(
        "textnet",
        "TextNetForImageClassification",
        stem_out_channels=8,
        hidden_sizes=[8, 8, 16, 16, 32],
        conv_layer_kernel_sizes=[[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]],
        conv_layer_strides=[[2], [2], [2], [2]],
    ),
    Case(
        "timesformer",
        "vision",
        "TimesformerModel",
        {**TINY, "num_frames": 2},
        (Input("pixel_values", ("batch", 2, 3, 64, 64)),),
    ),
    free(
        "upernet",
        "UperNetForSemanticSegmentation",
        hidden_size=16,
        pool_scales=[1, 2],
        auxiliary_channels=8,
        auxiliary_in_channels=16,
        backbone_config={
            "model_type": "convnext",
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
        use_auxiliary_head=False,
    ),
    Case(
        "videomae",
        "vision",
        "VideoMAEModel",
        {**TINY, "num_frames": 4},
        (Input("pixel_values", ("batch", 4, 3, 64, 64)),),
    ),
    free("vit", "ViTModel", TIMES),
    fixed("vit-classify", "ViTForImageClassification"),
    fixed("vit-msn", "ViTMSNModel"),
    fixed("vitdet", "VitDetModel", window_size=2, window_block_indices=[0]),
    fixed(
        "vitpose",
        "VitPoseForPoseEstimation",
        num_labels=5,
        backbone_config={
            "model_type": "vitpose_backbone",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": [64, 64],
            "patch_size": [16, 16],
            "out_indices": [2],
        },
    ),
    Case(
        "vivit",
        "vision",
        "VivitModel",
        {**TINY, "num_frames": 4, "tubelet_size": [2, 16, 16]},
        (Input("pixel_values", ("batch", 4, 3, 64, 64)),),
    ),
    free("yolos", "YolosForObjectDetection", num_detection_tokens=4, image_size=[64, 64]),
    fixed(
        "zoedepth",
        "ZoeDepthForDepthEstimation",
        bottleneck_features=16,
        num_attractors=[4, 2, 1, 1],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        reassemble_factors=[4, 2, 1, 0.5],
        backbone_hidden_size=32,
        bin_embedding_dim=8,
        num_relative_features=8,
        backbone_config={
            "model_type": "beit",
            "hidden_size": 32,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 40,
            "image_size": 64,
            "patch_size": 16,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
            "reshape_hidden_states": False,
            "use_relative_position_bias": True,
        },
    ),
)
