"""The viewer in a real Chromium: list, search, report, comparison, history, and the page of a study that runs.

FAIRLANE_SCREENSHOTS=DIR keeps pictures, to be looked at.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from testkit.held import HeldRun
from tests.report.chromium import PATIENCE
from tests.report.chromium import chromium as started
from tests.web.conftest import cut

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)  # five seconds otherwise: less than a busy machine takes to load a page


@pytest.fixture(scope="module")
def chromium():
    with started() as browser:
        yield browser


@pytest.fixture
def pages(chromium):
    """Opens pages; whatever any of them complains of, or asks of another host, fails the test."""
    complaints, opened = [], []

    def at_home(asked):
        if not asked.url.startswith(("http://127.0.0.1:", "data:")):
            complaints.append(f"asks {asked.url}")

    def page(*, width=1440, dark=False, script=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 844 if width < 500 else 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        opened.append(context)
        new = context.new_page()
        new.set_default_timeout(PATIENCE)
        new.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        new.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        new.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        new.on("request", at_home)
        return new

    yield page
    for context in opened:
        context.close()
    assert complaints == []


def accessible(page):
    """axe-core's rules of WCAG 2.1 A and AA, contrast included."""
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]})
    assert found.violations_count == 0, found.generate_report()


def keep(page, name):
    if folder := os.environ.get("FAIRLANE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def narrow(page):
    return page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


@pytest.mark.slow
def test_from_the_list_to_a_report_and_a_comparison(pages, root, inside, finished):
    shutil.copytree(finished, root / "a <img src=x onerror=alert(1)> \u202e")
    shutil.copytree(finished, root / "team" / "other")
    (root / "team" / "other" / "study.yaml").write_text("changed")
    shutil.copytree(finished, root / "team" / "third")
    page = pages()
    page.goto(inside()[1])
    expect(page.locator(".run")).to_have_count(4)
    expect(page.get_by_role("heading", name=r"a <img src=x onerror=alert(1)> \u202e")).to_be_visible()
    expect(page.locator("[data-kind=run-changed]")).to_be_visible()
    page.get_by_role("searchbox").fill("team")
    page.keyboard.press("Enter")
    expect(page.locator(".run")).to_have_count(2)
    expect(page.get_by_role("searchbox")).to_have_value("team")
    page.get_by_role("link", name="show all").click()
    page.locator("a[href='/runs/done/report.html']").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Is fast faster?")
    assert page.evaluate("getComputedStyle(document.querySelector('.say')).paddingLeft") == "14.4px"
    with page.expect_download() as download:
        page.locator("#trials summary").click()
        page.locator("#trials a").first.click()
    assert Path(download.value.path()).read_bytes()[:2] == b"\x1f\x8b"
    page.go_back()
    page.locator("input[name=run][value=done]").check()
    page.locator("input[name=run][value='team/third']").check()
    expect(page.locator("#picked")).to_have_text("done, team/third")
    page.locator("form[action='/compare'] button").click()
    expect(page.locator("#part-1")).to_be_visible()


@pytest.mark.slow
def test_the_list_shows_what_comes_while_it_is_looked_at(pages, root, inside, finished):
    page = pages()
    page.goto(inside()[1])
    expect(page.locator(".badge.invented")).to_have_count(1)
    page.evaluate("window.stayed = true")
    next((root / "done" / "raw").iterdir()).unlink()
    cut(root / "done", 9)
    expect(page.locator(".run .state")).to_have_text("interrupted")
    expect(page.locator(".badge.incomplete")).to_have_count(1)
    page.locator("input[name=run]").check()
    shutil.copytree(finished, root / "new")
    expect(page.locator("#renewed")).to_be_visible()
    assert page.evaluate("window.stayed")
    expect(page.locator("input[name=run]")).to_be_checked()
    page.locator("#renewed").click()
    expect(page.locator(".run")).to_have_count(2)


@pytest.mark.slow
@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_two_dates_of_a_study_are_compared(pages, root, inside, finished, script):
    for day, name in enumerate(("done", "again", "third"), start=1):
        if name != "done":
            shutil.copytree(finished, root / name)
        manifest = json.loads((root / name / "run.json").read_text())
        (root / name / "run.json").write_text(json.dumps({**manifest, "created": f"2026-01-0{day}T00:00:00"}))
    page = pages(script=script)
    page.goto(inside()[1])
    page.locator("a[href='/studies/small/']").first.click()
    expect(page.locator("#h-change")).to_have_text("From 2026-01-02 00:00 to 2026-01-03 00:00")
    page.locator("input[name=from][value=done]").check()
    page.get_by_role("button", name="Show the change").click()
    expect(page.locator("#h-change")).to_have_text("From 2026-01-01 00:00 to 2026-01-03 00:00")
    expect(page.locator(".status")).to_have_text("IOPS: tie in 4 of 4 comparisons.")
    expect(page.locator("#h-time ~ .figures svg")).to_be_visible()
    page.get_by_role("link", name="The whole comparison").click()
    expect(page.locator("#part-1")).to_be_visible()


@pytest.mark.slow
def test_a_page_follows_a_study(pages, studies, root, inside):
    _, url = inside()
    page = pages()
    with HeldRun("run", studies.write(looks="[12]"), "--out", root / "live", "--jobs", "1") as study:
        study.let(1)
        page.goto(url)
        progress = page.locator(".bottom a[href='/runs/live/']")
        while progress.count() == 0:
            page.wait_for_timeout(500)
            page.reload()
        progress.click()
        phase, status = page.locator("#phase"), page.locator(".status")
        expect(phase).to_have_text("running")
        first = status.inner_text()
        page.evaluate("window.stayed = true")  # what comes, comes without loading the page again
        study.let(1)
        expect(status).not_to_have_text(first)
        study.let(24)
        expect(page.locator("#intervals svg")).to_be_visible()
        expect(page.locator("#intervals")).to_contain_text(r"The <script>alert(1)</script> lane \u202eevil")
        expect(page.locator("#intervals tbody tr").first).to_contain_text("better")
        study.release()
        expect(phase).to_have_text("complete")
    expect(page.locator("#intervals tbody tr")).to_have_count(0)  # the report has the verdicts
    assert page.evaluate("window.stayed")
    assert page.title().startswith("complete")
    keep(page, "viewer-live")
    page.locator("#progress a[href='report.html']").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Is fast faster?")


@pytest.fixture
def folder_of_all(root, finished):
    """Runs in several states."""
    for name in ("half", "broken"):
        shutil.copytree(finished, root / name)
    cut(root / "half", 19)
    (root / "broken" / "run.json").write_text("{")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.usefixtures("folder_of_all")
def test_it_fits_and_is_accessible(pages, inside, width, dark):
    _, url = inside()
    page = pages(width=width, dark=dark)
    for path in ("", "runs/half/", "runs/done/", "runs/broken/", "studies/small/?from=done&to=half"):
        page.goto(url + path)
        if path == "runs/half/":
            expect(page.locator("#intervals tbody tr").first).to_be_visible()
        name = path.partition("?")[0].strip("/").replace("/", "-") or "list"
        keep(page, f"viewer-{name}-{width}-{'dark' if dark else 'light'}")
        assert narrow(page), path
        accessible(page)


def test_without_javascript_the_page_loads_itself_again(pages, root, inside):
    cut(root / "done", 9)
    page = pages(script=False)
    page.goto(f"{inside()[1]}runs/done/")
    expect(page.locator(".status")).to_have_text("8 of 24 trials")
    assert page.locator("noscript meta, head meta[http-equiv=refresh]").count() == 1


def test_the_keyboard_alone_is_enough(pages, root, inside):
    page = pages()
    page.goto(inside()[1])
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("searchbox")).to_be_focused()
