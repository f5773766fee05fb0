"""Paths and URIs: which are on this machine, which only Spark can open, and which are neither."""

from pathlib import Path

import pytest

from sash.errors import ArgumentError, KindError, UnsupportedError
from sash.locations import local_path, location


@pytest.mark.parametrize(
    "text, local",
    [
        ("/a/b", "/a/b"),
        (Path("/a/b"), "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("FILE:/a/b", "/a/b"),
        ("file:/a/b%20c", "/a/b%20c"),  # as Spark reads it
        ("/a/12:30", "/a/12:30"),
        ("./a:b", f"{Path.cwd()}/a:b"),
        ("out", f"{Path.cwd()}/out"),
    ],
)
def test_a_place_on_this_machine_has_a_path(text, local):
    assert location(text, "path").local == local_path(text, "path") == Path(local)


@pytest.mark.parametrize(
    "text", ["dbfs:/x", "hdfs:/x", "s3a://bucket/x", "abfss://box@account.net/x", Path("s3://b/x")]
)
def test_a_place_elsewhere_is_for_spark_alone(text):
    assert location(text, "path").local is None
    assert str(location(text, "path") / "metadata") == f"{text}/metadata"
    with pytest.raises(UnsupportedError, match=r"^path must be a path on a mounted file system, got .* only Spark can"):
        local_path(text, "path")


@pytest.mark.parametrize("text", ["", "file:x", "file:", "file://host/x", "C:\\x", "c:/x"])
def test_what_is_neither_is_refused(text):
    with pytest.raises(ArgumentError, match=r"^target must be a.*, got '") as raised:
        location(text, "target")
    assert raised.value.argument == "target"


def test_other_kinds_are_refused():
    for value in (7, None, b"x"):
        with pytest.raises(KindError, match="path must be a path or a URI"):
            location(value, "path")
