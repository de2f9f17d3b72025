"""Which files an import looks at."""

import gzip
import os
from pathlib import Path

import pytest

from fairlane.errors import FairlaneError
from fairlane.importers import _walk
from fairlane.importers._walk import matches, walk
from fairlane.importers.base import Unreadable
from tests.words import kind


def make(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_in_the_order_of_names_without_what_is_hidden(tmp_path):
    make(tmp_path, "b/10.json", "b/9.json", "a.json", ".git/x", "b/.hidden")
    files, passed = walk([tmp_path])
    assert [f.name for f in files] == ["a.json", "b/9.json", "b/10.json"]
    assert [f.folder for f in files] == [tmp_path.name, "b", "b"]
    assert passed == ()


def test_several_paths_are_told_apart_by_as_many_parts_as_it_takes(tmp_path):
    make(tmp_path, "one/results/1.json", "two/results/1.json", "three.json")
    files, _ = walk([tmp_path / "one" / "results", tmp_path / "two" / "results", tmp_path / "three.json"])
    assert [f.name for f in files] == [
        "one/results/1.json",
        f"{tmp_path.name}/three.json",
        "two/results/1.json",
    ]
    files, _ = walk([tmp_path / "one" / "results" / "1.json", tmp_path / "three.json"])
    assert [(f.name, f.folder) for f in files] == [("1.json", "1"), ("three.json", "three")]


def test_a_file_named_twice_is_read_once(tmp_path):
    make(tmp_path, "a/1.json")
    files, _ = walk([tmp_path, tmp_path / "a", tmp_path / "a" / "1.json"])
    assert len(files) == 1


def test_links_out_of_the_tree_are_not_followed(tmp_path):
    make(tmp_path, "in/real.json", "secret/key.json")
    (tmp_path / "in" / "out.json").symlink_to(tmp_path / "secret" / "key.json")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "in" / "gone.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "in" / "inside.json").symlink_to(tmp_path / "in" / "real.json")
    os.mkfifo(tmp_path / "in" / "pipe")
    files, passed = walk([tmp_path / "in"])
    assert len(files) == 1
    reasons = dict(passed)
    assert reasons.keys() == {"folder", "gone.json", "out.json", "pipe"}
    assert reasons["folder"] == reasons["out.json"]  # both lead out of the folder
    assert len(set(reasons.values())) == 3


def test_nothing_there(tmp_path):
    with pytest.raises(FairlaneError, check=kind("file-missing", str(tmp_path / "x"))):
        walk([tmp_path / "x"])


def test_compressed_files_are_read_as_what_is_in_them(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"hello"))
    ((file,), _) = walk([tmp_path])
    assert file.name == "a.json"
    assert file.source.head() == file.source.read() == b"hello"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (gzip.compress(b"hello" * 1000, mtime=0)[:-12], "cut-off"),
        (gzip.compress(b"hello", mtime=0)[:10] + b"garbage of some length", "damaged"),
    ],
)
def test_a_damaged_archive_is_unreadable(tmp_path, data, name):
    (tmp_path / "a.gz").write_bytes(data)
    ((file,), _) = walk([tmp_path])
    with pytest.raises(Unreadable, check=kind(name, "a")):
        file.source.read()


def test_a_bomb_is_cut_off(tmp_path, monkeypatch):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(2**20)))
    ((file,), _) = walk([tmp_path])
    monkeypatch.setattr(_walk, "UNPACKED", 2**19)
    with pytest.raises(Unreadable, check=kind("too-large", "a")):
        file.source.read()


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("iscsi", "iscsi/a/1.json", True),
        ("iscsi", "iscsi2/1.json", False),
        ("*.json", "x/1.json", True),
        ("x/*.json", "x/1.json", True),
        ("x/*.json", "x/y/1.json", False),
        ("x/**", "x/y/1.json", True),
        ("**/rep3-?/*", "a/b/rep3-1/x", True),
        ("**/rep3-?/*", "rep3-1/x", True),
        ("x/y/", "x/y/z/1", True),
        ("a.b", "axb", False),
    ],
)
def test_patterns(pattern, name, expected):
    assert matches(pattern, name) is expected
