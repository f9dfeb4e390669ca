"""`deploykit frontends`: what models may come from, and the options of each kind of source."""

from __future__ import annotations

from deploykit.cli.console import print_json, results, table
from deploykit.cli.options import Json
from deploykit.cli.verb import verb


@verb
def frontends(*, json_output: Json = False) -> None:
    """List the kinds of sources that models are built from, and the options that each has."""
    from deploykit.options.option import options_of
    from deploykit.sources.base import frontends as all_frontends

    found = [(frontend, options_of(frontend.Options).values()) for frontend in all_frontends().values()]
    if json_output:
        print_json(
            [
                {
                    "name": frontend.name,
                    "description": frontend.description,
                    "form": frontend.form,
                    "options": [option.document() for option in options],
                }
                for frontend, options in found
            ]
        )
        return
    rows = table("frontend", "takes", "options")
    for frontend, options in found:
        rows.add_row(
            frontend.name, frontend.form or frontend.description, ", ".join(option.flags for option in options)
        )
    results.print(rows)
