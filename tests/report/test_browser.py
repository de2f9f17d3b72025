"""The report in a real Chromium: it loads nothing, complains of nothing, and fits a phone, a desk and a page.

FAIRLANE_SCREENSHOTS=DIR keeps the pictures, to be looked at.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fairlane.records import Finding, Severity
from tests.report.chromium import chromium, opened

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as program:
        yield program


@pytest.fixture(scope="module")
def page(case, tmp_path_factory, write):
    return write(case, tmp_path_factory.mktemp("run"))[0]


@pytest.fixture
def page_of(tmp_path, write):
    return lambda case: write(case, tmp_path)[0]


def keep(name: str, data: bytes) -> None:
    if folder := os.environ.get("FAIRLANE_SCREENSHOTS"):
        Path(folder, name).write_bytes(data)


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        (360, True),
        *(pytest.param(*v, marks=pytest.mark.slow) for v in ((768, False), (360, False), (1280, True), (768, True))),
    ],
)
def test_nothing_is_loaded_nothing_complains_and_it_fits(browser, page, width, dark):
    with opened(browser, page, width=width, dark=dark) as seen:
        assert seen.overflow() == 0
        assert seen.page.title() == "demo · Fairlane report"
        background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(", "))) < 3 * 60) is dark
        picture = seen.page.screenshot(full_page=True)
        assert picture.startswith(b"\x89PNG")
        keep(f"report-{width}-{'dark' if dark else 'light'}.png", picture)
        assert seen.asked == []
        assert seen.complaints == []


def test_what_it_asks_for_and_complains_of_would_be_seen(browser, tmp_path):
    """The test above can fail."""
    path = tmp_path / "bad.html"
    path.write_text("<!DOCTYPE html><img src='http://127.0.0.1:9/x.png'><script>console.log('x'); throw 'y'</script>")
    with opened(browser, path) as seen:
        assert seen.asked == ["http://127.0.0.1:9/x.png"]
        while not {"x", "y"} <= set(seen.complaints):  # they come in their own time
            seen.page.wait_for_timeout(50)
    path.write_text("<!DOCTYPE html><div style='width: 2000px'>wide</div>")
    with opened(browser, path) as seen:
        assert seen.overflow() > 0


def test_the_policy_would_stop_what_does_not_belong(browser, page):
    with opened(browser, page) as seen:
        stopped = seen.page.evaluate(
            "new Promise(r => { document.addEventListener('securitypolicyviolation', e => r(e.violatedDirective));"
            "document.body.appendChild(document.createElement('img')).src = 'http://127.0.0.1:9/x.png' })"
        )
        assert stopped == "img-src"


@pytest.mark.parametrize("nvme", ["NVMe/TCP", "NVMe/TCP over 25 GbE, four queues, header digest, jumbo frames"])
def test_no_words_lie_over_others_in_the_figures(browser, make_case, tmp_path, nvme, write):
    with opened(browser, write(make_case(nvme=nvme), tmp_path)[0]) as seen:
        assert seen.check("laidOver") == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_stands_out_from_its_ground(browser, page, dark):
    """WCAG 2.1, 1.4.3: contrast of at least 4.5 to 1, computed from what the browser shows, with all folds open."""
    with opened(browser, page, dark=dark) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert seen.check("faintWords") == []


def test_a_screen_reader_meets_named_figures_tables_and_landmarks(browser, page):
    with opened(browser, page) as seen:
        session = seen.page.context.new_cdp_session(seen.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if "role" in n]
    images = [name for role, name in named if role in {"img", "image"}]
    assert "CPU per I/O by place (less is better)" in images
    assert ("table", "IOPS: NVMe/TCP against iSCSI") in named
    assert all(images)
    assert all(name for role, name in named if role in {"table", "region", "navigation", "link"})
    assert [role for role, _ in named].count("main") == 1


def test_the_keyboard_reaches_the_answer_first(browser, page):
    with opened(browser, page) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.getAttribute('href')") == "#answer"
        assert seen.page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desk", "phone"])
@pytest.mark.parametrize("nvme", ["NVMe/TCP", "NVMe/TCP over 25 GbE, four queues"], ids=["short", "long"])
def test_question_answer_and_a_figure_stand_on_the_first_screen(browser, make_case, page_of, size, nvme):
    width, height = size
    case = make_case(nvme=nvme, question="Should a virtual machine reach its storage over NVMe/TCP instead of iSCSI?")
    with opened(browser, page_of(case), width=width, height=height) as seen:
        if nvme == "NVMe/TCP":
            assert seen.check("firstScreen") == []
        assert seen.check("crowded") == []
        assert seen.overflow() == 0
        keep(f"first-{width}.png", seen.page.screenshot())


@pytest.mark.parametrize("width", [1440, 390], ids=["desk", "phone"])
def test_a_long_answer_stays_within_its_column(browser, page, width):
    with opened(browser, page, width=width) as seen:
        beyond = seen.page.evaluate("""() => [...document.querySelectorAll('.claim .verdict')].map(verdict => {
          verdict.textContent = 'No difference that matters in 13 of 14 cells.';
          return verdict.getBoundingClientRect().right - verdict.parentElement.getBoundingClientRect().right;
        })""")
    assert beyond
    assert max(beyond) <= 0


def test_it_is_six_screens_long_until_a_reader_opens_more(browser, page):
    with opened(browser, page, width=1440) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") <= 6 * 900


def test_the_keyboard_opens_a_folded_section_and_a_link_into_it_too(browser, page):
    with opened(browser, page) as seen:
        shown = "document.querySelector('#trials table').checkVisibility({contentVisibilityAuto: true})"
        assert not seen.page.evaluate(shown)
        seen.page.locator("#trials summary").first.focus()
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate(shown)
        seen.page.keyboard.press("Enter")
        assert not seen.page.evaluate(shown)
        seen.page.locator("#first-figure tbody a").first.click()
        assert seen.page.evaluate(shown)


def test_what_is_folded_is_printed(browser, page):
    height = "[...document.querySelectorAll('.fold')].map(d => d.getBoundingClientRect().height)"
    with opened(browser, page) as seen:
        folded = seen.page.evaluate(height)
        seen.page.emulate_media(media="print")
        assert all(printed > 2 * shown for printed, shown in zip(seen.page.evaluate(height), folded, strict=True))
        closed = "[...document.querySelectorAll('details:not(.printed, [open])')].filter(d => d.checkVisibility())"
        assert seen.page.evaluate(closed) == []  # a reader of paper cannot open them


@pytest.mark.slow
def test_a_finding_that_qualifies_the_answer_is_never_folded(browser, make_case, page_of):
    """Neither on the first screen nor below, on a desk or a phone: however many there are."""
    cells = [c.key for c in make_case()[0].cells()]
    severities: tuple[Severity, ...] = ("warning", "critical", "warning", "warning")
    told = tuple(
        Finding(f"check{n}", severity, f"Qualification {n} of the answer.", (cells[n],), ("nvme-tcp",))
        for n, severity in enumerate(severities)
    )
    page = page_of(make_case(findings=told))
    for width in (1440, 390):
        with opened(browser, page, width=width) as seen:
            for n in range(4):
                found = seen.page.locator("#findings .finding li", has_text=f"Qualification {n} of the answer")
                assert found.count() == 1
                assert found.is_visible()
            assert seen.page.locator("#answer .caveat").first.is_visible()
            assert seen.page.locator("#answer .caveat").count() == 3  # two, and how many more there are


def test_twenty_cells_are_eight_screens_long(browser, make_case, page_of):
    with opened(browser, page_of(make_case(sizes=5)), width=1440) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") <= 8 * 900


def test_on_a_phone_tables_scroll_within_themselves_and_labels_of_bars_can_be_read(browser, page):
    with opened(browser, page, width=390) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert seen.overflow() == 0
        assert seen.check("smallLabels") == []


@pytest.mark.parametrize("sizes", [2, 5])
def test_on_paper_no_figure_and_no_table_is_cut_off(browser, make_case, page_of, sizes):
    with opened(
        browser, page_of(make_case(sizes=sizes)), width=695, media="print"
    ) as seen:  # A4 less its margins, at 96 pixels per inch
        assert seen.overflow() == 0
        assert seen.check("cutOff") == []


@pytest.mark.slow
def test_it_prints(browser, page):
    with opened(browser, page, dark=True) as seen:
        data = seen.page.pdf(print_background=True, prefer_css_page_size=True)
    assert data.startswith(b"%PDF")
    keep("report.pdf", data)


@pytest.mark.slow
def test_a_hundred_cells_open_on_a_phone(browser, make_case, tmp_path, write):
    with opened(browser, write(make_case(sizes=25, blocks=20), tmp_path)[0], width=360) as seen:
        assert seen.overflow() == 0
        wanted = {"answer", "sure", "lanes", "matched", "verdicts", "figures", "findings", "method", "repeat", "trials"}
        assert wanted <= set(seen.page.evaluate("[...document.querySelectorAll('section')].map(s => s.id)"))


def test_beside_the_forest_plot_no_column_is_cut_off(browser, page):
    with opened(browser, page) as seen:
        wider = "[...document.querySelectorAll('.compare .scroll')].map(e => e.scrollWidth - e.clientWidth)"
        assert set(seen.page.evaluate(wider)) == {0}
