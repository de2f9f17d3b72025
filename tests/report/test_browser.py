"""The report in a real Chromium: it loads nothing, complains of nothing, and fits a phone, a desk and a page.

The browser is driven over its debugging pipe (file descriptors 3 and 4, JSON ended by NUL): no port, no driver.
FAIRLANE_SCREENSHOTS=DIR keeps the pictures, to be looked at.
"""

import base64
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
CHECKS = Path(__file__).with_name("page_checks.js").read_text()
COMPLAINTS = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}


class Browser:
    """One page in one Chromium. Everything it asks for or complains of is kept in ``events``."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def wire() -> None:  # in the child: the pipe's ends become 3 and 4, whatever their numbers are
            ends = os.dup(to_read), os.dup(to_write)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=wire,  # noqa: PLW1509 - no threads yet
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._watchdog = threading.Timer(120, self.process.kill)  # a reader of a dead browser's pipe sees its end
        self._watchdog.start()
        self._buffer, self._last, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _message(self) -> Any:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "Chromium ended"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, **params: Any) -> Any:
        self._last += 1
        request: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._last:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._message())

    def ask(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def check(self, function: str) -> Any:
        """The complaints of a function of page_checks.js."""
        return self.ask(f"(() => {{ {CHECKS}; return {function}() }})()")

    def screenshot(self) -> bytes:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def close(self) -> None:
        self._watchdog.cancel()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._read)
        os.close(self._write)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(case, tmp_path_factory, write):
    return write(case, tmp_path_factory.mktemp("run"))[0]


def keep(name: str, data: bytes) -> None:
    if folder := os.environ.get("FAIRLANE_SCREENSHOTS"):
        Path(folder, name).write_bytes(data)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_nothing_is_loaded_nothing_complains_and_it_fits(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.title") == "demo · Fairlane report"
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(", "))) < 3 * 60) is dark
    picture = browser.screenshot()
    assert picture.startswith(b"\x89PNG")
    keep(f"report-{width}-{'dark' if dark else 'light'}.png", picture)
    asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    assert [url for url in asked if url != page.as_uri() and not url.startswith("data:")] == []
    assert [e for e in browser.events if e.get("method") in COMPLAINTS] == []


def test_the_policy_would_stop_what_does_not_belong(browser, page):
    browser.open(page)
    asked = browser.ask(
        "new Promise(r => { document.addEventListener('securitypolicyviolation', e => r(e.violatedDirective));"
        "document.body.appendChild(document.createElement('img')).src = 'http://127.0.0.1:9/x.png' })"
    )
    assert asked == "img-src"


@pytest.mark.parametrize("nvme", ["NVMe/TCP", "NVMe/TCP over 25 GbE, four queues, header digest, jumbo frames"])
def test_no_words_lie_over_others_in_the_figures(browser, make_case, tmp_path, nvme, write):
    browser.open(write(make_case(nvme=nvme), tmp_path)[0])
    assert browser.check("laidOver") == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_stands_out_from_its_ground(browser, page, dark):
    """WCAG 2.1, 1.4.3: contrast of at least 4.5 to 1, computed from what the browser shows, with all folds open."""
    browser.open(page, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.check("faintWords") == []


def test_a_screen_reader_meets_named_figures_tables_and_landmarks(browser, page):
    browser.open(page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if "role" in n]
    images = [name for role, name in named if role in {"img", "image"}]
    assert "IOPS: NVMe/TCP against iSCSI" in images
    assert all(images)
    assert all(name for role, name in named if role in {"table", "region", "navigation", "link"})
    assert [role for role, _ in named].count("main") == 1


def test_the_keyboard_reaches_the_answer_first(browser, page):
    browser.open(page)
    key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **key)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **key)
    assert browser.ask("document.activeElement.getAttribute('href')") == "#answer"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0


def test_it_prints(browser, page):
    browser.open(page, dark=True)
    data = browser.pdf()
    assert data.startswith(b"%PDF")
    keep("report.pdf", data)


def test_a_hundred_cells_open_on_a_phone(browser, make_case, tmp_path, write):
    path = write(make_case(sizes=25, blocks=20), tmp_path)[0]
    browser.open(path, width=360)
    assert browser.ask("document.documentElement.scrollWidth") <= 360
    assert browser.ask("document.querySelectorAll('section').length") == 11


def test_beside_the_forest_plot_no_column_is_cut_off(browser, page):
    browser.open(page)
    wider = "[...document.querySelectorAll('.compare .scroll')].map(e => e.scrollWidth - e.clientWidth)"
    assert browser.ask(wider) == [0, 0]
