import gzip
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlane.runs import raw
from tests.words import kind

OUTPUTS = {"fio.json": b'{"jobs": []}\n' * 100, "status": b"0\n", "fio.err": b""}
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=200).filter(
    lambda name: name not in {".", ".."}
)


@settings(deadline=None)
@given(st.dictionaries(names, st.binary(max_size=300), max_size=5))
def test_what_is_packed_comes_back(outputs: dict[str, bytes]) -> None:
    assert raw.unpack(raw.pack(outputs)) == outputs


def test_equal_outputs_give_equal_bytes(tmp_path: Path) -> None:
    assert raw.pack(OUTPUTS) == raw.pack(dict(reversed(OUTPUTS.items())))
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(raw.pack(OUTPUTS)))) as archive:
        members = [(m.name, m.mtime, m.uid, m.gid, m.uname) for m in archive]
    assert members == [(name, 0, 0, 0, "") for name in sorted(OUTPUTS)]
    assert raw.pack(OUTPUTS)[4:8] == bytes(4)  # no time in the gzip header


def test_tar_reads_it(tmp_path: Path) -> None:
    name, _ = raw.store(tmp_path, "main.4k.b000.iscsi", OUTPUTS)
    listed = subprocess.run(["tar", "tzf", tmp_path / "raw" / name], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == sorted(OUTPUTS)


def test_stored_and_fetched(tmp_path: Path) -> None:
    name, sha256 = raw.store(tmp_path, "main.4k.b000.iscsi", OUTPUTS)
    assert name == "main.4k.b000.iscsi.tar.gz"
    assert hashlib.sha256((tmp_path / "raw" / name).read_bytes()).hexdigest() == sha256
    assert raw.fetch(tmp_path, name, sha256) == OUTPUTS
    assert [p.name for p in (tmp_path / "raw").iterdir()] == [name]  # nothing temporary is left


def test_every_damage_is_seen(tmp_path: Path) -> None:
    name, sha256 = raw.store(tmp_path, "t", OUTPUTS)
    path = tmp_path / "raw" / name
    whole = path.read_bytes()
    for end in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(raw.Damaged):
            raw.fetch(tmp_path, name, sha256)
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(raw.Damaged, check=kind("raw-changed")):
        raw.fetch(tmp_path, name, sha256)
    path.unlink()
    with pytest.raises(raw.Damaged, check=kind("raw-unreadable")):
        raw.fetch(tmp_path, name, sha256)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_bytes_that_are_no_archive_are_damage_and_nothing_else(data: bytes) -> None:
    for content in (data, gzip.compress(data)):
        try:
            raw.unpack(content)
        except raw.Damaged:
            continue


@pytest.mark.parametrize("name", ["../raw/t.tar.gz", "/etc/passwd", "a/b", "..", ""])
def test_journal_of_others_cannot_lead_out_of_the_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(raw.Damaged):
        raw.fetch(tmp_path, name, "0" * 64)
