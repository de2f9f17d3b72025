"""The viewer's pages: list of runs, a run and its report, runs side by side, and the events of one that is running."""

import asyncio
import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from fairlane import __version__
from fairlane.errors import FairlaneError
from fairlane.report.text import clean
from fairlane.runs.raw import FOLDER as RAW
from fairlane.web import places, views
from fairlane.web.catalogue import ORDER, Catalogue, Entry, Sort
from fairlane.web.guard import LOCAL, Guard
from fairlane.web.hub import NOTHING, Hub, Limits, Shown
from fairlane.web.pages import Busy, Pages

PER_PAGE = 50
_SORTS = (("newest", "newest first"), ("oldest", "oldest first"), ("name", "by name"), ("state", "by state"))
_CHUNK = 256 * 1024


class Viewer:
    """The web application for the runs below ``root``. ``limits``: of the live pages."""

    def __init__(self, root: Path, limits: Limits | None = None) -> None:
        self.catalogue = Catalogue(root)
        self.pages = Pages(self.catalogue)
        self.hub = Hub(views.parts, limits)

    def app(self, hosts: Iterable[str] = LOCAL, token: str = "") -> Starlette:
        """The ASGI application; ``hosts`` and ``token`` as in ``Guard``."""
        views.environment().globals["version"] = __version__
        routes = [
            Route("/", self.list),
            Route("/compare", self.compare),
            Route("/static/{name}", self.static),
            Route("/runs/{path:path}", self.run),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(Guard, hosts=hosts, token=token)],
            exception_handlers={HTTPException: _not_found, FairlaneError: _failed},
        )

    async def list(self, request: Request) -> Response:
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
        states = [(state, sum(e.state == state for e in everything.values())) for state in ORDER]
        return HTMLResponse(
            views.page(
                "runs.html.j2",
                where=clean(str(self.catalogue.root)),
                example=clean(f"{self.catalogue.root}/first"),
                total=len(everything),
                matching=len(matches),
                runs=matches[(page - 1) * PER_PAGE : page * PER_PAGE],
                query={**query, "page": page},
                last_page=last,
                states=[(state, n) for state, n in states if n],
                sorts=_SORTS,
                before=views.address(**query, page=page - 1),
                after=views.address(**query, page=page + 1),
            )
        )

    async def compare(self, request: Request) -> Response:
        known = await asyncio.to_thread(self.catalogue.entries)
        baseline = request.query_params.get("baseline", "")
        names = dict.fromkeys([*([baseline] if baseline else []), *request.query_params.getlist("run")])
        if missing := [name for name in names if name not in known]:
            raise HTTPException(404, clean(f"no run is called {missing[0]!r}", 300))
        chosen = sorted((known[name] for name in names), key=lambda e: (e.name != baseline, e.created, e.name))
        return _report(await self.pages.comparison(chosen))

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
        special: dict[str, Callable[[Entry], Awaitable[Response]]] = {
            "": self._page, "report.html": self._report_page, "events": self._events
        }  # fmt: skip
        if rest in special:
            return await special[rest](entry)
        parts = rest.split("/")
        if rest not in (*places.FIXED, *places.DERIVED) and not (len(parts) == 2 and parts[0] == RAW):
            raise HTTPException(404, "a run has no such file")
        return await asyncio.to_thread(_download, entry, parts)

    async def _report_page(self, entry: Entry) -> Response:
        return _report(await self.pages.report(entry))

    async def _page(self, entry: Entry) -> Response:
        live = entry.state in ("running", "interrupted")
        shown: Shown = await self.hub.now(entry) if live else NOTHING
        if shown.gone:
            raise HTTPException(404, "the run is not there any more")
        files = [name for name in (*places.FIXED, *places.DERIVED) if places.stamp(entry.folder / name)]
        parts = {"phase": "", "title": "", **dict.fromkeys(views.PARTS, ""), **shown.parts}
        return HTMLResponse(
            views.page("run.html.j2", run=entry, shown=parts, live=live and not shown.last, files=files)
        )

    async def _events(self, entry: Entry) -> Response:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.hub.stream(entry), headers=headers, media_type="text/event-stream")


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
    kind = "text/plain" if text else "application/gzip" if name.endswith(".gz") else "application/octet-stream"
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
