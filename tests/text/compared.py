"""Comparing a packed tokenizer with the library `tokenizers`, over random texts.

`python -m tests.text.compared --count 1000000` compares that many texts over all designs, and prints what differs;
`--file tokenizer.json` does so for published tokenizers.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass
from functools import cache

import tokenizers

from deploykit.text import Tokenizer, pack_fields
from tests.text.designs import DESIGNS, design
from tests.text.strings import text


@dataclass(frozen=True)
class Difference:
    what: str
    first: str | bytes
    second: str | bytes | None
    ours: object
    theirs: object


def _decoded(given: str | bytes) -> str:
    return given if isinstance(given, str) else given.decode("utf-8", "replace")


@cache
def packed(name: str) -> Tokenizer:
    """A design, or the tokenizer in a file."""
    return Tokenizer(pack_fields(json.loads(reference(name).to_str())))


@cache
def reference(name: str) -> tokenizers.Tokenizer:
    if name in DESIGNS:
        return design(name)
    read = tokenizers.Tokenizer.from_file(name)
    read.no_padding()
    read.no_truncation()
    return read


def difference(
    ours: Tokenizer,
    theirs: tokenizers.Tokenizer,
    first: str | bytes,
    second: str | bytes | None = None,
    *,
    bare: bool = False,
) -> Difference | None:
    """What differs between the tokens of a text or a pair, or None."""
    found = ours.encode(first, second, bare=bare)
    pair = None if second is None else _decoded(second)
    expected = theirs.encode(_decoded(first), pair, add_special_tokens=not bare)
    for what, mine, other in (
        ("ids", found.ids.tolist(), expected.ids),
        ("type_ids", found.type_ids.tolist(), expected.type_ids),
        ("special_mask", found.special_mask.tolist(), expected.special_tokens_mask),
        ("offsets", [tuple(pair) for pair in found.offsets.tolist()], expected.offsets),
    ):
        if mine != other:
            return Difference(what, first, second, mine, other)
    ids = expected.ids
    for skip in (True, False):
        text = ours.decode(ids, skip_special=skip)
        if text != theirs.decode(ids, skip_special_tokens=skip):
            return Difference("decoded", first, second, text, theirs.decode(ids, skip_special_tokens=skip))
    for source, (begin, end), (first_byte, last_byte) in zip(
        found.texts.tolist(), found.offsets.tolist(), found.byte_offsets.tolist(), strict=True
    ):
        whole = first if source != 1 or second is None else second
        placed = source >= 0 and isinstance(whole, str) and begin <= end
        if placed and whole[begin:end].encode() != whole.encode()[first_byte:last_byte]:
            return Difference("byte_offsets", first, second, (first_byte, last_byte), (begin, end))
    return None


def differences(name: str, count: int, seed: int) -> list[Difference]:
    """The differences over random texts, at most ten."""
    source = random.Random(f"{name} {seed}")
    theirs = reference(name)
    ours = packed(name)
    special = sorted(token.content for token in theirs.get_added_tokens_decoder().values())
    found: list[Difference] = []
    for _ in range(count):
        first = text(source, special)
        second = text(source, special) if source.random() < 0.2 else None
        one = difference(ours, theirs, first, second, bare=source.random() < 0.1)
        found += [one] if one is not None else []
        if len(found) == 10:
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="texts in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--design", choices=sorted(DESIGNS), action="append")
    parser.add_argument("--file", metavar="TOKENIZER.JSON", action="append")
    options = parser.parse_args()
    names = [*(options.design or []), *(options.file or [])] or sorted(DESIGNS)
    failed = False
    for name in names:
        found = differences(name, options.count // len(names), options.seed)
        failed = failed or bool(found)
        print(f"{name}: {options.count // len(names)} texts, {len(found)} differences", flush=True)
        for one in found[:3]:
            print(f"  {one}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
