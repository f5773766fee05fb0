"""What is written survives a loss of power: files, the names of files, and the names of directories."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from sash.pipeline.run.quarantine import _Files, _TaskFile
from sash.spark.durable import make_directory


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


def test_a_file_of_the_quarantine_is_synced_before_it_has_its_name(synced, tmp_path):
    """The names of directories made for it, the file, and its name."""
    file = _TaskFile(_Files(str(tmp_path / "aside"), "part", None))
    file.write([pa.array(["late", None]), pa.array(["{}", "{}"])])
    unfinished = file.unfinished
    file.publish()
    assert synced == [tmp_path, tmp_path / "aside", unfinished, file.path.parent]
    assert file.path.exists() and not unfinished.exists()
