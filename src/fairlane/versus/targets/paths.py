"""Paths: directories, files and disks of this machine and of others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from fairlane.errors import FairlaneError
from fairlane.versus.compose import Asked, Paths, check, compose
from fairlane.versus.given import Given, given
from fairlane.versus.plan import Shape, sizes
from fairlane.versus.scout import MOST, Limits, scout
from fairlane.versus.study import Options
from fairlane.versus.targets.base import Request, Target


class Of(Target):
    article = "a path"
    plural = "paths"
    options = frozenset({"keep_free", "destroy", "shared"})

    def compose(self, request: Request) -> Paths:
        load, wanted, options = request.load, request.wanted, request.options
        if options["keep_free"] > 1:
            raise FairlaneError("keep-free", "more than 100 %", where="--keep-free", hint="give 0% to 100%")
        named = given(request.texts)
        sizes(wanted, Shape(len(load.cells), len(named), {}, tail=load.tail))  # the least time, if files filled at once
        _there(named)
        more = Options(options["seed"], options["buffered"], not options["shared"], options["keep_free"],
                       options["accepts"], frozenset(options["destroy"]))  # fmt: skip
        asked = Asked(load, wanted, more, request.command)
        request.notify(f"inspecting {len(named)} paths")
        limits = Limits(options["keep_free"], min(MOST, wanted.size or MOST))
        found = asyncio.run(scout(named, lambda seen: check(named, seen, asked), limits, alone=not options["shared"]))
        return compose(named, found, asked)


def _there(named: Sequence[Given]) -> None:
    """Raises FairlaneError for paths of this machine that certainly do not exist, before contacting any machine."""
    gone = []
    for one in named:
        if one.local:
            try:
                Path(one.path).stat()
            except (FileNotFoundError, NotADirectoryError) as error:
                gone.append(f"{one.path} does not exist on this machine ({error.strerror})")
            except OSError:
                pass  # root may see more
    if gone:
        raise FairlaneError("path-missing", "; ".join(gone), hint="create it, or correct the path")


TARGET = Of()
