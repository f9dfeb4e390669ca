"""Functions in LLVM's language that multiply in the tile registers of AMX (`schedules.integer.amx`)."""

from __future__ import annotations

import struct

from deploykit.compiler.devices.amx import KINDS, ROW_BYTES, ROWS, TALL

PREFIX = "amx_"
"""How the names of functions begin that use tile registers."""

_REGISTERS, _ROW_COUNTS = 8, 48

_FLOATS, _HALVES = "<16 x float>", "<32 x bfloat>"

_DECLARED = {
    f"llvm.{name}": f"declare {result} @llvm.{name}({given})\n"
    for name, result, given in (
        ("x86.ldtilecfg", "void", "ptr"),
        ("x86.tilerelease", "void", ""),
        ("x86.tilezero", "void", "i8"),
        ("x86.tileloadd64", "void", "i8, ptr, i64"),
        ("x86.tilestored64", "void", "i8, ptr, i64"),
        *((f"x86.{instruction}", "void", "i8, i8, i8") for instruction in KINDS.values()),
        ("prefetch.p0", "void", "ptr, i32, i32, i32"),
        ("fma.v16f32", _FLOATS, f"{_FLOATS}, {_FLOATS}, {_FLOATS}"),
        ("x86.avx512bf16.cvtne2ps2bf16.512", _HALVES, f"{_FLOATS}, {_FLOATS}"),
        ("x86.avx512.mask.rndscale.ps.512", _FLOATS, f"{_FLOATS}, i32, {_FLOATS}, i16, i32"),
        ("x86.avx512.mask.reduce.ps.512", _FLOATS, f"{_FLOATS}, i32, {_FLOATS}, i16, i32"),
        ("x86.avx512.mask.scalef.ps.512", _FLOATS, f"{_FLOATS}, {_FLOATS}, {_FLOATS}, i16, i32"),
    )
}
"""Declarations of LLVM's operations, by name."""


def functions() -> dict[str, str]:
    """The functions that kernels call, by name."""
    found = {
        "amx_configure": _function("amx_configure", "i64 %rows", _configuration()),
        "amx_halves": _halves(),
        "bf16_pairs": _rounded("bf16_pairs", pairs=True),
        "bf16_run": _rounded("bf16_run", pairs=False),
        "bf16_power": _power(),
        "amx_release": _function("amx_release", "", ["call void @llvm.x86.tilerelease()"]),
    }
    for instruction in KINDS.values():
        for vectors, tall in TALL.items():
            for layers in range(1, tall + 1):
                for end in ("", "_ahead"):
                    name = f"amx_{instruction}_{layers}x{vectors}{end}"
                    found[name] = _product(name, instruction, layers, vectors, ahead=bool(end))
    return found


_PAIRS = [lane for pair in zip(range(ROWS), range(ROWS, 2 * ROWS), strict=True) for lane in pair]
"""The order that interleaves two vectors."""


def _rounded(name: str, *, pairs: bool) -> str:
    """Two vectors as bfloat16: pairs of their numbers, or one vector behind the other."""
    lines = _rounding("%words", "%low", "%high", _PAIRS if pairs else list(range(2 * ROWS)))
    return _function(name, "<16 x float> %low, <16 x float> %high", lines, "<16 x i32> %words")


def _rounding(words: str, low: str, high: str, order: list[int]) -> list[str]:
    """`words` become two vectors as bfloat16, in this order."""
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return [
        f"{words}.halves = call <32 x bfloat> @{name}(<16 x float> {high}, <16 x float> {low})",
        f"{words}.ordered = shufflevector <32 x bfloat> {words}.halves, <32 x bfloat> poison, <32 x i32> <{lanes}>",
        f"{words} = bitcast <32 x bfloat> {words}.ordered to <16 x i32>",
    ]


_LOG2_E = 1.4426950408889634

_POWERS = (0.9999991655349731, 0.6931219696998596, 0.24024981260299683, 0.05591703951358795, 0.009560510516166687)
"""The polynomial that is nearest to `2**x` for |x| <= 0.5, by relative error: it is below 5e-6."""


def _power() -> str:
    """`exp(x)` for x <= 0 or NaN, as exactly as it takes for a bfloat16. Numbers that are too small are subnormal or 0;
    of minus infinity it is 0."""
    kind, every = "<16 x float>", "i16 -1, i32 4"

    def splat(value: float) -> str:
        (single,) = struct.unpack(">f", struct.pack(">f", value))
        bits = struct.pack(">d", single).hex().upper()
        return f"<{', '.join([f'float 0x{bits}'] * ROWS)}>"

    lines = [
        f"%t = fmul {kind} %x, {splat(_LOG2_E)}",
        f"%n = call {kind} @llvm.x86.avx512.mask.rndscale.ps.512({kind} %t, i32 8, {kind} %t, {every})",
        f"%f = call {kind} @llvm.x86.avx512.mask.reduce.ps.512({kind} %t, i32 8, {kind} %t, {every})",
    ]
    sums = splat(_POWERS[-1])
    for step, factor in enumerate(reversed(_POWERS[:-1])):
        lines.append(f"%p{step} = call {kind} @llvm.fma.v16f32({kind} {sums}, {kind} %f, {kind} {splat(factor)})")
        sums = f"%p{step}"
    lines.append(f"%y = call {kind} @llvm.x86.avx512.mask.scalef.ps.512({kind} {sums}, {kind} %n, {kind} %n, {every})")
    return _function("bf16_power", f"{kind} %x", lines, f"{kind} %y")


def _halves() -> str:
    """Takes 32 rows of 16 numbers, and stores 16 rows of 32 numbers as bfloat16: the same ones, transposed.

    Pairs of rows become words. Interleaving the first and the second half of 16 vectors rotates the bits of the numbers
    of a vector and of a lane by one, so doing it four times exchanges vectors and lanes.
    """
    lines: list[str] = []
    for row in range(2 * ROWS):
        lines.append(f"%at{row} = mul i64 %distance, {row}")
        lines.append(f"%from{row} = getelementptr i8, ptr %from, i64 %at{row}")
        lines.append(f"%x{row} = load <16 x float>, ptr %from{row}, align 4")
    for pair in range(ROWS):
        lines += _rounding(f"%v0_{pair}", f"%x{2 * pair}", f"%x{2 * pair + 1}", _PAIRS)
    for stage in range(4):
        for i in range(ROWS // 2):
            for half in range(2):
                lanes = _PAIRS[half * ROWS : half * ROWS + ROWS]
                order = ", ".join(f"i32 {lane}" for lane in lanes)
                vectors = f"<16 x i32> %v{stage}_{i}, <16 x i32> %v{stage}_{i + ROWS // 2}"
                lines.append(f"%v{stage + 1}_{2 * i + half} = shufflevector {vectors}, <16 x i32> <{order}>")
    for row in range(ROWS):
        lines.append(f"%to_at{row} = mul i64 %stride, {row}")
        lines.append(f"%to{row} = getelementptr i8, ptr %to, i64 %to_at{row}")
        lines.append(f"store <16 x i32> %v4_{row}, ptr %to{row}, align 4")
    given = "ptr %to, i64 %stride, ptr %from, i64 %distance"
    return _function("amx_halves", given, lines)


def _configuration() -> list[str]:
    """All registers have rows of 64 bytes. Those of sums and of left factors have `rows` rows, others all: these are
    the last ones."""
    sizes = b"\1" + bytes(15) + struct.pack(f"<{_REGISTERS}H", *[ROW_BYTES] * _REGISTERS)
    sizes += bytes(_ROW_COUNTS - len(sizes)) + bytes([ROWS] * _REGISTERS)
    sizes += bytes(64 - len(sizes))
    return [
        "%sizes = alloca <64 x i8>, align 64",
        f"store <64 x i8> <{', '.join(f'i8 {byte}' for byte in sizes)}>, ptr %sizes",
        f"%counts = getelementptr i8, ptr %sizes, i64 {_ROW_COUNTS}",
        "%count = trunc i64 %rows to i8",
        *(line for register in range(_RIGHT) for line in _row_count(register)),
        "call void @llvm.x86.ldtilecfg(ptr %sizes)",
    ]


def _row_count(register: int) -> tuple[str, str]:
    pointer = f"%count{register}"
    return f"{pointer} = getelementptr i8, ptr %counts, i64 {register}", f"store i8 %count, ptr {pointer}"


_RIGHT = 5
"""The first register of right factors; that before it is for left factors."""


def _product(name: str, instruction: str, layers: int, vectors: int, *, ahead: bool) -> str:
    """Adds products to `layers` x `vectors` registers of sums, each of `rows` rows.

    `stride` is the number of bytes between rows of left factors. Of `steps` steps, the first `whole` take right factors
    from `right` on, the last one may take `rest`. With `ahead`, right factors so many bytes behind those that are used
    are fetched into the second-level cache. If `first` is zero, the sums are in memory before.
    """
    row = ROW_BYTES * vectors
    places = [(r, v, r * vectors + v) for r in range(layers) for v in range(vectors)]
    lines = ["%layer = mul i64 %rows, " + str(row), "%s0 = getelementptr i8, ptr %sums, i64 0"]
    lines += [f"%s{r} = getelementptr i8, ptr %s{r - 1}, i64 %layer" for r in range(1, layers)]
    lines += [f"%s{r}_{v} = getelementptr i8, ptr %s{r}, i64 {v * ROW_BYTES}" for r, v, _ in places]
    lines += ["%again = icmp eq i64 %first, 0", "br i1 %again, label %load, label %clear", "load:"]
    lines += [f"call void @llvm.x86.tileloadd64(i8 {at}, ptr %s{r}_{v}, i64 {row})" for r, v, at in places]
    lines += ["br label %start", "clear:"]
    lines += [f"call void @llvm.x86.tilezero(i8 {at})" for _, _, at in places]
    lines += [
        "br label %start",
        "start:",
        "%gap = mul i64 %stride, %rows",
        "br label %head",
        "head:",
        "%i = phi i64 [0, %start], [%next, %body]",
        "%a0 = phi ptr [%left, %start], [%a.next, %body]",
        "%b = phi ptr [%right, %start], [%b.next, %body]",
        "%more = icmp slt i64 %i, %steps",
        "br i1 %more, label %body, label %end",
        "body:",
        "%packed = icmp slt i64 %i, %whole",
        "%from = select i1 %packed, ptr %b, ptr %rest",
        "%far = getelementptr i8, ptr %b, i64 %ahead",
    ]
    for v in range(vectors):
        lines.append(f"%b{v} = getelementptr i8, ptr %from, i64 {v * ROW_BYTES}")
        lines.append(f"call void @llvm.x86.tileloadd64(i8 {_RIGHT + v}, ptr %b{v}, i64 {row})")
    lines += [f"%a{r} = getelementptr i8, ptr %a{r - 1}, i64 %gap" for r in range(1, layers)]
    for r in range(layers):
        lines.append(f"call void @llvm.x86.tileloadd64(i8 {_RIGHT - 1}, ptr %a{r}, i64 %stride)")
        lines += [
            f"call void @llvm.x86.{instruction}(i8 {r * vectors + v}, i8 {_RIGHT - 1}, i8 {_RIGHT + v})"
            for v in range(vectors)
        ]
    for line in range(ROWS * vectors if ahead else 0):
        lines.append(f"%f{line} = getelementptr i8, ptr %far, i64 {line * ROW_BYTES}")
        lines.append(f"call void @llvm.prefetch.p0(ptr %f{line}, i32 0, i32 2, i32 1)")
    lines += [
        f"%a.next = getelementptr i8, ptr %a0, i64 {ROW_BYTES}",
        f"%b.next = getelementptr i8, ptr %b, i64 {ROWS * row}",
        "%next = add i64 %i, 1",
        "br label %head",
        "end:",
    ]
    lines += [f"call void @llvm.x86.tilestored64(i8 {at}, ptr %s{r}_{v}, i64 {row})" for r, v, at in places]
    operands = ("sums", "left", "right", "rest"), ("rows", "stride", "whole", "steps", "ahead", "first")
    given = [f"{kind} %{each}" for kind, names in zip(("ptr", "i64"), operands, strict=True) for each in names]
    return _function(name, ", ".join(given), lines)


def _function(name: str, given: str, lines: list[str], result: str = "i32 0") -> str:
    body = "\n".join(line if line.endswith(":") else f"  {line}" for line in lines)
    declared = "".join(declaration for each, declaration in _DECLARED.items() if f"@{each}(" in body)
    kind = result.rpartition(" ")[0]
    return f"{declared}define {kind} @{name}({given}) {{\n{body}\n  ret {result}\n}}\n"
