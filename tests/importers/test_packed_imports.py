"""Imports keep their files in packs and their figures in an index: what is believed, and what is read again."""

import gzip
import hashlib
import hmac
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from fairlane import registry
from fairlane.checks.base import run_all
from fairlane.errors import FairlaneError
from fairlane.formats import record
from fairlane.importers._map import ImportMap, parse_map
from fairlane.importers._run import import_files
from fairlane.runs import index, many, packs, raw
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from testkit.process import events
from tests.importers.importer_oracle import OPTIONS, fixtures, groups, importers
from tests.words import kind

LANES = ("iscsi", "nvme")


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "cache"))
    index.key.cache_clear()
    yield
    index.key.cache_clear()


def report(block: int, factor: int) -> bytes:
    """A json+ of fio 3.33 as it prints one job, with as many I/Os and bins as the figures below need."""
    mean, ios = 100_000 * factor, 1000 + block
    side: dict[str, Any] = {"total_ios": ios, "io_bytes": ios * 4096, "runtime": 1000, "iops": ios}
    for name, part in (("slat_ns", 10), ("clat_ns", 9), ("lat_ns", 0)):
        bins = {str(64 * factor): ios - 1000, str(65 * factor): 1000} if part else {"1000": 600, "2000": ios - 600}
        side[name] = {"min": 1, "max": 2, "mean": mean, "N": ios, "bins": bins}
    job = {"jobname": "j", "groupid": 0, "error": 0, "read": side, "job options": {"rw": "randread", "bs": "4k"}}
    tree = {"fio version": "fio-3.33", "timestamp_ms": 1_700_000_000_000 + block * 60_000 + factor, "jobs": [job]}
    return json.dumps(tree).encode()


def files(folder: Path, blocks: int = 6) -> Path:
    for block in range(blocks):
        for factor, lane in enumerate(LANES, 1):
            (folder / lane).mkdir(parents=True, exist_ok=True)
            (folder / lane / f"{block}.json").write_bytes(report(block, factor))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    import_files([files(tmp_path / "in")], tmp_path / "run")
    return tmp_path / "run"


def verdicts(folder: Path) -> Any:
    evidence = load_run(folder)
    return judge(evidence, run_all(evidence))


def test_files_are_stored_once_as_they_were_and_journaled(run: Path, tmp_path: Path) -> None:
    assert [path.name for path in (run / "raw").iterdir()] == ["0000.zip"]
    (pack,) = events(run, "pack")
    assert pack["sha256"] == hashlib.sha256((run / "raw" / "0000.zip").read_bytes()).hexdigest()
    by_name = {event["name"]: event for event in events(run, "original")}
    with zipfile.ZipFile(run / "raw" / "0000.zip") as archive:
        assert archive.testzip() is None
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        for name, event in by_name.items():
            assert archive.read(event["member"]) == (tmp_path / "in" / name).read_bytes()
    for trial in events(run, "trial"):
        assert trial["sha256"] == hashlib.sha256((tmp_path / "in" / trial["from"]).read_bytes()).hexdigest()


def test_two_imports_of_the_same_files_have_the_same_packs(run: Path, tmp_path: Path) -> None:
    import_files([tmp_path / "in"], tmp_path / "again")
    assert (run / "raw" / "0000.zip").read_bytes() == (tmp_path / "again" / "raw" / "0000.zip").read_bytes()


def test_an_index_that_is_deleted_is_made_again(run: Path) -> None:
    before = verdicts(run)
    (run / index.NAME).unlink()
    assert verdicts(run) == before
    made = (run / index.NAME).read_bytes()
    assert verdicts(run) == before
    assert (run / index.NAME).read_bytes() == made, "it was believed, and not made once more"


def test_figures_come_from_the_index_and_not_from_raw_files(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(registry.load("importers", "fio_json")), "read", None)  # would fail if it were asked
    assert len(load_run(run).observations) == 12


def changed(data: bytes) -> bytes:
    """An index whose first figure is another, with all lengths as before: IOPS of 1000 are 9000."""
    forged = data.replace(b'"iops":1000.0', b'"iops":9000.0', 1)
    assert forged != data
    return forged


@pytest.mark.parametrize("seal", ["kept", "own", "none", "short"])
def test_a_forged_index_changes_nothing(run: Path, seal: str) -> None:
    before, real = verdicts(run), (run / index.NAME).read_bytes()
    body = changed(real)[:-32]
    tail = {
        "kept": real[-32:],
        "own": hmac.new(b"the forger's own key", body, "sha256").digest(),
        "none": bytes(32),
        "short": b"",
    }
    (run / index.NAME).write_bytes(body + tail[seal])
    assert [o.metrics["iops"] for o in load_run(run).observations].count(9000.0) == 0
    assert verdicts(run) == before
    assert b"9000.0" not in (run / index.NAME).read_bytes()


@pytest.mark.parametrize("size", [0, 10, 40, 100, -1, -33])
def test_a_cut_off_index_is_made_again(run: Path, size: int) -> None:
    before = verdicts(run)
    (run / index.NAME).write_bytes((run / index.NAME).read_bytes()[:size])
    assert verdicts(run) == before


def test_an_index_of_other_code_another_journal_or_another_key_is_not_believed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = index.binding(run)
    assert index.read(run, bound)
    monkeypatch.setattr(index, "code", lambda: "other")
    assert index.read(run, index.binding(run)) is None
    monkeypatch.undo()
    with (run / "journal.jsonl").open("a") as file:
        file.write('{"type": "note"}\n')
    assert index.read(run, index.binding(run)) is None
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "another user"))
    index.key.cache_clear()
    assert index.read(run, bound) is None


def test_the_key_is_the_users_alone_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "figures.key"
    first = index.key()
    assert len(first) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    index.key.cache_clear()
    assert index.key() == first
    path.chmod(0o644)
    index.key.cache_clear()
    assert index.key() == b"", "others could have read it"


def test_without_a_key_the_raw_files_are_read_each_time(run: Path, tmp_path: Path) -> None:
    before = verdicts(run)
    (tmp_path / "cache" / "figures.key").chmod(0o644)
    index.key.cache_clear()
    was = (run / index.NAME).read_bytes()
    assert verdicts(run) == before
    assert (run / index.NAME).read_bytes() == was


def test_a_changed_pack_is_refused_even_with_an_index(run: Path) -> None:
    path = run / "raw" / "0000.zip"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FairlaneError, check=kind("raw-changed", str(path))):
        load_run(run)
    path.unlink()
    with pytest.raises(FairlaneError, check=kind("raw-unreadable", str(path))):
        load_run(run)


def test_a_file_in_a_pack_that_is_not_the_journals_is_refused(run: Path) -> None:
    """The pack's own hash was made to match, and no index is there."""
    path = run / "raw" / "0000.zip"
    with zipfile.ZipFile(path) as old:
        contents = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in contents.items():
            new.writestr(name, data.replace(b'"total_ios": 1000', b'"total_ios": 2000'))
    text = (run / "journal.jsonl").read_text()
    (pack,) = events(run, "pack")
    (run / "journal.jsonl").write_text(text.replace(pack["sha256"], hashlib.sha256(path.read_bytes()).hexdigest()))
    (run / index.NAME).unlink()
    with pytest.raises(FairlaneError, check=kind("raw-changed", str(path))):
        load_run(run)


@pytest.mark.parametrize("name", ["../../secret.zip", "0000.zip/../x.zip", "12.zip"])
def test_no_name_of_a_pack_leads_elsewhere(run: Path, name: str) -> None:
    text = (run / "journal.jsonl").read_text()
    (run / "journal.jsonl").write_text(text.replace("0000.zip", name))
    with pytest.raises(raw.Damaged, check=kind("raw-damaged")):
        load_run(run)


@pytest.mark.parametrize(
    "change",
    [
        ('"sha256": "', '"sha256": "0'),
        ('"from": "iscsi/0.json"', '"from": "iscsi/1.json"'),
        ('"tool": "fio_json", "load"', '"load"'),
        ('"raw": "0000.zip"', '"raw": "0001.zip"'),
    ],
)
def test_a_journal_that_contradicts_itself_is_damaged(run: Path, change: tuple[str, str]) -> None:
    lines = (run / "journal.jsonl").read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if '"from": "iscsi/0.json"' in line)
    lines[number] = lines[number].replace(*change)
    (run / "journal.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(FairlaneError, check=kind("journal-damaged", f"{run / 'journal.jsonl'}:{number + 1}")):
        load_run(run)


def test_rarer_histograms_are_read_from_the_files(run: Path) -> None:
    trial = next(o for o in load_run(run).observations if o.lane == "nvme" and o.block == 2)
    assert set(trial.histograms) == {"read.lat", "read.clat", "read.slat"}
    assert dict(trial.histograms["read.lat"]) == {1000: 600, 2000: 402}
    assert dict(trial.histograms["read.clat"]) == {128: 2, 130: 1000}
    assert dict(trial.histograms["read.slat"]) == {128: 2, 130: 1000}


@pytest.mark.parametrize("tool", sorted(importers()))
def test_what_is_read_again_is_what_was_imported(tool: str, tmp_path: Path) -> None:
    for number, group in enumerate(groups(tool)):
        for name, content in group.items():
            path = tmp_path / "in" / f"{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    options = {tool: OPTIONS[tool]} if tool in OPTIONS else {}
    chosen = parse_map(json.dumps({"tool": tool, **options}), "map.yaml")
    import_files([tmp_path / "in"], tmp_path / "run", chosen)
    first = load_run(tmp_path / "run")
    assert all(trial.get("tool") == tool for trial in events(tmp_path / "run", "trial")), "no record was needed"
    (tmp_path / "run" / index.NAME).unlink()
    again = load_run(tmp_path / "run")
    assert first.observations
    assert again.observations == first.observations
    import_files([tmp_path / "in"], tmp_path / "bare", chosen, originals=False)
    assert all("~records/" in trial["member"] for trial in events(tmp_path / "bare", "trial"))
    (tmp_path / "bare" / index.NAME).unlink()
    assert load_run(tmp_path / "bare").observations == first.observations


def test_options_of_the_import_hold_when_its_files_are_read_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "clat.json").write_bytes(fixtures()["fio_json/plus.json"])
    chosen = parse_map("fio_json: {percentiles: clat}\n", "map.yaml")
    import_files([tmp_path / "in"], tmp_path / "run", chosen)
    (start,) = events(tmp_path / "run", "start")
    assert start["readers"] == {"fio_json": {"percentiles": "clat"}}
    first = load_run(tmp_path / "run").observations
    assert first[0].context["conditions"]["metric_definition"] == "latency is clat: completion alone"
    (tmp_path / "run" / index.NAME).unlink()
    assert load_run(tmp_path / "run").observations == first


def test_options_that_json_cannot_hold_keep_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an option came back as another value."""
    options = importers()["table"].options
    monkeypatch.setattr(type(options), "model_dump_json", lambda *_, **__: '{"figures": []}')
    chosen = ImportMap.model_validate({})
    monkeypatch.setattr("fairlane.importers._run.importer", lambda *_: importers()["table"])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "figures.csv").write_bytes(fixtures()["table/figures.csv"])
    import_files([tmp_path / "in"], tmp_path / "run", chosen, tool="table")
    trials = events(tmp_path / "run", "trial")
    assert trials
    assert all("~records/" in trial["member"] for trial in trials)
    assert len(events(tmp_path / "run", "original")) == 1


def test_a_version_that_reads_other_trials_says_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / index.NAME).unlink()
    importer = type(registry.load("importers", "fio_json"))
    real = importer.read
    monkeypatch.setattr(importer, "read", lambda self, sources: [*real(self, sources)] * 2)
    with pytest.raises(FairlaneError, check=kind("import-outdated", "iscsi/0.json")) as caught:
        load_run(run)
    assert "2 trials" in caught.value.message
    other = record.Record(params={"rw": "read", "bs": 4096})
    monkeypatch.setattr(importer, "read", lambda self, sources: [other])
    with pytest.raises(FairlaneError, check=kind("import-outdated", "iscsi/0.json")):
        load_run(run)


def test_runs_that_were_imported_before_there_were_packs_stay_readable(run: Path) -> None:
    """An archive with the record per trial, and an original beside it, as versions before 0020 wrote them."""
    read = load_run(run).observations
    first = [replace(o, histograms={name: dict(bins) for name, bins in o.histograms.items()}) for o in read]
    importer = registry.load("importers", "fio_json")
    with zipfile.ZipFile(run / "raw" / "0000.zip") as pack:
        contents = {name: pack.read(name) for name in pack.namelist()}
    lines = []
    for line in (run / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["type"] == "pack":
            continue
        if event["type"] == "original":
            event["kept"] = f"originals/{event.pop('member')}.gz"
            (run / event["kept"]).parent.mkdir(parents=True, exist_ok=True)
            (run / event["kept"]).write_bytes(gzip.compress(contents[event["name"]]))
        if event["type"] == "trial":
            name = event["from"]
            (trial,) = importer.again([(name, partial(BytesIO, contents[name]))], "")
            outputs = {"record.json": record.write(record.completed(trial)), "status": b"0\n"}
            key = f"{event['cell']}.b{event['block']:03d}.{event['lane']}"
            event["raw"], event["sha256"] = raw.store(run, key, outputs)
            del event["tool"], event["load"]
        lines.append(json.dumps(event))
    (run / "raw" / "0000.zip").unlink()
    (run / "journal.jsonl").write_text("\n".join(lines) + "\n")
    assert [*load_run(run).observations] == first
    victim = next((run / "raw").iterdir())
    victim.write_bytes(b"not it")
    assert len(load_run(run).observations) == 11


def test_a_copy_of_a_file_is_not_in_the_pack(tmp_path: Path) -> None:
    source = files(tmp_path / "in", 2)
    shutil.copy(source / "nvme" / "1.json", source / "nvme" / "copy.json")
    import_files([source], tmp_path / "run")
    with zipfile.ZipFile(tmp_path / "run" / "raw" / "0000.zip") as pack:
        assert sorted(pack.namelist()) == ["iscsi/0.json", "iscsi/1.json", "nvme/0.json", "nvme/1.json"]
    assert [event["files"] for event in events(tmp_path / "run", "left-out")] == [["nvme/copy.json"]]
    assert len(load_run(tmp_path / "run").observations) == 4


def test_several_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlane.importers._read.BATCH", 5)
    monkeypatch.setattr("fairlane.importers._read.FEW", 1)
    monkeypatch.setattr(many, "ENOUGH", 1)
    monkeypatch.setattr(many, "_CHUNK", 3)
    import_files([files(tmp_path / "in")], tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run" / "raw").iterdir()) == ["0000.zip", "0001.zip", "0002.zip"]
    first = load_run(tmp_path / "run")
    (tmp_path / "run" / index.NAME).unlink()
    assert load_run(tmp_path / "run") == first
    assert len(first.observations) == 12


def test_packs_without_isal_hold_the_same(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "deflate", zlib)
    import_files([tmp_path / "in"], tmp_path / "slow", processes=0)
    with zipfile.ZipFile(run / "raw" / "0000.zip") as fast, zipfile.ZipFile(tmp_path / "slow/raw/0000.zip") as slow:
        assert fast.namelist() == slow.namelist()
        for name in slow.namelist():
            assert fast.read(name) == slow.read(name) == (tmp_path / "in" / name).read_bytes()
    assert load_run(tmp_path / "slow").observations == load_run(run).observations
