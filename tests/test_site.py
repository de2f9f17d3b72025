"""The documentation as a site: built without network or warning, whole, and loading nothing from elsewhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

from fairlane import registry
from fairlane.cli.main import main
from fairlane.cli.main import run as fairlane
from fairlane.errors import Exit
from fairlane.metrics import METRICS
from tests.report.chromium import PATIENCE, chromium

pytestmark = pytest.mark.xdist_group("browser")  # the site is built once, and a browser reads it

ROOT = Path(__file__).parents[1]
NOWHERE = "http://127.0.0.1:9"
"""A proxy that nobody answers at."""

LOADS = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
"""Element -> attributes whose address a browser fetches by itself."""
INERT = {"canonical", "next", "prev", "alternate"}
"""``rel`` of links that a browser does not fetch."""


class Page(HTMLParser):
    """What a page of the site loads, where it links to, its anchors, its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.styles: list[str] = []
        self.text = ""
        self.prose: list[str] = []
        self._within: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in ("meta", "link", "img", "br", "hr", "input", "source"):
            self._within.append(tag)
        if not (tag == "link" and set(given.get("rel", "").split()) & INERT):
            self.loads += [given[name] for name in LOADS.get(tag, ()) if name in given]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.styles.append(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        while tag in self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._within and self._within[-1] == "style":
            self.styles.append(data)
        elif not self._within or self._within[-1] != "script":
            self.text += data
            if not {"code", "pre", "title"} & set(self._within):
                self.prose.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it, with every way out of the machine closed to it, and without a sample
    report, whatever the cache has."""
    out = tmp_path_factory.mktemp("site") / "site"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, **proxies, "NO_PROXY": "", "no_proxy": "", "NO_MKDOCS_2_WARNING": "1", "SAMPLE": str(out)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def external(address: str) -> bool:
    return bool(urlsplit(address).netloc) and not address.startswith("data:")


@pytest.mark.slow
def test_every_page_of_the_documentation_is_in_the_site(site: Path, pages: dict[Path, Page]) -> None:
    for source in (ROOT / "docs").rglob("*.md"):
        page = site / source.relative_to(ROOT / "docs").with_suffix(".html")
        assert page in pages, f"{source.name} is no page of the site"
    assert {site / "contributing.html", site / "changelog.html"} <= pages.keys()


def test_no_markup_is_left_over(site: Path, pages: dict[Path, Page]) -> None:
    """What a forge reads as a list, a table, a link or emphasis is one in the site, too."""
    for path, page in pages.items():
        for prose in page.prose:
            left = re.search(r"(?:^|\n)\s*[*|] |\*\*|\|---|\]\(|`", prose)
            assert not left, f"{path.relative_to(site)}: {prose.strip()[:200]}"


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.loads:
            assert not external(address), f"{path.relative_to(site)} loads {address}"
        for style in page.styles:
            assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style), path
    for path in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)\s]*", path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(site)} loads {found}"
    for path in site.rglob("*.svg"):
        assert not re.search(r"(?:href|src)=['\"](?:https?:)?//", path.read_text(encoding="utf-8")), path


def test_what_the_theme_would_load_from_elsewhere_is_not_used(site: Path, pages: dict[Path, Page]) -> None:
    """Addresses in the theme's scripts: of diagrams and of a repository's facts, which no page here has; those in
    messages and licences are not fetched. Left out: ``lunr``, the stemmers of other languages, which no page of a site
    in English asks for."""
    known = {"unpkg.com/mermaid", "api.github.com/repos", "api.github.com/users"}
    said = {"bit.ly/2s3ChXG", "clipboardjs.com/", "unpkg.com/resize-observer-polyfill"}
    scripts = [p for p in (site / "assets").rglob("*.js") if "lunr" not in p.parts]
    assert len(scripts) >= 2
    for path in scripts:
        script = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in set(re.findall(r"https?://([a-z0-9.-]+\.[a-z]+/[\w-]*)", script)):
            assert address in known | said, f"{path.relative_to(site)} names {address}"
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert index["config"]["lang"] == ["en"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text, path
        assert 'data-md-component="source"' not in text, path


def test_every_internal_link_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    counted = 0
    for path, page in pages.items():
        if path.name == "404.html":  # its addresses are the server's
            continue
        for address in [*page.links, *page.loads]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(site)} links to {address}"
            if parts.fragment and target in pages and parts.fragment != "__skip":
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.relative_to(site)} links to {address}"
            counted += 1
    assert counted > 1000


def commands(called: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield called, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=called)
        for name in command.list_commands(context):
            if (child := command.get_command(context, name)) and not child.hidden:
                yield from commands(f"{called} {name}", child)


def test_the_reference_has_every_command_with_its_options(site: Path, pages: dict[Path, Page]) -> None:
    page = pages[site / "reference" / "commands.html"]
    assert len(list(commands("fairlane", main))) > 20
    for called, command in commands("fairlane", main):
        assert called.replace(" ", "-") in page.anchors
        for option in (name for param in command.params for name in param.opts if name.startswith("--")):
            assert option in page.text, f"{called} {option}"
        for line in getattr(command, "examples", "").splitlines():
            assert line.strip() in page.text, f"{called}: {line}"


def test_the_reference_has_every_metric_check_plugin_and_exit_code(site: Path, pages: dict[Path, Page]) -> None:
    def text(name: str) -> str:
        return " ".join(pages[site / "reference" / f"{name}.html"].text.split())

    for metric in METRICS.values():
        assert metric.name in text("metrics")
        assert " ".join(metric.definition.split()) in text("metrics")
    for name in registry.names("checks"):
        assert name in text("checks")
    for package in ("platforms", "lanes", "workloads", "probes", "importers", "checks"):
        for name in registry.names(package):
            assert name in text("plugins"), f"{package}/{name}"
    for code in Exit:
        assert f"{code.value} {code.name}" in text("interface")


def test_the_reference_has_every_environment_variable_that_the_code_reads(site: Path, pages: dict[Path, Page]) -> None:
    read = re.compile(r"""environ(?:\.get\(|\.setdefault\(|\[)"([A-Z_]+)\"""")
    names = {name for path in (ROOT / "src").rglob("*.py") for name in read.findall(path.read_text(encoding="utf-8"))}
    assert names >= {"FAIRLANE_CACHE", "KUBECONFIG", "NO_COLOR"}
    text = pages[site / "reference" / "interface.html"].text.split()
    assert names <= set(text)


@pytest.mark.slow
def test_a_dead_link_would_fail_the_build(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    index = tmp_path / "docs" / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + "\n[nowhere](nowhere.md)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr


def test_every_picture_is_in_a_page(site: Path, pages: dict[Path, Page]) -> None:
    shown = {
        (path.parent / unquote(address.partition("#")[0])).resolve()
        for path, page in pages.items()
        for address in page.loads
    }
    assert set((site / "pictures").iterdir()) <= shown


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("from_server", [False, True], ids=["folder", "server"])
def test_a_browser_reads_it(site: Path, served: str, *, from_server: bool) -> None:
    base = served if from_server else site.as_uri()
    errors: list[str] = []
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "statistics-in-pictures.html", "reference/commands.html"):
            page.goto(f"{base}/{name}")
            page.wait_for_load_state("networkidle")
            broken = "() => [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
            assert page.evaluate(broken) == 0
        if from_server:
            page.locator(".md-search__input").click()
            page.locator(".md-search__input").press_sequentially("drift")
            # the list is drawn anew with every letter
            page.locator(".md-search-result__link[href*=statistics]").first.wait_for(state="attached")
    assert not errors
    assert asked
    assert not [url for url in asked if not url.startswith((base, "data:", "blob:"))]


def test_a_sample_report_of_invented_figures_is_refused(tmp_path: Path) -> None:
    assert fairlane(["run", "fake", "--blocks", "2", "--out", str(tmp_path / "run")]) == Exit.OK
    done = subprocess.run(
        [sys.executable, "docs/_make/sample.py"],
        cwd=ROOT,
        env={**os.environ, "SAMPLE": str(tmp_path / "run")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "expected one of the lab" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
