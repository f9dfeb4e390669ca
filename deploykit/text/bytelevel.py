"""The alphabet of byte-level tokenizers: each byte is written as a character that can be seen."""

from __future__ import annotations

from functools import cache

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern by which GPT-2 finds words."""


@cache
def alphabet() -> tuple[int, ...]:
    """The character of each byte: itself if it can be seen, else one from U+0100 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in seen]
    return tuple(byte if byte in seen else 0x100 + hidden.index(byte) for byte in range(256))


@cache
def _bytes() -> dict[int, int]:
    """The byte of each character of the alphabet; that of other bytes is none."""
    return dict.fromkeys(range(256), 0x100) | {char: byte for byte, char in enumerate(alphabet())}


def bytes_of(text: str) -> bytes | None:
    """The bytes that a text in this alphabet stands for; None if it has other characters."""
    try:
        return text.translate(_bytes()).encode("latin-1")
    except UnicodeEncodeError:
        return None
