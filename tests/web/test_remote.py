"""Models in workers, by `load({ worker: true })`: they have the methods and give the results that they have without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest

import deploykit
from bench.browser import find_chromium
from tests.frontends.huggingface.test_picture_answers import folder_of as pictures_of
from tests.frontends.huggingface.test_texts import folder_of
from tests.frontends.running_mean import running_mean, weights
from tests.web.projects import found_in, hosted
from tests.web.tools import run

USED = """
import {{ load, {names} }} from '{package}/index.mjs';
const plain = (_, value) =>
  typeof value === 'bigint' ? Number(value) : ArrayBuffer.isView(value) ? Array.from(value) : value;
const used = async (load) => {{
  {script}
}};
const [found, expected] = [await used((options) => load({{ ...options, worker: true }})), await used(load)];
console.log(JSON.stringify({{ found, expected }}, plain));
"""


def both(package: Path, script: str, *names: str) -> Any:
    """What a function body with `load` returns; it is the same for models in workers and in the program itself."""
    program = USED.format(package=package.as_uri(), names=", ".join(names), script=script)
    result = run("node", "--input-type=module", "-e", program, folder=package)
    assert result.returncode == 0, result.stderr
    reported = json.loads(result.stdout)
    assert reported["found"] == reported["expected"]
    return reported["found"]


FEEDS = "const feeds = () => ({ x: { data: new Float32Array(60).fill(2), shape: [1, 3, 1, 20] }, "
FEEDS += "shift: new BigInt64Array([21n]) });"


def test_members_and_results(package: Path) -> None:
    script = f"""{FEEDS}
    // The files arrive in any order.
    let progress = [0, 0];
    const onProgress = ({{ loaded, total }}) => {{
      progress = loaded >= progress[0] ? [loaded, total] : progress;
    }};
    const model = await load({{ threads: 2, device: 'wasm', onProgress }});
    const given = feeds();
    const running = model.run(given);
    given.x.data.fill(0);
    const first = await running;
    const y = new Float32Array(10);
    const {{ y: filled }} = await model.run(feeds(), {{ outputs: {{ y }} }});
    const {{ y: kept }} = await model.run(feeds(), {{ keep: ['y'] }});
    const memory = await model.memory({{ n: 8, h: 64 }});
    const profile = await model.profile(feeds(), {{ seconds: 0.05 }});
    const steps = profile.steps.map(({{ name }}) => name);
    const {{ name, inputs, outputs, dims, weightBytes, device, deviceReason, threads, threadsReason }} = model;
    const chosen = await model.chosen;
    const own = {{ name, inputs, outputs, dims, weightBytes, device, deviceReason, threads, threadsReason, chosen }};
    const from = await kept.data();
    kept.free();
    model.dispose();
    return {{ progress, first, same: filled.data === y, y, kept: [kept.dtype, kept.shape, from], memory, steps, own }};
    """
    found = both(package, script)
    assert found["same"]
    assert found["y"] == found["first"]["y"]["data"] == found["kept"][2]
    assert found["own"]["threads"] == 2


def test_kept_tensors_are_inputs(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["": 20]> f (float[n] x) => (float[n] y) { y = Abs(x) }'
    deploykit.build(onnx.parser.parse_model(text), "webgpu", output=tmp_path / "abs")
    script = """const model = await load({ threads: 1 });
    const { y } = await model.run({ x: Float32Array.of(-1, 2) }, { keep: ['y'] });
    const again = await model.run({ x: y });
    model.dispose();
    return again;"""
    assert both(tmp_path / "abs", script)["y"]["data"] == [1, 2]


def test_errors_keep_their_classes_and_fields(package: Path) -> None:
    script = f"""{FEEDS}
    const said = (error) => {{
      const kinds = [DeploykitError, ShapeError, MemoryError, UsageError].map((kind) => error instanceof kind);
      return [error.name, error.message, error.bytes, kinds];
    }};
    const model = await load({{ threads: 1 }});
    const late = new AbortController();
    late.abort(new RangeError('too late'));
    const found = [
      await model.run({{ x: feeds().x }}).catch(said),
      await model.run(feeds(), {{ kept: ['y'] }}).catch(said),
      await Promise.resolve().then(() => model.memory({{ n: 9, h: 1 }})).catch(said),
      await model.run(feeds(), {{ signal: late.signal }}).catch(said),
      await load({{ device: 'gpu' }}).catch(said),
    ];
    model.dispose();
    found.push(await model.run(feeds()).catch(({{ name }}) => name));
    return found;
    """
    found = both(package, script, "DeploykitError", "ShapeError", "MemoryError", "UsageError")
    assert [each if isinstance(each, str) else each[0] for each in found] == [
        *("ShapeError", "UsageError", "ShapeError", "RangeError", "UsageError", "UsageError")
    ]


def test_a_call_is_aborted_and_disposing_ends_others(package: Path) -> None:
    program = f"""
    import {{ load, UsageError }} from '{package.as_uri()}/index.mjs';
    {FEEDS}
    const model = await load({{ worker: true }});
    const stop = new AbortController();
    const calls = Array.from({{ length: 9 }}, () => model.run(feeds(), {{ signal: stop.signal }}));
    stop.abort();
    const ends = await Promise.allSettled(calls);
    const last = model.run(feeds());
    model.dispose();
    const disposed = await last.catch((error) => error instanceof UsageError);
    console.log(JSON.stringify([ends.at(-1).reason?.name, disposed]));
    """
    result = run("node", "--input-type=module", "-e", program, folder=package)
    assert (result.stdout.strip(), result.stderr) == ('["AbortError",true]', "")


def test_a_worker_that_fails(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    (tmp_path / "small" / "runtime" / "remote.mjs").write_text("throw new Error('broken');")
    program = "import { load } from './small/index.mjs';"
    program += "await load({ worker: true }).catch(({ name, message }) => console.log(name, message));"
    result = run("node", "--input-type=module", "-e", program, folder=tmp_path)
    assert result.stdout.startswith("WorkerError the worker of the model failed, load it again or without 'worker': ")
    assert "broken" in result.stdout


def test_several_functions(tmp_path: Path) -> None:
    deploykit.build(running_mean(weights()), "webgpu", output=tmp_path / "mean")
    script = """const model = await load({ threads: 2 });
    const shapes = {};
    for (const [name, each] of Object.entries(model.functions)) {
      const least = Object.fromEntries(each.dims.map((dim) => [dim.name, dim.minimum]));
      shapes[name] = [each.inputs, await each.memory(least)];
    }
    shapes.threads = [model.threads, model.threadsReason];
    await model.reset();
    model.dispose();
    return shapes;"""
    found = both(tmp_path / "mean", script)
    assert found.pop("threads") == [2, "asked for"]
    assert len(found) > 1


@pytest.mark.slow
def test_texts_and_ragged_results(tmp_path: Path) -> None:
    deploykit.build(folder_of(tmp_path / "model", "bert-classes"), "webgpu", output=tmp_path / "web")
    script = """const model = await load({ device: 'wasm' });
    const one = await model.classify('the cat');
    const two = await model.classify(['the cat', 'a mat']);
    model.dispose();
    // Texts run in parts whose sizes depend on measured times, and so do the last bits.
    const rounded = (labels) => labels.map(({ label, score }) => [label, score.toFixed(5)]);
    return [rounded(one), two.map(rounded)];"""
    one, (first, _) = both(tmp_path / "web", script)
    assert one[0][0] == first[0][0]


DRAWN = """<!doctype html><canvas width="24" height="16"></canvas><script type="module">
import { load } from './web/index.mjs';
const canvas = document.querySelector('canvas');
const context = canvas.getContext('2d');
['red', 'lime', 'blue', 'white'].forEach((color, at) => {
  context.fillStyle = color;
  context.fillRect(6 * at, 4 * at, 6, 16 - 4 * at);
});
const image = new Image();
image.src = canvas.toDataURL();
await image.decode();
const given = () => [canvas, image, context.getImageData(0, 0, 24, 16)];
globalThis.found = (async () => {
  const models = [await load({ device: 'wasm' }), await load({ device: 'wasm', worker: true })];
  const [here, there] = await Promise.all(models.map((model) => model.classify(given())));
  return { here, there };
})().catch((error) => ({ error: String(error) }));
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_pictures_of_a_page(tmp_path: Path) -> None:
    deploykit.build(pictures_of(tmp_path / "model", "classify"), "webgpu", output=tmp_path / "web")
    (tmp_path / "index.html").write_text(DRAWN)
    with hosted(tmp_path) as address:
        found = found_in(f"{address}/index.html")
    assert found["there"] == found["here"]
    assert len(found["here"]) == 3
