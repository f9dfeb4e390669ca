"""All forms of an artifact of the target embedded: their files, their settings, and that they compute."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.errors import UsageError
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.footprint import read_footprint
from deploykit.targets.embedded.boards.image import PICOLIBC, compiler_for, missing
from deploykit.targets.embedded.forms import FORMS, C
from tests.forms.conftest import Pair
from tests.frontends.running_mean import running_mean, weights
from tests.seeded import seeded

MODEL = '<ir_version: 9, opset_import: ["": 20]> net (float[n, 8] x) => (float[n, 3] y) { y = MatMul(x, w) }'
PACKAGES = [name for name in FORMS if name != C]
DIMS = {"n": (1, 5)}


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return seeded(MODEL, {"w": (8, 3)})


@pytest.mark.parametrize("form", PACKAGES)
def test_a_package_is_an_artifact(form: str, model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, "embedded", DIMS, tmp_path / "dist", format=form)
    with deploykit.open(tmp_path / "dist") as session:
        for n in (1, 3, 5):
            x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
            np.testing.assert_allclose(session(x=x)["y"], ReferenceEvaluator(model).run(None, {"x": x})[0], rtol=1e-5)
        assert np.isnan(session(x=np.full((2, 8), np.nan, np.float32))["y"]).all()


def test_the_sources_are_those_of_the_usual_form(pair: Callable[[str], Pair]) -> None:
    """But for how all files of a library are compiled alike."""
    usual = pair(C).places[0]
    for form in PACKAGES:
        own = pair(form).places[0] / "src" / "tanh_net"
        for source in own.iterdir():
            same = source.read_bytes() == (usual / source.name).read_bytes()
            assert same or (FORMS[form].uniform and source.name == "kernels.c"), source


def test_builds_are_the_same(model: onnx.ModelProto, tmp_path: Path) -> None:
    archives = []
    for name in ("first", "second"):
        deploykit.build(model, "embedded", DIMS, tmp_path / name, format="cmsis-pack")
        archives.append((tmp_path / name / "deploykit.net.1.0.0.pack").read_bytes())
    assert archives[0] == archives[1]


def test_settings_of_packages(model: onnx.ModelProto, tmp_path: Path) -> None:
    settings = {"version": "2.1.0", "author": "Acme and Sons", "url": "https://acme.example/net"}
    for form in PACKAGES:
        dist = tmp_path / form
        deploykit.build(model, "embedded", DIMS, dist, format=form, settings={**settings, "license": "MIT"})
        files = [path for path in dist.rglob("*") if path.is_file() and path.suffix != ".pack"]
        texts = "\n".join(path.read_text() for path in files if "src" not in path.parts)
        assert ("2.1.0" in texts) == (form != "zephyr"), form
        assert ("https://acme.example/net" in texts) == (form != "zephyr"), form
    assert 'license = "Apache-2.0 AND MIT"' in (tmp_path / "rust" / "Cargo.toml").read_text()
    with zipfile.ZipFile(tmp_path / "cmsis-pack" / "Acme_and_Sons.net.2.1.0.pack") as archive:
        assert "Acme_and_Sons.net.pdsc" in archive.namelist()


@pytest.mark.parametrize(
    ("form", "settings", "message"),
    [
        ("c", {"version": "2.0.0"}, "the setting 'version' is for packages: choose one with --format, which has ardu"),
        ("rust", {"version": "2.0"}, "'2.0' cannot be the version of a package: use three numbers"),
        ("zephyr", {"author": 'Me "I"'}, "the author of a package is a line without quotes"),
        ("arduino", {"url": "https://a\nname=b"}, "the url of a package is a line without quotes"),
        ("platformio", {"license": "my own"}, "'my own' is no SPDX identifier"),
        ("keil", {}, "target embedded has no format 'keil': it has c, arduino, platformio"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    form: str, settings: dict[str, str], message: str, model: onnx.ModelProto, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        deploykit.build(model, "embedded", DIMS, tmp_path / "dist", format=form, settings=settings)


def test_what_a_form_cannot_hold_is_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at most 32 characters, found 'a_rather_long"):
        deploykit.build(
            model, "embedded", DIMS, tmp_path / "a", format="cmsis-pack", name="a_rather_long_name_for_a_component"
        )
    with pytest.raises(UsageError, match="--format rust takes one model, found 2"):
        deploykit.build([model, model], "embedded", DIMS, tmp_path / "b", format="rust", name="a,b")


needs_arm = pytest.mark.skipif(missing(find_board("nrf52840dk")) is not None, reason="needs tools for Arm boards")


@needs_arm
def test_a_package_for_a_board(model: onnx.ModelProto, tmp_path: Path) -> None:
    """It is measured and runs emulated as the usual form."""
    found = {}
    for form in (C, "zephyr"):
        deploykit.build(model, "embedded", DIMS, tmp_path / form, format=form, board="nrf52840dk")
        found[form] = read_footprint(tmp_path / form)
    assert found[C] == found["zephyr"]
    assert not (tmp_path / "zephyr" / "board.mk").exists()
    with deploykit.open(tmp_path / "zephyr") as session:
        x = np.ones((2, 8), np.float32)
        np.testing.assert_allclose(session(x=x)["y"], ReferenceEvaluator(model).run(None, {"x": x})[0], rtol=1e-5)


@pytest.mark.parametrize("core", [None, pytest.param("cortex-m4", marks=needs_arm)], ids=["here", "arm"])
@pytest.mark.parametrize("flags", [(), ("-DDK_NO_ERROR_TEXT",)], ids=["texts", "no texts"])
def test_structs_have_the_bytes_that_the_readme_says(core: str | None, flags: tuple[str, ...], tmp_path: Path) -> None:
    text = MODEL.replace("net (", "net (float[m, k] z, ").replace("(float[n, 3] y)", "(float[n, 3] y, float[m, k] t)")
    dims = {"n": (1, 5), "m": (1, 2), "k": (1, 3)}
    several = seeded(text.replace("}", "t = Tanh(z) }"), {"w": (8, 3)})
    deploykit.build(several, "embedded", dims, tmp_path / "dims")
    deploykit.build(running_mean(weights()), "embedded", output=tmp_path / "states")
    compiler = ["gcc"] if core is None else compiler_for(find_board("mps2-an386").core).command
    options = () if core is None else (*compiler_for(find_board("mps2-an386").core).flags, *PICOLIBC)
    for folder in (tmp_path / "dims", tmp_path / "states"):
        readme = (folder / "README.md").read_text()
        rows = re.findall(r"`(\w+_model)`, a struct \| (\d+) on machines of 32 bits, (\d+) on", readme)
        rows += re.findall(r"`(dk_tensor)`, the struct of an input or output \| (\d+) and (\d+)", readme)
        assert len(rows) == (2 if folder.name == "dims" else 4)
        less = 248 if flags else 0  # 255 characters, and what aligns the numbers behind them
        lines = ['#include "model.h"']
        for name, *sizes in rows:
            size = int(sizes[core is None]) - (less if name != "dk_tensor" else 0)
            lines.append(f'_Static_assert(sizeof({name}) == {size}, "{name}");')
        (tmp_path / "check.c").write_text("\n".join([*lines, ""]))
        call = [*compiler, *options, *flags, "-fsyntax-only", f"-I{folder}", tmp_path / "check.c"]
        subprocess.run([*map(str, call)], check=True)
