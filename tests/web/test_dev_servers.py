"""Projects after `npm install` of a package, without any setting for it: development servers and production builds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.request import urlopen

import onnx
import pytest

from bench.browser import ISOLATED, find_chromium
from tests.web.projects import found_in, hosted, packed, project, require_right, serving
from tests.web.tools import installed, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")]

VITES = ["vite5", "vite6", "vite7", "vite"]
ALONE = "the page is not cross-origin isolated"


@pytest.fixture(scope="module")
def archive(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a file of npm."""
    return packed(package, tmp_path_factory.mktemp("archive") / "npm")


def vite(name: str) -> tuple[str, str]:
    return ("node", str(installed(f"{name}/bin/vite.js")))


@pytest.mark.parametrize("name", VITES)
def test_the_server_of_vite(archive: Path, model: onnx.ModelProto, tmp_path: Path, name: str) -> None:
    folder = project(tmp_path / "app", archive)
    with serving(*vite(name), "--port", "0", folder=folder) as address:
        found = found_in(f"{address}/")
        require_right(found_in(f"{address}/?worker=true"), model)
    require_right(found, model)
    assert (found["threads"], found["threadsReason"]) == (1, ALONE)


@pytest.mark.parametrize("name", VITES)
def test_a_linked_folder_outside_of_the_project(
    package: Path, model: onnx.ModelProto, tmp_path: Path, name: str
) -> None:
    folder = project(tmp_path / "app", Path(shutil.copytree(package, tmp_path / "small")))
    assert (folder / "node_modules" / "model-small").is_symlink()
    headers = {"server": {"headers": ISOLATED}}
    (folder / "vite.config.js").write_text(f"export default {json.dumps(headers)}")
    with serving(*vite(name), "--port", "0", folder=folder) as address:
        found, in_worker = (found_in(f"{address}/?threads=2{also}") for also in ("", "&worker=true"))
    for each in (found, in_worker):
        require_right(each, model)
        assert (each["threads"], each["threadsReason"]) == (2, "asked for")


@pytest.mark.parametrize("name", VITES)
def test_a_dependency_of_a_dependency(archive: Path, model: onnx.ModelProto, tmp_path: Path, name: str) -> None:
    """Vite up to version 7 joins the package with the library that depends on it: an error names the setting."""
    folder = project(tmp_path / "app", archive)
    library = folder / "node_modules" / "library"
    library.mkdir()
    (library / "package.json").write_text('{ "version": "1.0.0", "type": "module", "exports": "./index.js" }')
    (library / "index.js").write_text("export { load } from 'model-small';")
    main = folder / "src" / "main.js"
    main.write_text(main.read_text().replace("'model-small'", "'library'"))
    with serving(*vite(name), "--port", "0", folder=folder) as address:
        found = found_in(f"{address}/")
    advice = "optimizeDeps: { exclude: ['model-small'] }"
    if "error" in found:
        assert found["error"].startswith("UsageError: the server of Vite moved this package away from its files: ")
        assert advice in found["error"]
        (folder / "vite.config.js").write_text(f"export default {{ {advice} }};")
        with serving(*vite(name), "--port", "0", folder=folder) as address:
            found = found_in(f"{address}/")
    require_right(found, model)


@pytest.mark.parametrize("mode", ["production", "development"])
@pytest.mark.parametrize("name", VITES)
def test_what_vite_builds(archive: Path, model: onnx.ModelProto, tmp_path: Path, name: str, mode: str) -> None:
    folder = project(tmp_path / "app", archive)
    (folder / ".env").write_text(f"NODE_ENV={mode}")
    built = run(*vite(name), "build", "--mode", mode, "--base", "/sub/path/", folder=folder)
    assert built.returncode == 0, built.stderr
    shutil.rmtree(folder / "node_modules")
    shutil.copytree(folder / "dist", folder / "served" / "sub" / "path")
    with hosted(folder / "served", ISOLATED) as address:
        found, in_worker = (found_in(f"{address}/sub/path/?threads=2{also}") for also in ("", "&worker=true"))
    for each in (found, in_worker):
        require_right(each, model)
        assert each["threads"] == 2


LAYOUT = "export default ({ children }) => <html><body>{children}</body></html>;"
SHOWN = """'use client';
import { useEffect } from 'react';
export default function Page() {
  useEffect(() => void import('../src/main.js'), []);
  return <p>model</p>;
}"""
CONFIG = "export default { headers: async () => [{ source: '/:path*', headers: %s }] };"


NEXT = (
    *("next", "@next", "@swc", "react", "react-dom", "scheduler", "styled-jsx", "client-only", "postcss", "nanoid"),
    *("picocolors", "source-map-js", "caniuse-lite", "baseline-browser-mapping"),
)
"""The package and those that it needs."""


def linked(source: str, target: str) -> None:
    """Another name for a file, or a copy where there can be none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.mark.parametrize("flags", [(), ("--webpack",)], ids=["turbopack", "webpack"])
@pytest.mark.parametrize("command", ["dev", "start"])
def test_next(archive: Path, model: onnx.ModelProto, tmp_path: Path, command: str, flags: tuple[str, ...]) -> None:
    modules = installed("next").parent
    folder = project(tmp_path / "app", archive)
    # Turbopack does not follow links out of the project.
    for name in NEXT:
        shutil.copytree(modules / name, folder / "node_modules" / name, copy_function=linked)
    (folder / "app").mkdir()
    (folder / "app" / "layout.js").write_text(LAYOUT)
    (folder / "app" / "page.js").write_text(SHOWN)
    headers = json.dumps([{"key": key, "value": value} for key, value in ISOLATED.items()])
    (folder / "next.config.mjs").write_text(CONFIG % headers)
    next_js = ("node", "node_modules/next/dist/bin/next")
    if command == "start":
        built = run(*next_js, "build", *flags, folder=folder, timeout=300)
        assert built.returncode == 0, built.stdout + built.stderr
    with serving(*next_js, command, *(flags if command == "dev" else ()), "-p", "0", folder=folder) as address:
        # The server builds the page when it is asked for the first time.
        urlopen(address, timeout=300).close()
        found, in_worker = (found_in(f"{address}/?threads=2{also}") for also in ("", "&worker=true"))
    for each in (found, in_worker):
        require_right(each, model)
        assert each["threads"] == 2
