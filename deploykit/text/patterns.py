"""The patterns of splits and replacements: `{"String": ...}` or `{"Regex": ...}`."""

from __future__ import annotations

from deploykit.text.reading import Part, refuse
from deploykit.text.regex import Pattern, Refused, literal_pattern, read_pattern


def pattern_of(part: Part, name: str) -> Pattern:
    """The pattern in a field. Raises `UnsupportedModelError` with the reason why it is not supported."""
    kinds: dict[str, object] = part.get(name, dict)
    (kind, text), *more = kinds.items() or [("", "")]
    if more or kind not in {"String", "Regex"} or not isinstance(text, str) or not text:
        refuse(part.where, f"the pattern {kinds!r:.60} is not supported")
    try:
        return literal_pattern(text) if kind == "String" else read_pattern(text)
    except Refused as refusal:
        refuse(part.where, f"the regular expression {text!r:.120} is not supported: {refusal}")
