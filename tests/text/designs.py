"""Tokenizers of well-known designs, trained on a text at hand with the parts that the published ones have."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).parents[2]
MORE = "Ünïcode naïve café ЖИЗНЬ жизнь 東京都 こんにちは 가각힣 नमस्ते مرحبا שלום ελληνικά 🙂👨‍👩‍👧"
MORE += " ½ Ⅷ 123,456.78 don't we'll I'm"


@cache
def words() -> tuple[str, ...]:
    """Lines to train on."""
    files = sorted([*ROOT.glob("docs/*.md"), *(ROOT / "deploykit").glob("*.py"), ROOT / "README.md"])
    return (*(line for file in files for line in file.read_text("utf-8").splitlines()), *[MORE] * 5)


def _bert(*, lowercase: bool, accents: bool | None = None) -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=accents)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        words(), trainers.WordPieceTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.decoder = decoders.WordPiece()
    return made


def _distilbert_cased() -> Tokenizer:
    made = _bert(lowercase=False)
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.add_tokens([AddedToken("deployed", single_word=True), AddedToken("<x>", lstrip=True, rstrip=True), "Ärger"])
    return made


def _mpnet() -> Tokenizer:
    made = _bert(lowercase=True)
    made.add_special_tokens([AddedToken("<mask>", lstrip=True), "<s>", "</s>"])
    ids = [made.get_vocab()[token] for token in ("</s>", "<s>")]
    made.post_processor = processors.RobertaProcessing(("</s>", ids[0]), ("<s>", ids[1]), trim_offsets=True)
    return made


def _bpe(made: Tokenizer, special: list[str], *, alphabet: bool = True, suffix: str = "") -> Tokenizer:
    known = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=special, initial_alphabet=known, show_progress=False)
    if suffix:
        trainer.end_of_word_suffix = suffix
    made.train_from_iterator(words(), trainer)
    return made


def _gpt2() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    made.decoder = decoders.ByteLevel()
    return _bpe(made, ["<|endoftext|>"])


def _roberta() -> Tokenizer:
    made = _bpe(_byte_level(prefix=True), ["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return made


def _byte_level(*, prefix: bool = False) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    return made


def _split(regex: str, special: list[str], *, whole: bool = False) -> Tokenizer:
    """Byte-level, with words found by a regular expression."""
    made = Tokenizer(models.BPE(ignore_merges=whole))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(regex), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    return _bpe(made, special)


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
CL100K = CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = CL100K.replace("{1,3}", "")
GPT4 = CL100K.replace("]?", "]?+").replace("]+[", "]++[")
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _llama3() -> Tokenizer:
    special = ["<|begin_of_text|>", "<|end_of_text|>", *(f"<|reserved_special_token_{n}|>" for n in range(50))]
    made = _split(CL100K, special, whole=True)
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
        special_tokens=[("<|begin_of_text|>", 0)],
    )
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return made


def _qwen2() -> Tokenizer:
    made = _split(QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    made.normalizer = normalizers.NFC()
    made.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return made


def _whisper() -> Tokenizer:
    made = _bpe(_byte_level(), ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|notimestamps|>"])
    made.add_tokens([AddedToken(f"<|{n * 0.02:.2f}|>", normalized=False) for n in range(1501)])
    made.post_processor = processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A <|endoftext|>",
        pair="<|startoftranscript|> <|notimestamps|> $A $B <|endoftext|>",
        special_tokens=[("<|endoftext|>", 0), ("<|startoftranscript|>", 1), ("<|notimestamps|>", 3)],
    )
    return made


def _clip() -> Tokenizer:
    made = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words_of = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words_of), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made = _bpe(made, ["<|startoftext|>", "<|endoftext|>"], suffix="</w>")
    made.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False
    )
    made.decoder = decoders.ByteLevel()
    return made


def _modernbert() -> Tokenizer:
    made = _bpe(_byte_level(), ["[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    made.normalizer = normalizers.NFC()
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    made.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 9)])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


def _falcon() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    made.decoder = decoders.ByteLevel()
    return _bpe(made, ["<|endoftext|>", ">>TITLE<<"])


def _starcoder() -> Tokenizer:
    made = _byte_level()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return _bpe(made, ["<|endoftext|>", "<fim_prefix>"])


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def _llama2() -> Tokenizer:
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    made = _bpe(made, ["<unk>", "<s>", "</s>", *BYTE_TOKENS], alphabet=False)
    fields = json.loads(made.to_str())
    fields["pre_tokenizer"] = None
    fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] not in BYTE_TOKENS]
    made = Tokenizer.from_str(json.dumps(fields))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return made


def _gemma() -> Tokenizer:
    made = _llama2()
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.add_tokens([AddedToken(text, normalized=False) for text in ("\n\n", "<start_of_turn>", "▁▁", "<b>")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


@cache
def _charsmap() -> bytes:
    """The mapping that SentencePiece uses if nothing else is said."""
    found = importlib.resources.files("sentencepiece") / "package_data" / "nmt_nfkc.bin"
    return found.read_bytes()


def _unigram(made: Tokenizer, special: list[str]) -> Tokenizer:
    made.train_from_iterator(
        words(),
        trainers.UnigramTrainer(vocab_size=1200, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    return made


def _xlmr() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Precompiled(_charsmap())
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made = _unigram(made, ["<s>", "<pad>", "</s>", "<unk>"])
    made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.decoder = decoders.Metaspace()
    return made


def _t5() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(_charsmap()), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), "▁")]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made = _unigram(made, ["<pad>", "</s>", "<unk>"])
    made.add_special_tokens([f"<extra_id_{n}>" for n in range(100)])
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    return made


def _albert() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD()),
            *(normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(_charsmap())),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made = _unigram(made, ["<pad>", "<unk>", "[CLS]", "[SEP]"])
    made.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.decoder = decoders.Metaspace()
    return made


def _deberta() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence(
        [
            *(normalizers.Strip(), normalizers.Precompiled(_charsmap())),
            *(normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    fields = json.loads(_unigram(made, ["[PAD]", "[CLS]", "[SEP]", "<unk>", *BYTE_TOKENS]).to_str())
    fields["model"]["byte_fallback"] = True
    fields["added_tokens"] = [token for token in fields["added_tokens"] if token["content"] not in BYTE_TOKENS]
    made = Tokenizer.from_str(json.dumps(fields))
    made.add_special_tokens(["[MASK]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse()])
    return made


def _whitespace() -> Tokenizer:
    """Parts that none of the others has."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip(True, False)]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("merged_with_next")),
            *(pre_tokenizers.CharDelimiterSplit("b"), pre_tokenizers.Split("e", "merged_with_previous")),
        ]
    )
    made.train_from_iterator(
        words(), trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[UNK]"], show_progress=False)
    )
    return made


DESIGNS: dict[str, Callable[[], Tokenizer]] = {
    "albert": _albert,
    "bert-cased": lambda: _bert(lowercase=False),
    "bert-multilingual": lambda: _bert(lowercase=True, accents=False),
    "bert-uncased": lambda: _bert(lowercase=True),
    "bloom": lambda: _split(r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", ["<unk>", "<s>", "</s>"]),
    "clip": _clip,
    "deberta-v3": _deberta,
    "distilbert-cased": _distilbert_cased,
    "falcon": _falcon,
    "gemma": _gemma,
    "gpt-2": _gpt2,
    "gpt-4": lambda: _split(GPT4, ["<|endoftext|>"]),
    "gpt-4o": lambda: _split(O200K, ["<|endoftext|>"]),
    "llama-2": _llama2,
    "llama-3": _llama3,
    "modernbert": _modernbert,
    "mpnet": _mpnet,
    "qwen-2": _qwen2,
    "roberta": _roberta,
    "starcoder": _starcoder,
    "t5": _t5,
    "whisper": _whisper,
    "whitespace": _whitespace,
    "xlm-roberta": _xlmr,
}


@cache
def design(name: str) -> Tokenizer:
    return DESIGNS[name]()
