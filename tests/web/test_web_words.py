"""The words of the viewer, held by one snapshot: its pages without tags, and how a run is told that is not finished."""

import re
from html import unescape

from fairlane import __version__
from fairlane.web.follow import Follower
from tests.web.conftest import cut


def words(page, root):
    """A page's text, a line for each element that has some; without what differs from run to run."""
    text = re.sub(r"<(style|svg|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = [" ".join(unescape(line).split()) for line in re.sub(r"<[^>]*>", "\n", text).splitlines()]
    told = "\n".join(line for line in lines if line).replace(str(root), "ROOT").replace(__version__, "VERSION")
    return re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?", "TIME", told)


def test_pages(client, root, tmp_path, snapshot):
    (tmp_path / "empty").mkdir()
    asked = client(root)
    told = {
        "nothing": client(tmp_path / "empty").get("/").text,
        **{
            path: asked.get(path).text
            for path in ("/", "/?q=zzz", "/runs/done/", "/runs/no/", "/?sort=x", "/compare", "/studies/small/")
        },
    }
    cut(root / "done", 9)
    told["interrupted"] = client(root).get("/runs/done/").text
    (root / "done" / "study.yaml").write_text("name: other")
    told["damaged"] = client(root).get("/runs/done/").text
    assert {name: words(page, tmp_path) for name, page in told.items()} == snapshot


def test_a_run_half_way(root, snapshot):
    cut(root / "done", 9)
    state = Follower(root / "done").poll()
    rows = [(row.text, row.interval) for contest in state.contests for row in contest.rows]
    assert (state.status, state.rule, [contest.title for contest in state.contests], rows) == snapshot
