"""The sets of functions in C on rows of 8-bit integers that kernels call, by the name of the instruction that adds
products: those for Helium (`codegen.c.helium`) and for vectors of RISC-V (`codegen.c.rvv`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploykit.compiler.devices import helium, rvv


@dataclass(frozen=True)
class RowFunctions:
    """A set of functions, whose names end with `suffix`. They multiply `rows` rows together, or one.

    A panel has `panel` columns; where it is `whole`, all columns of which the number is known. `columns` are the most
    columns, and `channels` the most channels of neighbouring outputs of a depthwise convolution, whose sums are in
    memory at a time. `fours`: there are functions on four lanes, too (`codegen.c.vectors`)."""

    suffix: str
    rows: int
    panel: int
    whole: bool
    columns: int
    channels: int
    fours: bool

    def width(self, columns: int | None) -> int:
        """The columns of a panel."""
        return columns if self.whole and columns else self.panel

    def stretch(self, columns: int | None) -> int:
        """The columns whose sums are in memory at a time: whole panels, or a part of one."""
        if columns is None:
            return self.panel if self.whole else self.columns
        width = self.width(columns)
        return min(self.columns, -(-columns // width) * width)

    def name(self, function: str) -> str:
        return f"{function}{self.suffix}"


ROW_FUNCTIONS: Mapping[str, RowFunctions] = {
    "vmladava": RowFunctions("", 2, helium.WIDTH, whole=False, columns=64, channels=64, fours=True),
    "vwmacc": RowFunctions("_rvv", rvv.ROWS, rvv.PANEL, whole=True, columns=64, channels=192, fours=False),
}


def panel_width(instruction: str, columns: int | None) -> int:
    """The columns of a panel for an instruction; 0 if there are no functions for it."""
    return ROW_FUNCTIONS[instruction].width(columns) if instruction in ROW_FUNCTIONS else 0
