"""Bad study files, as people write them: one message each, with line, key, what was expected, and what is nearest."""

# ruff: noqa: E501 - one case, one line

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import Exit, FairlaneError
from fairlane.study import load, yaml_tree
from fairlane.study.load import load_study, parse_study, preset_text, presets

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


@pytest.mark.parametrize(
    ("old", "new", "where", "message", "hint"),
    [
        pytest.param("slow: {", "slow: {sesions: 2, ", "s.yaml:5", "lanes.slow.sesions: unknown key", "'sessions'", id="typo"),
        pytest.param("{kind: lab}", "{kind: lab, x: 1}", "s.yaml:2", "platform.x: unknown key", "may stand here: clock", id="unknown key"),
        pytest.param("name: good", "name: good\ncolour: red", "s.yaml:2", "colour: unknown key", "question", id="unknown at the top"),
        pytest.param("baseline: slow\n", "", "s.yaml:1", "the key 'baseline' is missing", "compared with", id="missing key"),
        pytest.param("bs: [4k]", "bs: [4k, 64q]", "s.yaml:8", "workloads.main.bs.1: unknown unit 'q'", "", id="wrong unit"),
        pytest.param("bs: [4k]", "runtime: 5", "s.yaml:8", "workloads.main.runtime: the unit is missing", "", id="no unit"),
        pytest.param("kind: lab", "kind: lab, link: {rate: 25gbti}", "s.yaml:2", "platform.link.rate: unknown unit 'gbti'", "'gbit'", id="typo in unit"),
        pytest.param("bs: [4k]", "bs: 4k", "s.yaml:8", 'workloads.main.bs: expected a list, found "4k"', "write [4k]", id="not a list"),
        pytest.param("[1]", "[deep]", "s.yaml:8", 'workloads.main.iodepth.0: expected a whole number, found "deep"', "", id="not a number"),
        pytest.param("[1]", "[1.5]", "s.yaml:8", "workloads.main.iodepth.0: expected a whole number, found 1.5", "", id="a fraction"),
        pytest.param("iscsi}", "iscsi, sessions: true}", "s.yaml:5", "lanes.slow.sessions: expected a whole number, found true", "", id="true is not 1"),
        pytest.param("iscsi}", "iscsi, chap: yes}", "s.yaml:5", 'lanes.slow.chap: expected true or false, found "yes"', "", id="yes is text"),
        pytest.param("iscsi}", "iscsi, sessions: 99}", "s.yaml:5", "lanes.slow.sessions: expected at most 16, found 99", "", id="out of range"),
        pytest.param("nvme_tcp", "nvme-tcp", "s.yaml:6", 'lanes.fast.transport: unknown transport "nvme-tcp"', "'nvme_tcp'", id="unknown transport"),
        pytest.param("{transport: iscsi}", "{sessions: 1}", "s.yaml:5", "lanes.slow: the key 'transport' is missing", "iscsi, local", id="no transport"),
        pytest.param("{transport: iscsi}", "iscsi", "s.yaml:5", "lanes.slow: expected keys with values", "", id="lane is text"),
        pytest.param("kind: lab", "kind: lap", "s.yaml:2", 'platform.kind: unknown platform kind "lap"', "'lab'", id="unknown platform"),
        pytest.param("kind: fio", "kind: foi", "s.yaml:8", 'workloads.main.kind: unknown workload kind "foi"', "'fio'", id="unknown workload"),
        pytest.param("randread", "randraed", "s.yaml:8", "workloads.main.rw.0: expected read or write", "'randread'", id="wrong word"),
        pytest.param("baseline: slow", "baseline: slwo", "s.yaml:3", "baseline: 'slwo' is not a lane", "'slow'", id="baseline"),
        pytest.param("  slow: {transport: iscsi}\n  fast: {transport: nvme_tcp}\n", "", "s.yaml:4", "lanes: no lanes: expected at least 2", "", id="no lanes"),
        pytest.param("  fast: {transport: nvme_tcp}\n", "", "s.yaml:4", "lanes: expected at least 2, found 1", "", id="one lane"),
        pytest.param("  fast:", "  Fast Lane:", "s.yaml:6", "lanes.Fast Lane: expected lower-case letters", "", id="name of a lane"),
        pytest.param("name: good", "name: 5", "s.yaml:1", "name: expected text, found 5", "", id="name is a number"),
        pytest.param("name: good", "name: good\nname: bad", "s.yaml:2", "name: this key is given twice (first in line 1)", "", id="duplicate"),
        pytest.param("  slow:", "\tslow:", "s.yaml:5", "a tab in the indentation", "spaces", id="tab"),
        pytest.param("name: good", "name: good\ndesign: {looks: [6, 6]}", "s.yaml:2", "design.looks: expected rising numbers", "", id="looks"),
        pytest.param("kind: fio", "kind: fio, primary: iosp", "s.yaml:8", "workloads.main.primary: 'iosp' is not a metric", "'iops'", id="metric"),
        pytest.param("name: good", "name: good\ndesign: {margins: {bandwidth: 5%}}", "s.yaml:2", "design.margins.bandwidth: 'bandwidth' is not", "", id="margin"),
        pytest.param("name: good", "name: good\ndesign: {margins: {iops: 7}}", "s.yaml:2", "design.margins.iops: expected a share such as 5%", "", id="share"),
        pytest.param("[1]}", "[1, 4], engine: psync}", "s.yaml:8", "workloads.main.iodepth: psync", "", id="validator of a workload"),
        pytest.param("{kind: lab}", "{kind: lab", "s.yaml:3", "not valid YAML: expected ',' or '}'", "column", id="bracket"),
        pytest.param("name: good", "name: good: bad", "s.yaml:1", "not valid YAML: mapping values", "quoted", id="colon"),
        pytest.param(GOOD, f"{GOOD}---\n{GOOD}", "s.yaml:9", "a second document begins here", "one study per file", id="documents"),
        pytest.param(GOOD, "", "s.yaml", "the file is empty", "fairlane init", id="empty"),
        pytest.param(GOOD, "# nothing\n", "s.yaml", "the file is empty", "", id="only comments"),
        pytest.param(GOOD, "- a\n", "s.yaml:1", "expected keys with values", "", id="list"),
        pytest.param(GOOD, "hello", "s.yaml:1", 'expected keys with values, found "hello"', "", id="text"),
        pytest.param("name: good", "name: good\x07", "s.yaml:1", "a character that YAML does not allow (U+0007)", "", id="control character"),
        pytest.param(GOOD, "a: &a [*a]", "s.yaml", "nested more than 30 levels deep", "", id="recursion"),
        pytest.param(GOOD, "[" * 20_000, "s.yaml", "nested more than 30 levels deep", "", id="depth"),
    ],
)  # fmt: skip
def test_one_error(old: str, new: str, where: str, message: str, hint: str) -> None:
    assert old in GOOD
    error = complaint(GOOD.replace(old, new, 1))
    assert (error.where, hint in error.hint) == (where, True), error.hint
    assert error.message.startswith(message)


def test_several_errors_are_told_together_in_the_order_of_the_file() -> None:
    text = GOOD.replace("bs: [4k]", "bs: [4q], runtime: 5").replace("iscsi}", "iscsi, sesions: 2}")
    error = complaint(text)
    assert error.where == "s.yaml"
    assert error.message.splitlines()[0] == "3 problems"
    assert [line.split(": ")[1] for line in error.message.splitlines()[1:]] == [
        "lanes.slow.sesions", "workloads.main.bs.0", "workloads.main.runtime",
    ]  # fmt: skip
    assert "  s.yaml:5: lanes.slow.sesions: unknown key (did you mean 'sessions'?)" in error.message.splitlines()


def test_many_errors_are_bounded() -> None:
    error = complaint(GOOD + "".join(f"key{i}: 1\n" for i in range(40)))
    lines = error.message.splitlines()
    assert lines[0] == "40 problems"
    assert lines[-1] == f"  and {40 - load.MAX_PROBLEMS} more"
    assert len(lines) == load.MAX_PROBLEMS + 2


def test_structure_and_content_errors_are_told_together() -> None:
    error = complaint(GOOD.replace("name: good", "name: good\nname: other") + "what: 1\n")
    assert "s.yaml:2: name: this key is given twice" in error.message
    assert "s.yaml:10: what: unknown key" in error.message


def test_billion_laughs() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "aliases expanded" in complaint("\n".join(levels)).message


def test_no_escape_code_of_the_file_reaches_the_terminal() -> None:
    text = GOOD.replace("name: good", '"\\e[31mred": 1\nname: "\\e]0;title\\a"\n"\\x9b2J": 1')
    error = complaint(text)
    assert not {"\x1b", "\x9b", "\a"} & set(str(error) + error.hint)
    assert "\\x1b[31mred: unknown key" in error.message


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
        with pytest.raises(FairlaneError, match=r"s\.yaml:8: workloads\.main\.iodept: unknown key"):
            load_study(str(path))

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
        with pytest.raises(FairlaneError, match="dem0: neither a file nor a preset") as caught:
            load_study("dem0")
        assert "did you mean the preset 'demo'?" in caught.value.hint
        assert all(name in caught.value.hint for name in presets())

    def test_directory(self, tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").touch()
        with pytest.raises(FairlaneError, match="a directory; expected a study file") as caught:
            load_study(str(tmp_path))
        assert caught.value.hint == "it holds mine.yaml"

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_bytes(b"name: a\nquestion: \xff\n")
        with pytest.raises(FairlaneError, match=r"s\.yaml:2: not UTF-8 text"):
            load_study(str(path))

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "s.yaml"
        path.write_text("# x\n" * yaml_tree.MAX_BYTES)
        with pytest.raises(FairlaneError, match="larger than 256 KiB"):
            load_study(str(path))

    def test_endless(self) -> None:
        with pytest.raises(FairlaneError, match="larger than 256 KiB"):
            load_study("/dev/zero")

    def test_impossible_name(self) -> None:
        with pytest.raises(FairlaneError, match="cannot be read"):
            load_study("a\0b")

    def test_unknown_preset(self) -> None:
        with pytest.raises(FairlaneError, match="no preset named 'dmeo'") as caught:
            preset_text("dmeo")
        assert caught.value.hint == "did you mean 'demo'?"
