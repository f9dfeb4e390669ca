"""`docs/options.md`: every option of a build, from the dataclasses of options.

`python -m tests.docs.options_page` rewrites the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deploykit.options.option import options_of
from deploykit.options.parts import CheckOptions, CompileOptions, PlatformOptions, QuantizeOptions, WatchOptions
from deploykit.sources.base import frontends
from deploykit.targets.base import options_of_target, targets

PAGE = Path(__file__).parents[2] / "docs" / "options.md"

_HEAD = """# Options

The options of `deploykit build`, and the keyword arguments of `deploykit.load` and `deploykit.build`.
`python -m tests.docs.options_page` generates this page. `deploykit frontends` lists the kinds of sources that are
installed here. An option that the source of a model does not have is refused, unless it has its default value.
"""

_PARTS = {
    "What is built": PlatformOptions,
    "The compiler": CompileOptions,
    "Smaller weights": QuantizeOptions,
    "The check": CheckOptions,
    "What is watched": WatchOptions,
}


def page() -> str:
    text = _HEAD
    for frontend in frontends().values():
        if options_of(frontend.Options):
            text += "\n" + "\n".join(_section(f"The source is {frontend.description}", frontend.Options)) + "\n"
    for target in targets().values():
        if own := options_of(options_of_target(target)):
            text += (
                f"\n## The target {target.name}\n\nEach is given as `--set NAME=VALUE`, in Python in `settings`.\n\n"
            )
            text += "| name | default | |\n|---|---|---|\n"
            for option in own.values():
                default = "" if option.default is None else f"`{option.default}`"
                text += f"| `{option.name}` | {default} | {option.document()['help']} |\n"
    for title, kind in _PARTS.items():
        text += "\n" + "\n".join(_section(title, kind)) + "\n"
    return text


def _section(title: str, kind: type) -> Iterator[str]:
    """A table of the options that have a help text."""
    yield f"## {title}"
    yield ""
    yield "| command line | keyword | default | |"
    yield "|---|---|---|---|"
    for option in options_of(kind).values():
        found = option.document()
        if found["help"]:
            default = "" if found["default"] in (None, "()", "") else f"`{found['default']}`"
            yield f"| `{found['flags']}` | `{found['name']}` | {default} | {found['help']} |"


if __name__ == "__main__":
    PAGE.write_text(page())
