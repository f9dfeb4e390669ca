"""Where a model comes from and runs: files that a program has, a `fetch` of its own, and a GPU device of the page."""

from __future__ import annotations

import shutil
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from bench.browser import find_chromium, in_chromium
from tests.web.conftest import Server
from tests.web.test_loading import missing, whole
from tests.web.test_threads import run_in_node

RUN = (
    "Number((await model.run({ x: { data: new Float32Array(60), shape: [1, 3, 1, 20] }, shift: [21] })).moved.data[0])"
)


def test_files_that_a_program_has(package: Path) -> None:
    script = f"""
        const {{ readFile, readdir }} = await import('fs/promises');
        globalThis.fetch = () => Promise.reject(new Error('fetched'));
        const names = ['manifest.json', 'model.wasm', 'model-relaxed.wasm', 'plan.json', 'weights/000.bin'];
        const read = async (name) => new Uint8Array(await readFile(new URL(name, base)));
        const files = new Map(await Promise.all(names.map(async (name) => [name, await read(name)])));
        const found = [];
        const blobs = new Map([...files].map(([name, data]) => [name, new Blob([data])]));
        const forms = [files, Object.fromEntries(files), blobs];
        for (const form of forms) {{
          const model = await load({{ files: form, folder: 'http://localhost:1/' }});
          found.push({RUN}, (await model.profile(feeds(1, 1), {{ seconds: 0.01 }})).runs > 0);
        }}
        const refused = (change) => load({{ files: new Map([...files, ...change]), folder: base }}).catch(String);
        const bytes = (await read('weights/000.bin')).fill(0);
        found.push(await refused([['weights/000.bin', undefined]]), await refused([['weights/000.bin', bytes]]));
        return found;"""
    *results, lacking, changed = run_in_node(package, script)["value"]
    assert results == [42, True] * 3
    assert lacking.startswith("UsageError: files has no 'weights/000.bin': pass all files")
    assert changed.startswith("IntegrityError: ")


def test_a_fetch_of_its_own(package: Path, server: Server) -> None:
    def guarded(handler: SimpleHTTPRequestHandler, data: bytes) -> None:
        (whole if handler.headers.get("Authorization") == "key" else missing)(handler, data)

    server.faults |= dict.fromkeys(("manifest.json", "model-relaxed.wasm", "weights/000.bin"), guarded)
    script = f"""
        const headers = {{ Authorization: 'key' }};
        const own = (url, options) => fetch(url, {{ ...options, headers: {{ ...options.headers, ...headers }} }});
        const folder = '{server.url}';
        const model = await load({{ folder, fetch: own }});
        return [{RUN}, await load({{ folder }}).catch(String)];"""
    moved, refused = run_in_node(package, script)["value"]
    assert moved == 42
    assert refused.startswith("NetworkError: ")


PAGE = f"""<!doctype html><script type="module">
  import {{ load }} from './index.mjs';
  const report = {{}};
  try {{
    const asked = [];
    const before = GPU.prototype.requestAdapter;
    GPU.prototype.requestAdapter = function (options) {{
      asked.push(options?.powerPreference ?? 'none');
      return before.call(this, options);
    }};
    const gpuDevice = await (await navigator.gpu.requestAdapter()).requestDevice();
    const found = async (options) => {{
      const model = await load({{ device: 'webgpu', cache: false, ...options }});
      const moved = {RUN};
      model.dispose();
      return moved;
    }};
    report.moved = [await found({{ gpuDevice }}), await found({{ gpuDevice }})];
    report.moved.push(await found({{ powerPreference: 'low-power' }}));
    report.asked = asked;
    const buffer = gpuDevice.createBuffer({{ size: 4, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }});
    gpuDevice.queue.writeBuffer(buffer, 0, Uint32Array.of(7));
    await buffer.mapAsync(GPUMapMode.READ);
    report.alive = new Uint32Array(buffer.getMappedRange())[0];
  }} catch (error) {{
    report.error = String(error);
  }}
  await fetch('/result', {{ method: 'POST', body: JSON.stringify(report) }});
</script>"""


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_device_of_the_page(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "small")
    (tmp_path / "small" / "device.html").write_text(PAGE)
    found = in_chromium(tmp_path / "small", "device.html", gpu=True)
    assert found == {"moved": [42, 42, 42], "asked": ["none", "low-power"], "alive": 7}
