"""Packages of models with ragged inputs and outputs: in node, from Python, their types, and their demo."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit import ragged
from deploykit.engines.web.chromium import find_chromium
from tests.ragged import function_model, matrix_model, token_model
from tests.web.test_browser import used_demo
from tests.web.test_types import complaints


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens") / "small"
    deploykit.build(token_model(), "webgpu", output=folder)
    return folder


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrices") / "small"
    deploykit.build(matrix_model(), "webgpu", output=folder)
    return folder


PROGRAM = """
import {{ load, DeploykitError }} from '{package}/index.mjs';
const model = await load();
const found = {{}};
try {{
  found.value = await ({script});
}} catch (error) {{
  Object.assign(found, {{ error: error.name, message: error.message, known: error instanceof DeploykitError }});
}}
model.dispose();
console.log(JSON.stringify(found));
"""


def in_node(package: Path, script: str) -> dict[str, Any]:
    """The value of an expression over `model`, or the error that it gives."""
    program = PROGRAM.format(package=package.as_uri(), script=script)
    call = ["node", "--input-type=module", "-e", program]
    result = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def evaluated(package: Path, script: str) -> Any:
    found = in_node(package, script)
    assert "error" not in found, found
    return found["value"]


X = "[new Float32Array(8).fill(1), new Float32Array(0), { data: new Float32Array(4).fill(-3), shape: [1, 4] }]"
IDS = "[BigInt64Array.of(1n, 2n), new BigInt64Array(0), BigInt64Array.of(7n)]"
FLAT = "BigInt64Array.of(1n, 2n, 7n)"
ALL = "new Float32Array(12).fill(1)"


def test_extents_computed_from_dims(tmp_path: Path) -> None:
    """y[batch, row(batch), column, place(batch)], where there are 2 n + 1 columns for an input over n."""
    batch, n = ragged.dim("batch", maximum=4), ragged.dim("n", maximum=8)
    length, other = (ragged.lengths(name, batch, maximum=9) for name in ("length", "other"))
    row, place = ragged.dim("row", length[batch]), ragged.dim("place", other[batch])
    column = ragged.dim("column", 2 * n.extent + 1)
    x, scale = ragged.input("x", (batch, row)), ragged.input("scale", (n,))
    value = x[batch, row] * ragged.cast(column + place, "float32") + ragged.sum(scale[n], n)
    made = ragged.operator("grid", ragged.compute("y", (batch, row, column, place), value))
    deploykit.build(made, "webgpu", output=tmp_path / "grid")
    lengths = "length: [1, 2], other: BigInt64Array.of(4n, 3n)"
    given = f"x: new Float32Array(3).fill(1), scale: new Float32Array(2), {lengths}"
    found = evaluated(
        tmp_path / "grid", f"model.run({{ {given} }}).then(({{ y }}) => [y.shapes, Array.from(y.offsets)])"
    )
    assert found == [[[1, 5, 4], [2, 5, 3]], [0, 20, 50]]


@pytest.mark.parametrize(
    "inputs",
    [
        f"{{ x: {X}, ids: {IDS} }}",
        f"{{ x: {X}, ids: {IDS}, lengths: [2, 0, 1] }}",
        f"{{ x: {X}, ids: {{ values: {FLAT}, lengths: [2, 0, 1] }} }}",
        f"{{ x: {X}, ids: {FLAT} }}",
        f"{{ x: {X}, ids: {{ data: {FLAT}, shape: [3] }}, lengths: BigInt64Array.of(2n, 0n, 1n) }}",
    ],
)
def test_a_ragged_input_has_several_forms(tokens: Path, inputs: str) -> None:
    script = f"""model.run({inputs}).then(({{ y, next, doubled }}) => ({{
      lengths: y.lengths, offsets: next.offsets, count: y.length, shape: y.shape, dtype: y.dtype,
      y: Array.from(y, ({{ data, shape }}) => [...data, shape]), next: [...next.values].map(Number),
      last: [...next.instance(2).data].map(Number), doubled: [...doubled.data].map(Number),
    }}))"""
    assert evaluated(tokens, script) == {
        "lengths": [2, 0, 1],
        "offsets": [0, 2, 2, 3],
        "count": 3,
        "shape": [3, 4],
        "dtype": "float32",
        "y": [[2] * 8 + [[2, 4]], [[0, 4]], [0] * 4 + [[1, 4]]],
        "next": [2, 3, 8],
        "last": [8],
        "doubled": [4, 0, 2],
    }


def test_a_sample_and_a_profile_take_ragged_inputs(tokens: Path) -> None:
    script = f"""(async () => {{
      const other = await load({{ sample: {{ x: {X}, ids: {IDS} }} }});
      const {{ y }} = await other.run({{ x: {X}, ids: {IDS} }});
      const {{ runs }} = await other.profile({{ x: {X}, ids: {IDS} }}, {{ seconds: 0.01 }});
      const refused = await load({{ sample: {{ x: 5, ids: {IDS} }} }}).catch((error) => error.message);
      return [y.lengths, runs > 0, refused];
    }})()"""
    lengths, ran, refused = evaluated(tokens, script)
    assert (lengths, ran) == ([2, 0, 1], True)
    assert refused.startswith("input 'x' is ragged")


def test_values_of_a_run_go_into_given_arrays(tokens: Path) -> None:
    script = f"""(async () => {{
      const into = {{ y: new Float32Array(12) }};
      const {{ y }} = await model.run({{ x: {X}, ids: {IDS} }}, {{ outputs: into }});
      return [y.values === into.y, ...y.instance(0).data];
    }})()"""
    assert evaluated(tokens, script) == [True, *[2] * 8]


@pytest.mark.parametrize(
    "inputs", ["{ x: [], ids: [] }", f"{{ x: {X.replace('8', '0')}, ids: {IDS.replace('1n, 2n', '')} }}"]
)
def test_batches_and_instances_may_be_empty(tokens: Path, inputs: str) -> None:
    lengths = evaluated(tokens, f"model.run({inputs}).then(({{ y }}) => [...y.lengths, y.values.length])")
    assert lengths in ([0], [0, 0, 1, 4])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (f"{{ x: {X}, ids: {IDS}.slice(1) }}", "inputs 'x' and 'ids' have 3 and 2 instances"),
        (f"{{ x: {X}, ids: {IDS}.reverse() }}", "inputs 'x' and 'ids' disagree on 'lengths' of instance 0: 2 and 1"),
        (
            f"{{ x: {X}, ids: {IDS}, lengths: [2, 1, 0] }}",
            "inputs 'lengths' and 'x' disagree on 'lengths' of instance 1",
        ),
        (f"{{ x: {ALL}, ids: {IDS}, lengths: [2, -1] }}", "'lengths': a length must be a whole number of at least 0"),
        (f"{{ x: {ALL}, ids: new BigInt64Array(3) }}", "input 'lengths' is missing: pass it, or 'x' as a list"),
        (
            f"{{ x: {ALL}, ids: new BigInt64Array(3), lengths: [2, 2] }}",
            "has 12 elements, but with 'lengths' it has 16",
        ),
        (f"{{ x: {{ values: {ALL}, lengths: [4] }}, ids: {IDS} }}", "12 elements, but its lengths add up to 16"),
        (f"{{ x: {{ values: {ALL} }}, ids: {IDS} }}", "pass a list of its instances, or { values, lengths }"),
        (f"{{ x: [new Float32Array(3)], ids: {IDS} }}", "is [lengths, 4], which 3 elements do not tell"),
        (
            f"{{ x: [new Float64Array(4)], ids: {IDS} }}",
            "instance 0 of input 'x' is float32: expected Float32Array, found Float64",
        ),
        (f"{{ x: [{{ data: {ALL}, shape: [4, 3] }}], ids: {IDS} }}", "has shape [4, 3], expected [lengths, 4]"),
        (f"{{ x: [{{ data: {ALL}, shape: [4, 4] }}], ids: {IDS} }}", "has shape [4,4] and 12 elements"),
        (f"{{ x: 5, ids: {IDS} }}", "input 'x' is ragged"),
        (f"{{ ids: {IDS} }}", "input 'x' is missing"),
        ("null", "input 'x' is missing"),
        (f"{{ x: {X}, ids: {IDS}, mask: 1 }}", "there is no input 'mask'"),
    ],
)
def test_what_does_not_fit_is_refused(tokens: Path, inputs: str, message: str) -> None:
    found = in_node(tokens, f"model.run({inputs})")
    assert (found["error"], found["known"]) == ("ShapeError", True), found
    assert message in found["message"]


def test_nothing_stays_on_a_device(tokens: Path) -> None:
    words = "values stay on the device only where each is one tensor: this model is ragged"
    for given in (
        f"{{ x: {{ gpuBuffer: {{}}, shape: [3, 4] }}, ids: {IDS} }}",
        f"{{ x: {X}, ids: {IDS} }}, {{ keep: ['y'] }}",
    ):
        found = in_node(tokens, f"model.run({given})")
        assert (found["error"], found["message"]) == ("UsageError", words)


def test_several_extents_may_be_ragged(matrices: Path) -> None:
    a = "[{ data: new Float32Array(6).fill(1), shape: [2, 3] }, { data: Float32Array.of(2), shape: [1, 1] }]"
    packed = "{ values: Float32Array.of(1, 1, 1, 1, 1, 1, 2), shapes: [[2, 3], [1, 1]] }"
    for given in (a, packed):
        script = f"model.run({{ a: {given} }}).then(({{ y, size }}) => [y.shapes, y.offsets, [...y.values],"
        assert evaluated(matrices, f"{script} [...size.data].map(Number)])") == [
            [[2, 3], [1, 1]],
            [0, 6, 7],
            [-1] * 6 + [-2],
            [6, 1],
        ]
    found = in_node(matrices, "model.run({ a: [new Float32Array(6)] })")
    assert "pass { data, shape }" in found["message"]


@pytest.mark.parametrize(
    "device",
    ["wasm", pytest.param("webgpu", marks=pytest.mark.skipif(find_chromium() is None, reason="needs Chromium"))],
)
def test_python_runs_them(tokens: Path, device: str) -> None:
    with deploykit.open(tokens, device=device) as session:
        outputs: dict[str, Any] = session(x=[np.ones((2, 4), np.float32), [], -np.ones((1, 4), np.float32)],
                                          ids=[[1, 2], [], [7]])  # fmt: skip
    assert [each.tolist() for each in outputs["next"]] == [[2, 3], [], [8]]
    assert [each.tolist() for each in outputs["y"]] == [[[2] * 4] * 2, [], [[0] * 4]]


def test_types(tokens: Path, matrices: Path, tmp_path: Path) -> None:
    shutil.copytree(tokens, tmp_path / "small")
    shutil.copytree(matrices, tmp_path / "matrices")
    program = f"""import {{ load }} from './small/index.mjs';
    import {{ load as other }} from './matrices/index.mjs';
    const model = await load({{ sample: {{ x: {X}, ids: {IDS} }} }});
    const {{ y, next, doubled }} = await model.run({{ x: {X}, ids: {IDS} }});
    const rows: [number, 4] = y.instance(0).shape;
    const numbers: number[] = y.lengths;
    const first: bigint = next.values[0] + doubled.data[0];
    for (const {{ data }} of y) new Blob([data]);
    await model.run({{ x: {{ values: {ALL}, lengths: [3] }}, ids: new BigInt64Array(3), lengths: [3] }});
    const into = {{ y: new Float32Array(new SharedArrayBuffer(48)) }};
    const there: SharedArrayBuffer = (await model.run({{ x: {X}, ids: {IDS} }}, {{ outputs: into }})).y.values.buffer;
    const pair: [number, number] = (await (await other()).run({{ a: [{{ data: {ALL}, shape: [3, 4] }}] }})).y.shapes[0];
    console.log(rows, numbers, first, there, pair);
    """
    assert complaints(tmp_path, program) == []
    assert complaints(tmp_path, program.replace("lengths: [3] }, ids", "sizes: [3] }, ids"))
    assert complaints(tmp_path, program.replace("y.lengths", "y.data"))
    assert complaints(tmp_path, program.replace("shape: [3, 4]", "shape: 3"))


def test_a_dense_package_has_nothing_of_it(package: Path) -> None:
    assert not (package / "runtime" / "ragged.mjs").exists()
    assert "agged" not in (package / "index.d.mts").read_text()


def test_the_demo_takes_lengths(tokens: Path, matrices: Path, tmp_path: Path) -> None:
    shutil.copytree(tokens, tmp_path / "tokens")
    found = used_demo(tmp_path / "tokens", "ragged.html")
    assert (found["error"], found["errors"]) == ("", [])
    assert found["fields"] == ["lengthsof each instance"]
    assert found["first"] == ["[22, 4]", "[22]", "[3]"]
    cells = dict(zip(found["cells"][::3], zip(found["cells"][1::3], found["cells"][2::3], strict=True), strict=True))
    assert cells["y"][0] == "[7, 4]"
    assert cells["doubled"] == ("[3]", "10  0  4")
    shutil.copytree(matrices, tmp_path / "matrices")
    found = used_demo(tmp_path / "matrices", "ragged.html")
    assert found["error"] == ""
    assert found["cells"][-1] == "8  3"


def test_one_of_several_functions_may_be_ragged(tmp_path: Path) -> None:
    deploykit.build(function_model(), "webgpu", output=tmp_path / "pair")
    x = "[new Float32Array(8).fill(1), new Float32Array(0)]"
    script = f"""(async () => {{
      const {{ y, doubled }} = await model.functions.negate.run({{ x: {x} }});
      const {{ z }} = await model.functions.double.run({{ x: Float32Array.of(1, 2) }});
      return [y.lengths, [...y.values], [...doubled.data].map(Number), [...z.data]];
    }})()"""
    assert evaluated(tmp_path / "pair", script) == [[2, 0], [-1] * 8, [4, 0], [2, 4]]
    program = f"""import {{ load }} from './pair/index.mjs';
    const model = await load();
    const {{ y }} = await model.functions.negate.run({{ x: {x} }});
    const shape: [number, 4] = y.instance(0).shape;
    const numbers: number[] = y.lengths;
    console.log(shape, numbers);
    """
    assert complaints(tmp_path, program) == []
    assert complaints(tmp_path, program.replace("y.lengths", "y.data"))
