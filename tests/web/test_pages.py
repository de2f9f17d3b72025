"""The viewer's answers, asked for in this process: pages, files, who may ask, and what may be read."""

import json
import os
import re
import shutil
from html import escape

import pytest

from fairlane.cli.main import run
from fairlane.web.app import PER_PAGE
from fairlane.web.reading import load
from tests.figures import figures
from tests.web.conftest import cut

TOKEN = "correct-horse-battery"  # noqa: S105 - a token of a test


def told(answer):
    """The kinds of the errors on a page."""
    return re.findall(r'data-kind="([a-z0-9-]+)"', answer.text)


def states(answer):
    """The states of the runs in the list."""
    return re.findall(r'class="state (\w+)"', answer.text)


def tree(folder):
    """Every file below ``folder`` with its content and time."""
    return {p: (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in sorted(folder.rglob("*"))}


def test_the_report_is_the_file_that_fairlane_report_writes_and_its_links_work(client, root, tmp_path):
    assert run(["report", str(root / "done"), "--out", str(tmp_path)]) == 0
    asked = client(root)
    page = asked.get("/runs/done/report.html")
    assert page.content == (tmp_path / "report.html").read_bytes()
    links = set(re.findall(r'href="(raw/[^"]+)"', page.text))
    assert len(links) == 24
    for link in links:
        raw = asked.get(f"/runs/done/{link}")
        assert raw.content == (root / "done" / link).read_bytes()
        assert raw.headers["content-type"] == "application/gzip"
        assert raw.headers["content-disposition"].startswith("attachment;")


def test_a_report_is_made_once_and_again_when_the_run_has_changed(client, root, monkeypatch):
    made = []

    def counted(folder):
        made.append(folder)
        return load(folder)

    monkeypatch.setattr("fairlane.web.pages.load", counted)
    asked = client(root)
    first = asked.get("/runs/done/report.html").content
    assert asked.get("/runs/done/report.html").content == first
    assert len(made) == 1
    cut(root / "done", 9)
    assert asked.get("/runs/done/report.html").content != first
    assert len(made) == 2


def test_nothing_in_the_folder_is_changed(client, root):
    before, asked = tree(root), client(root)
    shutil.copytree(root / "done", root / "two")
    before |= tree(root / "two")
    before = tree(root)
    for path in ("/", "/runs/done/", "/runs/done/report.html", "/compare?run=done&run=two", "/runs/done/study.yaml"):
        assert asked.get(path).status_code == 200, path
    assert tree(root) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/runs/done/", "/compare", "/nothing"])
def test_only_reading_is_allowed(client, root, method, path):
    answer = client(root).request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_the_headers_and_no_body(client, root):
    answer = client(root).request("HEAD", "/runs/done/journal.jsonl")
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) == (root / "done" / "journal.jsonl").stat().st_size
    assert answer.content == b""


@pytest.mark.parametrize(
    "path",
    [
        "/runs/done/raw/../../../secret",
        "/runs/done/raw/..%2f..%2f..%2fsecret",
        "/runs/done/raw/%2e%2e/study.yaml",
        "/runs/..%2f..%2fsecret",
        "/runs//etc/passwd",
        "/runs/done/raw//etc/passwd",
        "/runs/done/raw/%00",
        "/runs/done/raw/",
        "/runs/done/raw",
        "/runs/done/raw/link.tar.gz",
        "/runs/done/raw/fifo",
        "/runs/done/secret",
        "/runs/linked/",
        "/static/..%2fapp.py",
        "/static/../app.py",
    ],
)
def test_nothing_else_can_be_read(client, root, tmp_path, path):
    (tmp_path / "secret").write_text("the secret")
    (root / "done" / "secret").write_text("the secret")
    (root / "done" / "raw" / "link.tar.gz").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "done" / "raw" / "fifo")
    (root / "linked").symlink_to(root / "done")
    answer = client(root).get(path)
    assert answer.status_code == 404
    assert "the secret" not in answer.text
    assert "root:" not in answer.text


def test_a_report_of_a_run_with_links_is_refused(client, root, tmp_path):
    (tmp_path / "secret").write_text("the secret")
    victim = next((root / "done" / "raw").iterdir())
    victim.unlink()
    victim.symlink_to(tmp_path / "secret")
    answer = client(root).get("/runs/done/report.html")
    assert answer.status_code == 422
    assert told(answer) == ["not-a-file"]


@pytest.mark.parametrize("path", ["/", "/runs/done/", "/nothing", "/static/viewer.js", "/runs/done/journal.jsonl"])
def test_every_answer_has_the_strict_headers(client, root, path):
    headers = client(root).get(path).headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_report_allows_its_own_style_and_nothing_else(client, root):
    policy = client(root).get("/runs/done/report.html").headers["content-security-policy"]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]{44}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        policy,
    )


def test_no_page_has_script_or_style_of_its_own(client, root):
    cut(root / "done", 9)
    asked = client(root)
    for path in ("/", "/runs/done/", "/nothing"):
        page = asked.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
        assert re.findall(r"<script[^>]*>", page) in ([], ['<script src="/static/viewer.js" defer>'])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", "", "[::2]:8642"])
def test_another_name_for_this_machine_is_turned_away(client, root, host):
    assert client(root).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost", "LOCALHOST:8642", "[::1]:8642"])
def test_its_own_names_are_not(client, root, host):
    assert client(root).get("/", headers={"host": host}).status_code == 200


def test_the_token_is_asked_for_everywhere_and_kept_in_a_cookie(client, root):
    asked = client(root, frozenset(), TOKEN, "http://bench:8642")
    for path in (
        "/",
        "/runs/done/",
        "/runs/done/raw/x",
        "/static/viewer.js",
        "/nothing",
        f"/?token={TOKEN}x",
        "/?token=",
    ):
        answer = asked.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert "done" not in answer.text
    first = asked.get(f"/?q=small&token={TOKEN}", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/?q=small")
    cookie = first.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert asked.get("/").status_code == 200
    asked.cookies.clear()
    assert asked.get("/").status_code == 401


def test_the_token_does_not_lead_to_another_host(client, root):
    asked = client(root, frozenset(), TOKEN, "http://bench:8642")
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        answer = asked.get(f"http://bench:8642{path}?token={TOKEN}", follow_redirects=False)
        assert re.match(r"/[^/\\]", answer.headers["location"]), answer.headers["location"]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        ("Bearer wrong", 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer", 401),
    ],
)
def test_the_token_as_bearer(client, root, header, status):
    assert client(root, frozenset(), TOKEN).get("/", headers={"authorization": header}).status_code == status


def test_hostile_names_are_text(client, root, finished):
    name = "a <img src=x onerror=alert(1)> \u202e"
    shutil.copytree(finished, root / name)
    page = client(root).get("/").text
    assert "<img" not in page
    assert "\u202e" not in re.sub(r'value="[^"]*"', "", page)
    assert r"a &lt;img src=x onerror=alert(1)&gt; \u202e" in page
    assert r"The &lt;script&gt;alert(1)&lt;/script&gt; lane \u202eevil" in page
    (address,) = {a for a in re.findall(r'href="([^"]+report\.html)"', page) if "img" in a}
    assert client(root).get(address).status_code == 200


def test_a_damaged_run_is_shown_with_its_error_and_what_to_do(client, root):
    (root / "done" / "study.yaml").write_text("name: <b>other</b>")
    asked = client(root)
    listed = asked.get("/")
    assert states(listed) == ["damaged"]
    assert told(listed) == ["run-changed"]
    page = asked.get("/runs/done/")
    assert told(page) == ["run-changed"]
    (entry,) = asked.viewer.catalogue.entries().values()
    assert entry.hint
    assert escape(entry.hint) in page.text
    assert asked.get("/runs/done/report.html").status_code == 422


def test_damage_that_only_the_report_finds_is_remembered_by_the_list(client, root):
    journal = root / "done" / "journal.jsonl"
    text = journal.read_text().replace('"block": 0', '"block": 99')
    journal.write_text(text)
    asked = client(root)
    assert states(asked.get("/")) == ["complete"]
    assert asked.get("/runs/done/report.html").status_code == 422
    listed = asked.get("/")
    assert states(listed) == ["damaged"]
    assert told(listed) == ["journal-damaged"]


def test_comparing_is_fairlane_compare(client, root, finished):
    shutil.copytree(finished, root / "team" / "done")
    asked = client(root)
    page = asked.get("/compare", params=[("run", "team/done"), ("run", "done")])
    assert page.status_code == 200
    assert '<section id="part-1"' in page.text
    links = re.findall(r'href="(runs/[^"]+)"', page.text)
    assert links
    assert all(asked.get(f"/{link}").status_code == 200 for link in links)


def test_the_baseline_is_the_oldest_or_the_one_asked_for(client, root, finished):
    shutil.copytree(finished, root / "new")
    manifest = json.loads((root / "new" / "run.json").read_text())
    (root / "new" / "run.json").write_text(json.dumps({**manifest, "created": "2099-01-01"}))
    asked = client(root)
    plain = asked.get("/compare", params=[("run", "new"), ("run", "done")]).text
    other = asked.get("/compare", params=[("run", "new"), ("run", "done"), ("baseline", "new")]).text
    assert re.search(r"fairlane compare done=\S+ new=\S+", plain)
    assert re.search(r"fairlane compare new=\S+ done=\S+", other)


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [("", 422, "one-run"), ("?run=done", 422, "one-run"), ("?run=done&run=no", 404, "web")],
)
def test_too_few_runs_to_compare(client, root, query, status, kind):
    answer = client(root).get(f"/compare{query}")
    assert (answer.status_code, told(answer)) == (status, [kind])
    assert status == 422 or "&#39;no&#39;" in answer.text


def test_the_list_comes_in_pages_that_keep_the_search(client, root, finished):
    for n in range(PER_PAGE + 5):
        (folder := root / f"run-{n:03d}").mkdir()
        for name in ("run.json", "study.yaml", "journal.jsonl"):
            shutil.copy(finished / name, folder / name)
    asked = client(root)
    first = asked.get("/?q=run-&sort=name").text
    assert first.count('class="run"') == PER_PAGE
    (shown,) = re.findall(r'id="shown"[^>]*>([^<]*)', first)
    assert figures(shown) == [str(PER_PAGE + 5), str(PER_PAGE + 6)]
    (after,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = asked.get("/" + after.replace("&amp;", "&")).text
    assert second.count('class="run"') == 5
    assert 'value="run-"' in second
    assert asked.get("/?page=99999").text.count('class="run"') == 6
    assert asked.get("/?page=x").text.count('class="run"') == PER_PAGE


def test_an_empty_folder_says_how_to_begin(client, tmp_path):
    page = client(tmp_path).get("/").text
    assert f"fairlane run demo --out {tmp_path}/first" in page


def test_wrong_questions_are_answered_in_words(client, root):
    asked = client(root)
    assert asked.get("/?sort=size").status_code == 422
    assert asked.get("/?state=lost").status_code == 422
    assert asked.get("/runs/nope/").status_code == 404
    assert asked.get("/runs/done", follow_redirects=False).headers["location"] == "/runs/done/"


def test_an_interrupted_run_is_followed_without_javascript(client, root):
    cut(root / "done", 9)
    page = client(root).get("/runs/done/").text
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in page
    assert '<progress max="24" value="8"' in page
    assert 'id="idle"' in page
    assert "<svg" in page


def test_the_page_of_a_finished_run_needs_neither(client, root):
    page = client(root).get("/runs/done/").text
    assert "noscript" not in page
    assert 'class="go" href="report.html"' in page
    (answer,) = re.findall(r'<div class="answer"><p>([^<]*)', page)
    assert all(word in answer for word in ("lane", "faster", "slow"))
    assert figures(answer.partition("faster")[2])[0] == "2"


def test_a_folder_whose_name_is_no_text_is_shown_and_does_no_harm(client, root, finished):
    shutil.copytree(finished, os.fsdecode(os.fsencode(root) + b"/run-\xff"))
    page = client(root).get("/")
    assert r"run-\udcff" in page.text
    assert told(page) == ["not-text"]
    assert client(root).get("/runs/run-%FF/").status_code == 404
