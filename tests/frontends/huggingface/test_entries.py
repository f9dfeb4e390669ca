"""Entries of configurations of another type, out of their range, or null: each gets a message that names the entry."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from deploykit.errors import DeploykitError, InternalError, UsageError
from deploykit.frontends.huggingface.entries import KINDS
from deploykit.frontends.huggingface.importer import load_folder
from deploykit.frontends.huggingface.registry import find_family
from tests.frontends.huggingface.array_cases import ARRAY_CASES
from tests.frontends.huggingface.cases import CASES
from tests.frontends.huggingface.seeds import GOLDENS, write_folder

WRONG: tuple[Any, ...] = ("6", 3, 1.5, 0, -2, math.nan, math.inf, -math.inf, True, [], [0], ["a"], {}, {"a": 1})
"""Values, most of which are wrong for any one entry."""

NAMES = sorted({*CASES, *ARRAY_CASES})


def config_of(name: str, folder: Path) -> dict[str, Any]:
    """The configuration of a case, whose folder is written."""
    facts = json.loads((GOLDENS / f"{name}.json").read_text())
    write_folder(folder, facts["config"], facts["shapes"])
    config: dict[str, Any] = facts["config"]
    return config


def refused(folder: Path, config: dict[str, Any]) -> DeploykitError | None:
    """The error for a folder with this configuration."""
    (folder / "config.json").write_text(json.dumps(config))
    try:
        load_folder(folder)
    except DeploykitError as error:
        return error
    return None


@pytest.mark.sampled(part=16)
@pytest.mark.parametrize("name", NAMES)
def test_wrong_values(tmp_path: Path, name: str) -> None:
    config = config_of(name, tmp_path / "model")
    # The family's own name of an entry counts as the usual one.
    aliases = find_family(config).aliases if name in CASES else {}
    usual = {entry: aliases.get(entry, entry) for entry in config}
    for entry in (entry for entry in config if usual[entry] in KINDS):
        for value in WRONG:
            if KINDS[usual[entry]].holds(value) or isinstance(value, list):
                continue
            error = refused(tmp_path / "model", config | {entry: value})
            assert error is not None, f"{entry}={value!r}"
            assert f"'{entry}' is {value!r}" in str(error) or f"{entry}={value!r}" in str(error)


@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("name", NAMES)
def test_null(tmp_path: Path, name: str) -> None:
    """An entry that is null is as good as absent, or the folder is refused for what is missing."""
    config = config_of(name, tmp_path / "model")
    for entry in config:
        error = refused(tmp_path / "model", config | {entry: None})
        assert not isinstance(error, InternalError), f"{entry}: {error}"
        assert "is null" not in str(error) or f"'{entry}' is null" in str(error)


@pytest.mark.parametrize(
    ("entry", "value", "wanted"),
    [
        ("layer_norm_eps", math.nan, "a positive number"),
        ("layer_norm_eps", -1e-5, "a positive number"),
        ("num_hidden_layers", "6", "a positive integer"),
        ("hidden_size", math.inf, "a positive integer"),
        ("hidden_size", True, "a positive integer"),
        ("hidden_act", 3, "a text"),
        ("architectures", 3, "a list of texts"),
    ],
)
def test_the_message(tmp_path: Path, entry: str, value: object, wanted: str) -> None:
    config = config_of("bert", tmp_path / "model")
    error = refused(tmp_path / "model", config | {entry: value})
    assert isinstance(error, UsageError)
    assert str(error) == f"'{entry}' is {value!r} in {tmp_path / 'model' / 'config.json'}; it must be {wanted}"


def test_the_message_for_null(tmp_path: Path) -> None:
    config = config_of("bert", tmp_path / "model")
    error = refused(tmp_path / "model", config | {"layer_norm_eps": None})
    assert isinstance(error, UsageError)
    assert "'layer_norm_eps' is null" in str(error)


def test_names_of_the_family(tmp_path: Path) -> None:
    """GPT-2 has its own names of entries."""
    config = config_of("gpt2", tmp_path / "model")
    error = refused(tmp_path / "model", config | {"n_layer": 0})
    assert "'n_layer' is 0" in str(error)


def test_rotary_positions(tmp_path: Path) -> None:
    config = config_of("llama", tmp_path / "model")
    wrong: list[tuple[str, object]] = [("factor", "2"), ("factor", math.nan), ("factor", 0), ("rope_type", 3)]
    for entry, value in wrong:
        settings = {"rope_type": "linear", "factor": 2.0, entry: value}
        error = refused(tmp_path / "model", config | {"rope_scaling": settings, "rope_parameters": None})
        assert isinstance(error, UsageError), f"{entry}={value!r}"
        assert f"'{entry}' is {value!r}" in str(error)
