"""The reader of WGSL: types of literals, precedence, parts of vectors, functions, and what it refuses."""

from __future__ import annotations

import pytest

from deploykit.compiler.codegen.shaders.wgsl import support
from deploykit.compiler.codegen.shaders.wgsl.reading import tree, types
from deploykit.compiler.codegen.shaders.wgsl.reading.errors import Unreadable
from deploykit.compiler.codegen.shaders.wgsl.reading.parser import read
from tests.compiler.codegen.shaders.harness import program_of
from tests.compiler.codegen.shaders.spirv_tools import FUNCTIONS, texts_of
from tests.compiler.codegen.shaders.test_wgsl import MLP, WEIGHTS
from tests.seeded import seeded

HEAD = """\
struct Scalars { size: i32, threads: i32 }
@group(0) @binding(0) var<uniform> scalars: Scalars;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> shared: array<atomic<u32>>;
"""

ENTRY = "@compute @workgroup_size(64)\nfn main(@builtin(local_invocation_index) number: u32) {\n"


def module_of(body: str, before: str = "") -> tree.Module:
    return read(f"{HEAD}{before}{ENTRY}{body}\n}}\n")


def value_of(expression: str, before: str = "") -> tree.Expression:
    """The tree of an expression where `a` is a float, `i` an int, `u` unsigned, `t` a truth, and `v` four floats."""
    declared = "var a: f32; var i: i32; var u: u32; var t: bool; var v: vec4<f32>; var w: vec4<u32>;"
    last = module_of(f"{declared} let x = {expression};", before).entry.body.statements[-1]
    assert isinstance(last, tree.Let)
    return last.value


def shown(value: tree.Expression) -> str:
    """An expression with all of its parentheses."""
    match value:
        case tree.Literal(type, number):
            return f"{number}:{type.name}"
        case tree.Name(_, name):
            return name
        case tree.Unary(_, symbol, operand):
            return f"{symbol}{shown(operand)}"
        case tree.Binary(_, symbol, left, right):
            return f"({shown(left)} {symbol} {shown(right)})"
        case tree.Splat(_, operand):
            return f"all {shown(operand)}"
        case tree.Swizzle(_, base, name) | tree.Member(_, base, name):
            return f"{shown(base)}.{name}"
        case tree.Index(_, base, index):
            return f"{shown(base)}[{shown(index)}]"
        case tree.Construct(type, arguments):
            return f"{types.spelled(type)}({', '.join(map(shown, arguments))})"
        case tree.Convert(type, operand) | tree.Bitcast(type, operand):
            return f"{value.__class__.__name__.lower()}<{types.spelled(type)}>({shown(operand)})"
        case tree.Builtin(_, name, arguments) | tree.Call(_, name, arguments):
            return f"{name}({', '.join(map(shown, arguments))})"
        case tree.Address(_, operand):
            return f"&{shown(operand)}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1:i32"),
        ("1u", "1:u32"),
        ("0.5", "0.5:f32"),
        ("1e-05f", "1e-05:f32"),
        ("0x7f800000u", "2139095040:u32"),
        ("0xffffffffu", "4294967295:u32"),
        ("(-2147483647 - 1)", "-2147483648:i32"),
        ("2147483648 - 1", "2147483647:i32"),
        ("1.5 + 1", "2.5:f32"),
        ("a + 1", "(a + 1.0:f32)"),
        ("2 * a", "(2.0:f32 * a)"),
        ("u + 1", "(u + 1:u32)"),
        ("i * -3", "(i * -3:i32)"),
        ("u << 3", "(u << 3:u32)"),
        ("f32(0)", "0.0:f32"),
        ("u32(3)", "3:u32"),
        ("i32()", "0:i32"),
        ("true", "True:bool"),
        ("select(1, 2, t)", "select(1:i32, 2:i32, t)"),
        ("select(0.0, a, t)", "select(0.0:f32, a, t)"),
        ("min(i, 4)", "min(i, 4:i32)"),
        ("clamp(a, 0, 1)", "clamp(a, 0.0:f32, 1.0:f32)"),
        ("vec4<f32>(0, 1, 2, 3)", "vec4<f32>(0.0:f32, 1.0:f32, 2.0:f32, 3.0:f32)"),
        ("vec4<u32>(1)", "all 1:u32"),
        ("vec4<f32>()", "all 0:f32"),
        ("extractBits(i, 0, 8)", "extractBits(i, 0:u32, 8:u32)"),
    ],
)
def test_literals_take_the_type_of_their_context(text: str, expected: str) -> None:
    assert shown(value_of(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + i * i", "(i + (i * i))"),
        ("(i + i) * i", "((i + i) * i)"),
        ("i - i - i", "((i - i) - i)"),
        ("-i * i", "(-i * i)"),
        ("~u & u", "(~u & u)"),
        ("u >> 1u + 2u", "(u >> (1:u32 + 2:u32))"),
        ("i + i < i", "((i + i) < i)"),
        ("i < i && t || !t", "(((i < i) && t) || !t)"),
        ("t || t && t", "(t || (t && t))"),
        ("(u | u) == 0u", "((u | u) == 0:u32)"),
        ("i >= i", "(i >= i)"),
    ],
)
def test_operators_bind_as_in_wgsl(text: str, expected: str) -> None:
    assert shown(value_of(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("v.x", "v.x", "f32"),
        ("v.zw", "v.zw", "vec2<f32>"),
        ("w.yzw", "w.yzw", "vec3<u32>"),
        ("v[i]", "v[i]", "f32"),
        ("rows[i]", "rows[i]", "vec4<f32>"),
        ("rows[u + 1].y", "rows[(u + 1:u32)].y", "f32"),
        ("scalars.size", "scalars.size", "i32"),
        ("v + a", "(v + all a)", "vec4<f32>"),
        ("2 * v", "(all 2.0:f32 * v)", "vec4<f32>"),
        ("v < v", "(v < v)", "vec4<bool>"),
        ("w >> vec4<u32>(1u)", "(w >> all 1:u32)", "vec4<u32>"),
        ("select(v, v, t)", "select(v, v, t)", "vec4<f32>"),
        ("vec4<f32>(w)", "convert<vec4<f32>>(w)", "vec4<f32>"),
        ("vec4<f32>(v)", "v", "vec4<f32>"),
        ("vec4<u32>(w.xy, w.zw)", "vec4<u32>(w.xy, w.zw)", "vec4<u32>"),
        ("bitcast<vec4<u32>>(v)", "bitcast<vec4<u32>>(v)", "vec4<u32>"),
        ("vec2<f32>(unpack2x16float(u))", "unpack2x16float(u)", "vec2<f32>"),
        ("length(vec2<f32>(a, a))", "length(vec2<f32>(a, a))", "f32"),
        ("atomicLoad(&shared[i >> 2u])", "atomicLoad(&shared[(i >> 2:u32)])", "u32"),
        ("array<i32, 2>(1, 2)", "array<i32, 2>(1:i32, 2:i32)", "array<i32, 2>"),
    ],
)
def test_types(text: str, expected: str, kind: str) -> None:
    value = value_of(text)
    assert (shown(value), types.spelled(value.type)) == (expected, kind)


def test_functions_come_after_those_they_call() -> None:
    before = "fn outer(x: f32) -> f32 { return inner(x); }\nfn unused() { }\nfn inner(x: f32) -> f32 { return x; }\n"
    module = module_of("let x = outer(1); let y = inner(2.0);", before)
    assert [function.name for function in module.functions] == ["inner", "outer", "main"]
    assert module.entry.workgroup == (64,)
    assert [parameter.builtin for parameter in module.entry.parameters] == ["local_invocation_index"]
    assert [(v.name, v.space, v.access, v.binding) for v in module.variables] == [
        ("scalars", "uniform", "read", 0),
        ("words", "storage", "read_write", 1),
        ("rows", "storage", "read", 2),
        ("shared", "storage", "read_write", 3),
    ]


def test_a_name_of_a_block_ends_with_it() -> None:
    module = module_of("let x = 1; { let x = 2.0; words[0] = u32(x); } words[1] = u32(x);")
    _, inner, outer = module.entry.body.statements
    assert isinstance(inner, tree.Block)
    for statement, kind in ((inner.statements[1], types.F32), (outer, types.I32)):
        assert isinstance(statement, tree.Assign)
        assert isinstance(statement.value, tree.Convert)
        assert statement.value.operand.type is kind


def test_assignments_with_an_operator() -> None:
    module = module_of(
        "var i = 3; i += 1; for (var j = 0; j < 4; j += i) { if (j == 2) { break; } else { continue; } }"
    )
    _, change, loop = module.entry.body.statements
    assert isinstance(change, tree.Assign)
    assert shown(change.value) == "(i + 1:i32)"
    assert isinstance(loop, tree.For)
    assert isinstance(loop.update, tree.Assign)
    assert shown(loop.update.value) == "(j + i)"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let x = 1 + true;", "line 8 of a shader: 1 is no bool: let x = 1 + true;"),
        ("let x = 1.5 + scalars.size;", "1.5 is no i32: let x = 1.5"),
        ("let x = words[0] + 1i;", "i32 where u32 is wanted"),
        ("let x = -1u;", "- of u32"),
        ("let x = 4294967296u + words[0];", "4294967296 is no u32"),
        ("let x = sinpi(1.0);", "the name 'sinpi'"),
        ("let x = min(1.0);", "min of 2 operands"),
        ("let x = rows[0].q;", ".q of vec4<f32>"),
        ("let x = scalars.none;", "Scalars has no member none"),
        ("let x: mat2x2<f32> = 1;", "the type 'mat2x2'"),
        ("discard;", "the name 'discard'"),
        ("let x = 1", "'}' where ';' is wanted"),
        ("atomicAnd(&words[0], 1u);", "atomicAnd of ptr<storage, u32>, u32"),
        ("if (1) { }", "1 is no bool"),
        ("return 1;", "1 is no void"),
        ("main(0u);", "main calls itself"),
        ("if (true) {", "the text ends"),
        ("switch (1) { case 1 + scalars.size: { } }", "a case that is no number"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises(Unreadable) as raised:
        module_of(body)
    assert message in str(raised.value)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_the_printer_is_read(name: str) -> None:
    module = read(FUNCTIONS[name])
    assert module.functions[-2].name == name
    assert {function.name for function in module.functions} <= {*support.NAMES, name, "main"}


def test_shaders_of_a_model_are_read() -> None:
    _, shaders = program_of(seeded(MLP, WEIGHTS))
    for shader in shaders:
        for features, text in texts_of(shader):
            assert ("subgroups" in read(text).enabled) == ("subgroups" in features and "enable" in text)
