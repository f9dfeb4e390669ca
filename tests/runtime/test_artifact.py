"""Artifact folders are written completely or not at all, and replace only other artifact folders."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploykit.artifact.folder import artifact_folder, check_output
from deploykit.artifact.manifest import SCHEMA_VERSION, Manifest, describe_files, read_manifest, verify_files
from deploykit.errors import ArtifactError, ToolchainError, UsageError
from deploykit.pipeline import write_artifact
from deploykit.targets.base import PackageOptions, find_target, target_names, targets
from tests.runtime.programs import mlp

as_root = os.geteuid() == 0


def manifest_of(folder: Path, *names: str) -> str:
    files = [entry.model_dump() for entry in describe_files(folder, names)]
    return json.dumps(
        {
            "schema_version": 2,
            "generator": "deploykit 0",
            "name": "m",
            "prefix": "m",
            "target": "host",
            "inputs": [],
            "outputs": [],
            "dims": [],
            "peak_memory": {"formula": "0", "at_bounds": 0, "weights": 0},
            "files": files,
        }
    )


def fill(folder: Path, text: str) -> None:
    (folder / "model.c").write_text(text)
    (folder / "manifest.json").write_text(manifest_of(folder, "model.c"))


FILES = ("manifest.json", "model.c")


def stopped_build(output: Path, error: type[BaseException]) -> None:
    with artifact_folder(output) as folder:
        fill(folder, "half")
        raise error


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_artifact_is_written_and_replaced(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with artifact_folder(tmp_path / "deep" / "er" / "dist") as folder:
            fill(folder, text)
        assert (tmp_path / "deep" / "er" / "dist" / "model.c").read_text() == text
    assert contents(tmp_path) == ["deep", "deep/er", "deep/er/dist", *(f"deep/er/dist/{n}" for n in FILES)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_stopped_build_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        stopped_build(tmp_path / "deep" / "dist", error)
    assert contents(tmp_path) == []


def test_a_failed_build_leaves_the_old_artifact(tmp_path: Path) -> None:
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "old")
    with pytest.raises(RuntimeError):
        stopped_build(tmp_path / "dist", RuntimeError)
    assert (tmp_path / "dist" / "model.c").read_text() == "old"
    assert contents(tmp_path) == ["dist", *(f"dist/{n}" for n in FILES)]


def test_files_made_by_the_makefile_are_replaced_too(tmp_path: Path) -> None:
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "old")
    (tmp_path / "dist" / "build").mkdir()
    (tmp_path / "dist" / "build" / "model.o").touch()
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "new")
    assert contents(tmp_path / "dist") == [*FILES]


def test_an_artifact_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "old")
    manifest = tmp_path / "dist" / "manifest.json"
    earlier = json.loads(manifest.read_text()) | {"schema_version": SCHEMA_VERSION - 1, "renamed": "since"}
    manifest.write_text(json.dumps(earlier))
    (tmp_path / "dist" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"dist also holds notes\.txt, which would be lost"):
        check_output(tmp_path / "dist")
    (tmp_path / "dist" / "notes.txt").unlink()
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "new")
    assert read_manifest(tmp_path / "dist")


def test_other_files_and_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file exists and is no folder"):
        check_output(tmp_path / "file")
    (tmp_path / "home").mkdir()
    check_output(tmp_path / "home")
    (tmp_path / "home" / "thesis.txt").touch()
    with (
        pytest.raises(UsageError, match="home exists and was not made by deploykit"),
        artifact_folder(tmp_path / "home"),
    ):
        pass
    with artifact_folder(tmp_path / "dist") as folder:
        fill(folder, "old")
    (tmp_path / "dist" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"dist also holds notes\.txt, which would be lost"):
        check_output(tmp_path / "dist")
    assert contents(tmp_path / "dist") == [*FILES, "notes.txt"]


def test_an_output_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "place")
    with artifact_folder(tmp_path / "link") as folder:
        fill(folder, "text")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "place") == [*FILES]


def test_an_output_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*dist"):
        check_output(tmp_path / "file" / "dist")


@pytest.mark.skipif(as_root, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="is not a folder that this user may write to"):
        check_output(tmp_path / "dist")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_an_output_where_nobody_may_write_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot write /proc/dist"), artifact_folder(Path("/proc/dist")):
        pass


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "Read-only file system")]
)
def test_errors_of_the_file_system(tmp_path: Path, number: int, message: str) -> None:
    with pytest.raises(UsageError, match=message), artifact_folder(tmp_path / "dist"):
        raise OSError(number, os.strerror(number))
    assert contents(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)]
    if not as_root or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    with pytest.raises(UsageError, match="the disk is full"):
        write_artifact([mlp()[0]], find_target("embedded"), small_disk / "dist", PackageOptions())
    assert contents(small_disk) == []


INTERRUPTED = """
import signal, sys, time
from pathlib import Path
from deploykit.artifact.folder import artifact_folder
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
with artifact_folder(Path(sys.argv[1]) / "dist") as folder:
    (folder / "model.c").write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    assert contents(tmp_path) != []
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=30)[1]
    assert contents(tmp_path) == []


def test_manifest_of_a_program(tmp_path: Path) -> None:
    artifact = write_artifact([mlp()[0]], find_target("host"), tmp_path / "dist", PackageOptions())
    assert artifact is not None
    manifest = read_manifest(tmp_path / "dist")
    assert manifest == artifact.manifest.model_copy(update={"times": {}})
    verify_files(tmp_path / "dist", manifest)
    assert manifest.inputs[0].model_dump() == {"name": "x", "dtype": "float32", "shape": ("batch", 8)}
    assert manifest.dims[0].model_dump() == {"name": "batch", "minimum": 1, "maximum": 64, "capacity_of": None}
    assert manifest.peak_memory.formula == "128*ceil(batch/4)"
    assert (manifest.peak_memory.at_bounds, manifest.peak_memory.weights) == (2048, 176)
    assert list(artifact.manifest.times) == ["emit", "package"]
    assert {entry.name for entry in manifest.files} | {"manifest.json"} == set(contents(tmp_path / "dist"))


@pytest.mark.parametrize("target", ["host", "embedded"])
def test_the_same_program_gives_the_same_bytes(tmp_path: Path, target: str) -> None:
    manifests = []
    for name in ("a", "b"):
        artifact = write_artifact([mlp()[0]], find_target(target), tmp_path / name, PackageOptions())
        assert artifact is not None
        manifests.append(artifact.manifest.to_json())
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ("[1, 2]", "is damaged"),
        ("{", "is damaged"),
        ('{"schema_version": 2}', "is damaged"),
        ('{"schema_version": 99}', "has schema version 99"),
        ("[" * 100_000, "is damaged"),
    ],
)
def test_damaged_manifests(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=message):
        read_manifest(tmp_path)


def test_manifest_with_unknown_fields(tmp_path: Path) -> None:
    fill(tmp_path, "text")
    changed = json.loads((tmp_path / "manifest.json").read_text()) | {"extra": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(ArtifactError, match="is damaged"):
        read_manifest(tmp_path)


def test_a_manifest_reads_back_from_its_text() -> None:
    manifest = Manifest.model_validate_json(manifest_of(Path()))
    assert Manifest.model_validate_json(manifest.to_json()) == manifest


def test_targets_are_registered() -> None:
    assert {"embedded", "host"} <= set(target_names())
    assert all(target.name == name and target.check().detail for name, target in targets().items())
    with pytest.raises(UsageError, match=r"there is no target 'toaster'; there are .*host"):
        find_target("toaster")


def test_embedded_needs_bounds(tmp_path: Path) -> None:
    program, _ = mlp(maximum=None)
    with pytest.raises(UsageError, match=r"upper bound for every dim; batch has none: add --dim batch=1\.\.N"):
        write_artifact([program], find_target("embedded"), tmp_path / "dist", PackageOptions())
    assert contents(tmp_path) == []


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="CC is 'no-such-compiler', which is no C compiler"):
        write_artifact([mlp()[0]], find_target("host"), tmp_path / "dist", PackageOptions())
    assert contents(tmp_path) == []
