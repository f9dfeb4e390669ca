"""Threads: workers that share a model's memory in node and in Chromium, and what happens if they cannot."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deploykit
from bench.browser import ISOLATED, FolderHandler, find_chromium, in_chromium, served
from tests.web.conftest import in_node
from tests.web.test_package import values
from tests.web.tools import run_tool

HERE = Path(__file__).parent

FEEDS = """(n, h) => ({
    x: { data: Float32Array.from({ length: 60 * n * h }, (_, i) => Math.sin(i)), shape: [n, 3, h, 20] },
    shift: new BigInt64Array(n).fill(BigInt(h)),
})"""


def run_in_node(package: Path, script: str, before: str = "") -> dict[str, Any]:
    """The outcome of a function body that uses `model`, `load`, `base` and `feeds`."""
    setup = f"const base = '{package.as_uri()}/'; const {{ load }} = await import(`${{base}}index.mjs`); "
    setup += f"const feeds = {FEEDS};"
    return in_node(package, package.as_uri() + "/", f"(async () => {{ {setup} {script} }})()", before)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_results_are_those_of_one_thread(package: Path, threads: int) -> None:
    with deploykit.open(package) as one, deploykit.open(package, threads=threads) as several:
        for n, h in ((1, 1), (8, 64), (3, 7), (2, 33)):
            expected, results = one.run(values(n, h)), several.run(values(n, h))
            for name, array in expected.items():
                np.testing.assert_array_equal(results[name], array)


def test_many_runs_of_two_models_with_pauses(package: Path) -> None:
    script = """
    const [one, two, three] = await Promise.all([1, 2, 3].map((threads) => load({ threads })));
    const faults = [];
    for (let round = 0; round < 400; round += 1) {
      const size = feeds(1 + (round % 8), 1 + ((round * 37) % 64));
      const [a, b, c] = await Promise.all([one, two, three].map((model) => model.run(size)));
      if (a.y.data.some((value, index) => value !== b.y.data[index] || value !== c.y.data[index])) faults.push(round);
      if (round % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return { faults, threads: [one.threads, two.threads, three.threads] };
    """
    assert run_in_node(package, script)["value"] == {"faults": [], "threads": [1, 2, 3]}


def test_by_default_there_is_a_thread_per_processor_up_to_a_limit(package: Path) -> None:
    script = "return [model.threads, Math.min((await import('node:os')).cpus().length, 4)]"
    found = run_in_node(package, script)["value"]
    assert found[0] == found[1]


def test_the_workers_end_with_the_model(package: Path) -> None:
    script = """
    const { readdirSync } = await import('node:fs');
    const count = () => readdirSync('/proc/self/task').length;
    const before = count();
    const models = await Promise.all([load({ threads: 3 }), load({ threads: 2 })]);
    const most = count();
    models.forEach((model) => model.dispose());
    for (let round = 0; round < 200 && count() > before; round += 1) await new Promise((done) => setTimeout(done, 20));
    return [most - before, count() - before, models[0].threads];
    """
    assert run_in_node(package, script)["value"] == [3, 0, 1]


@pytest.mark.parametrize("threads", [0, -1, 1.5])
def test_threads_must_be_a_whole_number(package: Path, threads: float) -> None:
    found = run_in_node(package, f"return load({{ threads: {threads} }})")
    assert (found["error"], found["known"]) == ("UsageError", True)


def test_a_worker_that_cannot_start(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    (tmp_path / "small" / "runtime" / "worker.mjs").unlink()
    found = run_in_node(tmp_path / "small", "return model.threads")
    assert found["value"] == 1
    found = run_in_node(tmp_path / "small", "return load({ threads: 2 })")
    assert found["error"] == "UnsupportedError"
    assert "a worker cannot be started" in found["message"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose parallel loop calls a JavaScript function that fails in workers."""
    text = '<ir_version: 9, opset_import: ["": 20]> far (float[n, 4096] x) => (float[n, 4096] y) { y = Acos(x) }'
    folder = tmp_path_factory.mktemp("far") / "far"
    deploykit.build(onnx.parser.parse_model(text), "webgpu", {"n": (1, 64)}, folder)
    worker = folder / "runtime" / "worker.mjs"
    code = worker.read_text()
    assert "math:MATH" in code
    worker.write_text(code.replace("math:MATH", "math:{...MATH,acos:()=>{throw new Error('broken')}}"))
    return folder


def test_a_worker_that_fails_leaves_the_model_usable(imported: Path) -> None:
    script = """
    const pair = await load({ threads: 2 });
    const x = { data: new Float32Array(64 * 4096).fill(1), shape: [64, 4096] };
    for (let round = 0; round < 1000; round += 1) {
      try {
        await pair.run({ x });
      } catch (error) {
        const { y } = await pair.run({ x });
        for (let wait = 0; wait < 100 && pair.threads > 1; wait += 1) await new Promise((done) => setTimeout(done, 20));
        return [error.name, y.data.every((value) => value === 0), pair.threads];
      }
    }
    """
    assert run_in_node(imported, script)["value"] == ["WorkerError", True, 1]


def test_a_smaller_maximum_where_the_engine_gives_no_larger_one(package: Path) -> None:
    before = "{ const { Memory } = WebAssembly; globalThis.asked = []; WebAssembly.Memory = class { "
    before += "constructor(wanted) { if (wanted.shared) asked.push(wanted.maximum); "
    before += "if (wanted.maximum > 20000) throw new RangeError('full'); return new Memory(wanted); } } }"
    script = """
    const { memoryFor } = await import(`${base}runtime/model.mjs`);
    const code = await (await import('node:fs/promises')).readFile(new URL(`${base}model.wasm`));
    const needs = { inputs: [], outputs: [], dims: [], peak_memory: { weights: WEIGHTS, at_bounds: null } };
    asked.length = 0;
    const { memory } = memoryFor(new Uint8Array(code), true, needs);
    return [[...asked], memory.buffer.constructor.name];
    """
    found = run_in_node(package, script.replace("WEIGHTS", "4096"), before)
    assert found["value"] == [[65535, 32767, 16383], "SharedArrayBuffer"]
    found = run_in_node(package, script.replace("WEIGHTS", "2 ** 31"), before)
    assert (found["error"], found["known"]) == ("MemoryError", True)


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_in_a_page_that_vite_builds(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    (tmp_path / "index.html").write_text('<!doctype html><script type="module" src="./main.js"></script>')
    (tmp_path / "main.js").write_text("""import { load } from './small/index.mjs';
    const found = await load({ threads: 2 }).then(({ threads }) => threads, String);
    await fetch('/result', { method: 'POST', body: JSON.stringify(found) });""")
    built = run_tool("vite", "build", "--base", "./", folder=tmp_path)
    assert (built.returncode, built.stderr) == (0, "")
    assert "browser compatibility" not in built.stdout
    shutil.rmtree(tmp_path / "small")
    assert in_chromium(tmp_path / "dist", "index.html", headers=ISOLATED) == 2


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.parametrize("isolated", [True, False])
def test_in_a_page_and_in_its_worker(package: Path, tmp_path: Path, *, isolated: bool) -> None:
    shutil.copytree(package, tmp_path / "small")
    for name in ("threads.html", "threads.mjs"):
        shutil.copyfile(HERE / name, tmp_path / name)
    headers = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}

    class Elsewhere(FolderHandler):
        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

    with served(partial(Elsewhere, directory=str(tmp_path))) as address:
        found = in_chromium(tmp_path, f"threads.html?elsewhere={address}", headers=ISOLATED if isolated else None)
    expected = {"threads": [1, 2, 3] if isolated else [1, 1, 1], "same": True, "after": 1}
    assert found == {"page": expected, "worker": expected, "elsewhere": expected}
