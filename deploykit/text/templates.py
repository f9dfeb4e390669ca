"""The post-processors of `tokenizer.json`: which special tokens stand around texts, and how places are trimmed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from deploykit.text.reading import Part, is_id, refuse

FIRST, SECOND, TOKEN = range(3)
Entry = tuple[int, int, int]
"""What stands here (`FIRST` or `SECOND` text, or a `TOKEN`), its segment, and the id of the token."""


@dataclass(frozen=True)
class Template:
    single: tuple[Entry, ...] = ((FIRST, 0, 0),)
    pair: tuple[Entry, ...] = ((FIRST, 0, 0), (SECOND, 1, 0))
    trim: bool = False
    """White characters at the ends of tokens are not part of their places."""
    trim_prefix: bool = False
    """One space in front of the first token was put there by the tokenizer."""


def template_of(part: Part | None, before: Template = Template()) -> Template:
    """The template of a post-processor that follows others. Raises `UnsupportedModelError` for one that is not
    supported."""
    return before if part is None else part.read_by(_READERS, before)


def _sequence(part: Part, before: Template) -> Template:
    for inner in part.parts("processors"):
        if before.single != Template.single and inner.kind != "ByteLevel":
            refuse(inner.where, "two post-processors that add special tokens are not supported")
        before = template_of(inner, before)
    return before


def _byte_level(part: Part, before: Template) -> Template:
    prefix, trim = part.get("add_prefix_space", bool, True), part.get("trim_offsets", bool, True)
    part.get("use_regex", bool, True)
    if trim and before.trim:
        refuse(part.where, "places are trimmed twice")
    return replace(before, trim=trim or before.trim, trim_prefix=prefix if trim else before.trim_prefix)


def _special(part: Part, name: str) -> int:
    given: list[object] = part.get(name, list)
    if len(given) != 2 or not is_id(given[1]):
        refuse(part.where, f"'{name}' is {given!r:.60}, but must be a token and its id")
    return given[1]


def _bert(part: Part, before: Template) -> Template:
    cls, sep = ((TOKEN, 0, _special(part, name)) for name in ("cls", "sep"))
    single = (cls, (FIRST, 0, 0), sep)
    return replace(before, single=single, pair=(*single, (SECOND, 1, 0), (TOKEN, 1, sep[2])))


def _roberta(part: Part, before: Template) -> Template:
    cls, sep = ((TOKEN, 0, _special(part, name)) for name in ("cls", "sep"))
    prefix, trim = part.get("add_prefix_space", bool, True), part.get("trim_offsets", bool, True)
    if trim and before.trim:
        refuse(part.where, "places are trimmed twice")
    single = (cls, (FIRST, 0, 0), sep)
    return Template(single, (*single, sep, (SECOND, 0, 0), sep), trim or before.trim, prefix)


def _template(part: Part, before: Template) -> Template:
    given = part.part("special_tokens")
    special = {} if given is None else {name: _ids(given, name) for name in given.fields}
    single, pair = (tuple(_entries(part, name, special)) for name in ("single", "pair"))
    if [entry[0] for entry in single if entry[0] != TOKEN] != [FIRST]:
        refuse(part.where, "'single' must have the text once")
    if sorted(entry[0] for entry in pair if entry[0] != TOKEN) != [FIRST, SECOND]:
        refuse(part.where, "'pair' must have each text once")
    return replace(before, single=single, pair=pair)


def _ids(tokens: Part, name: str) -> list[int]:
    """The ids of a token, which may stand for several."""
    part = tokens.part(name)
    found: list[object] = [] if part is None else part.get("ids", list)
    ids = [number for number in found if is_id(number)]
    if len(ids) < len(found):
        refuse(tokens.where, f"'ids' of '{name:.60}' is {found!r:.60}, which are no ids of tokens")
    return ids


def _entries(part: Part, name: str, special: Mapping[str, list[int]]) -> Iterator[Entry]:
    entries: list[object] = part.get(name, list)
    for entry in entries:
        match entry:
            case {"Sequence": {"id": "A" | "B" as which, "type_id": int(segment)}} if is_id(segment):
                yield FIRST if which == "A" else SECOND, segment, 0
            case {"SpecialToken": {"id": str(token), "type_id": int(segment)}} if token in special and is_id(segment):
                yield from ((TOKEN, segment, number) for number in special[token])
            case other:
                refuse(part.where, f"{other!r:.80} in '{name}' is not supported")


_READERS: Mapping[str, Callable[[Part, Template], Template]] = {
    "Sequence": _sequence,
    "ByteLevel": _byte_level,
    "BertProcessing": _bert,
    "RobertaProcessing": _roberta,
    "TemplateProcessing": _template,
}
