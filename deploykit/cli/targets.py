"""`deploykit targets`: what can be built and run on this machine."""

from __future__ import annotations

from dataclasses import asdict, replace

from rich.text import Text

from deploykit.basics.installation import has_compiler
from deploykit.cli.console import doubtful, good, print_json, results, table
from deploykit.cli.options import Json
from deploykit.cli.verb import verb


@verb
def targets(*, json_output: Json = False) -> None:
    """List the targets: whether their artifacts can be built and run here, and with what."""
    from deploykit.options.option import options_of
    from deploykit.targets.base import options_of_target
    from deploykit.targets.base import targets as all_targets

    found = [(target, target.check()) for target in all_targets().values()]
    if not has_compiler():
        found = [(target, replace(available, build=False)) for target, available in found]
    if json_output:
        print_json(
            [
                {
                    "name": target.name,
                    "description": target.description,
                    **asdict(available),
                    "options": [option.document() for option in options_of(options_of_target(target)).values()],
                }
                for target, available in found
            ]
        )
        return
    rows = table("target", "builds here", "runs here", "what it gives", "detail")
    for target, available in found:
        rows.add_row(target.name, _mark(available.build), _mark(available.run), target.description, available.detail)
    results.print(rows)


def _mark(possible: bool) -> Text:
    return good("yes") if possible else doubtful("no")
