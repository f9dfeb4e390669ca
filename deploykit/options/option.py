"""Options as fields of frozen dataclasses, and the one place that refuses an option where it has no meaning."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deploykit.errors import UsageError

Values = TypeVar("Values")

_ENTRY = "option"


@dataclass(frozen=True)
class Written:
    """How an option is written on the command line: `flags`, as in `--fuse/--no-fuse`, and `metavar` for its value, or
    its `choices`. `many`: it may be repeated. `read` makes the value of the text, or of all texts, that is given."""

    help: str
    flags: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False
    read: Callable[[Any], Any] = lambda given: given


@dataclass(frozen=True)
class Option:
    """An option: its keyword, its type (as text) and its default in Python, and how the command line takes it, if it
    does."""

    name: str
    type: Any
    default: Any
    written: Written | None

    @property
    def flags(self) -> str:
        """As on the command line: `--seed-input`, or `--fuse/--no-fuse` for what is on by default."""
        word = self.name.replace("_", "-")
        own = self.written.flags if self.written else ""
        return own or (f"--{word}/--no-{word}" if self.default is True else f"--{word}")

    def document(self) -> dict[str, Any]:
        """The option for JSON: `flags` as on the command line, the type and the default of the keyword."""
        text = "" if self.written is None else re.sub(r"\[/?b?\]", "", self.written.help)
        default = self.default if self.default is None or isinstance(self.default, str | bool) else repr(self.default)
        return {"name": self.name, "flags": self.flags, "type": self.type, "default": default, "help": text}

    def is_given(self, value: Any) -> bool:
        """Whether `value` asks for anything: the default, nothing and what is empty do not."""
        return value is not None and value != self.default and not (isinstance(value, Sized) and len(value) == 0)


def option(
    default: Any,
    help: str,  # noqa: A002 - the word of the field's term
    *,
    flags: str = "",
    metavar: str = "",
    choices: tuple[str, ...] = (),
    many: bool = False,
    read: Callable[[Any], Any] = lambda given: given,
) -> Any:
    """A field of a dataclass of options that the command line takes."""
    return field(default=default, metadata={_ENTRY: Written(help, flags, metavar, choices, many, read)})


def options_of(kind: type) -> dict[str, Option]:
    """The options of a dataclass, by name."""
    kinds = reversed(kind.__mro__)
    types = {name: text for each in kinds for name, text in getattr(each, "__annotations__", {}).items()}
    return {
        entry.name: Option(entry.name, types[entry.name], entry.default, entry.metadata.get(_ENTRY))
        for entry in dataclasses.fields(kind)
    }


@dataclass(frozen=True)
class Part:
    """A part of a build that has options. `words` say what it is, as in "a dynamic model"."""

    words: str
    options: type


def checked(given: Mapping[str, Any], parts: Iterable[Part], others: Iterable[Part], where: str) -> None:
    """Refuse what no part of this build knows. `others` are parts that builds of other models have. `where` says which
    build this is, as in "model.onnx, an ONNX file,". An option with its default value says nothing and may be given.

    Raises `UsageError`, which names the parts that know the option, or the option that was probably meant."""
    known = {name for part in parts for name in options_of(part.options)}
    owners: dict[str, list[Part]] = {}
    for part in others:
        for name in options_of(part.options):
            owners.setdefault(name, []).append(part)
    for name in given.keys() - known:
        if name not in owners:
            near = difflib.get_close_matches(name, [*known, *owners], 1)
            raise UsageError(f"there is no option '{name}'" + (f": did you mean '{near[0]}'?" if near else ""))
        if options_of(owners[name][0].options)[name].is_given(given[name]):
            words = " or ".join(part.words for part in owners[name])
            raise UsageError(f"the option '{name}' is for {words}; {where} has no such option")


def chosen(kind: type[Values], given: Mapping[str, Any]) -> Values:
    """The values of one part; options of other parts are left out."""
    return kind(**{name: given[name] for name in options_of(kind) if name in given})
