"""Options of the command line that are made from dataclasses of options (`deploykit.options`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deploykit.options.option import Option, options_of

PLACE = "options"
"""The parameter that takes the values."""


def with_options(*kinds: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these dataclasses, in place of its parameter `options`, which gets their values by
    name. An option that several have is taken once. What the user leaves out is not among the values."""
    found: dict[str, Option] = {}
    for kind in kinds:
        for name, option in options_of(kind).items():
            if option.written is not None:
                found.setdefault(name, option)

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**given: Any) -> None:
            values = {name: _value(found[name], given.pop(name)) for name in found}
            function(**given, **{PLACE: {name: value for name, value in values.items() if value is not None}})

        signature = inspect.signature(function, eval_str=True)
        made = [_parameter(option) for option in found.values()]
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += made if parameter.name == PLACE else [parameter]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorated


def _parameter(option: Option) -> inspect.Parameter:
    written = option.written
    assert written is not None
    kind: Any = Path if "Path" in option.type else str
    if isinstance(option.default, bool):
        kind = bool
    elif written.choices:
        kind = Literal[written.choices]
    elif written.many:
        kind = list[str]
    default = option.default if kind is bool or option.default else None
    told = typer.Option(option.flags, help=written.help, metavar=written.metavar or None, show_default=bool(default))
    annotation: Any = Annotated[kind if default is not None else kind | None, told]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _value(option: Option, given: Any) -> Any:
    return None if given is None or option.written is None else option.written.read(given)
