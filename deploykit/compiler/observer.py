"""The stages of a build by name, and the observer that is told about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.errors import defects

if TYPE_CHECKING:
    from deploykit.compiler.decisions import Explanation

STAGES = ("import", "graph", "kernels", "program", "emit", "package")


@dataclass
class Observer:
    """What a build reports and where it writes: stage times, dumps, where to stop.

    `on_stage(name)` is called when a stage begins. `on_explanation` is called when the kernels of a variant are
    scheduled, or when the build stops before that. `variant` is the folder of dumps within `dump_dir`."""

    on_stage: Callable[[str], None] = lambda _: None
    dump_dir: Path | None = None
    stop_after: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    variant: str = ""
    on_explanation: Callable[[Explanation], None] = lambda _: None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce and time a stage. A defect in it becomes an `InternalError` that names the stage."""
        self.on_stage(name)
        start = time.perf_counter()
        with defects(f"in the stage '{name}'"):
            yield
        self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start

    def dump(self, name: str, text: Callable[[], str], suffix: str = "py") -> None:
        """Write the result of a stage to `<number>_<name>.<suffix>`, if dumps are wanted; `text` is called only
        then."""
        if self.dump_dir is not None:
            folder = self.dump_dir / self.variant
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{STAGES.index(name)}_{name}.{suffix}").write_text(text())

    def stops_at(self, name: str) -> bool:
        return self.stop_after == name
