"""Functions in LLVM's language that multiply in the tile registers of AMX (`schedules.integer.amx`)."""

from __future__ import annotations

import struct

from deploykit.compiler.devices.amx import KINDS, ROW_BYTES, ROWS, TALL

_REGISTERS, _ROW_COUNTS = 8, 48

_INTRINSICS = {
    "ldtilecfg": "ptr",
    "tilerelease": "",
    "tilezero": "i8",
    "tileloadd64": "i8, ptr, i64",
    "tilestored64": "i8, ptr, i64",
} | dict.fromkeys(KINDS.values(), "i8, i8, i8")


def functions() -> dict[str, str]:
    """The functions that kernels call, by name."""
    found = {
        "amx_configure": _function("amx_configure", "i64 %rows", _configuration()),
        "amx_release": _function("amx_release", "", ["call void @llvm.x86.tilerelease()"]),
    }
    for instruction in KINDS.values():
        for vectors, tall in TALL.items():
            for layers in range(1, tall + 1):
                name = f"amx_{instruction}_{layers}x{vectors}"
                found[name] = _product(name, instruction, layers, vectors)
    return found


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


def _product(name: str, instruction: str, layers: int, vectors: int) -> str:
    """Adds products to `layers` x `vectors` registers of sums, each of `rows` rows.

    `stride` is the number of bytes between rows of left factors. Of `steps` steps, the first `whole` take right factors
    from `right` on, the last one may take `rest`. Right factors `ahead` bytes behind those that are used are fetched
    into the second-level cache. If `first` is zero, the sums are in memory before.
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
    for line in range(ROWS * vectors):
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


def _function(name: str, given: str, lines: list[str]) -> str:
    used = [intrinsic for intrinsic in _INTRINSICS if any(f"@llvm.x86.{intrinsic}(" in line for line in lines)]
    declared = "".join(f"declare void @llvm.x86.{each}({_INTRINSICS[each]})\n" for each in used)
    if any("@llvm.prefetch" in line for line in lines):
        declared += "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
    body = "\n".join(line if line.endswith(":") else f"  {line}" for line in lines)
    return f"{declared}define i32 @{name}({given}) {{\n{body}\n  ret i32 0\n}}\n"
