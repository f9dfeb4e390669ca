"""Tokenizers: `pack` turns `tokenizer.json` into tables, `Tokenizer` runs the runtime's C on them (docs/text.md)."""

from deploykit.text.blob import FILE, facts_of
from deploykit.text.pack import pack, pack_fields
from deploykit.text.tokenizer import Encoding, Stream, Tokenizer

__all__ = ["FILE", "Encoding", "Stream", "Tokenizer", "facts_of", "pack", "pack_fields"]
