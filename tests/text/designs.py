"""Tokenizers of well-known designs, trained on a text at hand with the parts that the published ones have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

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
    ids = [(made.token_to_id(token)) for token in ("</s>", "<s>")]
    made.post_processor = processors.RobertaProcessing(("</s>", ids[0]), ("<s>", ids[1]), trim_offsets=True)
    return made


DESIGNS: dict[str, Callable[[], Tokenizer]] = {
    "bert-uncased": lambda: _bert(lowercase=True),
    "bert-cased": lambda: _bert(lowercase=False),
    "bert-multilingual": lambda: _bert(lowercase=True, accents=False),
    "distilbert-cased": _distilbert_cased,
    "mpnet": _mpnet,
}


@cache
def design(name: str) -> Tokenizer:
    return DESIGNS[name]()
