"""Reading a part of `tokenizer.json`: each field is asked for by its name, and a part that has more is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Concatenate, NoReturn, ParamSpec, TypeGuard, TypeVar

from deploykit.errors import UnsupportedModelError

T = TypeVar("T")
P = ParamSpec("P")
_KINDS = {str: "a text", int: "an integer", bool: "true or false", float: "a number", list: "a list", dict: "an object"}


def refuse(where: str, what: str) -> NoReturn:
    """Raise the error for something in the file that is broken or not supported."""
    raise UnsupportedModelError(
        f"tokenizer.json: {where}: {what}. Tokenize outside of the artifact, or save the tokenizer without it."
    )


MOST_TOKENS = 1 << 24


def is_id(number: object) -> TypeGuard[int]:
    """Whether it can be the id of a token."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < MOST_TOKENS


@dataclass
class Part:
    """An object of the file. `where` names it in errors, such as `pre_tokenizer[1]`."""

    fields: Mapping[str, object]
    where: str
    read: set[str] = field(default_factory=lambda: {"type"})

    @property
    def kind(self) -> str:
        """The field `type`."""
        return self.get("type", str)

    def get(self, name: str, kind: type[T], default: T | None = None) -> T:
        """The field, which must have this type; `default` if it is absent or null."""
        self.read.add(name)
        found = self.fields.get(name)
        if found is None:
            if default is None:
                refuse(self.where, f"'{name}' is missing")
            return default
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            refuse(self.where, f"'{name}' is {found!r:.60}, but must be {_KINDS[kind]}")
        return found

    def optional(self, name: str, kind: type[T]) -> T | None:
        self.read.add(name)
        return None if self.fields.get(name) is None else self.get(name, kind)

    def part(self, name: str) -> Part | None:
        """The object in a field; None if it is absent or null."""
        fields = self.optional(name, dict)
        return None if fields is None else Part(fields, name if self.where == "the file" else f"{self.where}.{name}")

    def parts(self, name: str) -> Iterator[Part]:
        """The objects of the list in a field."""
        objects: list[object] = self.get(name, list)
        for index, fields in enumerate(objects):
            place = f"{self.where}[{index}]" if self.where != "the file" else f"{name}[{index}]"
            if not isinstance(fields, dict):
                refuse(place, f"{fields!r:.60} is no object")
            yield Part(fields, place)

    def must_be(self, name: str, *allowed: object) -> None:
        """Refuse the part if the field has another value; null and absent are None."""
        self.read.add(name)
        if self.fields.get(name) not in allowed:
            refuse(self.where, f"'{name}' is {self.fields[name]!r:.60}, which is not supported")

    def end(self) -> None:
        """Refuse the part if it has fields that were not read."""
        for name in self.fields:
            if name not in self.read:
                refuse(self.where, f"{self.fields.get('type', 'the object')} has the unknown field '{name}'")

    def read_by(self, readers: Mapping[str, Callable[Concatenate[Part, P], T]], *given: P.args, **named: P.kwargs) -> T:
        """What the reader of the part's type makes of it. Refuses the part if there is none, or if it leaves a
        field."""
        reader = readers.get(self.kind)
        if reader is None:
            refuse(self.where, f"the type '{self.kind}' is not supported")
        found = reader(self, *given, **named)
        self.end()
        return found
