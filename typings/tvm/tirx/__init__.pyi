# Statements, and functions that make expressions.

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from tvm.ir import Call as Call
from tvm.ir import Expr, Node, Range, Scalar, TensorLoad
from tvm.ir import StringImm as StringImm
from tvm.ir import Var as Var
from tvm.ir.prim.expr import EQ as EQ
from tvm.ir.prim.expr import GE as GE
from tvm.ir.prim.expr import GT as GT
from tvm.ir.prim.expr import LE as LE
from tvm.ir.prim.expr import LT as LT
from tvm.ir.prim.expr import NE as NE
from tvm.ir.prim.expr import Add as Add
from tvm.ir.prim.expr import And as And
from tvm.ir.prim.expr import Broadcast as Broadcast
from tvm.ir.prim.expr import Cast as Cast
from tvm.ir.prim.expr import Div as Div
from tvm.ir.prim.expr import FloatImm as FloatImm
from tvm.ir.prim.expr import FloorDiv as FloorDiv
from tvm.ir.prim.expr import FloorMod as FloorMod
from tvm.ir.prim.expr import IntImm as IntImm
from tvm.ir.prim.expr import Max as Max
from tvm.ir.prim.expr import Min as Min
from tvm.ir.prim.expr import Mod as Mod
from tvm.ir.prim.expr import Mul as Mul
from tvm.ir.prim.expr import Not as Not
from tvm.ir.prim.expr import Or as Or
from tvm.ir.prim.expr import Ramp as Ramp
from tvm.ir.prim.expr import Select as Select
from tvm.ir.prim.expr import Shuffle as Shuffle
from tvm.ir.prim.expr import Sub as Sub
from typing_extensions import TypeIs, disjoint_base

class Buffer(Var):
    # A `Var` whose type is a `BufferType`. TVM has no class for it, only `is_buffer_var`.
    shape: Sequence[Expr]
    strides: Sequence[Expr]
    dtype: Any
    data: Var
    def scope(self) -> str: ...
    def __getitem__(self, index: Scalar | tuple[Scalar, ...]) -> TensorLoad: ...

def BufferLoad(buffer: Buffer, indices: Sequence[Scalar]) -> TensorLoad: ...
def is_buffer_var(value: object) -> TypeIs[Buffer]: ...
def decl_buffer(
    shape: Sequence[Scalar], dtype: str = "float32", name: str = "buffer", data: Any = None, **options: Any
) -> Buffer: ...
def const(value: float, dtype: str | None = None) -> Expr: ...
def min(a: Scalar, b: Scalar) -> Expr: ...
def max(a: Scalar, b: Scalar) -> Expr: ...
def all(*args: Scalar) -> Expr: ...
def any(*args: Scalar) -> Expr: ...
def truncdiv(a: Scalar, b: Scalar) -> Expr: ...
def truncmod(a: Scalar, b: Scalar) -> Expr: ...
def floordiv(a: Scalar, b: Scalar) -> Expr: ...
def floormod(a: Scalar, b: Scalar) -> Expr: ...
def abs(x: Scalar) -> Expr: ...
def nearbyint(x: Scalar) -> Expr: ...
def exp(x: Scalar) -> Expr: ...
def tanh(x: Scalar) -> Expr: ...
def min_value(dtype: str) -> Expr: ...
def max_value(dtype: str) -> Expr: ...
def reinterpret(dtype: str, value: Scalar) -> Expr: ...
def if_then_else(cond: Scalar, t: Scalar, f: Scalar) -> Expr: ...
def call_intrin(dtype: str, name: str, *args: Any) -> Call: ...
def call_extern(dtype: str, name: str, *args: Any) -> Call: ...
def call_pure_extern(dtype: str, name: str, *args: Any) -> Call: ...
def call_llvm_pure_intrin(dtype: str, name: str, *args: Any) -> Call: ...
def call_llvm_intrin(dtype: str, name: str, *args: Any) -> Call: ...
def address_of(value: Expr) -> Expr: ...

@disjoint_base
class Stmt(Node): ...

class Bind(Stmt):
    var: Var
    value: Expr
    def __init__(self, var: Var, value: Scalar) -> None: ...

class ForKind(IntEnum):
    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4

class For(Stmt):
    loop_var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    annotations: Mapping[str, Any]
    step: Expr | None
    def __init__(
        self,
        loop_var: Var,
        min: Scalar,
        extent: Scalar,
        kind: ForKind,
        body: Stmt,
        thread_binding: Any = None,
        annotations: Mapping[str, Any] | None = None,
        step: Expr | None = None,
    ) -> None: ...

class While(Stmt):
    condition: Expr
    body: Stmt

class BufferStore(Stmt):
    buffer: Buffer
    value: Expr
    indices: Sequence[Expr]
    def __init__(self, buffer: Buffer, value: Scalar, indices: Sequence[Scalar]) -> None: ...

class AllocBuffer(Stmt):
    buffer: Buffer
    def __init__(self, buffer: Buffer, annotations: Mapping[str, Any] | None = None) -> None: ...

class DeclBuffer(Stmt):
    buffer: Buffer
    data: Any
    def __init__(self, buffer: Buffer, data: Any = None) -> None: ...

class AttrStmt(Stmt):
    node: Any
    attr_key: str
    value: Expr
    body: Stmt

class SeqStmt(Stmt):
    seq: Sequence[Stmt]
    def __init__(self, seq: Sequence[Stmt]) -> None: ...

class IfThenElse(Stmt):
    condition: Expr
    then_case: Stmt
    else_case: Stmt | None
    def __init__(self, condition: Scalar, then_case: Stmt, else_case: Stmt | None = None) -> None: ...

class Evaluate(Stmt):
    value: Expr
    def __init__(self, value: Scalar) -> None: ...

class IterVar(Node):
    var: Var
    dom: Range
    iter_type: int
    DataPar: int
    CommReduce: int

class PrimFunc(Node):
    params: Sequence[Var]
    body: Stmt
    attrs: Mapping[str, Any]
    def __init__(self, params: Sequence[Var], body: Stmt, *rest: Any, **more: Any) -> None: ...
    def with_attr(self, key: Any, value: Any = None) -> PrimFunc: ...
    def without_attr(self, key: str) -> PrimFunc: ...
    def with_body(self, body: Stmt) -> PrimFunc: ...
