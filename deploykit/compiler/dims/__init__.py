"""The algebra of symbolic dims: one way to bound, evaluate, compare and print integer expressions.

An expression (`expressions.IntExpr`) is a TVM expression over `Var`s of dtype int64, or a Python int where static.

* `ranges`: the range that a user gives for a dim (`batch=1..64`).
* `evaluate`: the value of an expression for given dims; the variables it depends on.
* `polynomial`, `conversion`: the normal form, in which equal expressions are equal values; `simplify`, `substitute`.
* `bounds`: the range of an expression; `elimination`: an upper bound without data dims; `magnitude`: whether an
  expression fits 64 bits.
* `formulas`: the formula that a person reads.
"""

from deploykit.compiler.dims.bounds import interval
from deploykit.compiler.dims.conversion import as_expr, simplify, substitute
from deploykit.compiler.dims.elimination import symbolic_upper_bound
from deploykit.compiler.dims.evaluate import evaluate, free_vars
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.dims.magnitude import largest, magnitude
from deploykit.compiler.dims.ranges import DimRange, checked_bounds, parse_dim

__all__ = [
    "DimRange",
    "as_expr",
    "checked_bounds",
    "evaluate",
    "free_vars",
    "interval",
    "largest",
    "magnitude",
    "parse_dim",
    "simplify",
    "substitute",
    "symbolic_upper_bound",
    "to_text",
]
