"""Paths as a user writes them: ``PATH``, ``HOST:PATH``, ``NAME=PATH``; and the names of their lanes."""

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fairlane.errors import FairlaneError
from fairlane.living.destination import LOCAL
from fairlane.living.destination import problem as destination_problem

HERE = "here"
"""Name of this machine in the study."""
_LONGEST = 31
_URL = re.compile(r"(ssh://[^/]+)(/.*)")
_HOST = re.compile(r"((?:[^\s/:@\[\]]+@)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s/:@\[\]]+)):(.*)")


@dataclass(frozen=True)
class Given:
    """One path of the command line."""

    lane: str
    """Name of its lane, unique."""
    label: str
    """Its name in reports: NAME, or the path as it was typed."""
    machine: str
    """Name of its machine in the study."""
    destination: str
    """``local``, or how ssh reaches the machine."""
    path: str
    """Absolute."""

    @property
    def local(self) -> bool:
        return self.destination == LOCAL


@dataclass(frozen=True)
class _Typed:
    label: str
    destination: str
    path: str
    named: bool


def given(texts: Sequence[str], cwd: str = "") -> tuple[Given, ...]:
    """The paths ``texts``, the baseline first. ``cwd``: folder of relative ones; not given: the current one.

    Raises FairlaneError for fewer than two, for a name that is used twice, and for a path that cannot be meant."""
    if len(texts) < 2:
        raise FairlaneError(
            "one-path", f"{len(texts)} path{'' if len(texts) == 1 else 's'} given: a comparison needs two",
            hint="fairlane versus ./a ./b; the first is the baseline",
        )  # fmt: skip
    typed = [_typed(text, cwd or str(Path.cwd())) for text in texts]
    _apart(typed)
    names = _unique([(t.label if t.named else t.path, t.named) for t in typed])
    machines = _machines([t.destination for t in typed])
    return tuple(
        Given(name, t.label, machines[t.destination], t.destination, t.path)
        for name, t in zip(names, typed, strict=True)
    )


def _apart(typed: Sequence[_Typed]) -> None:
    """Raises FairlaneError where two are the same path, or have the same name."""
    for number, one in enumerate(typed):
        for other in typed[:number]:
            if (one.destination, one.path) == (other.destination, other.path):
                raise FairlaneError(
                    "same-path", "the same path is given twice", where=one.path,
                    hint="compare two directories on it: each gets a file of its own",
                )  # fmt: skip
            if one.label == other.label:
                raise FairlaneError(
                    "name-twice", f"two paths have the name {one.label}",
                    hint="give each a name of its own: fairlane versus old=PATH new=PATH",
                )  # fmt: skip


def _typed(text: str, cwd: str) -> _Typed:
    """``text`` in its parts. What exists as a path here is one, whatever it looks like; and so is what begins with / or
    a dot. Of ``a=b`` the path is b, unless only the whole exists."""
    name, equals, rest = text.partition("=")
    if equals and name and rest and "/" not in name and not name.startswith((".", "~")):
        destination, path = _place(rest, cwd)
        if destination != LOCAL or os.path.lexists(path) or not os.path.lexists(f"{cwd}/{text}"):
            return _Typed(_clean(name, text), destination, _checked(path, text), named=True)
    destination, path = _place(text, cwd)
    label = text.rstrip("/") or "/"
    return _Typed(_clean(label, text), destination, _checked(path, text), named=False)


def _place(text: str, cwd: str) -> tuple[str, str]:
    """(destination, absolute path)."""
    if not text.startswith(("/", ".", "~")) and not os.path.lexists(f"{cwd}/{text}"):
        match = _URL.fullmatch(text) or _HOST.fullmatch(text)
        if match:
            host, path = match.groups()
            if not path.startswith("/"):
                raise FairlaneError(
                    "path-relative", f"{path or 'an empty path'} is not an absolute path on {host}", where=text,
                    hint=f"write {host}:/...; a path of this machine with a colon in it begins with ./",
                )  # fmt: skip
            if problem := destination_problem(host):
                raise FairlaneError("machine-unknown", problem, where=_shown(text))
            if ".." in path.split("/"):
                raise FairlaneError(
                    "path-relative", f"the path on {host} contains .., which links can make ambiguous",
                    where=_shown(text), hint=f"write the directory itself: {host}:/...",
                )  # fmt: skip
            return host, os.path.normpath(path)
    return LOCAL, _absolute(text, cwd)


def _absolute(text: str, cwd: str) -> str:
    """The path without ``..``, as the kernel follows it: ``link/..`` is the parent of the link's target. One that does
    not exist keeps its ``..``."""
    try:
        path = str(Path(cwd, Path(text).expanduser() if text.startswith("~") else text))
    except RuntimeError:
        raise FairlaneError(
            "home-unknown", f"{text.partition('/')[0]} has no home directory on this machine", where=_shown(text),
            hint="write ./~... for a file whose name begins with a tilde",
        ) from None  # fmt: skip
    parts = path.split("/")
    if ".." in parts:
        last = len(parts) - parts[::-1].index("..")
        try:
            path = str(Path(os.path.realpath("/".join(parts[:last]), strict=True), *parts[last:]))
        except OSError:
            return path
    return os.path.normpath(path)


def _checked(path: str, text: str) -> str:
    if not path.isprintable() or len(path) > 200:
        raise FairlaneError(
            "path-odd", "the path has control characters, or more than 200 characters",
            where=_shown(text), hint="create a link to it with a plain name, and use the link",
        )  # fmt: skip
    return path


def _clean(label: str, text: str) -> str:
    if not label.isprintable() or not label.strip():
        raise FairlaneError(
            "path-odd", "the name is blank or has control characters", where=_shown(text),
            hint="name it: fairlane versus old=PATH new=PATH",
        )  # fmt: skip
    return label


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def slug(text: str) -> str:
    """``text`` in lower-case letters, digits and dashes; may be empty. Accents go: ``Größe`` becomes ``grosse``."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss").casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _unique(texts: Sequence[tuple[str, bool]]) -> list[str]:
    """A name of a lane for each (text, whether it is a name): of paths as few last parts as tell them apart."""
    names = [slug(text)[-_LONGEST:].strip("-") if named else "" for text, named in texts]
    open_ = [n for n, (_, named) in enumerate(texts) if not named]
    for parts in range(1, 1 + max((len(PurePosixPath(texts[n][0]).parts) for n in open_), default=0)):
        short = {n: slug("-".join(PurePosixPath(texts[n][0]).parts[-parts:])) for n in open_}
        if all(short.values()) and len({*short.values()}) == len(short):
            break
    else:
        short = {n: slug(texts[n][0]) for n in open_}
    for n in open_:
        names[n] = short[n][-_LONGEST:].strip("-")
    return _numbered([name or "path" for name in names])


def lane_names(labels: Sequence[str]) -> list[str]:
    """A name of a lane for each of ``labels``, all different."""
    return _numbered([slug(label)[-_LONGEST:].strip("-") or "lane" for label in labels])


def _numbered(names: Sequence[str]) -> list[str]:
    """``names``, with a number behind those that are taken."""
    result: list[str] = []
    for name in names:
        fresh, number = name, 2
        while fresh in result:
            tail = f"-{number}"
            fresh, number = name[: _LONGEST - len(tail)].rstrip("-") + tail, number + 1
        result.append(fresh)
    return result


def _machines(destinations: Sequence[str]) -> Mapping[str, str]:
    """Destination -> name of the machine."""
    distinct = list(dict.fromkeys(destinations))
    hosts = [
        HERE if d == LOCAL else slug(d.removeprefix("ssh://").rpartition("@")[2])[:_LONGEST].strip("-") or "host"
        for d in distinct
    ]
    return dict(zip(distinct, _numbered(hosts), strict=True))
