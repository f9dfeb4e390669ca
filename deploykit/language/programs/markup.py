"""The filter `safe` of templates: where it changes nothing.

It makes a text that escapes those which are added to it. That does not matter where the text is written, joined with
`~`, written as JSON or asked for its kind; and so for a variable that is only used in this way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import nodes


def unmarked(template: nodes.Template) -> set[str]:
    """The variables that are only used where `safe` does not matter."""
    from jinja2 import nodes

    loads = Counter(name.name for name in template.find_all(nodes.Name) if name.ctx == "load")
    harmless = Counter(name for node in template.find_all(nodes.Node) for name in _harmless(node))
    return {name for name, count in loads.items() if harmless[name] == count}


def _harmless(node: nodes.Node) -> Iterator[str]:
    """The variables that a node, though not those within it, uses where `safe` does not matter."""
    from jinja2 import nodes

    if isinstance(node, nodes.Output | nodes.Concat):
        for part in node.nodes:
            yield from _passed(part)
    elif isinstance(node, nodes.Test) or (isinstance(node, nodes.Filter) and node.name == "tojson"):
        if isinstance(node.node, nodes.Name):
            yield node.node.name
    elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
        yield from (name for name in _passed(node.node) if name == node.target.name)


def _passed(node: nodes.Node | None) -> Iterator[str]:
    """The variables whose value may be that of an expression."""
    from jinja2 import nodes

    if isinstance(node, nodes.Name):
        yield node.name
    elif isinstance(node, nodes.Filter) and node.name in ("safe", "string"):
        yield from _passed(node.node)
    elif isinstance(node, nodes.CondExpr):
        yield from _passed(node.expr1)
        yield from _passed(node.expr2)
