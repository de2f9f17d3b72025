"""A real Chromium for the tests of pages: what it asks the network for and complains of is kept."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 600_000
"""Milliseconds that Chromium may take to start and to answer: Playwright's 30 s are less than a busy machine takes."""
CHECKS = Path(__file__).with_name("page_checks.js").read_text()


@dataclass(frozen=True)
class Opened:
    """A page as a reader has it open."""

    page: Page
    asked: list[str]
    """Addresses that it wanted, beside its own and those that carry their data in themselves."""
    complaints: list[str]
    """What the console says, and what was thrown."""

    def check(self, function: str) -> Any:
        """The complaints of a function of page_checks.js."""
        return self.page.evaluate(f"() => {{ {CHECKS}; return {function}() }}")

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return max(0, wider)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips, visibly, where there is none."""
    if not PROGRAM:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, media: Any = None
) -> Iterator[Opened]:
    """The page in a window of its own. ``media``: ``print``."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        is_mobile=width < 600,
    )
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        asked: list[str] = []
        complaints: list[str] = []
        own = path.as_uri()
        page.on("request", lambda r: None if r.url == own or r.url.startswith("data:") else asked.append(r.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.emulate_media(media=media)
        page.goto(own)
        yield Opened(page, asked, complaints)
    finally:
        context.close()
