"""The sample web apps, built as their README says, and a page that shows the digits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

import deploykit
from bench.browser import ISOLATED, FolderHandler, find_chromium, served
from tests.apps.devtools import Page, chromium

APP = Path(__file__).parents[2] / "apps" / "web"


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """That of the shell, with the tools beside this Python first."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="session")
def android_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models of the app for Android are built, once for all its tests."""
    return tmp_path_factory.mktemp("android-models")


def copied(place: Path, environment: dict[str, str]) -> Path:
    """A copy of the folder of the web apps, without packages of models."""
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    if not shutil.which("npm", path=environment["PATH"]) or not (APP / "node_modules").exists():
        pytest.skip("needs npm and the app's packages: make packages")
    folder = place / "web"
    shutil.copytree(APP, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "digits", "minilm", "smol"))
    (folder / "node_modules").symlink_to(APP / "node_modules")
    return folder


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A copy of the folder of the web apps, with the package of the digits."""
    folder = copied(tmp_path_factory.mktemp("app"), environment)
    deploykit.build(folder / "model" / "digits.onnx", "webgpu", {"batch": (1, 64)}, folder / "digits")
    return folder


@pytest.fixture(scope="session")
def dist(app: Path, environment: dict[str, str]) -> Path:
    """The app as it is put on a server."""
    return built(app, environment)


def built(app: Path, environment: dict[str, str]) -> Path:
    """The folder for a server that the build of the apps makes."""
    call = ["npm", "run", "build"]
    result = subprocess.run(call, cwd=app, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return app / "dist"


class Isolated(FolderHandler):
    def end_headers(self) -> None:
        for name, value in ISOLATED.items():
            self.send_header(name, value)
        super().end_headers()


def serving(folder: Path) -> AbstractContextManager[str]:
    """A server of a folder: its address."""
    return served(partial(Isolated, directory=str(folder)))


@contextmanager
def opened(folder: Path, path: str = "") -> Iterator[Page]:
    """A page at the app of a folder."""
    with serving(folder) as address, chromium() as page:
        page.open(f"{address}/{path}")
        yield page


@contextmanager
def reloaded(page: Page, ready: Callable[[Page], None]) -> Iterator[Page]:
    """The page as it is on a desk at first. Afterwards it must have noted no errors."""
    page.resize(1200, 900)
    page.reload()
    ready(page)
    yield page
    assert page.errors() == []


@pytest.fixture(scope="session")
def browser(dist: Path) -> Iterator[Page]:
    """A page at the app, for all tests that leave it as it is."""
    with opened(dist) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The app on a desk, with a model and an empty pad."""
    with reloaded(browser, ready):
        yield browser


def ready(page: Page) -> None:
    """Wait for the model."""
    page.wait("document.getElementById('fact-device')?.textContent.startsWith('Web')")
