"""Which operators compute each token for itself: all of a decoder but its attention has to.

The tokens of a step are one axis of each tensor; `each` of its elements belong to a token, next to each other, where
heads were joined with it. A rule says whether an operator mixes what lies along that axis. Operators without a rule
are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tvm import ir

from deploykit.compiler.dims import free_vars, substitute
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import AnyValue, Value

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.operators.building.context import Context
    from deploykit.frontends.onnx.node import Node


class Tokens(NamedTuple):
    """Where the tokens of a tensor are: the axis, and its elements for each."""

    axis: int
    each: int


Given: TypeAlias = "Sequence[tuple[Value, Tokens | None]]"
"""The operands that are there, each with its tokens."""

Rule: TypeAlias = "Callable[[Context, Node, Given, Value], bool]"
"""Whether a node, with these operands and this first result, keeps tokens apart."""


def tokens_of(ctx: Context, value: Value, dims: Collection[ir.Var]) -> Tokens | None:
    """Where the tokens of a value are, whose number is one of `dims`; None: it is the same for all tokens.

    Raises `Unsupported` for a value that is a function of their number, or has them along several axes."""
    if value.array is not None:
        return None
    if value.elements is not None and any(_counts(element, dims) for element in value.elements.flat):
        raise Unsupported("it computes with the number of tokens")
    axes = [axis for axis, extent in enumerate(value.shape) if _counts(extent, dims)]
    if not axes:
        return None
    extent = value.shape[axes[0]]
    each = ctx.simplify(substitute(extent, dict.fromkeys(dims, 1)))
    if len(axes) > 1 or not isinstance(each, int) or not any(ctx.equal(extent, dim * each) for dim in dims):
        raise Unsupported(f"{value}, where tokens are no axis")
    return Tokens(axes[0], each)


def _counts(extent: IntExpr, dims: Collection[ir.Var]) -> bool:
    return isinstance(extent, ir.Expr) and any(var in dims for var in free_vars(extent))


def require_apart(
    ctx: Context,
    node: Node,
    inputs: Sequence[AnyValue | None],
    results: Sequence[AnyValue | None],
    dims: Collection[ir.Var],
) -> None:
    """Raises `Unsupported` if a node mixes tokens, or is not known not to. Sizes are no matter of tokens."""
    if node.op_type in ("Shape", "Size"):
        return
    shapes = SHAPE_OPERANDS.get(node.op_type, 1 << 30)
    given = []
    for position, value in enumerate(inputs):
        if value is not None and not isinstance(value, Value):
            raise Unsupported("a sequence or an optional")
        if value is not None:
            given.append((value, tokens_of(ctx, value, dims) if position < shapes else None))
    if not any(tokens for _, tokens in given):
        return
    rule = RULES.get(node.op_type)
    if rule is None:
        raise Unsupported("it is not known whether it computes each token for itself")
    first = next(value for value in results if isinstance(value, Value))
    if not rule(ctx, node, given, first):
        raise Unsupported("it mixes tokens")
    for value in results:
        if isinstance(value, Value) and tokens_of(ctx, value, dims) is None:
            raise Unsupported("its result is one for all tokens")


SHAPE_OPERANDS: Mapping[str, int] = dict.fromkeys(
    ("Reshape", "Expand", "Slice", "Split", "Squeeze", "Tile", "Unsqueeze"), 1
)
"""The first operand that holds sizes or axes, by operators."""


def _elementwise(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Operands are aligned at their last axes."""
    del ctx, node, y
    return len({(x.rank - tokens.axis, tokens.each) for x, tokens in given if tokens}) == 1


def _along(default: int, *, rest: bool = False) -> Rule:
    """Mixes what lies along the attribute `axis`, or, if `rest`, along all axes from it on."""

    def rule(ctx: Context, node: Node, given: Given, y: Value) -> bool:
        del ctx, y
        (x, tokens), *others = given
        axis = node.axis(x.rank, default)
        return (
            tokens is not None
            and not any(each for _, each in others)
            and (tokens.axis < axis if rest else tokens.axis != axis)
        )

    return rule


def _last(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Mixes what lies along the last axis."""
    return _elementwise(ctx, node, given, y) and all(tokens is None or tokens.axis < x.rank - 1 for x, tokens in given)


def _product(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """A product with a matrix that is the same for all tokens."""
    del ctx, node, y
    (x, left), (w, right), *others = given
    if (left is None) == (right is None) or any(tokens for _, tokens in others):
        return False
    if left is not None:
        return left.axis == x.rank - 2 or (left.axis < x.rank - 2 and w.rank <= 2)
    assert right is not None
    return right.axis == w.rank - 1


def _gemm(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    del ctx, y
    (_, left), *others = given
    return left is not None and left.axis == node.int("transA", 0) and not any(tokens for _, tokens in others)


def _stored_product(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    del ctx, node, y
    (x, left), *others = given
    return left is not None and left.axis < x.rank - 1 and not any(tokens for _, tokens in others)


def _gather(name: str) -> Rule:
    """Rows for each token, or the same rows of what each has."""

    def rule(ctx: Context, node: Node, given: Given, y: Value) -> bool:
        del ctx, y
        (x, tokens), (_, indices), *others = given
        if any(each for _, each in others) or (tokens and indices):
            return False
        return tokens is None or tokens.axis != node.axis(x.rank, 0, name)

    return rule


def _view(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """The same elements in the same order: tokens stay where they are if so many elements are in front of them as
    before."""
    del node
    x, tokens = given[0]
    if tokens is None:
        return False
    dims = {*free_vars(x.shape[tokens.axis])} - {
        var for axis in (*x.shape[: tokens.axis], *x.shape[tokens.axis + 1 :]) for var in free_vars(axis)
    }
    axis = next((axis for axis, extent in enumerate(y.shape) if _counts(extent, dims)), None)
    if axis is None:
        return False
    return ctx.equal(ctx.product(y.shape[:axis]), ctx.product(x.shape[: tokens.axis]))


def _transpose(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    del ctx, node, y
    return len(given) == 1


def _split(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    del ctx, y
    (x, tokens), *_ = given
    return tokens is not None and tokens.axis != node.axis(x.rank, 0)


def _concat(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    del ctx
    axis = node.axis(y.rank, 0)
    return len({tokens for _, tokens in given}) == 1 and all(tokens and tokens.axis != axis for _, tokens in given)


def _repeated(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Copies along other axes."""
    del node
    x, tokens = given[0]
    axis = 0 if tokens is None else tokens.axis - x.rank
    return axis < 0 and ctx.equal(y.shape[axis], x.shape[axis])


def _sliced(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Parts along other axes."""
    del ctx, node, y
    (x, tokens), *places = given
    axes = places[2][0].array if len(places) > 2 else None
    return tokens is not None and axes is not None and tokens.axis not in [int(axis) % x.rank for axis in axes]


def _reduced(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Sums and the like along other axes."""
    del ctx, y
    (x, tokens), *axes = given
    if tokens is None:
        return False
    if axes and axes[0][0].array is not None:
        named = [int(axis) for axis in axes[0][0].array.reshape(-1)]
    else:
        named = node.ints("axes") if node.has("axes") else []
    return bool(named) and tokens.axis not in [axis % x.rank for axis in named]


def _softmax(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Before opset 13, all axes from one on are one."""
    rule = _along(-1) if node.opset >= 13 or node.domain else _along(1, rest=True)
    return rule(ctx, node, given, y)


def _normalised(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Channels along axis 1, with numbers that are the same for all tokens."""
    del ctx, y
    (_, tokens), *others = given
    apart = tokens is not None and tokens.axis != 1 and not any(each for _, each in others)
    return apart and node.int("training_mode", 0) == 0


def _quantised(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """One scale, or one for each position of another axis."""
    del ctx, y
    (x, tokens), (scale, _), *_ = given
    return tokens is not None and (scale.rank == 0 or scale.shape == (1,) or node.axis(x.rank, 1) != tokens.axis)


def _rotary(ctx: Context, node: Node, given: Given, y: Value) -> bool:
    """Channels of a head, with angles for each token."""
    del ctx, node, y
    (x, tokens), *others = given
    own = tokens == Tokens(1 if x.rank == 3 else 2, 1)
    return own and all(each in (None, Tokens(1, 1)) for _, each in others)


ELEMENTWISE = (
    *(
        "Abs",
        "Add",
        "And",
        "BiasGelu",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Div",
        "Dropout",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
    ),
    *(
        "FastGelu",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "IsInf",
        "IsNaN",
    ),
    *(
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
    ),
    *(
        "QuickGelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
    ),
    *("Where", "Xor"),
)

REDUCED = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("SkipSimplifiedLayerNormalization", "SkipLayerNormalization"), _last),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _along(-1, rest=True)),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("TopK", "LpNormalization"), _along(-1)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _along(0)),
    "MatMul": _product,
    "Gemm": _gemm,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), _stored_product),
    "Gather": _gather("axis"),
    "GatherBlockQuantized": _gather("gather_axis"),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _view),
    "Transpose": _transpose,
    "Split": _split,
    "Concat": _concat,
    **dict.fromkeys(("Expand", "Tile"), _repeated),
    "Slice": _sliced,
    **dict.fromkeys((f"Reduce{name}" for name in REDUCED), _reduced),
    "RotaryEmbedding": _rotary,
    "BatchNormalization": _normalised,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantised),
}
"""By operators of ONNX and `com.microsoft`."""
