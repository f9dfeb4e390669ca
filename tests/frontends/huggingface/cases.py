"""Small models of every family: the classes of transformers that compute the goldens, and their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}
"""The usual names of sizes."""

SIZES = ((1, 1), (2, 5), (3, 17))
"""Batches and lengths of the inputs. The first text of a batch has the whole length, others are shorter."""


@dataclass(frozen=True)
class Case:
    """`architecture` is a class of a `module`; `settings` are entries of its configuration. `outputs` are compared.
    `tolerance` is relative to the largest expected value. `attention` is the implementation in transformers."""

    architecture: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("last_hidden_state",)
    tolerance: float = 1e-4
    ragged: bool = True
    module: str = "transformers"
    attention: str = "eager"


LOGITS = ("logits",)
BOTH = ("last_hidden_state", "pooler_output")
SPANS = ("start_logits", "end_logits")

DISTILBERT = {
    "vocab_size": 50,
    "dim": 24,
    "hidden_dim": 40,
    "n_heads": 3,
    "n_layers": 2,
    "max_position_embeddings": 40,
}

WIDE = {**TEXT, "embedding_size": 16}
"""With embeddings of another width."""

DISENTANGLED = {
    **TEXT,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
}
"""Buckets are few, so that short texts reach the last one."""

DEBERTA = {**DISENTANGLED, "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 8}

MODERN = {
    **{key: TEXT[key] for key in TEXT if key != "num_hidden_layers"},
    "num_hidden_layers": 4,
    "local_attention": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "cls_token_id": 1,
    "eos_token_id": 1,
    "sep_token_id": 1,
}

T5 = {
    "vocab_size": 50,
    "d_model": 24,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 10,
}

BART = {
    "vocab_size": 50,
    "d_model": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "max_position_embeddings": 40,
}

GPT2 = {"vocab_size": 50, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 40}

OPT = {**{key: TEXT[key] for key in TEXT if key != "intermediate_size"}, "ffn_dim": 40}

LLAMA = {**TEXT, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0}

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 20,
}

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10}

LONG = {"rope_type": "longrope", "short_factor": [1.5, 2.0], "long_factor": [3.0, 4.0]}

GEMMA = {**LLAMA, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 4}

EXPERTS = {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}

MAMBA = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "state_size": 5,
    "conv_kernel": 4,
    "time_step_rank": 3,
}

LFM2 = {
    **LLAMA,
    "num_hidden_layers": 4,
    "max_position_embeddings": 128,
    "full_attn_idxs": [1, 3],
    "block_multiple_of": 8,
    "intermediate_size": 60,
}

FALCON = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
}

ONCE = "sdpa"
"""For Falcon with `alibi`: eager attention of transformers 5.24 adds the positions twice."""

BLOOM = {"vocab_size": 50, "hidden_size": 48, "n_layer": 2, "n_head": 12}

MPT = {"vocab_size": 50, "d_model": 48, "n_layers": 2, "n_heads": 6, "max_seq_len": 40}

CASES: Mapping[str, Case] = {
    "bert": Case("BertModel", TEXT, BOTH),
    "bert-classes": Case("BertForSequenceClassification", TEXT, LOGITS),
    "bert-tokens": Case("BertForTokenClassification", TEXT, LOGITS),
    "bert-answers": Case("BertForQuestionAnswering", TEXT, SPANS),
    "bert-words": Case("BertForMaskedLM", TEXT, LOGITS),
    "bert-untied-words": Case("BertForMaskedLM", {**TEXT, "tie_word_embeddings": False}, LOGITS),
    "distilbert": Case("DistilBertModel", DISTILBERT),
    "distilbert-classes": Case("DistilBertForSequenceClassification", DISTILBERT, LOGITS),
    "distilbert-tokens": Case("DistilBertForTokenClassification", DISTILBERT, LOGITS),
    "distilbert-answers": Case("DistilBertForQuestionAnswering", DISTILBERT, SPANS),
    "distilbert-words": Case("DistilBertForMaskedLM", DISTILBERT, LOGITS),
    "roberta": Case("RobertaModel", {**TEXT, "type_vocab_size": 1}, BOTH),
    "roberta-classes": Case("RobertaForSequenceClassification", {**TEXT, "type_vocab_size": 1}, LOGITS),
    "roberta-words": Case("RobertaForMaskedLM", TEXT, LOGITS),
    "xlm-roberta-tokens": Case("XLMRobertaForTokenClassification", {**TEXT, "type_vocab_size": 1}, LOGITS),
    "camembert-answers": Case("CamembertForQuestionAnswering", {**TEXT, "type_vocab_size": 1}, SPANS),
    "mpnet": Case("MPNetModel", TEXT, BOTH),
    "mpnet-classes": Case("MPNetForSequenceClassification", TEXT, LOGITS),
    "mpnet-tokens": Case("MPNetForTokenClassification", TEXT, LOGITS),
    "mpnet-answers": Case("MPNetForQuestionAnswering", TEXT, SPANS),
    "mpnet-words": Case("MPNetForMaskedLM", TEXT, LOGITS),
    "albert": Case("AlbertModel", {**WIDE, "num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2}, BOTH),
    "albert-classes": Case("AlbertForSequenceClassification", WIDE, LOGITS),
    "albert-tokens": Case("AlbertForTokenClassification", WIDE, LOGITS),
    "albert-answers": Case("AlbertForQuestionAnswering", WIDE, SPANS),
    "albert-words": Case("AlbertForMaskedLM", WIDE, LOGITS),
    "electra": Case("ElectraModel", WIDE),
    "electra-replaced": Case("ElectraForPreTraining", {**TEXT, "embedding_size": 24}, LOGITS),
    "electra-classes": Case("ElectraForSequenceClassification", WIDE, LOGITS),
    "electra-tokens": Case("ElectraForTokenClassification", WIDE, LOGITS),
    "electra-answers": Case("ElectraForQuestionAnswering", WIDE, SPANS),
    "electra-words": Case("ElectraForMaskedLM", WIDE, LOGITS),
    "deberta": Case("DebertaV2Model", {**DEBERTA, "max_relative_positions": 12}),
    "deberta-plain": Case(
        "DebertaV2Model",
        {**DISENTANGLED, "position_biased_input": True, "type_vocab_size": 2, "max_relative_positions": 6},
    ),
    "deberta-convolution": Case(
        "DebertaV2Model", {**DEBERTA, "conv_kernel_size": 3, "conv_act": "gelu", "attention_head_size": 8}
    ),
    "deberta-groups": Case(
        "DebertaV2ForMaskedLM", {**DEBERTA, "conv_kernel_size": 5, "conv_groups": 4, "pos_att_type": "p2c|c2p"}, LOGITS
    ),
    "deberta-classes": Case("DebertaV2ForSequenceClassification", DEBERTA, LOGITS),
    "deberta-tokens": Case("DebertaV2ForTokenClassification", DEBERTA, LOGITS),
    "deberta-answers": Case("DebertaV2ForQuestionAnswering", {**DEBERTA, "pos_att_type": "c2p"}, SPANS),
    "deberta-words": Case("DebertaV2ForMaskedLM", DEBERTA, LOGITS),
    "deberta-new-words": Case("DebertaV2ForMaskedLM", {**DEBERTA, "legacy": False}, LOGITS),
    "modernbert": Case("ModernBertModel", MODERN),
    "modernbert-classes": Case("ModernBertForSequenceClassification", {**MODERN, "classifier_pooling": "mean"}, LOGITS),
    "modernbert-first-classes": Case("ModernBertForSequenceClassification", MODERN, LOGITS),
    "modernbert-tokens": Case("ModernBertForTokenClassification", MODERN, LOGITS),
    "modernbert-answers": Case(
        "ModernBertForQuestionAnswering", {**MODERN, "attention_bias": True, "mlp_bias": True}, SPANS
    ),
    "modernbert-words": Case("ModernBertForMaskedLM", MODERN, LOGITS),
    "t5": Case("T5EncoderModel", T5),
    "t5-gated": Case("T5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu", "d_kv": 6}),
    "bart": Case("BartEncoder", BART, module="transformers.models.bart.modeling_bart"),
    "bart-scaled": Case(
        "BartEncoder", {**BART, "scale_embedding": True}, module="transformers.models.bart.modeling_bart"
    ),
    "gpt2": Case("GPT2Model", GPT2),
    "gpt2-words": Case("GPT2LMHeadModel", {**GPT2, "n_inner": 36}, LOGITS),
    "gpt2-by-layer": Case("GPT2LMHeadModel", {**GPT2, "scale_attn_by_inverse_layer_idx": True}, LOGITS),
    "gpt-neox": Case("GPTNeoXForCausalLM", {**TEXT, "rotary_pct": 0.5}, LOGITS),
    "gpt-neox-in-turn": Case(
        "GPTNeoXModel", {**TEXT, "use_parallel_residual": False, "attention_bias": False, "rotary_pct": 1.0}
    ),
    "opt": Case("OPTForCausalLM", OPT, LOGITS),
    "opt-behind": Case("OPTForCausalLM", {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 16}, LOGITS),
    "opt-states": Case("OPTModel", {**OPT, "enable_bias": False}),
    "llama": Case("LlamaForCausalLM", LLAMA, LOGITS),
    "llama-states": Case("LlamaModel", {**LLAMA, "head_dim": 12, "attention_bias": True, "mlp_bias": True}),
    "llama3": Case("LlamaForCausalLM", {**LLAMA, "rope_scaling": LLAMA3, "tie_word_embeddings": True}, LOGITS),
    "llama-linear": Case("LlamaModel", {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
    "llama-dynamic": Case("LlamaModel", {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "llama-yarn": Case("LlamaModel", {**LLAMA, "rope_scaling": YARN}),
    "mistral": Case("MistralForCausalLM", {**LLAMA, "sliding_window": 4}, LOGITS),
    "mistral-whole": Case("MistralForCausalLM", {**LLAMA, "sliding_window": None}, LOGITS),
    "smollm3": Case("SmolLM3ForCausalLM", {**LLAMA, "no_rope_layer_interval": 2}, LOGITS),
    "mamba": Case("MambaForCausalLM", MAMBA, LOGITS, ragged=False),
    "mamba-other": Case(
        "MambaForCausalLM",
        {**MAMBA, "use_bias": True, "use_conv_bias": False, "expand": 3, "tie_word_embeddings": False},
        LOGITS,
        ragged=False,
    ),
    "falcon-mamba": Case("FalconMambaForCausalLM", MAMBA, LOGITS, ragged=False),
    "lfm2": Case("Lfm2ForCausalLM", LFM2, LOGITS, ragged=False),
    "lfm2-other": Case(
        "Lfm2Model",
        {**LFM2, "full_attn_idxs": [0], "conv_bias": True, "conv_L_cache": 4, "block_auto_adjust_ff_dim": False},
        ragged=False,
    ),
    "qwen2": Case("Qwen2ForCausalLM", LLAMA, LOGITS),
    "qwen2-windows": Case(
        "Qwen2Model", {**LLAMA, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    ),
    "qwen3": Case("Qwen3ForCausalLM", {**LLAMA, "head_dim": 12}, LOGITS),
    "gemma": Case("GemmaForCausalLM", {**LLAMA, "head_dim": 12}, LOGITS),
    "gemma2": Case(
        "Gemma2ForCausalLM", {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}, LOGITS
    ),
    "gemma3": Case("Gemma3ForCausalLM", {**GEMMA, "sliding_window_pattern": 2}, LOGITS),
    "gemma3-states": Case("Gemma3TextModel", {**GEMMA, "num_hidden_layers": 1}),
    "phi3": Case("Phi3ForCausalLM", {**LLAMA, "sliding_window": 5}, LOGITS),
    "phi3-long": Case(
        "Phi3ForCausalLM",
        {**LLAMA, "original_max_position_embeddings": 20, "rope_scaling": LONG, "partial_rotary_factor": 0.5},
        LOGITS,
    ),
    "olmo2": Case("Olmo2ForCausalLM", LLAMA, LOGITS),
    "falcon": Case("FalconForCausalLM", FALCON, LOGITS),
    "falcon-groups": Case("FalconForCausalLM", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}, LOGITS),
    "falcon-one-norm": Case(
        "FalconForCausalLM",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        LOGITS,
    ),
    "falcon-in-turn": Case(
        "FalconModel", {**FALCON, "parallel_attn": False, "multi_query": False, "bias": True, "ffn_hidden_size": 36}
    ),
    "falcon-alibi": Case(
        "FalconForCausalLM",
        {**FALCON, "hidden_size": 48, "num_attention_heads": 12, "alibi": True, "parallel_attn": False, "bias": True},
        LOGITS,
        attention=ONCE,
    ),
    "falcon-alibi-groups": Case(
        "FalconForCausalLM",
        {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "alibi": True},
        LOGITS,
        attention=ONCE,
    ),
    "bloom": Case("BloomForCausalLM", BLOOM, LOGITS),
    "mpt": Case("MptForCausalLM", MPT, LOGITS),
    "mpt-clipped": Case("MptForCausalLM", {**MPT, "attn_config": {"clip_qkv": 0.8, "softmax_scale": 0.3}}, LOGITS),
    "mixtral": Case("MixtralForCausalLM", {**LLAMA, "num_local_experts": 4}, LOGITS),
    "qwen2-moe": Case("Qwen2MoeForCausalLM", {**EXPERTS, "shared_expert_intermediate_size": 20}, LOGITS),
    "qwen2-moe-some": Case(
        "Qwen2MoeForCausalLM",
        {
            **EXPERTS,
            "shared_expert_intermediate_size": 20,
            "norm_topk_prob": True,
            "qkv_bias": False,
            "decoder_sparse_step": 2,
            "use_sliding_window": True,
            "sliding_window": 4,
        },
        LOGITS,
    ),
    "qwen3-moe": Case("Qwen3MoeForCausalLM", {**EXPERTS, "norm_topk_prob": True, "head_dim": 12}, LOGITS),
    "qwen3-moe-some": Case("Qwen3MoeForCausalLM", {**EXPERTS, "mlp_only_layers": [0], "head_dim": 8}, LOGITS),
}
