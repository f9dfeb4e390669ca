"""Encoders with a decoder."""

from __future__ import annotations

from typing import Any

from tests.zoo.architectures.text import IDS, MASK, TINY, UNSET
from tests.zoo.case import Case, Input

TARGET = Input("decoder_input_ids", ("batch", "target"), "ids")
BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
T5: dict[str, Any] = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}


def pair(name: str, model: str, *inputs: Input, family: str = "encoder-decoder", **config: Any) -> Case:
    full = {key: value for key, value in {**TINY, **config}.items() if value is not UNSET}
    return Case(name, family, model, full, inputs or (IDS, MASK, TARGET), call={"use_cache": False})


CASES = (
    pair("bart", "BartForConditionalGeneration", **BART),
    pair("bigbird-pegasus", "BigBirdPegasusForConditionalGeneration", attention_type="original_full", **BART),
    pair("blenderbot", "BlenderbotForConditionalGeneration", **BART),
    pair("blenderbot-small", "BlenderbotSmallForConditionalGeneration", **BART),
    pair("fsmt", "FSMTForConditionalGeneration", langs=["a", "b"], src_vocab_size=99, tgt_vocab_size=99, **BART),
    pair(
        "led",
        "LEDForConditionalGeneration",
        num_hidden_layers=1,
        attention_window=[8],
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
        **BART,
    ),
    pair("longt5", "LongT5ForConditionalGeneration", local_radius=7, global_block_size=4, **T5),
    pair("m2m-100", "M2M100ForConditionalGeneration", **BART),
    pair("marian", "MarianMTModel", **BART),
    pair("mbart", "MBartForConditionalGeneration", **BART),
    pair("mt5", "MT5ForConditionalGeneration", **T5),
    pair("mvp", "MvpForConditionalGeneration", **BART),
    pair(
        "nllb-moe",
        "NllbMoeForConditionalGeneration",
        num_experts=4,
        expert_capacity=64,
        encoder_sparse_step=1,
        decoder_sparse_step=1,
        **BART,
    ),
    pair("pegasus", "PegasusForConditionalGeneration", **BART),
    pair("pegasus-x", "PegasusXForConditionalGeneration", num_global_tokens=4, block_size=8, **BART),
    pair("plbart", "PLBartForConditionalGeneration", **BART),
    pair(
        "prophetnet",
        "ProphetNetForConditionalGeneration",
        num_hidden_layers=UNSET,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        encoder_ffn_dim=40,
        decoder_ffn_dim=40,
        ngram=2,
        num_buckets=8,
        relative_max_distance=16,
    ),
    pair(
        "switch-transformers",
        "SwitchTransformersForConditionalGeneration",
        num_experts=4,
        expert_capacity=64,
        num_sparse_encoder_layers=1,
        num_sparse_decoder_layers=1,
        **T5,
    ),
    pair("t5", "T5ForConditionalGeneration", **T5),
    pair("t5-gated", "T5ForConditionalGeneration", feed_forward_proj="gated-gelu", tie_word_embeddings=False, **T5),
    pair("umt5", "UMT5ForConditionalGeneration", **T5),
)
