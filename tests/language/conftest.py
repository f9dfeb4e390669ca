"""The artifact of the small language model, for this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import deploykit
from deploykit.sessions.session import Session
from tests.language.models import write_language_model


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("language")
    deploykit.build(write_language_model(place / "model.gguf"), output=place / "dist")
    return place / "dist"


@pytest.fixture
def session(artifact: Path) -> Iterator[Session]:
    with deploykit.open(artifact) as opened:
        yield opened
