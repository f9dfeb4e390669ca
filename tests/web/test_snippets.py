"""The programs of docs/targets/webgpu.md run in Chromium: in a page, in a worker, and in projects of Vite, webpack and
esbuild."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from bench.browser import ISOLATED, FolderHandler, find_chromium, in_chromium, served
from bench.models import MODELS
from tests.apps.devtools import chromium
from tests.web.tools import ROOT, run_tool

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

FENCED = re.compile(r"^```\w+ (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = dict(FENCED.findall((ROOT / "docs" / "targets" / "webgpu.md").read_text()))

REPORTER = """<script>
  // Posts what a program logs up to the first array, or why it failed.
  const lines = [];
  const post = (report) => fetch('/result', { method: 'POST', body: JSON.stringify(report) });
  const plain = (value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  console.log = (...values) => {
    lines.push(values.map(plain));
    if (values.some(Array.isArray)) post({ lines });
  };
  addEventListener('error', ({ message }) => post({ failed: message }));
  addEventListener('unhandledrejection', ({ reason }) => post({ failed: String(reason) }));
</script>
"""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that the document builds."""
    folder = tmp_path_factory.mktemp("snippets") / "encoder"
    deploykit.build(MODELS["encoder"](), "webgpu", {"batch": (1, 16), "seq": (1, 128)}, folder)
    return folder


@pytest.fixture
def project(encoder: Path, tmp_path: Path) -> Path:
    """A folder with the programs of the document in the files that it names, and the package."""
    shutil.copytree(encoder, tmp_path / "encoder")
    for name, text in SNIPPETS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def logged(folder: Path, page: str, *, isolated: bool = False, gpu: bool = False) -> list[list[Any]]:
    """The lines that a page logs. In an `isolated` page, loops run on several threads."""
    text = (folder / page).read_text()
    (folder / page).write_text(text if text.startswith(REPORTER) else REPORTER + text)
    found = in_chromium(folder, page, headers=ISOLATED if isolated else None, gpu=gpu)
    assert "failed" not in found, found
    lines: list[list[Any]] = found["lines"]
    return lines


def report(folder: Path, page: str, encoder: Path, *, isolated: bool = False, gpu: bool = False) -> list[list[Any]]:
    """The lines that a page logs; the last one is checked."""
    lines = logged(folder, page, isolated=isolated, gpu=gpu)
    shape, data = lines[-1]
    with deploykit.open(encoder) as session:
        expected = session(ids=np.array([[12, 7, 3]]))["sentence"]
    assert shape == list(expected.shape)
    np.testing.assert_allclose(np.reshape(data, shape), expected, rtol=1e-5)
    return lines


def test_a_page(project: Path, encoder: Path) -> None:
    lines = report(project, "app.html", encoder)
    progress = [line[0] for line in lines[:-1]]
    assert progress == sorted(progress)
    assert progress[-1] == 1


def test_buffers_of_a_gpu(project: Path, encoder: Path) -> None:
    assert len(report(project, "buffers.html", encoder, gpu=True)) == 1


def test_pictures_for_any_model(project: Path) -> None:
    deploykit.build(MODELS["cnn"](), "webgpu", {"batch": 1}, project / "cnn")
    ((shape, scores),) = logged(project, "picture.html")
    with deploykit.open(project / "cnn") as session:
        # A canvas on which nothing is drawn is transparent, which is white.
        image = np.full((1, 1, 28, 28), (1 - 0.1307) / 0.3081, np.float32)
        expected = session(image=image)["scores"]
    np.testing.assert_allclose(np.reshape(scores, shape), expected, rtol=1e-4, atol=1e-5)


def test_a_worker(project: Path, encoder: Path) -> None:
    assert len(report(project, "page.html", encoder)) == 1


def test_a_model_in_a_worker(project: Path, encoder: Path) -> None:
    assert len(report(project, "remote.html", encoder)) == 1
    assert len(report(project, "remote.html", encoder, isolated=True)) == 1


def test_a_project_of_vite(project: Path, encoder: Path) -> None:
    options = {"strict": True, "noEmit": True, "target": "es2023", "module": "esnext", "moduleResolution": "bundler"}
    (project / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": {**options, "types": []}, "include": ["src"]})
    )
    checked = run_tool("tsc", "-p", ".", folder=project)
    assert checked.stdout == ""
    built = run_tool("vite", "build", folder=project)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.rmtree(project / "encoder")
    report(project / "dist", "index.html", encoder, isolated=True)


def test_a_page_without_the_network(project: Path) -> None:
    online = True

    class Handler(FolderHandler):
        def do_GET(self) -> None:  # noqa: N802
            if online:
                super().do_GET()
            else:
                self.close_connection = True
                self.connection.close()

    with served(partial(Handler, directory=str(project))) as address, chromium() as page:
        page.open(f"{address}/offline.html")
        shape = page.wait("document.body.textContent.startsWith('[') && document.body.textContent")
        page.wait("caches.open('deploykit').then(async (cache) => (await cache.keys()).length === 3)")
        online = False
        page.reload()
        assert page.wait("document.body.textContent.startsWith('[') && document.body.textContent") == shape
        assert page.evaluate("fetch('encoder/README.md').then(String, (error) => error.name)") == "TypeError"


PAGE = '<!doctype html><script type="module" src="{}"></script>'


def test_a_project_of_esbuild(project: Path, encoder: Path) -> None:
    options = ["--bundle", "--format=esm", "--outdir=dist", "--out-extension:.js=.mjs"]
    built = run_tool("esbuild", "src/app.mjs", *options, folder=project)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.move(project / "encoder", project / "dist" / "encoder")
    (project / "dist" / "index.html").write_text(PAGE.format("app.mjs"))
    report(project / "dist", "index.html", encoder, isolated=True)


WEBPACK = """const [modules, folder] = process.argv.slice(1);
const output = { path: `${folder}/dist`, filename: 'app.js', publicPath: 'auto' };
const config = { mode: 'production', context: folder, entry: './src/bundled.mjs', output };
require(`${modules}/webpack`)(config, (error, stats) => {
  console.log(error ?? stats.toString());
  process.exit(error || stats.hasErrors() ? 1 : 0);
});"""


def test_a_project_of_webpack(project: Path, encoder: Path) -> None:
    modules = ROOT / "node_modules"
    if not (modules / "webpack").exists():
        pytest.skip("needs webpack: make packages")
    program = (project / "src" / "app.mjs").read_text()
    (project / "src" / "bundled.mjs").write_text(program.replace("load({ folder: 'encoder/' })", "load()"))
    call = ["node", "-e", WEBPACK, str(modules), str(project)]
    built = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.rmtree(project / "encoder")
    (project / "dist" / "index.html").write_text(PAGE.format("app.js"))
    report(project / "dist", "index.html", encoder, isolated=True)
