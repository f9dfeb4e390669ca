"""CMSIS packs, built as a project that chooses their components: one of each name, all files with the same options."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import emulated_build, missing
from tests.forms.conftest import Pair
from tests.runtime.two_models import APP, printed

pytestmark = pytest.mark.skipif(missing(find_board("mps2-an386")) is not None, reason="needs tools for Arm boards")


def unpacked(artifact: Path, place: Path) -> tuple[Path, ET.Element]:
    """The contents of a pack, and its description. Every file that it names is there."""
    (pack,) = artifact.glob("*.pack")
    with zipfile.ZipFile(pack) as archive:
        archive.extractall(place)
    (described,) = place.glob("*.pdsc")
    package = ET.parse(described).getroot()
    identity = [package.findtext("vendor"), package.findtext("name"), package.find("releases/release").get("version")]
    assert pack.name == f"{'.'.join(map(str, identity))}.pack"
    assert described.name == f"{identity[0]}.{identity[1]}.pdsc"
    assert all((place / str(file.get("name"))).is_file() for file in package.iter("file"))
    return place, package


def linked(places: list[tuple[Path, ET.Element]], main: Path, program: Path) -> None:
    """Compile the components of packs and a program for an emulated core."""
    components = {}
    for place, package in places:
        for component in package.iter("component"):
            name = tuple(component.get(part) for part in ("Cclass", "Cgroup", "Csub"))
            components.setdefault(name, [(place, file) for file in component.iter("file")])
        names = {tuple(each.get(part) for part in ("Cclass", "Cgroup", "Csub")) for each in package.iter("require")}
        assert names <= components.keys()
    files = [(place, file) for found in components.values() for place, file in found if file.get("attr") is None]
    sources = [place / file.get("name") for place, file in files if file.get("category") == "source"]
    folders = {(place / file.get("name")).parent for place, file in files if file.get("category") == "header"}
    build = emulated_build(find_board("mps2-an386"))
    call = [*build.compiler.command, *build.compiler.flags, *build.options, "-Og", "-std=gnu11", *build.link]
    call += [*(f"-I{folder}" for folder in folders), main, *sources, "-lm", "-o", program]
    subprocess.run([*map(str, call)], check=True)


def test_the_example_prints_what_that_of_make_does(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    place, package = unpacked(pair("cmsis-pack").places[0], tmp_path / "pack")
    (template,) = [file for file in package.iter("file") if file.get("attr") == "template"]
    linked([(place, package)], place / str(template.get("name")), tmp_path / "example.elf")
    launcher = emulated_build(find_board("mps2-an386")).launcher
    found = subprocess.run([*launcher, tmp_path / "example.elf"], check=True, capture_output=True, text=True).stdout
    expected = subprocess.run(
        ["make", "-s", "-C", pair("c").places[0], "run"], check=True, capture_output=True, text=True
    ).stdout
    numbers = [[float(word) for word in text.split("]:")[1].split("...")[0].split()] for text in (found, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-5)


def test_two_packs_in_one_program(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    both = pair("cmsis-pack")
    places = [unpacked(artifact, tmp_path / artifact.name) for artifact in both.places]
    (tmp_path / "app.c").write_text(APP)
    linked(places, tmp_path / "app.c", tmp_path / "app.elf")
    launcher = emulated_build(find_board("mps2-an386")).launcher
    np.testing.assert_allclose(printed(*launcher, tmp_path / "app.elf"), both.expected, rtol=1e-5, atol=1e-6)
