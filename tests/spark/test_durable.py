"""What is written survives a loss of power: files, the names of files, and the names of directories."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from sash.spark.durable import make_directory
from sash.spark.upserts import manifest, parquet


@pytest.fixture
def synced(monkeypatch):
    """The files and directories that were synced, in order."""
    found: list[Path] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_new_directories_are_synced_in_what_they_are_in(synced, tmp_path):
    """Each that is made, from above; one that was there is left alone."""
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_the_files_of_a_dataset_are_synced_before_they_are_reported(synced, tmp_path):
    """The file, its name, and the names of the directories made for it."""
    root = tmp_path / "new" / "target"
    manifest.prepare(root)
    assert synced == [tmp_path, tmp_path / "new"]
    rows = pa.RecordBatch.from_pydict({"part": ["p"], "x": [1]})
    (written,) = parquet._write_parts(str(root), str(root / "data" / "7"), ["x"], iter([rows]))
    file = root / written.column("path")[0].as_py()
    assert synced[2:] == [root, root / "data", file, file.parent]
