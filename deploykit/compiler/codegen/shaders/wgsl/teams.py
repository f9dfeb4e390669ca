"""How the invocations of a team exchange values: with subgroups, or through the memory of a workgroup.

A shader for teams begins with two sections, one for devices with the feature `subgroups` and one for those without.
Both declare `main`, which stores the lane of an invocation and the size of its team and calls `work` with the number of
the team. Both also declare the functions with which a team computes a common value, such as a sum. Subgroups are
assumed to follow the order of the invocations. A team that is alone is always a workgroup, which has more invocations
and so takes fewer steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.shaders.sections import SUBGROUPS, Section

if TYPE_CHECKING:
    from deploykit.compiler.devices.gpu import Gpu

TYPES = {"": "f32", "_4": "vec4<f32>", "_i32": "i32", "_i32_4": "vec4<i32>"}
"""The types of a team's common values, by the suffix of the function's name."""

PARTS = 8
"""The number of invocations that gather the values of all; each gathers an equal share."""

_OPERATORS = {
    "add": dict.fromkeys(TYPES, "a + b"),
    "mul": dict.fromkeys(TYPES, "a * b"),
    "max": {"": "larger(a, b)", "_4": "larger_4(a, b)", "_i32": "max(a, b)", "_i32_4": "max(a, b)"},
    "min": {"": "smaller(a, b)", "_4": "smaller_4(a, b)", "_i32": "min(a, b)", "_i32_4": "min(a, b)"},
}

_PRIVATE = "var<private> team_lane: i32;\nvar<private> team_size: i32;\n"

_SUBGROUPS = """\
enable subgroups;
diagnostic(off, subgroup_uniformity);
@compute @workgroup_size({size})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) number: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
) {{
    team_lane = i32(lane);
    team_size = min(i32(size), {size});
    work(i32(group.x + group.y * {groups}u) * ({size} / team_size) + i32(number) / team_size);
}}
"""

_SUBGROUP_FUNCTION = """\
fn {name}(mine: {kind}) -> {kind} {{
    var a = mine;
    for (var step = 1; step < team_size; step = step * 2) {{
        let b = subgroupShuffleXor(a, u32(step));
        a = {value};
    }}
    return a;
}}
"""

_WORKGROUPS = """\
@compute @workgroup_size({size})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {{
    team_lane = i32(number);
    team_size = {size};
    work(i32(group.x + group.y * {groups}u));
}}
"""

_WORKGROUP_FUNCTION = """\
var<workgroup> {name}_cells: array<{kind}, {size}>;
fn {name}(mine: {kind}) -> {kind} {{
    workgroupBarrier();
    {name}_cells[team_lane] = mine;
    workgroupBarrier();
    if (team_lane < {parts}) {{
        var a = {name}_cells[team_lane * {parts}];
        for (var i = 1; i < {share}; i += 1) {{
            let b = {name}_cells[team_lane * {parts} + i];
            a = {value};
        }}
        {name}_cells[team_lane * {parts}] = a;
    }}
    workgroupBarrier();
    var a = {name}_cells[0];
    for (var i = {parts}; i < {size}; i += {parts}) {{
        let b = {name}_cells[i];
        a = {value};
    }}
    return a;
}}
"""

_SAME_IN_SUBGROUP = """\
fn team_same_i32(mine: i32) -> i32 { return mine; }
"""
"""Subgroups need no uniform control flow: see the diagnostic above."""

_SAME_IN_WORKGROUP = """\
var<workgroup> team_same_cell: i32;
fn team_same_i32(mine: i32) -> i32 {
    if (team_lane == 0) { team_same_cell = mine; }
    return workgroupUniformLoad(&team_same_cell);
}
"""
"""A barrier is part of the load, before and after it (W3C, "WGSL", section 17.12)."""


def sections(text: str, gpu: Gpu, *, alone: bool = False) -> tuple[Section, ...]:
    """The sections that come before `text`, a shader for teams. `alone`: there is one team."""
    limits = {"size": gpu.workgroup, "groups": gpu.groups, "parts": PARTS, "share": gpu.workgroup // PARTS}
    names = sorted(set(re.findall(r"\bteam_(add|mul|max|min)(_4|_i32_4|_i32|)\(", text)))
    same, same_of_all = (_SAME_IN_SUBGROUP, _SAME_IN_WORKGROUP) if "team_same_i32(" in text else ("", "")
    workgroups = _WORKGROUPS.format(**limits) + same_of_all + _functions(names, _WORKGROUP_FUNCTION, limits)
    if alone:
        return Section(workgroups), Section(_PRIVATE)
    return (
        Section(_SUBGROUPS.format(**limits) + same + _functions(names, _SUBGROUP_FUNCTION, limits), SUBGROUPS),
        Section(workgroups, SUBGROUPS, present=False),
        Section(_PRIVATE),
    )


def _functions(names: Iterable[tuple[str, str]], pattern: str, limits: Mapping[str, int]) -> str:
    return "".join(
        pattern.format(name=f"team_{name}{end}", kind=TYPES[end], value=_OPERATORS[name][end], **limits)
        for name, end in names
    )
