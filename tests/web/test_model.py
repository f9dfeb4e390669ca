"""A loaded model: concurrent calls, wrong calls, insufficient memory, and the time of its steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deploykit
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.web.conftest import in_node
from tests.web.test_ragged import evaluated

FEED = "const feed = (n, h = 1) => ({ x: { data: new Float32Array(60 * n * h).fill(n), shape: [n, 3, h, 20] }, "
FEED += "shift: new BigInt64Array(n).fill(BigInt(n)) });"
MOVED = "const moved = (result) => Array.from(result.moved.data, Number);"


def value(package: Path, script: str, before: str = "") -> Any:
    """The return value of the function body `script`, with a loaded `model`."""
    found = in_node(package, package.as_uri() + "/", f"{{ {FEED} {MOVED} {script} }}", before)
    assert "error" not in found, found
    return found["value"]


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("model.run({})", "ShapeError", "input 'x' is missing: pass Float32Array of shape [n, 3, h, 20]"),
        ("model.run()", "ShapeError", "input 'x' is missing"),
        ("model.run({ x: null, shift: null })", "ShapeError", "input 'x' is missing"),
        ("model.run({ x: [1, 2] })", "ShapeError", "which 2 elements do not tell"),
        ("model.run({ x: { data: ['1'], shape: [1, 1, 1, 1] } })", "DataError", "element 0 cannot be '1'"),
        (
            "model.run({ ...X, shift: [2 ** 53] })",
            "DataError",
            "'shift' is int64: element 0 cannot be 9007199254740992",
        ),
        ("model.run({ ...X, shift: [2n ** 63n] })", "DataError", "element 0 cannot be 9223372036854775808"),
        ("model.run({ ...X, shift: [1.5] })", "DataError", "element 0 cannot be 1.5"),
        ("model.run({ ...X, shift: new Float32Array(1) })", "ShapeError", "expected BigInt64Array, found Float32Array"),
        ("model.run({ x: { data: X.x.data, dims: [1, 3, 1, 20] } })", "ShapeError", "pass { data, shape: [1,3,1,20] }"),
        ("model.run({ x: null, shift: [1] })", "ShapeError", "input 'x' is missing"),
        ("model.run({ x: { data: new Float32Array(60) } })", "ShapeError", "has shape [] and 60 elements"),
        ("model.run({ x: { data: new Float32Array(60), shape: [1n, 3n, 1n, 20n] } })", "ShapeError", "whole numbers"),
        ("model.run({ x: { data: new Float32Array(60), shape: [1, 3, NaN, 20] } })", "ShapeError", "whole numbers"),
        ("model.run({ z: 1 })", "ShapeError", "no input 'z'"),
        ("model.run({ x: new Float64Array(60), shift: new BigInt64Array(1) })", "ShapeError", "expected Float32Array"),
        ("model.run({ x: new Float32Array(60), shift: new BigInt64Array(1) })", "ShapeError", "pass { data, shape }"),
        ("model.memory({ n: 9, h: 1 })", "ShapeError", "dim 'n' must be a number in 1..8, found number 9"),
        ("model.memory({ n: 1, h: 1n })", "ShapeError", "dim 'h' must be a number in 1..64, found bigint 1"),
        ("model.memory(null)", "ShapeError", "dim 'n' is missing: pass a number in 1..8"),
        ("model.memory({ m: 9 })", "ShapeError", "no dim 'm'"),
        ("(model.dispose(), model.run({}))", "UsageError", "disposed of"),
        ("model.profile({})", "ShapeError", "input 'x' is missing"),
        ("model.run({}, { output: {} })", "UsageError", "run has no option 'output': did you mean 'outputs'?"),
        ("model.profile({}, { second: 1 })", "UsageError", "profile has no option 'second': did you mean 'seconds'?"),
        ("load((name) => base + name, { devices: 'wasm' })", "UsageError", "'devices': did you mean 'device'?"),
        ("load((name) => base + name, { onprogress() {} })", "UsageError", "did you mean 'onProgress'?"),
        ("load((name) => base + name, { abort: 1, device: 'wasm' })", "UsageError", "load has no option 'abort'"),
        ("load((name) => base + name, { Thread: 1 })", "UsageError", "did you mean 'threads'?"),
    ],
)
def test_a_wrong_call_has_its_error(package: Path, script: str, error: str, words: str) -> None:
    before = "globalThis.X = { x: { data: new Float32Array(60), shape: [1, 3, 1, 20] } };"
    found = in_node(package, package.as_uri() + "/", script, before)
    assert found["error"] == error
    assert words in found["message"]


def test_numbers_that_become_elements(package: Path) -> None:
    script = """
        const { runInNewContext } = await import('vm');
        const x = { data: Array(60).fill(1), shape: [1, 3, 1, 20] };
        const shifts = [[21n], [21], Int32Array.of(21), { data: [21], shape: [1] }, [-(2 ** 53 - 1)]];
        const found = [];
        for (const shift of shifts) found.push(...moved(await model.run({ x, shift })));
        const elsewhere = runInNewContext('({ x: new Float32Array(60).fill(1), shift: BigInt64Array.of(21n) })');
        const theirs = await model.run({ x: { ...x, data: elsewhere.x }, shift: elsewhere.shift });
        const ours = await model.run({ x, shift: [21] });
        return [found, moved(theirs), elsewhere.x instanceof Float32Array, `${theirs.y.data}` === `${ours.y.data}`];
    """
    assert value(package, script) == [[42, 42, 42, 42, -2 * (2**53 - 1)], [42], False, True]


def test_a_model_is_disposed_of_at_the_end_of_a_block(package: Path) -> None:
    found = value(package, "model[Symbol.dispose](); return model.run(feed(1)).catch(String);", USING)
    assert found == "UsageError: the model 'small' is disposed of: load it again"


USING = "Symbol.dispose ?? Object.defineProperty(Symbol, 'dispose', { value: Symbol('dispose') });"


def test_concurrent_runs_do_not_mix(package: Path) -> None:
    script = "return (await Promise.all([1, 5, 2, 8].map((n) => model.run(feed(n))))).map(moved);"
    assert value(package, script) == [[2], [10] * 5, [4, 4], [16] * 8]


def test_concurrent_runs_of_functions_take_turns(tmp_path: Path) -> None:
    """All functions share the states. What a page asks for without waiting is done in that order."""
    deploykit.build(running_mean(weights()), "webgpu", output=tmp_path / "mean")
    script = f"const rows = (n) => ({{ data: new Float32Array({WIDTH} * n).fill(n), shape: [n, {WIDTH}] }});"
    script += "const { project, update, read } = model.functions; const calls = [];"
    script += "for (let n = 1; n <= 6; n += 1) { calls.push(model.reset({ streams: n }));"
    script += "for (let i = 0; i < 5; i += 1) calls.push(update.run({ x: rows(n) }), read.run({ query: rows(1) }),"
    script += "project.run({ rows: rows(n) })); } const results = await Promise.all(calls);"
    script += "return results.map((r) => r && [r.samples, r.scores, r.projected].map((t) => t && Array.from(t.data)));"
    found = evaluated(tmp_path / "mean", f"(async () => {{ {script} }})()")
    weight, results = weights(), iter(found)
    for n in range(1, 7):
        assert next(results) is None
        row = np.full(WIDTH, n, np.float32) @ weight
        for samples in range(1, 6):
            assert next(results)[0] == [samples]
            query = np.ones(WIDTH, np.float32) @ weight
            np.testing.assert_allclose(next(results)[1], [query @ row] * n, rtol=1e-4)
            np.testing.assert_allclose(next(results)[2], np.tile(row, n), rtol=1e-4)


def test_inputs_may_be_changed_after_the_call(package: Path) -> None:
    script = "const one = feed(1); const runs = []; for (let n = 1n; n < 5n; n += 1n) { one.shift.fill(n); "
    script += "runs.push(model.run(one)); } one.shift.fill(9n); return (await Promise.all(runs)).map(moved);"
    assert value(package, script) == [[2], [4], [6], [8]]


def test_results_go_into_given_arrays(package: Path) -> None:
    script = "const y = new Float32Array(50); const twice = new BigInt64Array(new SharedArrayBuffer(40));"
    script += "const { y: own } = await model.run(feed(5));"
    script += "const into = await model.run(feed(5), { outputs: { y, moved: twice } });"
    script += "return [y.join() === own.data.join(), into.y.data === y, own.data === y, into.y.shape,"
    script += "into.moved.data === twice, moved(into)];"
    assert value(package, script) == [True, True, False, [5, 10], True, [10] * 5]


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ("{ y: new Float64Array(10) }", "output 'y' is float32: expected Float32Array, found Float64Array"),
        ("{ y: 1 }", "output 'y' is float32: expected Float32Array, found Number"),
        ("{ y: new Float32Array(9) }", "output 'y' has 10 elements, and its array 9"),
        ("{ moved: new BigInt64Array(1), y: new Float32Array(0) }", "output 'y' has 10 elements, and its array 0"),
        ("{ z: new Float32Array(10) }", "there is no output 'z'"),
    ],
)
def test_arrays_that_do_not_take_the_outputs(package: Path, outputs: str, words: str) -> None:
    script = f"const given = {outputs}; const wrong = model.run(feed(1), {{ outputs: given }});"
    script += "const found = await wrong.catch((e) => [e.name, e.message]);"
    name, message, untouched, after = value(
        package, f"{script} return [...found, !given.moved?.[0], moved(await model.run(feed(1)))];"
    )
    assert (name, untouched, after) == ("ShapeError", True, [2])
    assert words in message


def test_a_failed_call_does_not_affect_later_calls(package: Path) -> None:
    script = "const calls = [model.run(feed(1)), model.run(feed(9)), model.run({}), model.run(feed(2))];"
    script += "return (await Promise.allSettled(calls)).map((r) => r.reason?.name ?? moved(r.value));"
    assert value(package, script) == [[2], "ShapeError", "ShapeError", [4, 4]]


def test_a_waiting_call_can_be_aborted_and_others_go_on(package: Path) -> None:
    script = (
        "const stop = new AbortController(); const { signal } = stop; const calls = [model.run(feed(1), { signal }),"
    )
    script += "model.run(feed(2), { signal }), model.run(feed(3))]; stop.abort();"
    script += "return (await Promise.allSettled(calls)).map((r) => r.reason?.name ?? moved(r.value));"
    assert value(package, script) == [[2], "AbortError", [6, 6, 6]]


def test_calls_that_wait_when_the_model_is_disposed_of(package: Path) -> None:
    script = "const calls = [model.run(feed(1)), model.run(feed(2))]; model.dispose();"
    script += "return (await Promise.allSettled(calls)).map((r) => r.reason?.name ?? moved(r.value));"
    assert value(package, script) == [[2], "UsageError"]


def test_the_page_has_its_turn_between_runs(package: Path) -> None:
    script = "let ticks = 0; const timer = setInterval(() => { ticks += 1; }, 0);"
    script += "await Promise.all(Array.from({ length: 200 }, () => model.run(feed(8, 16)))); clearInterval(timer);"
    assert value(package, f"{script} return ticks;") > 3


def test_a_profile_names_the_steps_and_their_times(package: Path) -> None:
    script = "const { runs, ms, steps } = await model.profile(feed(8, 64), { seconds: 0.1 });"
    script += "return { runs, ms, steps, after: moved(await model.run(feed(2))) };"
    found = value(package, script)
    names = json.loads((package / "plan.json").read_text())["steps"]
    assert [step["name"] for step in found["steps"]] == names
    assert [step["calls"] for step in found["steps"]] == [1] * len(names)
    assert found["runs"] > 1
    assert 0 < sum(step["ms"] for step in found["steps"]) <= found["ms"]
    assert found["after"] == [4, 4]


def test_a_profile_can_be_aborted(package: Path) -> None:
    script = "const signal = AbortSignal.timeout(100); const start = performance.now();"
    script += "const name = await model.profile(feed(1), { seconds: 60, signal }).catch((e) => e.name);"
    script += "return [name, performance.now() - start < 10000, moved(await model.run(feed(1)))];"
    assert value(package, script) == ["TimeoutError", True, [2]]


FULL = "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('full'); };"


def test_no_memory_for_a_run_leaves_the_model_usable(package: Path) -> None:
    script = f"await model.run(feed(1)); {FULL} const name = await model.run(feed(8, 64)).catch((e) => e.name);"
    assert value(package, f"{script} return [name, moved(await model.run(feed(1)))];") == ["MemoryError", [2]]


LARGE = {
    "an output": "(float[n, 1] x, float[1, k] z) => (float[n, k] y) { a = Add(x, z) y = Exp(a) }",
    "the arena": """(float[n, 1] x, float[1, k] z) => (float[n, k] y) {
        a = Add(x, z) t = Transpose<perm=[1, 0]>(a) s = Softmax<axis=0>(t) y = Transpose<perm=[1, 0]>(s) }""",
    "a size that the run tells": """(float[n, 1] x, float[1, k] z) => (float[a, b] y) {
        s = Shape(x) t = Shape(z) n1 = Gather<axis=0>(s, zero) k1 = Gather<axis=0>(t, one)
        u = Concat<axis=0>(n1, k1) v = NonZero(u) w = Gather(u, v) r = Reshape(w, two) e = Expand(x, r) y = Exp(e) }""",
}


@pytest.mark.parametrize("what", LARGE)
def test_more_than_webassembly_can_hold(what: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> large {LARGE[what]}')
    for name, values in (("zero", [0]), ("one", [1]), ("two", [2])):
        model.graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [1], values))
    deploykit.build(model, "webgpu", {"n": (1, 10**6), "k": (1, 10**6)}, tmp_path / "large")
    script = "const run = (n, k) => model.run({ x: new Float32Array(n), z: new Float32Array(k) });"
    script += "const small = (await run(2, 3)).y.shape; const names = [];"
    script += "for (const k of [30000, 65536]) names.push(await run(65536, k).catch((e) => [e.name, e.bytes > 4e9]));"
    found = value(tmp_path / "large", f"{script} return [small, ...names, (await run(3, 2)).y.shape];")
    assert found == [[2, 3], ["MemoryError", True], ["MemoryError", True], [3, 2]]


def test_a_tensor_that_another_package_keeps(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "other")
    script = f"""
        const other = await (await import('{(tmp_path / "other").as_uri()}/index.mjs')).load();
        const {{ moved: shift }} = await other.run(feed(1), {{ keep: ['moved'] }});
        const refused = await model.run({{ ...feed(1), shift }}).catch(String);
        const whole = {{ data: await shift.data(), shape: shift.shape }};
        return [refused, moved(await model.run({{ ...feed(1), shift: whole }}))];
    """
    refused, found = value(package, script)
    assert refused.startswith("UsageError: input 'shift' is a tensor that another package keeps: pass its await data()")
    assert found == [4]
