"""The changelog, the version policy and the templates for reports say what is true of the code."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command

from deploykit.artifact.manifest import SCHEMA_VERSION
from deploykit.cli import app

ROOT = Path(__file__).parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def releases(text: str) -> list[tuple[str, str]]:
    """The headings of the changelog, each with its text."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def faults(text: str, version: str) -> list[str]:
    """What is wrong with a changelog of a project that has this version."""
    (first, newest), *others = releases(text)
    found = [] if first == "[Unreleased]" else [f"{first} is not [Unreleased]"]
    earlier = []
    for heading, _ in others:
        match = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading)
        if match is None:
            found.append(f"'{heading}' is no version with a date")
            continue
        earlier.append(numbers(match[1]))
        date.fromisoformat(match[2])
    if earlier != sorted(set(earlier), reverse=True):
        found.append("the versions are not in order")
    if earlier and numbers(version) < earlier[0]:
        found.append(f"{version} is older than the newest release")
    if numbers(version) not in earlier and not re.search(r"^- ", newest, re.MULTILINE):
        found.append(f"{version} is not released, and nothing is listed for it")
    kinds = [kind for _, body in releases(text) for kind in re.findall(r"^### (.*)", body, re.MULTILINE)]
    return found + [f"'{kind}' is no kind of change" for kind in kinds if kind not in KINDS]


def version_of(project: Path) -> str:
    found: str = tomllib.loads(project.read_text())["project"]["version"]
    return found


def test_the_changelog_fits_the_version() -> None:
    version = version_of(ROOT / "pyproject.toml")
    assert faults((ROOT / "CHANGELOG.md").read_text(), version) == []
    assert version_of(ROOT / "packaging" / "run" / "pyproject.toml") == version


@pytest.mark.parametrize(
    ("text", "version", "fault"),
    [
        ("## [0.1.0] - 2026-01-01\n", "0.1.0", "[0.1.0] - 2026-01-01 is not [Unreleased]"),
        ("## [Unreleased]\n## 0.1.0\n", "0.1.0", "'0.1.0' is no version with a date"),
        ("## [Unreleased]\n", "0.1.0", "0.1.0 is not released, and nothing is listed for it"),
        ("## [Unreleased]\n## [0.2.0] - 2026-02-01\n", "0.1.0", "0.1.0 is older than the newest release"),
        (
            "## [Unreleased]\n- a\n## [0.1.0] - 2026-01-01\n## [0.2.0] - 2026-02-01\n",
            "0.3.0",
            "the versions are not in order",
        ),
        ("## [Unreleased]\n### News\n- a\n", "0.1.0", "'News' is no kind of change"),
    ],
)
def test_a_changelog_with_a_fault(text: str, version: str, fault: str) -> None:
    assert fault in faults(text, version)


def test_the_schema_version_is_the_same_everywhere() -> None:
    (documented,) = re.findall(r"`schema_version`, today (\d+)", (ROOT / "docs" / "versions.md").read_text())
    (web,) = re.findall(r"SCHEMA_VERSION = (\d+);", (ROOT / "deploykit" / "runtime" / "js" / "model.mjs").read_text())
    assert int(documented) == int(web) == SCHEMA_VERSION


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form["blank_issues_enabled"] is False
        return
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) > 0
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize("path", [*TEMPLATES, ROOT / ".github" / "pull_request_template.md", ROOT / "SECURITY.md"])
def test_templates_name_commands_and_options_that_exist(path: Path) -> None:
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    text = path.read_text()
    for name, rest in re.findall(r"`deploykit (\w+)([^`]*)`", text):
        assert name in commands.commands
        options = {option for parameter in commands.commands[name].params for option in parameter.opts}
        assert {*re.findall(r"--[\w-]+", rest)} <= options
    targets = re.findall(r"^[a-z-]+(?=:)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"`make ([a-z-]+)", text)} <= {*targets}


def test_every_kind_of_fault_has_a_template() -> None:
    assert {path.stem for path in TEMPLATES} == {"config", "wrong_result", "crash", "refused_model", "feature"}
