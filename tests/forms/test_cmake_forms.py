"""Modules for Zephyr and components for ESP-IDF. Their own tools are not installed here: functions for CMake stand in
for those of the systems (`cmake/`), and link as these do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploykit.targets.embedded.sources import OPTIMIZED, USUAL
from tests.forms.conftest import Pair
from tests.runtime.two_models import APP, printed

HERE = Path(__file__).parent / "cmake"
TOP = f"""cmake_minimum_required(VERSION 3.13)
project(app C)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS "-std=gnu17")
include({HERE}/FORM.cmake)
"""

pytestmark = pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")


def built(place: Path, form: str, lines: list[str], app: str = APP) -> dict[str, str]:
    """Build `app` with lines of CMake; returns how each file was compiled."""
    (place / "app.c").write_text(app)
    (place / "CMakeLists.txt").write_text("\n".join([TOP.replace("FORM", form), *lines, ""]))
    for step in (["-S", place, "-B", place / "build"], ["--build", place / "build"]):
        made = subprocess.run(["cmake", *map(str, step)], check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
    commands = json.loads((place / "build" / "compile_commands.json").read_text())
    return {Path(entry["file"]).name: entry["command"] for entry in commands}


def require_optimised(commands: dict[str, str]) -> None:
    """Each source of a model is optimised as in other builds, and no file but those allowed contracts."""
    for name, command in commands.items():
        if name not in ("app.c", "example.c", "app_main.c", "main.c"):
            assert re.findall(r" (-O\w+)", command)[-1] == OPTIMIZED.get(name, USUAL), name


def zephyr(pair: Pair, *settings: str) -> list[str]:
    """An application for Zephyr, which links libraries whole."""
    return [
        *(f"set(CONFIG_DEPLOYKIT_{name} y)" for name in ("TANH_NET", "SINE_NET", *settings)),
        *(f"add_subdirectory({place}/zephyr {place.name})" for place in pair.places),
        "get_property(libraries GLOBAL PROPERTY ZEPHYR_LIBRARIES)",
        "add_executable(app app.c)",
        "target_link_libraries(app PRIVATE zephyr_interface -Wl,--whole-archive ${libraries} -Wl,--no-whole-archive m)",
    ]


def test_two_modules_for_zephyr_have_one_core(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    both = pair("zephyr")
    commands = built(tmp_path, "zephyr", zephyr(both))
    np.testing.assert_allclose(printed(tmp_path / "build" / "app"), both.expected, rtol=1e-5, atol=1e-6)
    require_optimised(commands)
    assert all("-ffp-contract=off" in command for name, command in commands.items() if name != "app.c")


def test_options_of_zephyr_are_those_of_all_files(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    both = pair("zephyr")
    commands = built(tmp_path, "zephyr", zephyr(both, "NO_ERROR_TEXT", "CONTRACT"))
    np.testing.assert_allclose(printed(tmp_path / "build" / "app"), both.expected, rtol=1e-5, atol=1e-6)
    assert all("-DDK_NO_ERROR_TEXT" in command for command in commands.values())
    contracted = {name for name, command in commands.items() if command.rfind("=fast") > command.rfind("=off")}
    assert contracted == {"kernels.c"}


def test_a_module_may_be_left_out(pair: Callable[[str], Pair], tmp_path: Path) -> None:
    lines = [line for line in zephyr(pair("zephyr")) if "TANH_NET y" not in line]
    commands = built(tmp_path, "zephyr", lines, "int main(void) { return 0; }\n")
    (folder,) = {re.search(r"src/(\w+)/model\.c", command)[1] for command in commands.values() if "model.c" in command}
    assert folder == "sine_net"


def test_the_files_of_a_module_for_zephyr(pair: Callable[[str], Pair]) -> None:
    yaml = pytest.importorskip("yaml")
    folder = pair("zephyr").places[0]
    module = yaml.safe_load((folder / "zephyr" / "module.yml").read_text())
    assert module["name"] == "tanh_net"
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert (folder / module["build"]["kconfig"]).is_file()
    assert all((folder / sample).is_dir() for sample in module["samples"])
    kconfig = (folder / "zephyr" / "Kconfig").read_text()
    read = set(re.findall(r"CONFIG_(\w+)", (folder / "zephyr" / "CMakeLists.txt").read_text()))
    assert read == set(re.findall(r"^config (\w+)", kconfig, re.MULTILINE))


@pytest.mark.parametrize("form", ["zephyr", "esp-idf"])
def test_the_example_prints_what_that_of_make_does(form: str, pair: Callable[[str], Pair], tmp_path: Path) -> None:
    place = pair(form).places[0]
    if form == "zephyr":
        (source,) = place.glob("samples/*/src/main.c")
        lines = [line for line in zephyr(pair(form)) if "SINE" not in line and "sine" not in line]
        app = source.read_text()
    else:
        main = place / "examples" / "tanh_net" / "main"
        lines = [f"add_subdirectory({place} component)", f"add_subdirectory({main} main)"]
        lines += ["target_link_libraries(__idf_main PUBLIC __idf_tanh_net m)", "add_executable(app app.c)"]
        lines += ["target_link_libraries(app PRIVATE __idf_main)"]
        app = "void app_main(void);\nint main(void) {\n    app_main();\n    return 0;\n}\n"
    require_optimised(built(tmp_path, form, lines, app))
    expected = subprocess.run(["make", "-s", "-C", pair("c").places[0], "run"], check=True, capture_output=True)
    assert subprocess.run([tmp_path / "build" / "app"], check=True, capture_output=True).stdout == expected.stdout


@pytest.mark.parametrize("settings", [[], ["NO_ERROR_TEXT", "CONTRACT"]], ids=["usual", "options"])
def test_two_components_for_esp_idf(settings: list[str], pair: Callable[[str], Pair], tmp_path: Path) -> None:
    """Each has the core, and one of them is linked."""
    both = pair("esp-idf")
    lines = [
        *(f"set(CONFIG_DEPLOYKIT_{name} y)" for name in settings),
        *(f"add_subdirectory({place} {place.name})" for place in both.places),
        "add_executable(app app.c)",
        "target_link_libraries(app PRIVATE __idf_tanh_net __idf_sine_net m)",
    ]
    commands = built(tmp_path, "esp-idf", lines)
    np.testing.assert_allclose(printed(tmp_path / "build" / "app"), both.expected, rtol=1e-5, atol=1e-6)
    require_optimised(commands)
    assert all(("-DDK_NO_ERROR_TEXT" in command) == bool(settings) for command in commands.values())
    contracted = {name for name, command in commands.items() if command.rfind("=fast") > command.rfind("=off")}
    assert contracted == ({"kernels.c"} if settings else set())


def test_the_manifest_of_a_component(pair: Callable[[str], Pair]) -> None:
    yaml = pytest.importorskip("yaml")
    folder = pair("esp-idf").places[0]
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert manifest["version"] == "1.0.0"
    assert manifest["dependencies"] == {"idf": ">=5.0"}
    read = set(re.findall(r"CONFIG_(\w+)", (folder / "CMakeLists.txt").read_text()))
    assert read == set(re.findall(r"^config (\w+)", (folder / "Kconfig").read_text(), re.MULTILINE))
