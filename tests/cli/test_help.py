"""The help names every command and every legal value, and matches what the commands accept."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploykit.cli.build import Stage
from deploykit.cli.verify import Reference
from deploykit.targets.base import target_names

VERBS = ("build", "quantize", "run", "try", "verify", "bench", "inspect", "targets", "doctor")


def words(text: str) -> str:
    """The help text without frames and line breaks."""
    return " ".join(text.replace("│", " ").split())


def test_the_help_lists_the_verbs_and_the_exit_codes(deploykit) -> None:
    result = deploykit("--help")
    assert result.code == 0
    assert all(verb in result.out for verb in VERBS)
    assert "3 unsupported model" in words(result.out)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(deploykit, verb: str) -> None:
    result = deploykit(verb, "--help")
    assert result.code == 0
    assert "--json" in result.out
    assert "--debug" in result.out


def test_the_help_of_build_names_the_legal_values(deploykit) -> None:
    from deploykit.compiler.codegen.native.cpus import CPUS

    text = words(deploykit("build", "--help").out)
    for legal in (*target_names(), *Stage, "native", *CPUS):
        assert legal in text


def test_choices_are_those_of_the_compiler() -> None:
    from deploykit.checks.reference import REFERENCES
    from deploykit.compiler.observer import STAGES

    assert [*Stage, "package"] == list(STAGES)
    assert list(Reference) == list(REFERENCES)


def test_help_does_not_wait_for_the_compiler() -> None:
    code = "import sys, deploykit.cli; sys.exit(not {'tvm', 'onnx', 'numpy', 'pydantic'}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_that_of_the_package(deploykit) -> None:
    from importlib.metadata import version

    assert deploykit("--version").out.strip() == f"deploykit {version('deploykit')}"
