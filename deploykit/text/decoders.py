"""The decoders of `tokenizer.json`: what each token reads as, computed when the tokenizer is packed.

A decoder looks at one token at a time, and at whether it is the first one, up to `Fuse`. What comes after that must not
depend on where one token ends and the next one begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deploykit.text.bytelevel import bytes_of
from deploykit.text.patterns import pattern_of
from deploykit.text.reading import Part, refuse
from deploykit.text.spelling import spelled
from deploykit.text.steps import Replace

Reading = Callable[[str, bool], str]
"""What becomes of a token, and whether it is the first one."""

_BYTE = re.compile("<0x[0-9a-fA-F]{2}>", re.ASCII)


@dataclass
class Decoder:
    readings: list[Reading] = field(default_factory=list)
    lossy: bool = False
    """Tokens are bytes in the alphabet of bytes."""
    fallback: bool = False
    """Tokens like `<0x0A>` are bytes."""
    fused: bool = False
    stripped: int = 0
    """How many spaces are taken off the beginning of the text."""

    def read(self, token: str, *, first: bool) -> bytes:
        """The text of a token, or the bytes that it stands for."""
        for reading in self.readings:
            token = reading(token, first)
        if self.fallback and _BYTE.fullmatch(token):
            return bytes([int(token[3:5], 16)])
        found = bytes_of(token) if self.lossy else None
        return token.encode("utf-8", "surrogatepass") if found is None else found

    def is_byte(self, token: str) -> bool:
        """Whether a token is a byte."""
        for reading in self.readings:
            token = reading(token, False)
        return self.fallback and _BYTE.fullmatch(token) is not None


def decoder_of(part: Part | None) -> Decoder:
    """The decoder. Raises `UnsupportedModelError` for one that is not supported."""
    decoder = Decoder()
    if part is None:
        decoder.readings.append(lambda token, first: token if first else f" {token}")
        return decoder
    for inner in _flat(part):
        inner.read_by(_READERS, decoder)
    return decoder


def _flat(part: Part) -> Iterator[Part]:
    if part.kind != "Sequence":
        yield part
        return
    for inner in part.parts("decoders"):
        yield from _flat(inner)
    part.end()


def _add(part: Part, decoder: Decoder, reading: Reading) -> None:
    if decoder.fused or decoder.lossy or decoder.fallback:
        refuse(part.where, f"{part.kind} after Fuse, ByteLevel or ByteFallback is not supported")
    decoder.readings.append(reading)


def _byte_level(part: Part, decoder: Decoder) -> None:
    for name in ("add_prefix_space", "trim_offsets", "use_regex"):
        part.get(name, bool, True)
    if decoder.readings or decoder.fallback or decoder.fused:
        refuse(part.where, "ByteLevel after other decoders is not supported")
    decoder.lossy = decoder.fused = True


def _byte_fallback(part: Part, decoder: Decoder) -> None:
    if decoder.fused or decoder.fallback:
        refuse(part.where, "ByteFallback after Fuse is not supported")
    decoder.fallback = True


def _fuse(_part: Part, decoder: Decoder) -> None:
    decoder.fused = True


def _replace(part: Part, decoder: Decoder) -> None:
    content = part.get("content", str)
    step = Replace(pattern_of(part, "pattern"), tuple(map(ord, content)))
    plain = part.get("pattern", dict).get("String")
    if plain is not None:
        _add(part, decoder, lambda token, _first: token.replace(plain, content))
    else:
        _add(part, decoder, lambda token, _first: spelled(token, [step]))


def _strip(part: Part, decoder: Decoder) -> None:
    content, start, stop = part.get("content", str), part.get("start", int), part.get("stop", int)
    if len(content) != 1 or start < 0 or stop < 0:
        refuse(part.where, "it needs one character and two numbers")

    def reading(token: str, _first: bool) -> str:
        left = len(token) - len(token.lstrip(content))
        token = token[min(left, start) :]
        right = len(token) - len(token.rstrip(content))
        return token[: len(token) - min(right, stop)]

    if not decoder.fused:
        _add(part, decoder, reading)
    elif stop or content != " " or decoder.lossy:
        refuse(part.where, "Strip after Fuse is supported for spaces at the beginning only")
    else:
        decoder.stripped += start


def _metaspace(part: Part, decoder: Decoder) -> None:
    part.read.add("str_rep")
    part.get("split", bool, True)
    mark, scheme = part.get("replacement", str), part.get("prepend_scheme", str, "always")
    kept = scheme == "never" or part.get("add_prefix_space", bool, True) is False
    _add(part, decoder, lambda token, first: token.replace(mark, "" if first and not kept else " "))


_CLEANED = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m")),
    *((" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


def _wordpiece(part: Part, decoder: Decoder) -> None:
    prefix, cleanup = part.get("prefix", str, "##"), part.get("cleanup", bool, True)

    def reading(token: str, first: bool) -> str:
        if not first:
            token = token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
        for old, new in _CLEANED if cleanup else ():
            token = token.replace(old, new)
        return token

    _add(part, decoder, reading)


_READERS: Mapping[str, Callable[[Part, Decoder], None]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Fuse": _fuse,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
    "WordPiece": _wordpiece,
}


@dataclass(frozen=True)
class Spelled:
    """The texts of tokens by their ids, then those of tokens that read differently at the beginning."""

    texts: Sequence[bytes]
    count: int
    first: Sequence[tuple[int, int]]
    """These tokens, and where their texts are."""
    drops_space: bool
    """All other tokens read without a space that they begin with, if they are first."""


def spell(tokens: Mapping[int, str], decoder: Decoder) -> Spelled:
    count = max(tokens) + 1
    texts = [b""] * count
    firsts = {}
    for number, token in tokens.items():
        texts[number] = decoder.read(token, first=False)
        firsts[number] = decoder.read(token, first=True)
    drops = any(text != texts[number] for number, text in firsts.items())
    first = []
    for number, text in sorted(firsts.items()):
        if text != (texts[number].removeprefix(b" ") if drops else texts[number]):
            first.append((number, len(texts)))
            texts.append(text)
    return Spelled(texts, count, first, drops)
