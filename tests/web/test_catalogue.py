"""The list of runs: true, and cheap for a thousand of them."""

import json
import os
import shutil
import tracemalloc

import pytest

from fairlane.runs.journal import Journal
from fairlane.web.catalogue import Catalogue
from fairlane.web.places import runs_below
from tests.figures import figures
from tests.web.conftest import cut, opened_files


def only(catalogue):
    (entry,) = catalogue.entries().values()
    return entry


def eager(root):
    """A catalogue that looks again each time it is asked."""
    ticks = iter(range(0, 10**6, 10))
    return Catalogue(root, clock=lambda: float(next(ticks)))


def test_a_finished_run_with_its_answer(root):
    entry = only(Catalogue(root))
    assert (entry.name, entry.state, entry.error) == ("done", "complete", "")
    assert (entry.about.name, entry.about.question, entry.about.workloads) == (
        "small",
        "Is fast faster?",
        {"main": "fio"},
    )
    (answer,) = entry.answers
    assert r"The <script>alert(1)</script> lane \u202eevil" in answer
    assert "faster" in answer
    assert figures(answer.partition("faster")[2])[0] == "2"


def test_states(root):
    run, catalogue = root / "done", eager(root)
    cut(run, 9, torn=b'{"ty')
    assert only(catalogue).state == "interrupted"
    assert only(catalogue).answers == ()
    with Journal(run):
        assert only(catalogue).state == "running"
    assert only(catalogue).state == "interrupted"


def test_an_answer_older_than_the_journal_is_none(root):
    os.utime(root / "done" / "verdicts.json", (1, 1))
    assert only(Catalogue(root)).answers == ()


@pytest.mark.parametrize("rows", ['{"a": 1}', '[{"primary": 1}]', "[", '[{"primary": true, "cell": []}]', "[1]"])
def test_verdicts_that_are_none_give_no_answer(root, rows):
    (root / "done" / "verdicts.json").write_text(rows)
    assert (only(Catalogue(root)).state, only(Catalogue(root)).answers) == ("complete", ())


@pytest.mark.parametrize(
    ("file", "content", "kind", "told"),
    [
        ("run.json", "{", "run-damaged", "run.json"),
        ("run.json", '{"format": 99}', "run-format", "run.json"),
        ("study.yaml", "name: other", "run-changed", "study.yaml"),
        ("study.yaml", None, "unreadable", ""),
        ("journal.jsonl", "{]\n", "journal-damaged", "journal.jsonl:1: "),
        ("journal.jsonl", "[]\n", "journal-damaged", "journal.jsonl:1: "),
    ],
)
def test_damage_is_told_as_text(root, file, content, kind, told):
    path = root / "done" / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    entry = only(Catalogue(root))
    assert (entry.state, entry.kind) == ("damaged", kind)
    assert told in entry.error


@pytest.mark.parametrize("file", ["study.yaml", "journal.jsonl", "raw", "schedule.jsonl"])
def test_links_are_damage(root, tmp_path, file):
    shutil.move(root / "done" / file, tmp_path / "elsewhere")
    (root / "done" / file).symlink_to(tmp_path / "elsewhere")
    entry = only(Catalogue(root))
    assert (entry.state, entry.kind) == ("damaged", "not-a-file")
    assert str(root / "done" / file) in entry.error


def test_a_fifo_keeps_nobody_waiting(root):
    (root / "done" / "journal.jsonl").unlink()
    os.mkfifo(root / "done" / "journal.jsonl")
    assert only(Catalogue(root)).state == "damaged"


def test_folders_are_searched_three_deep_and_links_and_hidden_ones_not(root, finished):
    for name in ("a/b/deep", "a/b/c/too-deep", ".hidden/run", "done/raw/inner"):
        shutil.copytree(finished, root / name)
    (root / "link").symlink_to(finished)
    assert sorted(name for name, _ in runs_below(root)) == ["a/b/deep", "done"]


def test_a_run_may_be_served_by_itself(root):
    assert only(Catalogue(root / "done")).name == "done"


def test_find_takes_the_run_and_what_follows(root, finished):
    shutil.copytree(finished, root / "team" / "one")
    catalogue = Catalogue(root)
    found = {path: (hit[0].name, hit[1]) if (hit := catalogue.find(path)) else None
             for path in ("done", "done/", "team/one/raw/x", "team", "team/on", "", "done/../team/one")}  # fmt: skip
    assert found == {
        "done": ("done", ""), "done/": ("done", ""), "team/one/raw/x": ("team/one", "raw/x"), "team": None,
        "team/on": None, "": None, "done/../team/one": ("done", "../team/one"),
    }  # fmt: skip


def test_search_and_order(root, finished):
    for n, name in enumerate(["b", "a"]):
        shutil.copytree(finished, root / name)
        manifest = json.loads((root / name / "run.json").read_text())
        (root / name / "run.json").write_text(json.dumps({**manifest, "created": f"2030-01-0{n + 1}T00:00:00"}))
    cut(root / "b", 9)
    catalogue = Catalogue(root)

    def names(*args, **kwargs):
        return [e.name for e in catalogue.search(*args, **kwargs)]

    assert names() == ["a", "b", "done"]
    assert names(sort="oldest") == ["done", "b", "a"]
    assert names(sort="name") == ["a", "b", "done"]
    assert names(sort="state") == ["b", "a", "done"]
    assert names(state="interrupted") == ["b"]
    assert names("FASTER? slow fio") == ["a", "b", "done"]
    assert names("done small") == ["done"]
    assert names("no such thing") == []


def test_a_thousand_runs_cost_little_and_nothing_the_second_time(root, finished):
    """Small files alone are read, each once; what has not changed is not opened again."""
    for n in range(1000):
        folder = root / f"group-{n % 10}" / f"run-{n}"
        folder.mkdir(parents=True)
        for name in ("run.json", "study.yaml", "journal.jsonl", "verdicts.json"):
            os.link(finished / name, folder / name)
        (folder / "raw").mkdir()
        os.link(next((finished / "raw").iterdir()), folder / "raw" / "x.tar.gz")
    catalogue = eager(root)
    tracemalloc.start()
    with opened_files() as first:
        assert len(catalogue.entries()) == 1001
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 16 * 2**20
    assert [first.count(name) for name in ("run.json", "study.yaml", "journal.jsonl", "verdicts.json")] == [1001] * 4
    assert not [
        path for path in first if "raw" in path or path.endswith((".gz", "observations.jsonl", "schedule.jsonl"))
    ]
    with opened_files() as second:
        assert len(catalogue.entries()) == 1001
    assert [path for path in second if not path.startswith("/proc/")] == []
    (changed := root / "group-3" / "run-3" / "journal.jsonl").unlink()  # what is linked is shared by all
    shutil.copy(finished / "journal.jsonl", changed)
    shutil.copytree(finished, root / "new")
    with opened_files() as third:
        assert len(catalogue.entries()) == 1002
    assert third.count("journal.jsonl") == 2
