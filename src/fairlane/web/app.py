"""The viewer's pages: list of runs, a run and its report, runs side by side, a study over time; and what pages ask
for while a study runs."""

import asyncio
import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from fairlane import __version__
from fairlane.errors import FairlaneError
from fairlane.report.svg import Figure
from fairlane.report.text import clean
from fairlane.runs.raw import FOLDER as RAW
from fairlane.web import history, places, views
from fairlane.web.catalogue import ORDER, Catalogue, Entry, Sort
from fairlane.web.guard import LOCAL, Guard
from fairlane.web.live import Limits, Live, Shown
from fairlane.web.pages import Busy, Pages

PER_PAGE = 50
PER_HISTORY = 100
"""Runs of a study that can be chosen: the newest."""
_SORTS = (("newest", "newest first"), ("oldest", "oldest first"), ("name", "by name"), ("state", "by state"))
_CHUNK = 256 * 1024


class Viewer:
    """The web application for the runs below ``root``. ``limits``: of the pages of running studies."""

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self.catalogue = Catalogue(root)
        self.pages = Pages(self.catalogue)
        self.live = Live(limits)

    def app(self, hosts: Iterable[str] = LOCAL, token: str = "") -> Starlette:
        """The ASGI application; ``hosts`` and ``token`` as in ``Guard``."""
        views.environment().globals["version"] = __version__
        routes = [
            Route("/", self.list),
            Route("/runs.json", self.list_state),
            Route("/compare", self.compare),
            Route("/studies/{name}/", self.history),
            Route("/static/{name}", self.static),
            Route("/runs/{path:path}", self.run),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(Guard, hosts=hosts, token=token)],
            exception_handlers={HTTPException: _not_found, FairlaneError: _failed},
        )

    async def close(self) -> None:
        """Ends its threads."""
        self.live.close()
        await self.pages.close()

    async def list(self, request: Request) -> Response:
        listed = await self._listed(request)
        query, page = listed["query"], listed["query"]["page"]
        return HTMLResponse(
            views.page(
                "runs.html.j2",
                **listed,
                where=clean(str(self.catalogue.root)),
                example=clean(f"{self.catalogue.root}/first"),
                sorts=_SORTS,
                here=views.address(**query),
                before=views.address(**{**query, "page": page - 1}),
                after=views.address(**{**query, "page": page + 1}),
            )
        )

    async def list_state(self, request: Request) -> Response:
        """The same runs as in the list, for a page that asks again."""
        listed = await self._listed(request)
        runs = [
            {
                "name": run.title,
                "state": run.state,
                "badges": [badge.text for badge in run.badges],
                "critical": run.critical,
                "answers": run.answers,
                "html": views.item(run),
            }
            for run in listed["runs"]
        ]
        return _json(request, json.dumps({"every": 5 * views.EVERY, "total": listed["total"], "runs": runs}).encode())

    async def _listed(self, request: Request) -> dict[str, Any]:
        """The runs that a request asks for, and what it asked."""
        parameters = request.query_params
        sort = parameters.get("sort", "newest")
        query = {"q": parameters.get("q", "")[:200], "state": parameters.get("state", ""), "sort": sort}
        if sort not in dict(_SORTS) or query["state"] not in ("", *ORDER):
            raise FairlaneError("list-order", "the list knows no such order or state", hint="choose one in the list")
        everything = await asyncio.to_thread(self.catalogue.entries)
        matches = self.catalogue.search(query["q"], query["state"], cast(Sort, sort))
        last = max(1, -(-len(matches) // PER_PAGE))
        number = parameters.get("page", "1")
        page = min(last, max(1, int(number) if re.fullmatch(r"\d{1,6}", number) else 1))
        runs = matches[(page - 1) * PER_PAGE : page * PER_PAGE]
        self.pages.check(runs)
        states = [(state, sum(e.state == state for e in everything.values())) for state in ORDER]
        return {
            "total": len(everything),
            "matching": len(matches),
            "runs": runs,
            "query": {**query, "page": page},
            "last_page": last,
            "states": [(state, n) for state, n in states if n],
        }

    async def compare(self, request: Request) -> Response:
        known = await asyncio.to_thread(self.catalogue.entries)
        baseline = request.query_params.get("baseline", "")
        names = dict.fromkeys([*([baseline] if baseline else []), *request.query_params.getlist("run")])
        chosen = sorted((_named(known, name) for name in names), key=lambda e: (e.name != baseline, e.created, e.name))
        return _report(await self.pages.comparison(chosen))

    async def history(self, request: Request) -> Response:
        """The runs of one study, and what changed between two of them: the newest, or those asked for."""
        study = request.path_params["name"]
        known = await asyncio.to_thread(self.catalogue.entries)
        runs = self.catalogue.study(study)
        if not runs:
            raise HTTPException(404, clean(f"no run here is of a study {study!r}", 300))
        self.pages.check(reversed(runs[-history.MOST :]))
        whole = [run for run in runs if run.state == "complete"]
        before, after = (whole[-2], whole[-1]) if len(whole) > 1 else (None, None)
        if asked := [request.query_params.get(key, "") for key in ("from", "to") if key in request.query_params]:
            before, after = (_named(known, name) for name in (asked * 2)[:2])
        change: str | FairlaneError = ""
        if before and after and before != after:
            try:
                change = await self.pages.change(before, after)
            except FairlaneError as error:
                change = error
        figures = await asyncio.to_thread(self._over_time, whole[-history.MOST :])
        listed = list(zip(runs, [runs[0], *runs[:-1]], strict=True))[-PER_HISTORY:]
        return HTMLResponse(
            views.page(
                "history.html.j2",
                study=clean(study),
                total=len(runs),
                first=runs[0],
                runs=[(run, run.about.sha256 != old.about.sha256) for run, old in listed],
                before=before,
                after=after,
                change=change,
                figures=figures,
            )
        )

    def _over_time(self, runs: Sequence[Entry]) -> Sequence[Figure]:
        dated = [history.Dated(views.minute(run.created), self.catalogue.primaries(run)) for run in runs]
        return history.figures(dated, runs[-1].about.lanes if runs else {})

    async def static(self, request: Request) -> Response:
        file = views.static().get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        return Response(file[0], headers={"cache-control": "no-cache", "content-type": file[1]})

    async def run(self, request: Request) -> Response:
        path = request.path_params["path"]
        match = await asyncio.to_thread(self.catalogue.find, path)
        if match is None:
            raise HTTPException(404, "there is no such run here; it may have been moved or deleted")
        entry, rest = match
        if not rest and not path.endswith("/"):
            return RedirectResponse(f"/runs/{quote(entry.name)}/", 307)
        special: dict[str, Callable[[Request, Entry], Awaitable[Response]]] = {
            "": self._page, "report.html": self._report_page, "state.json": self._state
        }  # fmt: skip
        if rest in special:
            return await special[rest](request, entry)
        parts = rest.split("/")
        if rest not in (*places.FIXED, *places.DERIVED) and not (len(parts) == 2 and parts[0] == RAW):
            raise HTTPException(404, "a run has no such file")
        return await asyncio.to_thread(_download, entry, parts)

    async def _report_page(self, request: Request, entry: Entry) -> Response:  # noqa: ARG002
        return _report(await self.pages.report(entry))

    async def _page(self, request: Request, entry: Entry) -> Response:  # noqa: ARG002
        live = entry.state in ("running", "interrupted")
        shown = await self.live.now(entry) if live else Shown()
        if shown.gone:
            raise HTTPException(404, "the run is not there any more")
        self.pages.check([entry])
        files = [name for name in (*places.FIXED, *places.DERIVED) if places.stamp(entry.folder / name)]
        parts = {"phase": "", "title": "", **dict.fromkeys(views.PARTS, ""), **shown.parts}
        return HTMLResponse(
            views.page(
                "run.html.j2",
                run=entry,
                shown=parts,
                live=live and not shown.last,
                files=files,
                siblings=len(self.catalogue.study(entry.about.name)),
            )
        )

    async def _state(self, request: Request, entry: Entry) -> Response:
        return _json(request, (await self.live.now(entry)).json)


def _named(known: Mapping[str, Entry], name: str) -> Entry:
    if name not in known:
        raise HTTPException(404, clean(f"no run is called {name!r}", 300))
    return known[name]


def _json(request: Request, data: bytes) -> Response:
    """JSON with a tag; 304 for who has it already."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="application/json")


_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)


def _report(page: bytes) -> Response:
    """A report page; its content security policy allows its own style sheet and nothing else."""
    sheets = {f"'sha256-{b64encode(hashlib.sha256(sheet).digest()).decode()}'" for sheet in _STYLE.findall(page)}
    policy = (
        f"default-src 'none'; style-src {' '.join(sorted(sheets))}; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, headers={"content-security-policy": policy})


def _download(entry: Entry, parts: Sequence[str]) -> Response:
    """A file of the run as a download: a browser never shows it as a page."""
    try:
        file = places.open_plain(entry.folder, *parts)
    except (OSError, ValueError):
        raise HTTPException(404, "a run has no such file") from None
    size, name = os.fstat(file.fileno()).st_size, quote(parts[-1], safe="")
    text = len(parts) == 1  # files beside raw/ are JSON, YAML or Markdown
    packed = {"gz": "application/gzip", "zip": "application/zip"}
    kind = "text/plain" if text else packed.get(name.rpartition(".")[2], "application/octet-stream")
    headers = {"content-length": str(size), "content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(_chunks(file, size), headers=headers, media_type=kind)


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The file's bytes up to its size when opened: a journal grows."""
    with file:
        while size and (data := file.read(min(size, _CHUNK))):
            size -= len(data)
            yield data


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    with_hint = FairlaneError("web", error.detail, hint="look for it in the list of all runs")
    return HTMLResponse(views.problem(with_hint, "Not here"), error.status_code)


async def _failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """A page with the error: a damaged run, runs that cannot be compared."""
    assert isinstance(error, FairlaneError)  # noqa: S101 - it is registered for nothing else
    if isinstance(error, Busy):
        return HTMLResponse(views.problem(error, "Busy"), 503, {"retry-after": "10"})
    return HTMLResponse(views.problem(error, "This cannot be shown"), 422)
