"""Makes the exports in `tests/ragged_models/models`: `python -m tests.ragged_models.export FOLDER [NAME ...]`.

Needs PyTorch and transformers; tests only read the files. Each architecture has a tiny configuration with random
weights of few different values, so that a file compresses to some kilobytes. It is exported in the forms that the
installed version of transformers allows. A file is `NAME.FORM.onnx.xz`, where FORM is

    tVERSION-EXPORTER-ATTENTION-OPSET      such as t4.30-legacy-eager-14
    torch-EXPORTER-OPSET                   for modules of PyTorch alone

Versions of transformers differ in how they write masks, so the files are from several of them.
"""

from __future__ import annotations

import argparse
import copy
import lzma
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import onnx
import torch
import transformers
from torch import nn

VERSION = ".".join(transformers.__version__.split(".")[:2])
BATCH, SEQ = 3, 7
"""The sizes that the exporters see."""

TINY: dict[str, Any] = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "type_vocab_size": 2,
}
TEXT = ("input_ids", "attention_mask")
TYPED = (*TEXT, "token_type_ids")


@dataclass(frozen=True)
class Architecture:
    """`model` is a class of transformers, or a function that makes a module. `head` computes the outputs from the
    model's result and the inputs; without it they are the result's tensors of these names."""

    model: str | Callable[[], nn.Module]
    outputs: tuple[str, ...] = ("last_hidden_state",)
    inputs: tuple[str, ...] = TEXT
    config: Mapping[str, Any] = field(default_factory=dict)
    head: Callable[[Any, Mapping[str, torch.Tensor]], tuple[torch.Tensor, ...]] | None = None
    call: Mapping[str, Any] = field(default_factory=dict)
    attentions: tuple[str, ...] = ("eager", "sdpa")


def mean_pooled(result: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The mean of the hidden states over the mask, normalised, as models of sentence-transformers compute it."""
    hidden = result[0]
    mask = inputs["attention_mask"].unsqueeze(-1).expand(hidden.size()).float()
    total = torch.sum(hidden * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
    return hidden, nn.functional.normalize(total, p=2, dim=1)


def first_pooled(result: Any, _: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (nn.functional.normalize(result[0][:, 0], p=2, dim=1),)


def max_pooled(result: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    hidden = result[0]
    mask = inputs["attention_mask"].unsqueeze(-1).expand(hidden.size()).float()
    return (torch.max(torch.where(mask == 0, torch.tensor(-1e9), hidden), 1)[0],)


def last_pooled(result: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    hidden = result[0]
    last = (inputs["attention_mask"].sum(1) - 1).view(-1, 1, 1).expand(-1, 1, hidden.shape[-1])
    return (hidden.gather(1, last).squeeze(1),)


def weighted_pooled(result: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The mean over the mask, in which later positions count more."""
    mask = inputs["attention_mask"]
    weights = (mask.cumsum(1) * mask).unsqueeze(-1).float()
    return (torch.sum(result[0] * weights, 1) / weights.sum(1),)


class Recurrent(nn.Module):
    """A classifier of packed sequences: the last states of both directions, and scores for each position. If the
    sequences come sorted by length, they are packed as they are; else the module sorts them."""

    def __init__(self, kind: type[nn.RNNBase], from_mask: bool, directions: int, is_sorted: bool) -> None:
        super().__init__()
        self.from_mask, self.sorted = from_mask, is_sorted
        self.embedding = nn.Embedding(120, 24)
        self.cells = kind(24, 16, num_layers=1, batch_first=True, bidirectional=directions == 2)
        self.tokens = nn.Linear(16 * directions, 5)
        self.sentence = nn.Linear(16 * directions, 3)

    def forward(self, input_ids: torch.Tensor, given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = given.sum(1) if self.from_mask else given
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(input_ids), lengths, True, enforce_sorted=self.sorted)
        states, last = self.cells(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        last = last[0] if isinstance(last, tuple) else last
        return self.tokens(padded), self.sentence(last.transpose(0, 1).flatten(1))


def recurrent(kind: type[nn.RNNBase], given: str, directions: int, *, is_sorted: bool = False) -> Architecture:
    return Architecture(
        lambda: Recurrent(kind, given == "attention_mask", directions, is_sorted),
        ("token_logits", "logits"),
        ("input_ids", given),
        attentions=("none",),
    )


class Bart(nn.Module):
    """The encoder of BART alone."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 48}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 48}
        config = transformers.BartConfig(**TINY, **sizes, **heads)
        config._attn_implementation = "sdpa"
        self.encoder = transformers.BartModel(config).get_encoder()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.encoder(input_ids, attention_mask).last_hidden_state,)


GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 48}
DECODER: dict[str, Any] = {"num_key_value_heads": 2, "tie_word_embeddings": False}
DEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 8,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
}
LOGITS = ("logits",)
EAGER: dict[str, Any] = {"attentions": ("eager",)}
SDPA: dict[str, Any] = {"attentions": ("sdpa",)}
NO_CACHE = {"use_cache": False}

OTHERS = "bart-encoder", "bloom", "esm", "gemma3", "gpt-neox", "layoutlm", "opt", "roformer", "squeezebert", "xlm"
"""Architectures that are exported in the form `OTHER` only."""
OTHER = "t5.23-legacy-sdpa-17", "t5.23-legacy-eager-14", "torch-legacy-14"

HEADS = "bert-*", "sentence-*", "gpt2-classify", "gpt2-positions"
"""Architectures that differ from others in a few nodes only. They are exported in the forms `FEW`."""
FEW = "t4.30-legacy-eager-14", "t4.49-legacy-sdpa-17", "t5.23-legacy-eager-14", "t5.23-dynamo-sdpa-18"

LEFT_OUT = (
    # The exporter makes sizes constant that depend on the input.
    "deberta.*-legacy-*",
    # ONNX Runtime requires a cache of sines for each sequence, and the exporter writes one for all.
    *(f"{name}.*-dynamo-sdpa-23" for name in ("llama", "mistral-sliding", "modernbert", "qwen2", "qwen3")),
    # The same as in version 4.30.
    *(f"{name}.t4.40-*" for name in ("albert", "electra", "distilbert", "mpnet", "roberta", "sentence", "t5-encoder")),
    *(f"{name}.t4.49-legacy-eager-*" for name in ("albert", "electra", "distilbert", "mpnet")),
    "llama.t4.30-legacy-eager-17",
)

ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": Architecture("BertModel", ("last_hidden_state", "pooler_output"), TYPED),
    "bert-classify": Architecture("BertForSequenceClassification", LOGITS, TYPED, {"num_labels": 3}),
    "bert-tokens": Architecture("BertForTokenClassification", LOGITS, config={"num_labels": 5}),
    "bert-question": Architecture("BertForQuestionAnswering", ("start_logits", "end_logits"), TYPED),
    "bert-embeds": Architecture("BertModel", inputs=("inputs_embeds", "attention_mask")),
    "sentence": Architecture("BertModel", ("token_embeddings", "sentence_embedding"), TYPED, head=mean_pooled),
    "sentence-first": Architecture("BertModel", ("sentence_embedding",), TYPED, head=first_pooled),
    "sentence-max": Architecture("BertModel", ("sentence_embedding",), TYPED, head=max_pooled),
    "sentence-last": Architecture("BertModel", ("sentence_embedding",), head=last_pooled),
    "sentence-weighted": Architecture("BertModel", ("sentence_embedding",), head=weighted_pooled),
    "distilbert": Architecture("DistilBertModel", config={"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}),
    "roberta": Architecture("RobertaModel", config={"max_position_embeddings": 66, "pad_token_id": 1}),
    "mpnet": Architecture("MPNetModel", config={"max_position_embeddings": 66, "pad_token_id": 1}),
    "electra": Architecture("ElectraModel", config={"embedding_size": 16}),
    "albert": Architecture("AlbertModel", ("last_hidden_state", "pooler_output"), config={"embedding_size": 16}),
    "deberta": Architecture(
        "DebertaModel",
        config={"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 8},
        attentions=("eager",),
    ),
    "deberta-v2": Architecture("DebertaV2Model", config=DEBERTA, attentions=("eager",)),
    "modernbert": Architecture("ModernBertModel", config={"local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}),
    "gpt2": Architecture("GPT2LMHeadModel", LOGITS, config=GPT, call=NO_CACHE),
    "gpt2-positions": Architecture("GPT2LMHeadModel", LOGITS, (*TEXT, "position_ids"), GPT, call=NO_CACHE),
    "gpt2-classify": Architecture(
        "GPT2ForSequenceClassification", LOGITS, config={**GPT, "num_labels": 3}, call=NO_CACHE
    ),
    "llama": Architecture("LlamaForCausalLM", LOGITS, config=DECODER, call=NO_CACHE),
    "mistral-sliding": Architecture(
        "MistralForCausalLM", LOGITS, config={**DECODER, "sliding_window": 5}, call=NO_CACHE
    ),
    "qwen2": Architecture("Qwen2ForCausalLM", LOGITS, config=DECODER, call=NO_CACHE),
    "qwen3": Architecture("Qwen3ForCausalLM", LOGITS, config={**DECODER, "head_dim": 8}, call=NO_CACHE),
    "t5-encoder": Architecture(
        "T5EncoderModel",
        config={"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
        attentions=("eager",),
    ),
    "bart-encoder": Architecture(Bart, attentions=("none",)),
    "bloom": Architecture("BloomForCausalLM", LOGITS, config={"n_head": 4, "n_layer": 2}, call=NO_CACHE, **EAGER),
    "esm": Architecture("EsmModel", config={"position_embedding_type": "rotary", "mask_token_id": 3}, **SDPA),
    "gemma3": Architecture(
        "Gemma3ForCausalLM",
        LOGITS,
        config={**DECODER, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8},
        call=NO_CACHE,
        **SDPA,
    ),
    "gpt-neox": Architecture("GPTNeoXForCausalLM", LOGITS, call=NO_CACHE, **SDPA),
    "layoutlm": Architecture(
        "LayoutLMModel", inputs=(*TEXT, "bbox"), config={"max_2d_position_embeddings": 128}, **EAGER
    ),
    "opt": Architecture(
        "OPTForCausalLM", LOGITS, config={"ffn_dim": 48, "word_embed_proj_dim": 32}, call=NO_CACHE, **SDPA
    ),
    "roformer": Architecture("RoFormerModel", config={"embedding_size": 16}, **EAGER),
    "squeezebert": Architecture(
        "SqueezeBertModel", config={"embedding_size": 32, "q_groups": 2, "k_groups": 2, "v_groups": 2}, **EAGER
    ),
    "xlm": Architecture("XLMModel", config={"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": 120}, **EAGER),
    "lstm-mask": recurrent(nn.LSTM, "attention_mask", 1),
    "lstm-lengths": recurrent(nn.LSTM, "sequence_lengths", 1),
    "lstm-bidirectional": recurrent(nn.LSTM, "attention_mask", 2),
    "lstm-sorted-mask": recurrent(nn.LSTM, "attention_mask", 2, is_sorted=True),
    "lstm-sorted-lengths": recurrent(nn.LSTM, "sequence_lengths", 2, is_sorted=True),
    "gru-sorted-mask": recurrent(nn.GRU, "attention_mask", 1, is_sorted=True),
    "gru-mask": recurrent(nn.GRU, "attention_mask", 1),
    "gru-bidirectional": recurrent(nn.GRU, "attention_mask", 2),
}


@dataclass(frozen=True)
class Form:
    exporter: str
    attention: str
    opset: int

    def __str__(self) -> str:
        if self.attention == "none":
            return f"torch-{self.exporter}-{self.opset}"
        return f"t{VERSION}-{self.exporter}-{self.attention}-{self.opset}"


def forms(architecture: Architecture) -> Iterator[Form]:
    """The forms in which an architecture is exported with this version of transformers."""
    for attention in architecture.attentions:
        opset = 17 if attention == "sdpa" else 14
        yield Form("legacy", attention if transformers.__version__ >= "4.36" else "eager", opset)
        if attention != "none" and transformers.__version__ >= "5":
            yield Form("dynamo", attention, 20 if attention == "eager" else 18)
            if attention == "sdpa":
                yield Form("dynamo", attention, 23)


def is_kept(name: str, form: str) -> bool:
    if any(fnmatch(name, head) for head in HEADS) and form not in FEW:
        return False
    if name in OTHERS and form not in OTHER:
        return False
    return not any(fnmatch(f"{name}.{form}", pattern) for pattern in LEFT_OUT)


class Flat(nn.Module):
    """The exported module: takes the inputs in order, and returns the outputs in order."""

    def __init__(self, architecture: Architecture, model: nn.Module) -> None:
        super().__init__()
        self.architecture, self.model = architecture, model

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not isinstance(self.architecture.model, str):
            return tuple(self.model(*tensors))
        inputs = dict(zip(self.architecture.inputs, tensors, strict=True))
        result = self.model(**inputs, **self.architecture.call, return_dict=True)
        if self.architecture.head:
            return self.architecture.head(result, inputs)
        return tuple(result[name] for name in self.architecture.outputs)


def make(architecture: Architecture, attention: str) -> nn.Module:
    """The model with seeded random weights, large enough that every part affects the result."""
    torch.manual_seed(0)
    if isinstance(architecture.model, str):
        kind = getattr(transformers, architecture.model)
        config = kind.config_class(**copy.deepcopy({**TINY, **architecture.config}))
        config._attn_implementation = attention
        model = kind(config).eval()
    else:
        model = architecture.model().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            scale = (parameter.numel() / parameter.shape[0]) ** -0.5 if parameter.ndim >= 2 else 0.125
            noise = (torch.randn_like(parameter) * 2).round().clamp(-4, 4) / 2 * scale
            parameter.copy_(noise if parameter.ndim >= 2 else parameter + noise)
            parameter.requires_grad_(False)
    return model


def sample(name: str) -> torch.Tensor:
    mask = (torch.arange(SEQ) < torch.tensor([[SEQ], [SEQ - 2], [SEQ - 4]])).long()
    match name:
        case "input_ids":
            return torch.randint(3, 120, (BATCH, SEQ))
        case "attention_mask":
            return mask
        case "sequence_lengths":
            return mask.sum(1)
        case "token_type_ids":
            return torch.randint(0, 2, (BATCH, SEQ))
        case "bbox":
            return torch.randint(0, 60, (BATCH, SEQ, 4)).cumsum(-1).clamp(max=127)
        case "position_ids":
            return torch.arange(SEQ).repeat(BATCH, 1)
    return torch.randn(BATCH, SEQ, 32)


def export(architecture: Architecture, form: Form, path: Path) -> None:
    flat = Flat(architecture, make(architecture, form.attention))
    tensors = tuple(sample(name) for name in architecture.inputs)
    with torch.no_grad():
        results = flat(*tensors)
        whole = {0: "batch", 1: "seq"}
        axes = {name: {0: "batch"} if name == "sequence_lengths" else whole for name in architecture.inputs}
        common: dict[str, Any] = {
            "input_names": list(architecture.inputs),
            "output_names": list(architecture.outputs),
            "opset_version": form.opset,
        }
        if form.exporter == "legacy":
            for name, result in zip(architecture.outputs, results, strict=True):
                axes[name] = whole if result.ndim >= 2 and result.shape[1] == SEQ else {0: "batch"}
            torch.onnx.export(flat, tensors, path, dynamo=False, dynamic_axes=axes, **common)
        else:
            shapes = (tuple(axes[name] for name in architecture.inputs),)
            torch.onnx.export(
                flat, tensors, path, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False, **common
            )


def stripped(path: Path) -> bytes:
    """The model without the exporter's notes on where each node comes from."""
    model = onnx.load(path)
    for graph in (model.graph, *model.functions):
        for node in graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        for value in graph.value_info:
            del value.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.metadata_props[:]
    return model.SerializeToString(deterministic=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(ARCHITECTURES)}")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in given.names or ARCHITECTURES:
        architecture = ARCHITECTURES[name]
        for form in forms(architecture):
            title = f"{name}.{form}"
            if not is_kept(name, str(form)):
                continue
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / "model.onnx"
                try:
                    export(architecture, form, path)
                    data = lzma.compress(stripped(path), preset=9 | lzma.PRESET_EXTREME)
                except Exception as error:  # noqa: BLE001 - exporters raise exceptions of many kinds
                    line = (str(error).splitlines() or [""])[0]
                    print(f"{title}: {type(error).__name__}: {line[:300]}", file=sys.stderr, flush=True)
                    continue
                (given.folder / f"{title}.onnx.xz").write_bytes(data)
                print(f"{title}: {len(data)} bytes", flush=True)


if __name__ == "__main__":
    main()
