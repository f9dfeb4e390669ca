"""Pages that other bundlers build after `npm install`, React in strict mode, and pages with a strict policy."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from bench.browser import ISOLATED, find_chromium
from tests.apps.devtools import chromium
from tests.web.projects import found_in, free_port, hosted, packed, project, require_right, serving
from tests.web.test_snippets import SNIPPETS
from tests.web.tools import installed, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

STRICT = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"
TRUSTED = f"{STRICT}; require-trusted-types-for 'script'; trusted-types deploykit"
NO_WORKERS = f"{STRICT}; worker-src 'none'"
PAGE = '<!doctype html><script type="module" src="{}"></script>'


@pytest.fixture(scope="module")
def archive(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a file of npm."""
    return packed(package, tmp_path_factory.mktemp("archive") / "npm")


@pytest.fixture
def app(archive: Path, tmp_path: Path) -> Path:
    return project(tmp_path / "app", archive)


def require_all(folder: Path, model: onnx.ModelProto, **policy: str) -> None:
    """The page gives right results with two threads, in the page and in a worker."""
    with hosted(folder, ISOLATED | policy) as address:
        for options in ("threads=2", "threads=2&worker=true"):
            found = found_in(f"{address}/index.html?{options}")
            require_right(found, model)
            assert found["threads"] == 2


WEBPACK = """const [modules, mode] = process.argv.slice(1);
const output = { path: `${process.cwd()}/dist`, filename: 'app.js' };
require(`${modules}/webpack`)({ mode, devtool: false, entry: './src/main.js', output }, (error, stats) => {
  console.log(error ?? stats.toString());
  process.exit(error || stats.hasErrors() ? 1 : 0);
});"""


@pytest.mark.parametrize("mode", ["development", "production"])
def test_webpack(app: Path, model: onnx.ModelProto, mode: str) -> None:
    built = run("node", "-e", WEBPACK, str(installed("webpack").parent), mode, folder=app)
    assert built.returncode == 0, built.stdout
    (app / "dist" / "index.html").write_text(PAGE.format("app.js"))
    require_all(app / "dist", model, **{"Content-Security-Policy": STRICT})


def test_esbuild(app: Path, model: onnx.ModelProto) -> None:
    program = (app / "src" / "main.js").read_text().replace("load(options)", "load({ ...options, folder: 'small/' })")
    (app / "src" / "main.js").write_text(program)
    call = (str(installed(".bin/esbuild")), "src/main.js", "--bundle", "--minify", "--format=esm", "--outdir=dist")
    built = run(*call, folder=app)
    assert built.returncode == 0, built.stderr
    shutil.copytree(app / "node_modules" / "model-small", app / "dist" / "small")
    (app / "dist" / "index.html").write_text(PAGE.format("main.js"))
    require_all(app / "dist", model, **{"Content-Security-Policy": STRICT})


def test_parcel(app: Path, model: onnx.ModelProto) -> None:
    (app / ".parcelrc").write_text(SNIPPETS[".parcelrc"].replace("/cnn/", "/model-small/"))
    (app / "node_modules" / "@parcel").symlink_to(installed("@parcel"))
    parcel = str(installed(".bin/parcel"))
    built = run(parcel, "build", "index.html", "--no-cache", "--public-url", "./", folder=app)
    assert built.returncode == 0, built.stdout + built.stderr
    require_all(app / "dist", model)
    with serving(parcel, "serve", "index.html", "--no-cache", "--port", free_port(), folder=app) as address:
        require_right(found_in(f"{address}/"), model)


REACT = """import { createElement, StrictMode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { load } from 'model-small';

globalThis.events = [];

function Moved() {
  const [moved, setMoved] = useState('');
  useEffect(() => {
    const stop = new AbortController();
    const loading = load({ signal: stop.signal });
    loading.then(async (model) => {
      const x = { data: new Float32Array(60), shape: [1, 3, 1, 20] };
      const { moved } = await model.run({ x, shift: new BigInt64Array([21n]) }, { signal: stop.signal });
      events.push('ran');
      setMoved(String(moved.data[0]));
    }).catch(({ name }) => events.push(name));
    return () => {
      stop.abort();
      loading.then((model) => model.dispose(), () => {});
    };
  }, []);
  return createElement('p', null, moved);
}

createRoot(document.body).render(createElement(StrictMode, null, createElement(Moved)));
"""


def test_react_in_strict_mode(app: Path) -> None:
    """Effects run twice in development: the first load is aborted, and the second one is used."""
    for name in ("react", "react-dom", "scheduler"):
        (app / "node_modules" / name).symlink_to(installed(name))
    (app / "src" / "main.js").write_text(REACT)
    vite = ("node", str(installed("vite/bin/vite.js")), "--port", "0")
    with serving(*vite, folder=app) as address, chromium() as page:
        page.call("Page.navigate", url=f"{address}/")
        assert page.wait("document.querySelector('p')?.textContent") == "42"
        assert page.evaluate("events") == ["AbortError", "ran"]
        assert page.errors() == []


def test_a_strict_policy_and_trusted_types(package: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    folder = without_tools(package, tmp_path)
    require_all(folder, model, **{"Content-Security-Policy": STRICT})
    require_all(folder, model, **{"Content-Security-Policy": TRUSTED})


def test_a_page_without_workers_says_why_it_has_one_thread(
    package: Path, model: onnx.ModelProto, tmp_path: Path
) -> None:
    with hosted(without_tools(package, tmp_path), ISOLATED | {"Content-Security-Policy": NO_WORKERS}) as address:
        found = found_in(f"{address}/index.html")
        refused = found_in(f"{address}/index.html?threads=2")
    require_right(found, model)
    assert found["threads"] == 1
    assert found["threadsReason"].startswith("a worker cannot be started, load with threads: 1: the page may not run ")
    assert refused["error"].startswith("UnsupportedError: a worker cannot be started")


def test_files_from_another_origin(package: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    headers = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
    folder = without_tools(package, tmp_path)
    with hosted(package, headers) as elsewhere:
        program = (folder / "main.js").read_text().replace("./small/index.mjs", f"{elsewhere}/index.mjs")
        (folder / "main.js").write_text(program)
        require_all(folder, model)


def without_tools(package: Path, folder: Path) -> Path:
    """A folder with the package and a page that imports it."""
    shutil.copytree(package, folder / "small")
    program = (Path(__file__).with_name("project.mjs")).read_text().replace("'model-small'", "'./small/index.mjs'")
    (folder / "main.js").write_text(program)
    (folder / "index.html").write_text(PAGE.format("main.js"))
    return folder


def test_two_packages_in_one_page(package: Path, tmp_path: Path) -> None:
    """Two packages run side by side and share one GPU device."""
    for name in ("one", "two"):
        shutil.copytree(package, tmp_path / name)
    (tmp_path / "index.html").write_text(TWO)
    with hosted(tmp_path) as address, chromium("--enable-unsafe-webgpu") as page:
        page.call("Page.navigate", url=f"{address}/index.html")
        page.wait("typeof globalThis.found !== 'undefined'")
        found = page.evaluate("globalThis.found")
    assert found == {"devices": ["webgpu", "webgpu"], "opened": 1, "moved": [42, 42], "after": 42, "again": 2}


TWO = """<!doctype html><script type="module">
let opened = 0;
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = function (...given) {
  opened += 1;
  return request.apply(this, given);
};
const feeds = () => ({ x: { data: new Float32Array(60), shape: [1, 3, 1, 20] }, shift: new BigInt64Array([21n]) });
const moved = async (model) => Number((await model.run(feeds())).moved.data[0]);
globalThis.found = (async () => {
  const packages = await Promise.all(['one', 'two'].map((name) => import(`./${name}/index.mjs`)));
  const models = await Promise.all(packages.map(({ load }) => load({ device: 'webgpu' })));
  const found = { devices: models.map(({ device }) => device), opened, moved: await Promise.all(models.map(moved)) };
  models[0].dispose();
  found.after = await moved(models[1]);
  models[1].dispose();
  const again = await packages[0].load({ device: 'webgpu' });
  await moved(again);
  return { ...found, again: opened };
})().catch(String);
</script>"""
