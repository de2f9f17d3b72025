"""The page's structure: what a screen reader, an offline reader and a hostile string meet."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from fairlane.metrics import METRICS
from fairlane.records import Finding
from fairlane.report import html, markdown, model, prose

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Elements with their attributes, text by element, and whether tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.stack: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.stack):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [a for t, a in self.elements if t == tag]


@pytest.fixture(scope="module")
def source(case):
    return html.render(model.build(*case))


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_nothing_comes_from_outside_and_nothing_runs(source, page):
    assert not {"script", "iframe", "img", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}
    assert not [k for _, attrs in page.elements for k in attrs if k.startswith("on")]
    links = [a.get("href") or a.get("src") or "" for _, a in page.elements]
    assert {re.match(r"#|raw/|data:,$|$", link) is not None for link in links} == {True}
    assert "url(#" in source
    assert not re.search(r"url\((?!#)|@import", source)
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_every_id_is_unique_and_every_inner_link_arrives(page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        wanted = [attrs["href"][1:]] if attrs.get("href", "").startswith("#") else []
        wanted += attrs.get("aria-labelledby", "").split() + attrs.get("aria-describedby", "").split()
        assert set(wanted) <= set(ids)


def test_headings_descend_one_level_at_a_time(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_tables_speak(page):
    tables = [i for i, (tag, _) in enumerate(page.elements) if tag == "table"]
    assert tables
    for i in tables:
        assert page.elements[i + 1][0] == "caption"
    assert all(a.get("scope") in {"row", "col"} for a in page.all("th"))


def test_language_title_and_skip_link(page):
    assert page.all("html")[0]["lang"] == "en"
    assert re.match(r"demo\b.{1,10}\bFairlane", page.text)
    assert page.all("a")[0] == {"class": "skip", "href": "#answer"}


def test_the_parts_stand_in_their_order(page):
    order = [a["id"] for a in page.all("section")]
    first = ["answer", "findings", "verdicts", "figures", "cpu", "sure", "scorecard", "lanes", "matched"]
    assert order == [*first, "time", "method", "repeat", "trials"]
    assert page.text.index("modelled: ratios hold") < page.text.index("Is NVMe/TCP faster")
    assert page.text.index(prose.MODELLED.text) < page.text.index("check")


def test_the_exploratory_metrics_are_folded(source):
    verdicts = source.partition('<section id="verdicts"')[2].partition("</section>")[0]
    shown, _, folded = verdicts.partition("<summary>Exploratory")
    assert METRICS["iops"].title in shown
    assert METRICS["lat_mean"].title not in shown
    assert METRICS["lat_mean"].title in folded
    assert source.count("<details open") == 0


def test_every_raw_file_is_linked(page, case):
    links = {a["href"] for a in page.all("a") if a.get("href", "").startswith("raw/")}
    assert links == {f"raw/{o.trial}.tar.gz" for o in case[0].observations}


def test_html_and_markdown_say_the_same(case, page):
    report = model.build(*case)
    plain = re.sub(r"\\(?=[^\w\s])", "", markdown.render(report)).replace("&lt;", "<").replace("&amp;", "&")
    told = [*report.sureness, *report.method]
    told += [c.summary for c in report.answers] + [f.message for g in report.findings for f in g.items]
    told += [meaning for _, _, meaning in report.words] + [b.text for b in report.banners]
    for sentence in told:
        assert sentence in page.text
        assert sentence in plain
    for c in (c for s in report.sections for c in (*s.primary, *s.exploratory)):
        for row in c.rows:
            for figure in (row.cell, row.change, row.interval, row.lane_value, row.baseline_value):
                assert figure in page.text
                assert figure in plain


HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "abc\u202ecba",
    "\x1b[31mred\x1b[0m",
    "' </title><!--",
    "</svg></style>",
    "{{ 7 * 7 }}",
    "x" * 5000,
]


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_strings_are_text_everywhere(make_case, page, bad):
    finding = Finding(bad, "critical", bad, lanes=("nvme-tcp",), evidence={bad: bad})
    written = bad.replace("\x1b", "\\x1b")  # YAML itself refuses escape characters
    case = make_case(nvme=written[:300], local=written[:300] + "2", question=written, findings=(finding,))
    rendered = html.render(model.build(*case))
    (answer,) = re.findall(r'<h2 id="h-answer"[^>]*>(.*?)</h2>', rendered)
    seen = Page(rendered)
    assert {tag for tag, _ in seen.elements} == {tag for tag, _ in page.elements}
    assert {k for _, attrs in seen.elements for k in attrs} == {k for _, attrs in page.elements for k in attrs}
    shown = bad.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")[:4000]
    assert shown in "".join(seen.words)
    assert "\u202e" not in "".join(seen.words)
    assert "49" not in seen.text.split(answer)[0]


def test_the_same_run_gives_the_same_bytes(make_case, source):
    assert html.render(model.build(*make_case())) == source


@pytest.mark.slow
def test_a_large_study_is_quick_and_small(make_case):
    evidence, verdicts, findings = make_case(sizes=25, blocks=20)
    assert len(evidence.study.cells()) == 100
    tails = (
        replace(v, metric=m) for m in ("lat_p50", "lat_p99", "lat_p999") for v in verdicts if v.metric == "lat_mean"
    )
    everything = (*verdicts, *tails)
    started = time.process_time()
    text = html.render(model.build(evidence, everything, findings))
    assert time.process_time() - started < 5
    assert len(text.encode()) < 2_000_000


def test_the_tail_is_pictured_only_where_every_lane_has_one(case):
    evidence, verdicts, findings = case
    assert 'id="bars-1-lat_p99"' not in html.render(model.build(evidence, verdicts, findings))  # no histograms here
    p99 = [replace(v, metric="lat_p99") for v in verdicts if v.metric == "lat_mean"]
    assert 'id="bars-1-lat_p99"' in html.render(model.build(evidence, (*verdicts, *p99), findings))
