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


@pytest.mark.parametrize(
    ("name", "said", "expected", "notice"),
    [
        ("license", "MIT", "Apache-2.0 AND MIT", "is licensed under MIT."),
        ("Licence", "apache-2.0", "Apache-2.0", "is licensed under Apache-2.0."),
        ("model_license", "Apache License, Version 2.0", "Apache-2.0", "is licensed under Apache-2.0."),
        ("license", "The MIT License", "Apache-2.0 AND MIT", "is licensed under MIT."),
        ("license", "https://example.org/terms", "SEE LICENSE IN NOTICE", "licensed under https://example.org/terms."),
        ("license", "Ask first.\nThen pay.", "SEE LICENSE IN NOTICE", "under its own licence: see LICENSE.model."),
        ("licenses", "MIT", "SEE LICENSE IN NOTICE", "is that of its makers."),
        ("license", " ", "SEE LICENSE IN NOTICE", "is that of its makers."),
    ],
)
def test_the_licence_that_an_onnx_file_names(tmp_path: Path, name: str, said: str, expected: str, notice: str) -> None:
    model = onnx.parser.parse_model(ABS)
    onnx.helper.set_model_props(model, {"author": "me", name: said})
    onnx.save(model, tmp_path / "cnn.onnx")
    deploykit.build(tmp_path / "cnn.onnx", "webgpu", output=tmp_path / "cnn")
    assert json.loads((tmp_path / "cnn" / "package.json").read_text())["license"] == expected
    assert notice in (tmp_path / "cnn" / "NOTICE").read_text()
    own = tmp_path / "cnn" / "LICENSE.model"
    assert own.read_text() == said if own.exists() else "\n" not in said


def test_a_setting_wins_over_the_file(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(ABS)
    onnx.helper.set_model_props(model, {"license": "Ask first.\nThen pay."})
    assert built(model, tmp_path / "cnn", license="ISC")["license"] == "Apache-2.0 AND ISC"
    assert not (tmp_path / "cnn" / "LICENSE.model").exists()


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
