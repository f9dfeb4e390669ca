"""`python -m bench.android`: what it counts as whose size."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bench.android import Size, parts, peers
from deploykit.targets.android.weights_file import HASH_BYTES
from tests.android.conftest import needs_java
from tests.bench.commands import ran


def test_the_parts_of_an_aar(tmp_path: Path) -> None:
    archive = tmp_path / "model.aar"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("jni/x86_64/libmodel.so", bytes(5000))
        made.writestr("jni/arm64-v8a/libmodel.so", bytes(7000))
        made.writestr("classes.jar", b"classes")
        made.writestr("assets/model/kernels.spv", bytes(3000))
        made.writestr("assets/model/weights.bin", bytes(100))
        made.writestr("R.txt", "")
    libraries, shared, weights = parts(archive, tmp_path / "files")
    assert {abi: size.plain for abi, size in libraries.items()} == {"x86_64": 5000, "arm64-v8a": 7000}
    assert all(size.compressed < 100 for size in libraries.values())
    assert shared.plain == 3007
    assert weights == 100
    files = {str(path.relative_to(tmp_path / "files")) for path in (tmp_path / "files").rglob("*") if path.is_file()}
    assert files == {"classes.jar", "kernels.spv", "weights.bin"}
    assert (tmp_path / "files" / "weights.bin").stat().st_size == 100 - HASH_BYTES


def test_sizes_add_up() -> None:
    assert Size(1500, 1000) + Size(500, 250) == Size(2000, 1250)
    assert str(Size(2000, 1250)) == "2 kB (1)"


def test_peers_are_those_that_are_installed() -> None:
    found = {name.split()[0]: size for name, size in peers().items()}
    assert found["onnxruntime"].plain > 1e7
    assert all(0 < size.compressed < size.plain for size in found.values())


@needs_java
@pytest.mark.slow
def test_a_run_of_the_whole_command(tmp_path: Path) -> None:
    done = ran("bench.android", "--filter", "mlp", "--runs", "1", "--output", tmp_path)
    assert "mlp" in done.stdout
    assert "arm64-v8a" in done.stdout
