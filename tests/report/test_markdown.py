import re

import pytest

from fairlane.records import Finding
from fairlane.report import html, markdown, model, prose


@pytest.fixture(scope="module")
def source(case):
    return markdown.render(model.build(*case))


def columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


def check_tables(text: str) -> None:
    """Every table has a header, a rule, and as many cells in each row."""
    blocks = [b.splitlines() for b in text.split("\n\n") if b.startswith("|")]
    assert blocks
    for lines in blocks:
        assert len(lines) >= 3
        assert re.fullmatch(r"\|( -+:? \|)+", lines[1])
        assert {columns(line) for line in lines} == {columns(lines[0])}


def test_tables_are_whole(source):
    check_tables(source)


def test_the_banner_is_the_first_line(source):
    assert source.startswith(f"> **{prose.MODELLED.title}.** ")


def test_headings_are_those_of_the_page(source, case):
    page = html.render(model.build(*case))
    headings = [re.sub("<.*?>", "", heading) for heading in re.findall(r"<h2\b.*?>(.*?)</h2>", page)]
    listed = re.findall(r"^## (.*)$", source, re.M)
    assert len(listed) == 12
    assert [heading for heading in headings if heading in listed] == listed
    assert len(headings) == 13  # the run in time is a picture


@pytest.mark.parametrize(
    "bad", ["a|b|c", "<script>alert(1)</script>", "```\n# no heading", "[x](javascript:alert(1))", "a\u202eb"]
)
def test_hostile_strings_stay_text(make_case, bad):
    finding = Finding("check", "warning", bad, lanes=("nvme-tcp",), evidence={bad: bad})
    line = bad.replace("\n", " ")
    case = make_case(nvme=line, question=line, findings=(finding,))
    text = markdown.render(model.build(*case))
    check_tables(text)
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.M | re.S)
    assert "<script" not in outside
    assert "](javascript" not in outside.replace("\\](", "")
    assert "\u202e" not in text
    assert not re.search(r"^# no heading", outside, re.M)


def test_the_study_comes_back_as_it_was_written(source, case):
    assert f"```\n{case[0].study_text.rstrip()}\n```" in source
