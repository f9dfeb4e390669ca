"""Renders text files of artifacts from the folder `templates` of a target; templates share parts in `shared`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


def render(package: str, name: str, values: Mapping[str, Any]) -> str:
    """The text of the file `name`, from `templates/<name>.j2` of the target in `package`."""
    return _environment(package).get_template(f"{name}.j2").render(values)


def render_shared(name: str, values: Mapping[str, Any]) -> str:
    """The text of the file `name`, which targets share, from `shared/<name>.j2`."""
    return _environment(None).get_template(f"{name}.j2").render(values)


@cache
def _environment(package: str | None) -> jinja2.Environment:
    import jinja2

    own = [] if package is None else [jinja2.PackageLoader(package)]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([*own, jinja2.PackageLoader("deploykit.targets", "shared")]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is C, makefiles and Markdown
    )
