import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlane.errors import Garbage
from fairlane.formats.fio_documents import documents, normal, report_in, terse
from tests.words import kind

REPORT = '{\n  "fio version" : "fio-3.33",\n  "jobs" : []\n}'


def versions(text: str) -> list[str]:
    return [document.tree["fio version"] for document in documents(text.encode(), "x")]


def test_reports_with_words_around_them() -> None:
    first, second = documents(f"note: {{odd}}\n{REPORT}\nfio: a word\n{REPORT}\nbye\n".encode(), "x")
    assert first.warnings == "note: {odd}"
    assert second.warnings.splitlines() == ["fio: a word", "bye"]


def test_reports_without_a_line_between_them() -> None:
    assert len(versions(REPORT + REPORT)) == 2


def test_no_number_is_nan() -> None:
    text = '{"fio version": "fio-2.1", "a": -nan, "b": nan, "c": [inf, -inf], "d": "x: nan, y"}'
    (document,) = documents(text.replace("[inf, -inf]", "-inf").encode() + b"\nafter", "x")
    assert document.tree["a"] != document.tree["a"]
    assert document.warnings == "after"
    assert document.tree["d"].startswith("x:")


def test_a_tab_in_a_text() -> None:
    assert versions('{"fio version": "fio-3.33", "desc": "a\tb"}') == ["fio-3.33"]


@pytest.mark.parametrize("cut", range(1, len(REPORT) - 1))
def test_cut_off_anywhere(cut: int) -> None:
    with pytest.raises(Garbage, check=kind("cut-off")):
        documents(REPORT[:cut].encode(), "x")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"abc\xff", "not-text 3"),
        (b"hello", "no-report 'hello'"),
        (b"3;fio-3.33;t;0;0;1024;", "fio-format terse"),
        (REPORT.encode() + b"\n" + REPORT[:30].encode(), "cut-off 78"),
        (b'{"a":' * 10**5, "nested"),
        (b'{"fio version": ' + b"9" * 10**5 + b"}", "cut-off"),
    ],
)
def test_what_is_no_report(data: bytes, reason: str) -> None:
    expected, *tokens = reason.split()
    with pytest.raises(Garbage, check=kind(expected)) as raised:
        documents(data, "x")
    assert [token for token in tokens if token not in str(raised.value)] == []


def test_the_beginning_is_known() -> None:
    assert report_in(b"warning\n" + REPORT.encode())
    assert not report_in(b'{"x": {"fio version": 1}}')
    assert terse(b"3;fio-3.33;t;0;0")
    assert not terse(REPORT.encode())
    text = b"  t: (groupid=0, jobs=1): err= 0: pid=1: Sun Nov 22 00:52:51 2026\n"
    assert normal(text)
    assert not normal(text + REPORT.encode())


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    report_in(data)
    terse(data)
    normal(data)
    try:
        found = documents(data, "x")
    except Garbage:
        return
    assert found
