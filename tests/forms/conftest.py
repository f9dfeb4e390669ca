"""Two models in each form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.runtime.two_models import models


@dataclass(frozen=True)
class Pair:
    """Two artifacts, and what the application of both prints: an array [6, 2]."""

    places: tuple[Path, Path]
    expected: np.ndarray


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """Both models in a form; do not write into their folders."""

    @cache
    def make(form: str) -> Pair:
        folder = tmp_path_factory.mktemp(form)
        files, expected = models(folder)
        for file in files:
            deploykit.build(file, "embedded", {"n": (1, 2)}, folder / Path(file).stem, format=form)
        first, second = (folder / Path(file).stem for file in files)
        return Pair((first, second), expected)

    return make
