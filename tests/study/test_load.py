"""Bad study files, as people write them: one error each, with line, key, what was expected, and what is nearest."""

# ruff: noqa: E501 - one case, one line

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import SEVERAL, Exit, FairlaneError
from fairlane.study import load, yaml_tree
from fairlane.study.load import load_study, parse_study, preset_text, presets
from tests.words import kind, kinds

GOOD = """\
name: good
platform: {kind: lab}
baseline: slow
lanes:
  slow: {transport: iscsi}
  fast: {transport: nvme_tcp}
workloads:
  main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1]}
"""


def complaint(text: str) -> FairlaneError:
    with pytest.raises(FairlaneError) as caught:
        parse_study(text, "s.yaml")
    assert caught.value.code is Exit.USER_ERROR
    return caught.value


BAD = [
    pytest.param("slow: {", "slow: {sesions: 2, ", "s.yaml:5 lanes.slow.sesions", "key-unknown", "", "'sessions'", id="typo"),
    pytest.param("{kind: lab}", "{kind: lab, x: 1}", "s.yaml:2 platform.x", "key-unknown", "", "clock", id="unknown key"),
    pytest.param("name: good", "name: good\ncolour: red", "s.yaml:2 colour", "key-unknown", "", "question", id="unknown at the top"),
    pytest.param("baseline: slow\n", "", "s.yaml:1", "key-missing", "'baseline'", "", id="missing key"),
    pytest.param("bs: [4k]", "bs: [4k, 64q]", "s.yaml:8 workloads.main.bs.1", "value", "'q'", "", id="wrong unit"),
    pytest.param("bs: [4k]", "runtime: 5", "s.yaml:8 workloads.main.runtime", "value", "5", "", id="no unit"),
    pytest.param("kind: lab", "kind: lab, link: {rate: 25gbti}", "s.yaml:2 platform.link.rate", "value", "'gbti'", "'gbit'", id="typo in unit"),
    pytest.param("bs: [4k]", "bs: 4k", "s.yaml:8 workloads.main.bs", "type", '"4k"', "[4k]", id="not a list"),
    pytest.param("[1]", "[deep]", "s.yaml:8 workloads.main.iodepth.0", "type", '"deep"', "", id="not a number"),
    pytest.param("[1]", "[1.5]", "s.yaml:8 workloads.main.iodepth.0", "type", "1.5", "", id="a fraction"),
    pytest.param("iscsi}", "iscsi, sessions: true}", "s.yaml:5 lanes.slow.sessions", "type", "true", "", id="true is not 1"),
    pytest.param("iscsi}", "iscsi, chap: yes}", "s.yaml:5 lanes.slow.chap", "type", '"yes"', "", id="yes is text"),
    pytest.param("iscsi}", "iscsi, sessions: 99}", "s.yaml:5 lanes.slow.sessions", "limit", "16 99", "", id="out of range"),
    pytest.param("nvme_tcp", "nvme-tcp", "s.yaml:6 lanes.fast.transport", "kind-unknown", '"nvme-tcp"', "'nvme_tcp'", id="unknown transport"),
    pytest.param("{transport: iscsi}", "{sessions: 1}", "s.yaml:5 lanes.slow", "key-missing", "'transport'", "iscsi, local", id="no transport"),
    pytest.param("{transport: iscsi}", "iscsi", "s.yaml:5 lanes.slow", "type", '"iscsi"', "", id="lane is text"),
    pytest.param("kind: lab", "kind: lap", "s.yaml:2 platform.kind", "kind-unknown", '"lap"', "'lab'", id="unknown platform"),
    pytest.param("kind: fio", "kind: foi", "s.yaml:8 workloads.main.kind", "kind-unknown", '"foi"', "'fio'", id="unknown workload"),
    pytest.param("randread", "randraed", "s.yaml:8 workloads.main.rw.0", "value", 'read write "randraed"', "'randread'", id="wrong word"),
    pytest.param("baseline: slow", "baseline: slwo", "s.yaml:3 baseline", "lane-unknown", "'slwo'", "'slow'", id="baseline"),
    pytest.param("  slow: {transport: iscsi}\n  fast: {transport: nvme_tcp}\n", "", "s.yaml:4 lanes", "too-few", "2", "", id="no lanes"),
    pytest.param("  fast: {transport: nvme_tcp}\n", "", "s.yaml:4 lanes", "value", "2 1", "", id="one lane"),
    pytest.param("  fast:", "  Fast Lane:", "s.yaml:6 lanes.Fast Lane", "name-invalid", "", "", id="name of a lane"),
    pytest.param("name: good", "name: 5", "s.yaml:1 name", "type", "5", "", id="name is a number"),
    pytest.param("name: good", "name: good\nname: bad", "s.yaml:2 name", "yaml", "1", "", id="duplicate"),
    pytest.param("  slow:", "\tslow:", "s.yaml:5", "yaml", "tab", "", id="tab"),
    pytest.param("name: good", "name: good\ndesign: {looks: [6, 6]}", "s.yaml:2 design.looks", "value", "", "", id="looks"),
    pytest.param("kind: fio", "kind: fio, primary: iosp", "s.yaml:8 workloads.main.primary", "value", "'iosp'", "'iops'", id="metric"),
    pytest.param("name: good", "name: good\ndesign: {margins: {bandwidth: 5%}}", "s.yaml:2 design.margins.bandwidth", "value", "'bandwidth'", "", id="margin"),
    pytest.param("name: good", "name: good\ndesign: {margins: {iops: 7}}", "s.yaml:2 design.margins.iops", "value", "5%", "", id="share"),
    pytest.param("[1]}", "[1, 4], engine: psync}", "s.yaml:8 workloads.main.iodepth", "value", "psync", "", id="validator of a workload"),
    pytest.param("{kind: lab}", "{kind: lab", "s.yaml:3", "yaml", "',' '}'", "", id="bracket"),
    pytest.param("name: good", "name: good: bad", "s.yaml:1", "yaml", "", "", id="colon"),
    pytest.param(GOOD, f"{GOOD}---\n{GOOD}", "s.yaml:9", "yaml", "", "", id="documents"),
    pytest.param(GOOD, "", "s.yaml", "empty", "", "fairlane init", id="empty"),
    pytest.param(GOOD, "# nothing\n", "s.yaml", "empty", "", "", id="only comments"),
    pytest.param(GOOD, "- a\n", "s.yaml:1", "type", "", "", id="list"),
    pytest.param(GOOD, "hello", "s.yaml:1", "type", '"hello"', "", id="text"),
    pytest.param("name: good", "name: good\x07", "s.yaml:1", "yaml", "U+0007", "", id="control character"),
    pytest.param(GOOD, "a: &a [*a]", "s.yaml", "nested", "30", "", id="recursion"),
    pytest.param(GOOD, "[" * 20_000, "s.yaml", "nested", "30", "", id="depth"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "kind_", "says", "hint"), BAD)
def test_one_error(old: str, new: str, at: str, kind_: str, *, says: str, hint: str) -> None:
    """``at``: line and path in the study; ``says``: names and figures of the message."""
    assert old in GOOD
    error = complaint(GOOD.replace(old, new, 1))
    where, _, path = at.partition(" ")
    assert (error.kind, error.where) == (kind_, where), error
    assert error.message.startswith(f"{path}: " if path else ""), error
    assert [token for token in says.split() if token not in error.message] == [], error
    assert hint in error.hint


def test_several_errors_are_told_together_in_the_order_of_the_file() -> None:
    text = GOOD.replace("bs: [4k]", "bs: [4q], runtime: 5").replace("iscsi}", "iscsi, sesions: 2}")
    error = complaint(text)
    assert (error.kind, error.where) == (SEVERAL, "s.yaml")
    assert error.message.splitlines()[0].split()[0] == "3"
    assert kinds(error.message) == ["key-unknown", "value", "value"]
    assert [line.split(": ")[1] for line in error.message.splitlines()[1:]] == [
        "lanes.slow.sesions", "workloads.main.bs.0", "workloads.main.runtime",
    ]  # fmt: skip
    first = error.message.splitlines()[1]
    assert first.startswith("  s.yaml:5: lanes.slow.sesions: ")
    assert "'sessions'" in first


def test_many_errors_are_bounded() -> None:
    error = complaint(GOOD + "".join(f"key{i}: 1\n" for i in range(40)))
    lines = error.message.splitlines()
    assert lines[0].split()[0] == "40"
    assert str(40 - load.MAX_PROBLEMS) in lines[-1].split()
    assert kinds(error.message) == ["key-unknown"] * load.MAX_PROBLEMS
    assert len(lines) == load.MAX_PROBLEMS + 2


def test_structure_and_content_errors_are_told_together() -> None:
    error = complaint(GOOD.replace("name: good", "name: good\nname: other") + "what: 1\n")
    assert kinds(error.message) == ["yaml", "key-unknown"]
    assert "s.yaml:2: name: " in error.message
    assert "s.yaml:10: what: " in error.message


def test_billion_laughs() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert complaint("\n".join(levels)).kind == "too-large"


def test_no_escape_code_of_the_file_reaches_the_terminal() -> None:
    text = GOOD.replace("name: good", '"\\e[31mred": 1\nname: "\\e]0;title\\a"\n"\\x9b2J": 1')
    error = complaint(text)
    assert not {"\x1b", "\x9b", "\a"} & set(str(error) + error.hint)
    assert "\\x1b[31mred: " in error.message
    assert "key-unknown" in kinds(error.message)


def test_python_tags_build_nothing(tmp_path: Path) -> None:
    error = complaint(GOOD.replace("name: good", f"name: !!python/object/apply:os.mkdir [{tmp_path}/made]"))
    assert "s.yaml:1" in str(error)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("word", ["no", "on", "off", "y"])
def test_words_that_old_yaml_takes_for_booleans_are_names(word: str) -> None:
    study = parse_study(GOOD.replace("slow", word), "s.yaml")
    assert study.baseline == word
    assert word in study.lanes


def test_numbers_are_read_as_written() -> None:
    assert yaml_tree.read("[010, 1:30, 2026-01-01, 1e3, 0x10, ~, null, true, .inf]").data == [
        10, "1:30", "2026-01-01", 1000.0, "0x10", None, None, True, ".inf",
    ]  # fmt: skip


def test_aliases_are_expanded() -> None:
    study = parse_study(GOOD.replace("slow: {transport: iscsi}", "slow: &s {transport: iscsi}\n  other: *s"), "s.yaml")
    assert study.lanes["other"] == study.lanes["slow"]


def test_the_environment_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_QUESTION", "other")
    text = "question: ${FAIRLANE_QUESTION}\n" + GOOD
    assert parse_study(text, "s.yaml").question == "${FAIRLANE_QUESTION}"


@given(st.text(max_size=200))
def test_any_text_is_a_study_or_one_clear_error(text: str) -> None:
    error = complaint(text)
    assert error.message
    assert str(error).startswith("s.yaml")


@given(data=st.data())
def test_any_damage_to_a_study_is_a_study_or_one_clear_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(GOOD)))
    until = data.draw(st.integers(at, min(len(GOOD), at + 20)))
    text = GOOD[:at] + data.draw(st.text(max_size=5)) + GOOD[until:]
    with contextlib.suppress(FairlaneError):  # any other exception is a defect
        parse_study(text, "s.yaml")


class TestFiles:
    def test_file(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_text(GOOD)
        study, text = load_study(str(path))
        assert (study.name, text) == ("good", GOOD)

    def test_byte_order_mark_and_windows_line_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").replace("iodepth", "iodept").encode())
        with pytest.raises(FairlaneError, check=kind("key-unknown", where=f"{path}:8")) as caught:
            load_study(str(path))
        assert caught.value.message.startswith("workloads.main.iodept: ")

    @pytest.mark.parametrize("name", sorted(presets()))
    def test_presets_are_valid_and_say_what_they_ask(self, name: str) -> None:
        study, text = load_study(name)
        assert study.name == name
        assert study.question.endswith("?")
        assert text == preset_text(name)
        assert text.startswith("# ")

    def test_a_file_may_be_named_like_a_preset(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("demo").write_text(GOOD)
        assert load_study("./demo")[0].name == "good"
        assert load_study("demo")[0].name == "demo"

    def test_missing(self) -> None:
        with pytest.raises(FairlaneError, check=kind("study-unknown", where="dem0")) as caught:
            load_study("dem0")
        assert "'demo'" in caught.value.hint
        assert all(name in caught.value.hint for name in presets())

    def test_directory(self, tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").touch()
        with pytest.raises(FairlaneError, check=kind("not-a-file", where=str(tmp_path))) as caught:
            load_study(str(tmp_path))
        assert "mine.yaml" in caught.value.hint

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_bytes(b"name: a\nquestion: \xff\n")
        with pytest.raises(FairlaneError, check=kind("not-text", where=f"{path}:2")):
            load_study(str(path))

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_text("# x\n" * yaml_tree.MAX_BYTES)
        with pytest.raises(FairlaneError, check=kind("study-too-large")) as caught:
            load_study(str(path))
        assert "256 KiB" in caught.value.message

    def test_endless(self) -> None:
        with pytest.raises(FairlaneError, check=kind("study-too-large")):
            load_study("/dev/zero")

    def test_impossible_name(self) -> None:
        with pytest.raises(FairlaneError, check=kind("unreadable")):
            load_study("a\0b")

    def test_unknown_preset(self) -> None:
        with pytest.raises(FairlaneError, check=kind("preset-unknown")) as caught:
            preset_text("dmeo")
        assert "'dmeo'" in caught.value.message
        assert "'demo'" in caught.value.hint
