from __future__ import annotations

from pathlib import Path

import pytest

from tests.dynamic.harness import Built, build

MODELS = Path(__file__).with_name("models.py")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folders: dict[tuple[str, str, bool], Path] = {}

    def get(model: str, target: str = "host", *, exact: bool = False, elements: bool = False) -> Path:
        key = model, target, exact
        if key not in folders:
            folder = tmp_path_factory.mktemp("dynamic") / model
            folders[key] = build(f"{MODELS}:{model}", folder, target, exact=exact, elements=elements)
        return folders[key]

    return get
