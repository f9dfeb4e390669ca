"""The sets of functions in C on rows that kernels call: those for Helium (`codegen.c.helium`) and for vectors of RISC-V
(`codegen.c.rvv`)."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.compiler.devices import helium, rvv


@dataclass(frozen=True)
class RowFunctions:
    """A set of functions, whose names end with `suffix`. For integers, panels are packed for one of the instructions
    `dots` (names of `dot.DOTS`), and `rows` rows are multiplied together, or one.
    A panel has `panel` columns; where panels are `whole`, all columns of which the number is known. `columns` are the
    most columns, and `channels` the most channels of neighbouring outputs of a depthwise convolution, whose sums are in
    memory at a time. Panels of float32 have `float_panel` columns; `whole` ones have as many or fewer, all the same.
    With the factors of such a panel, the sums of `float_rows` rows fill the vectors. `fours`: further operations are
    functions on four lanes (`codegen.c.vectors`), else on strips in memory (`codegen.c.rvv_strips`). `halves`: panels
    of floats may be of float16."""

    suffix: str
    dots: tuple[str, ...]
    rows: int
    panel: int
    whole: bool
    columns: int
    channels: int
    float_panel: int
    float_rows: int
    fours: bool
    halves: bool

    def name(self, function: str) -> str:
        return f"{function}{self.suffix}"

    def width(self, columns: int | None) -> int:
        """The columns of a panel of integers."""
        return columns if self.whole and columns else self.panel

    def stretch(self, columns: int | None) -> int:
        """The columns whose sums are in memory at a time: whole panels, or a part of one."""
        if columns is None:
            return self.panel if self.whole else self.columns
        width = self.width(columns)
        return min(self.columns, -(-columns // width) * width)

    def float_width(self, columns: int | None) -> int:
        """The columns of a panel of float32; 0 if padding would be a large part of it."""
        if columns is None:
            return self.float_panel
        if self.whole:
            return -(-columns // max(1, -(-columns // self.float_panel)))
        return self.float_panel if columns % self.float_panel == 0 or columns >= MANY_COLUMNS else 0

    def takes(self, width: int) -> bool:
        """Whether panels of float32 may have so many columns."""
        return 0 < width <= self.float_panel if self.whole else width == self.float_panel


MANY_COLUMNS = 32
"""With so many columns, padding to panels is a small part of them."""

HELIUM = RowFunctions(
    "",
    ("vmladava", "vmladava_16"),
    rows=2,
    panel=helium.WIDTH,
    whole=False,
    columns=64,
    channels=64,
    float_panel=helium.FLOAT_WIDTH,
    float_rows=helium.OUTPUTS,
    fours=True,
    halves=True,
)

RVV = RowFunctions(
    "_rvv",
    ("vwmacc", "vwmacc_16"),
    rows=rvv.ROWS,
    panel=rvv.PANEL,
    whole=True,
    columns=64,
    channels=192,
    float_panel=rvv.PANEL,
    float_rows=rvv.FLOAT_ROWS,
    fours=False,
    halves=False,
)
