"""Encoders of text."""

from __future__ import annotations

from typing import Any

from tests.zoo.case import Case, Input

TINY: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "type_vocab_size": 2,
}

IDS = Input("input_ids", ("batch", "seq"), "ids")
MASK = Input("attention_mask", ("batch", "seq"), "mask")
BOXES = Input("bbox", ("batch", "seq", 4), "boxes")
TYPES = Input("token_type_ids", ("batch", "seq"), "ids", 0, 2)


UNSET = object()
"""A value in a configuration that removes an entry of `TINY`, because the architecture does not accept it."""


def encoder(
    name: str,
    model: str,
    *more: Input,
    ids: bool = True,
    mask: bool = True,
    sizes: dict[str, tuple[int, ...]] | None = None,
    **config: Any,
) -> Case:
    inputs = (*((IDS,) if ids else ()), *((MASK,) if mask else ()), *more)
    return Case(
        name,
        "text",
        model,
        {key: value for key, value in {**TINY, **config}.items() if value is not UNSET},
        inputs,
        sizes=sizes or {},
    )


CASES = (
    encoder("albert", "AlbertModel", embedding_size=16),
    encoder("bert", "BertModel", TYPES),
    encoder("bert-classify", "BertForSequenceClassification", num_labels=3),
    encoder("bert-masked", "BertForMaskedLM"),
    encoder("bert-question", "BertForQuestionAnswering", TYPES),
    encoder("bert-generation", "BertGenerationEncoder"),
    encoder("big-bird", "BigBirdModel", attention_type="original_full"),
    encoder("camembert", "CamembertModel"),
    encoder(
        "canine",
        "CanineModel",
        num_hash_functions=2,
        num_hash_buckets=32,
        local_transformer_stride=4,
        downsampling_rate=4,
        upsampling_kernel_size=4,
        max_position_embeddings=64,
        sizes={"seq": (8, 4, 16, 28, 12)},
    ),
    encoder("convbert", "ConvBertModel", embedding_size=32, head_ratio=2, conv_kernel_size=3, num_groups=1),
    encoder("data2vec-text", "Data2VecTextModel"),
    encoder("deberta", "DebertaModel", relative_attention=True, pos_att_type=["p2c", "c2p"], max_relative_positions=8),
    encoder(
        "deberta-v2",
        "DebertaV2Model",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        share_att_key=True,
        norm_rel_ebd="layer_norm",
    ),
    encoder("distilbert", "DistilBertModel", dim=32, hidden_dim=40, n_layers=2, n_heads=4),
    encoder("dpr", "DPRContextEncoder"),
    encoder("electra", "ElectraModel", embedding_size=16),
    encoder("ernie", "ErnieModel"),
    encoder("esm", "EsmModel", mask_token_id=3, position_embedding_type="rotary"),
    encoder("eurobert", "EuroBertModel", num_key_value_heads=2, head_dim=8),
    encoder("flaubert", "FlaubertModel", emb_dim=32, n_layers=2, n_heads=4, n_words=99),
    encoder("fnet", "FNetModel", mask=False, use_tpu_fourier_optimizations=False),
    encoder(
        "funnel",
        "FunnelModel",
        sizes={"seq": (7, 4, 33, 16, 9)},
        num_hidden_layers=UNSET,
        block_sizes=[1, 1],
        d_model=32,
        n_head=4,
        d_head=8,
        d_inner=40,
        num_decoder_layers=1,
    ),
    encoder("ibert", "IBertModel"),
    encoder("layoutlm", "LayoutLMModel", BOXES, max_2d_position_embeddings=128),
    encoder(
        "layoutlmv3",
        "LayoutLMv3Model",
        BOXES,
        max_2d_position_embeddings=128,
        visual_embed=False,
        coordinate_size=6,
        shape_size=4,
    ),
    encoder(
        "lilt",
        "LiltModel",
        BOXES,
        max_2d_position_embeddings=128,
        hidden_size=48,
        channel_shrink_ratio=2,
    ),
    encoder("longformer", "LongformerModel", attention_window=[8, 8]),
    encoder("luke", "LukeModel", entity_vocab_size=10, entity_emb_size=8),
    encoder("markuplm", "MarkupLMModel", xpath_unit_hidden_size=8, max_depth=4),
    encoder("megatron-bert", "MegatronBertModel"),
    encoder("mobilebert", "MobileBertModel", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    encoder("modernbert", "ModernBertModel", local_attention=8, cls_token_id=1, sep_token_id=2),
    encoder("mpnet", "MPNetModel"),
    encoder("mra", "MraModel", block_per_row=1, num_blocks=1),
    encoder("nomic-bert", "NomicBertModel"),
    encoder("nystromformer", "NystromformerModel", num_landmarks=4, segment_means_seq_len=4, conv_kernel_size=3),
    encoder(
        "perceiver-text",
        "PerceiverForMaskedLM",
        d_model=16,
        num_latents=8,
        d_latents=16,
        num_blocks=1,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
        qk_channels=16,
        v_channels=16,
        max_position_embeddings=33,
    ),
    encoder("rembert", "RemBertModel", input_embedding_size=16, output_embedding_size=16),
    encoder("roberta", "RobertaModel"),
    encoder("roberta-prelayernorm", "RobertaPreLayerNormModel"),
    encoder(
        "roc-bert",
        "RoCBertModel",
        Input("input_shape_ids", ("batch", "seq"), "ids"),
        Input("input_pronunciation_ids", ("batch", "seq"), "ids"),
        pronunciation_vocab_size=99,
        shape_vocab_size=99,
        pronunciation_embed_dim=8,
        shape_embed_dim=8,
    ),
    encoder("roformer", "RoFormerModel", embedding_size=16),
    encoder("splinter", "SplinterModel"),
    encoder("squeezebert", "SqueezeBertModel", embedding_size=32, q_groups=2, k_groups=2, v_groups=2),
    encoder(
        "tapas",
        "TapasModel",
        Input("token_type_ids", ("batch", "seq", 7), "ids", 0, 2),
        type_vocab_sizes=[3, 8, 8, 2, 8, 8, 8],
    ),
    encoder("xlm", "XLMModel", emb_dim=32, n_layers=2, n_heads=4, n_words=99),
    encoder("xlm-roberta", "XLMRobertaModel"),
    encoder("xlm-roberta-xl", "XLMRobertaXLModel"),
    encoder("xlnet", "XLNetModel", max_position_embeddings=UNSET, d_model=32, n_layer=2, n_head=4, d_inner=40),
    encoder("xmod", "XmodModel", default_language="en_XX", languages=["en_XX"], adapter_reduction_factor=2),
    encoder("yoso", "YosoModel", num_hash=2, use_expectation=True, max_position_embeddings=64),
)
