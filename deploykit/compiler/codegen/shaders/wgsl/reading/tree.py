"""The tree of a shader: its declarations, functions, statements and expressions.

Every expression has a type. Literals have the type that their context gives them, and operands of an operator have
equal types (shifts: equal sizes), because scalars that are combined with a vector are a `Splat`. A name of a variable
stands for its memory: an expression that only selects a part of it (`Name`, `Index`, `Member`, `Swizzle` of one lane)
is a place, which is loaded where its value is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.compiler.codegen.shaders.wgsl.reading.types import Pointer, Scalar, Struct, Type, Vector

# Expressions


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or truth. A float is as it was written; the type may round it."""

    type: Scalar
    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a parameter or a `let`. `space` is the address space of a variable, empty for a value."""

    type: Type
    name: str
    space: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """The member `name` of a struct, its `number`-th from 0."""

    type: Type
    base: Expression
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Elements of a vector, by their letters of `xyzw`; one letter gives a scalar."""

    type: Scalar | Vector
    base: Expression
    lanes: str


@dataclass(frozen=True, slots=True)
class Index:
    """An element of an array or a vector."""

    type: Type
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """`-`, `!` or `~`, for each element of a vector."""

    type: Scalar | Vector
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator of two operands, for each element of vectors. `&&` and `||` evaluate the right one only if needed;
    `&` and `|` take truths, too. Shifts take the lowest five bits of the right operand, a `u32`."""

    type: Scalar | Vector
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of the shader; its type is `VOID` if it has no result."""

    type: Type
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Builtin:
    """A call of a function of the language. `resolving` lists them."""

    type: Type
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Construct:
    """A vector of scalars and vectors, one after another, or an array of its elements."""

    type: Type
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Splat:
    """A vector whose elements are all the same scalar."""

    type: Vector
    operand: Expression


@dataclass(frozen=True, slots=True)
class Convert:
    """A scalar or vector as another element type. Floats that become integers are truncated and saturated."""

    type: Scalar | Vector
    operand: Expression


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits as another type."""

    type: Type
    operand: Expression


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a place, the argument of atomic functions and `workgroupUniformLoad`."""

    type: Pointer
    operand: Expression


Expression: TypeAlias = (
    Literal
    | Name
    | Member
    | Swizzle
    | Index
    | Unary
    | Binary
    | Call
    | Builtin
    | Construct
    | Splat
    | Convert
    | Bitcast
    | Address
)

# Statements


@dataclass(frozen=True, slots=True)
class Let:
    """A name for a value."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of a function. Without a value, nothing may be assumed of what is in it."""

    name: str
    type: Type
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Assign:
    """`a += b` is the assignment of `a + b` to `a`."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A call for its effect."""

    call: Call | Builtin


@dataclass(frozen=True, slots=True)
class If:
    condition: Expression
    then: Block
    otherwise: Block


@dataclass(frozen=True, slots=True)
class For:
    """`first` is in a scope around the loop. `condition` is None for none."""

    first: Statement | None
    condition: Expression | None
    update: Statement | None
    body: Block


@dataclass(frozen=True, slots=True)
class While:
    condition: Expression
    body: Block


@dataclass(frozen=True, slots=True)
class Loop:
    """An endless loop; `break` leaves it."""

    body: Block


@dataclass(frozen=True, slots=True)
class Switch:
    """The first of `cases` one of whose numbers is the selector's value, else `default`; `break` leaves it."""

    selector: Expression
    cases: tuple[tuple[tuple[int, ...], Block], ...]
    default: Block


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Continue:
    pass


@dataclass(frozen=True, slots=True)
class Return:
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Block:
    """Statements with a scope of their own."""

    statements: tuple[Statement, ...]


Statement: TypeAlias = (
    Let | Var | Assign | Evaluate | If | For | While | Loop | Switch | Break | Continue | Return | Block
)

# Declarations


@dataclass(frozen=True)
class Variable:
    """A variable of the module. `access` is `read` or `read_write`; `binding` is None without one."""

    name: str
    type: Type
    space: str
    access: str
    binding: int | None


@dataclass(frozen=True)
class Parameter:
    """`builtin` is the built-in value that a parameter of the entry point has, such as `workgroup_id`."""

    name: str
    type: Type
    builtin: str


@dataclass(frozen=True)
class Function:
    """`result` is `VOID` for none. `workgroup` is the size of a workgroup, for an entry point, else empty."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Block
    workgroup: tuple[int, ...]


@dataclass(frozen=True)
class Module:
    """A shader. `functions` are those that are reached from the entry point, which is the last; each comes after the
    functions that it calls. `enabled` are the names that `enable` directives give."""

    enabled: tuple[str, ...]
    structs: tuple[Struct, ...]
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]

    @property
    def entry(self) -> Function:
        return self.functions[-1]
