"""Decoders of text, each without past, with past, and with a static cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.zoo.architectures.text import IDS, MASK, TINY, UNSET
from tests.zoo.case import Case, Form, Input

GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {
    **EXPERTS,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "topk_group": 1,
    "num_key_value_heads": 4,
}
PAST_MASK = Input("attention_mask", ("batch", "past+seq"), "mask")
ALL: tuple[Form, ...] = ("plain", "past", "static")
GROWING: tuple[Form, ...] = ("plain", "past")


def decoder(name: str, model: str, forms: tuple[Form, ...] = ALL, **config: Any) -> Iterator[Case]:
    masks = {"plain": (MASK,), "past": (PAST_MASK,), "static": ()}
    for form in forms:
        full = {key: value for key, value in {**TINY, **GROUPED, **config}.items() if value is not UNSET}
        title = name if form == "plain" else f"{name}-{form}"
        call = {"use_cache": form != "plain"}
        yield Case(title, "decoder", model, full, (IDS, *masks[form]), form, call)


CASES = (
    *decoder("apertus", "ApertusForCausalLM"),
    *decoder("arcee", "ArceeForCausalLM"),
    *decoder(
        "bamba",
        "BambaForCausalLM",
        ("plain",),
        attn_layer_indices=[1],
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=8,
        mamba_chunk_size=8,
    ),
    *decoder("biogpt", "BioGptForCausalLM"),
    *decoder("bitnet", "BitNetForCausalLM"),
    *decoder("bloom", "BloomForCausalLM", n_head=4, n_layer=2),
    *decoder("codegen", "CodeGenForCausalLM", n_embd=32, n_head=4, n_layer=2, n_positions=64, rotary_dim=4),
    *decoder("cohere", "CohereForCausalLM"),
    *decoder("cohere2", "Cohere2ForCausalLM", sliding_window=64),
    *decoder("ctrl", "CTRLLMHeadModel", GROWING, n_embd=32, n_head=4, n_layer=2, dff=40, n_positions=64),
    *decoder(
        "deepseek-v2",
        "DeepseekV2ForCausalLM",
        n_group=1,
        **LATENT,
    ),
    *decoder(
        "deepseek-v3",
        "DeepseekV3ForCausalLM",
        n_group=2,
        **LATENT,
    ),
    *decoder("diffllama", "DiffLlamaForCausalLM"),
    *decoder("doge", "DogeForCausalLM"),
    *decoder("ernie4.5", "Ernie4_5ForCausalLM"),
    *decoder("exaone4", "Exaone4ForCausalLM", sliding_window=64),
    *decoder("falcon", "FalconForCausalLM", head_dim=UNSET, new_decoder_architecture=True, num_kv_heads=2),
    *decoder("falcon-mamba", "FalconMambaForCausalLM", ("plain",), state_size=4, expand=2, conv_kernel=4),
    *decoder("gemma", "GemmaForCausalLM"),
    *decoder("gemma2", "Gemma2ForCausalLM", sliding_window=64, query_pre_attn_scalar=8),
    *decoder("gemma3", "Gemma3ForCausalLM", sliding_window=64, query_pre_attn_scalar=8),
    *decoder("glm", "GlmForCausalLM"),
    *decoder("glm4", "Glm4ForCausalLM"),
    *decoder("gpt2", "GPT2LMHeadModel", n_embd=32, n_head=4, n_layer=2, n_positions=64),
    *decoder("gpt-bigcode", "GPTBigCodeForCausalLM", n_embd=32, n_head=4, n_layer=2, n_positions=64),
    *decoder(
        "gpt-neo",
        "GPTNeoForCausalLM",
        num_heads=4,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        window_size=64,
    ),
    *decoder("gpt-neox", "GPTNeoXForCausalLM"),
    *decoder("gpt-neox-japanese", "GPTNeoXJapaneseForCausalLM"),
    *decoder("gpt-oss", "GptOssForCausalLM", sliding_window=64, **EXPERTS),
    *decoder("gptj", "GPTJForCausalLM", n_embd=32, n_head=4, n_layer=2, n_positions=64, rotary_dim=4),
    *decoder("granite", "GraniteForCausalLM"),
    *decoder("granitemoe", "GraniteMoeForCausalLM", **EXPERTS),
    *decoder("helium", "HeliumForCausalLM"),
    *decoder(
        "jamba",
        "JambaForCausalLM",
        ("plain",),
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=4,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
        **EXPERTS,
    ),
    *decoder("jetmoe", "JetMoeForCausalLM", kv_channels=8, **EXPERTS),
    *decoder("lfm2", "Lfm2ForCausalLM", ("plain",), layer_types=["conv", "full_attention"]),
    *decoder("llama", "LlamaForCausalLM"),
    *decoder("mamba", "MambaForCausalLM", ("plain",), state_size=4, expand=2, conv_kernel=4),
    *decoder(
        "mamba2",
        "Mamba2ForCausalLM",
        ("plain",),
        state_size=8,
        expand=2,
        conv_kernel=4,
        num_heads=8,
        n_groups=2,
        chunk_size=8,
    ),
    *decoder(
        "minimax",
        "MiniMaxForCausalLM",
        ("plain",),
        block_size=8,
        layer_types=["linear_attention", "full_attention"],
        **EXPERTS,
    ),
    *decoder("ministral", "MinistralForCausalLM", sliding_window=64),
    *decoder("mistral", "MistralForCausalLM", sliding_window=64),
    *decoder("mixtral", "MixtralForCausalLM", sliding_window=None, **EXPERTS),
    *decoder("modernbert-decoder", "ModernBertDecoderForCausalLM", local_attention=128, cls_token_id=1, sep_token_id=2),
    *decoder("mpt", "MptForCausalLM", d_model=32, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=64),
    *decoder("nemotron", "NemotronForCausalLM"),
    *decoder("olmo", "OlmoForCausalLM"),
    *decoder("olmo2", "Olmo2ForCausalLM"),
    *decoder("olmoe", "OlmoeForCausalLM", **EXPERTS),
    *decoder("openai-gpt", "OpenAIGPTLMHeadModel", ("plain",), n_embd=32, n_head=4, n_layer=2, n_positions=64),
    *decoder("opt", "OPTForCausalLM", ffn_dim=40, word_embed_proj_dim=32),
    *decoder("persimmon", "PersimmonForCausalLM"),
    *decoder("phi", "PhiForCausalLM"),
    *decoder("phi3", "Phi3ForCausalLM", sliding_window=64),
    *decoder("phimoe", "PhimoeForCausalLM", sliding_window=None, **EXPERTS),
    *decoder("qwen2", "Qwen2ForCausalLM"),
    *decoder("qwen2-moe", "Qwen2MoeForCausalLM", shared_expert_intermediate_size=24, **EXPERTS),
    *decoder("qwen3", "Qwen3ForCausalLM"),
    *decoder("qwen3-moe", "Qwen3MoeForCausalLM", **EXPERTS),
    *decoder(
        "qwen3-next",
        "Qwen3NextForCausalLM",
        ("plain",),
        layer_types=["linear_attention", "full_attention"],
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        shared_expert_intermediate_size=24,
        **EXPERTS,
    ),
    *decoder(
        "recurrent-gemma",
        "RecurrentGemmaForCausalLM",
        ("plain",),
        lru_width=32,
        attention_window_size=64,
        block_types=["recurrent", "attention"],
    ),
    *decoder("rwkv", "RwkvForCausalLM", ("plain",), attention_hidden_size=32),
    *decoder("seed-oss", "SeedOssForCausalLM"),
    *decoder("smollm3", "SmolLM3ForCausalLM"),
    *decoder("stablelm", "StableLmForCausalLM"),
    *decoder("starcoder2", "Starcoder2ForCausalLM", sliding_window=64),
    *decoder("xglm", "XGLMForCausalLM", GROWING, d_model=32, attention_heads=4, num_layers=2, ffn_dim=40),
    *decoder(
        "zamba",
        "ZambaForCausalLM",
        ("plain",),
        mamba_d_state=4,
        mamba_dt_rank=4,
        n_mamba_heads=2,
        num_hidden_layers=3,
        layers_block_type=["mamba", "hybrid", "hybrid"],
        attention_hidden_size=64,
        attention_head_dim=16,
        use_mamba_kernels=False,
    ),
)
