"""Random edits of JSON files of Hugging Face folders: an entry goes, becomes null, gets a value of another type or
size, or that of another entry; a list gets longer or shorter; an unknown entry comes."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 63, 1 << 70, -5, 0.0, 0.5, -2.5, 1e-12, 1e30),
    *(math.nan, math.inf, -math.inf, "", "6", "gelu", "none", "null", "\0", "x" * 5000, "ä"),
    *([], [0], [1, 2], [None], ["a"], [[1], [2]], {}, {"a": 1}, {"0": "a", "1": "b"}),
)


def edited(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """`config` after one to three random edits."""
    chooser = random.Random(seed)
    result = copy.deepcopy(config)
    for _ in range(chooser.choice((1, 1, 1, 2, 3))):
        _edit(result, chooser)
    return result


def _edit(config: dict[str, Any], chooser: random.Random) -> None:
    places = list(_places(config))
    if not places:
        config["a"] = chooser.choice(VALUES)
        return
    holder, key = chooser.choice(places)
    match chooser.randrange(6):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1:
            other, name = chooser.choice(places)
            holder[key] = copy.deepcopy(other[name])
        case 2 if isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key][:-1] if chooser.random() < 0.5 else [*holder[key], holder[key][-1]]
        case 3 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = chooser.choice(
                (holder[key] * 2, holder[key] + 1, holder[key] - 1, -holder[key], str(holder[key]))
            )
        case 4 if isinstance(holder, dict):
            holder[chooser.choice((f"_{key}", f"{key}s", key.upper()))] = holder[key]
        case _:
            holder[key] = copy.deepcopy(chooser.choice(VALUES))


def _places(value: Any) -> Any:
    """All dicts and lists with each of their keys and indices."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
