"""What bundlers do to a package: small files become `data:` URLs, names of classes are shortened."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import onnx
import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from tests.web.tools import run_tool

TINY = '<ir_version: 9, opset_import: ["": 20]> tiny (float[n] x) => (float[n] y) { y = Abs(x) }'

POLICY = {"Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"}

PROGRAM = """import { load } from './tiny/index.mjs';
const report = {};
try {
  const model = await load({ cache: false });
  report.y = Array.from((await model.run({ x: Float32Array.of(-1, 2) })).y.data);
  report.steps = (await model.profile({ x: Float32Array.of(-1, 2) }, { seconds: 0.01 })).steps.length;
} catch (error) {
  report.error = String(error);
}
await fetch('/result', { method: 'POST', body: JSON.stringify(report) });
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    deploykit.build(onnx.parser.parse_model(TINY), "webgpu", output=folder)
    return folder


@pytest.fixture
def project(tiny: Path, tmp_path: Path) -> Path:
    (tmp_path / "tiny").symlink_to(tiny)
    (tmp_path / "app.mjs").write_text(PROGRAM)
    (tmp_path / "index.html").write_text('<!doctype html><script type="module" src="/app.mjs"></script>')
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_small_files_of_a_page_with_a_policy(project: Path) -> None:
    (project / "vite.config.mjs").write_text("export default { build: { target: 'esnext' } };")
    built = run_tool("vite", "build", folder=project)
    assert built.returncode == 0, built.stdout + built.stderr
    scripts = [path.read_text() for path in (project / "dist" / "assets").glob("*.js")]
    assert any("data:application/json;base64," in text for text in scripts), "manifest.json and plan.json"
    assert in_chromium(project / "dist", "index.html", headers=POLICY) == {"y": [1, 2], "steps": 1}


ERRORS = """import * as dk from './tiny/index.mjs';
const names = Object.entries(dk).filter(([, value]) => value.prototype instanceof Error);
const made = names.map(([name, Class]) => [name, new Class('why').name, String(new Class('why'))]);
const error = await dk.load({ device: 'none' }).catch((error) => error);
console.log(JSON.stringify([made, `${error}`, error instanceof dk.UsageError]));
"""


def test_errors_keep_their_names_when_minified(project: Path) -> None:
    (project / "errors.mjs").write_text(ERRORS)
    options = ["--bundle", "--minify", "--format=esm", "--platform=node", "--outfile=out.mjs"]
    built = run_tool("esbuild", "errors.mjs", *options, folder=project)
    assert built.returncode == 0, built.stderr
    found = subprocess.run(["node", "out.mjs"], cwd=project, capture_output=True, text=True, check=True)
    made, error, known = json.loads(found.stdout)
    assert len(made) == 10
    assert made == [[name, name, f"{name}: why"] for name, *_ in made]
    assert error.startswith("UsageError: there is no device 'none'")
    assert known


DATA = "data:application/json;base64,eyJzY2hlbWFfdmVyc2lvbiI6"


@pytest.mark.parametrize("place", [f"{DATA}{'A' * 5000}", f"{DATA}MX0="])
def test_messages_do_not_repeat_files_in_addresses(tiny: Path, place: str) -> None:
    """A manifest that is no JSON, and one of another version."""
    program = f"""import {{ load }} from '{tiny.as_uri()}/runtime/model.mjs';
        const error = await load(() => new URL('{place}')).catch((error) => error);
        console.log(`${{error}}`);"""
    call = ["node", "--input-type=module", "-e", program]
    found = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert found.startswith("IntegrityError: data:application/json;base64,eyJzY2hlbWFfdmVy... is ")
    assert len(found) < 400


def test_a_module_in_place_of_json(tiny: Path) -> None:
    program = f"""import {{ load }} from '{tiny.as_uri()}/runtime/model.mjs';
        const text = encodeURIComponent('module.exports = JSON.parse("{{}}")');
        const error = await load(() => new URL(`data:text/javascript,${{text}}`)).catch((error) => error);
        console.log(`${{error}}`);"""
    call = ["node", "--input-type=module", "-e", program]
    found = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    assert "is no JSON, it begins with 'module.exports = JSON.parse(" in found
    assert "If a bundler changed it, serve the folder as it was built, and pass its address: load({ folder })" in found
