"""The package as npm takes it: names, versions, licences, and what is published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

import deploykit
from deploykit.cli import app
from deploykit.errors import UsageError
from deploykit.targets.webgpu.npm import NpmOptions, npm_view
from tests.frontends.huggingface.test_texts import folder_of
from tests.web.tools import ROOT, npm

ABS = '<ir_version: 9, opset_import: ["": 20]> cnn (float[n] x) => (float[n] y) { y = Abs(x) }'


def built(model: onnx.ModelProto, folder: Path, **settings: str) -> dict[str, Any]:
    deploykit.build(model, "webgpu", output=folder, settings=settings)
    read: dict[str, Any] = json.loads((folder / "package.json").read_text())
    return read


def test_a_name_and_a_version_by_the_command_line(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(ABS), tmp_path / "cnn.onnx")
    call = ["build", str(tmp_path / "cnn.onnx"), "--target", "webgpu", "-o", str(tmp_path / "cnn")]
    call += ["--set", "name=@me/cnn", "--set", "version=1.2.0-beta.1", "--set", "license=MIT"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    package = json.loads((tmp_path / "cnn" / "package.json").read_text())
    assert (package["name"], package["version"], package["license"]) == (
        "@me/cnn",
        "1.2.0-beta.1",
        "Apache-2.0 AND MIT",
    )
    assert "private" not in package
    published = json.loads(npm("publish", "--dry-run", "--json", "--tag", "beta", folder=tmp_path / "cnn"))
    files = {file["path"] for file in published.get("@me/cnn", published)["files"]}
    assert files >= {"LICENSE", "NOTICE", "README.md", "index.mjs", "index.d.mts", "manifest.json", "runtime/model.mjs"}
    assert not files & {"demo.html", "program.txt"}
    # What a page fetches is published.
    fetched = re.findall(r"'\./([^']+)', import\.meta\.url", (tmp_path / "cnn" / "index.mjs").read_text())
    assert files >= set(fetched)


def test_a_package_without_a_name_is_not_published(tmp_path: Path) -> None:
    package = built(onnx.parser.parse_model(ABS), tmp_path / "cnn")
    assert package["private"]
    assert (package["license"], package["engines"]) == ("SEE LICENSE IN NOTICE", {"node": ">=18"})
    assert (tmp_path / "cnn" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "is that of its makers" in (tmp_path / "cnn" / "NOTICE").read_text()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "Cnn"}, "'Cnn' cannot be the name of an npm package: use small letters"),
        ({"name": "@me"}, "'@me' cannot"),
        ({"name": ".cnn"}, "'.cnn' cannot"),
        ({"name": "node_modules"}, "'node_modules' cannot"),
        ({"name": "c" * 215}, "up to 214 characters"),
        ({"version": "1.0"}, "'1.0' cannot be the version of an npm package: use three numbers"),
        ({"version": "1.0.01"}, "'1.0.01' cannot"),
        ({"license": "my own"}, "'my own' is no SPDX identifier"),
    ],
)
def test_what_npm_refuses(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        npm_view("cnn", NpmOptions(**settings), None)


def test_an_unknown_setting(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no setting 'names': it has name, version, license, device"):
        built(onnx.parser.parse_model(ABS), tmp_path / "cnn", names="cnn")


@pytest.mark.parametrize(
    ("readme", "expected"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model", "Apache-2.0"),
        ("---\nlicense: mit\n---\n", "Apache-2.0 AND MIT"),
        ("---\nlicense: llama3\n---\n", "SEE LICENSE IN NOTICE"),
        ("# A model\nlicense: mit\n", "SEE LICENSE IN NOTICE"),
    ],
)
def test_the_licence_that_a_folder_names(tmp_path: Path, readme: str, expected: str) -> None:
    (tmp_path / "README.md").write_text(readme)
    assert npm_view("cnn", NpmOptions(), tmp_path / "config.json")["npm"]["license"] == expected


@pytest.mark.slow
def test_a_folder_with_a_licence(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", "bert-classes")
    (folder / "README.md").write_text("---\nlicense: other\n---\n")
    (folder / "LICENSE.txt").write_text("Ask first.")
    deploykit.build(folder, "webgpu", output=tmp_path / "dist", settings={"name": "ask"})
    assert (tmp_path / "dist" / "LICENSE.model").read_text() == "Ask first."
    assert "other: see LICENSE.model" in (tmp_path / "dist" / "NOTICE").read_text()
    listed = json.loads(npm("pack", "--dry-run", "--json", folder=tmp_path / "dist"))
    (entry,) = listed if isinstance(listed, list) else listed.values()
    assert "LICENSE.model" in {file["path"] for file in entry["files"]}
