"""The ``fairlane`` program: finds the commands, and turns errors into one message and an exit code."""

import errno
import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from fairlane import __version__
from fairlane.cli._click import Group
from fairlane.errors import Exit, FairlaneError, unwritable

_SECTIONS = {
    "Compare": ("versus", "run", "compare", "import"),
    "Read a run": ("report", "verdicts", "check", "watch", "serve", "figure", "curves", "export"),
    "Write a study": ("init", "study", "pilot", "capture", "schema"),
    "Decide": ("gate", "replicate"),
    "This machine and others": ("doctor", "lab", "hosts", "cluster", "completion"),
}
"""Sections of the help page. A command that is in none of them comes last, under a title of its own."""
_OTHERS = "Others"

_BEGIN = """\
Which storage path is faster, and how certain is that? Start with one of these:

  fairlane versus /mnt/a /mnt/b           two directories, files or disks: 3 min
  fairlane run demo                       iSCSI against NVMe/TCP, in a VM: 1 min
  fairlane import results --out runs/old  files of fio and other tools
  fairlane doctor                         what can this machine run?

Then: fairlane report --open. All commands: fairlane --help"""


class Commands(Group):
    """Every public module of ``fairlane.cli`` is one command, imported when it is needed."""

    def opening(self, ctx: click.Context) -> str:  # noqa: ARG002
        return _BEGIN

    def sections(self, ctx: click.Context) -> list[tuple[str, list[str]]]:
        known = self.list_commands(ctx)
        placed = [(title, [name for name in names if name in known]) for title, names in _SECTIONS.items()]
        others = [name for name in known if not any(name in names for _, names in placed)]
        return [*placed, *([(_OTHERS, others)] if others else [])]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        folder = importlib.import_module("fairlane.cli").__path__
        names = (m.name for m in pkgutil.iter_modules(folder) if m.name != "main" and not m.name.startswith("_"))
        return sorted(name.replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"fairlane.cli.{cmd_name.replace('-', '_')}").command
        command.name = cmd_name
        return command


@click.group(
    cls=Commands,
    examples="""
        fairlane doctor                      what can this machine do?
        fairlane versus /mnt/a /mnt/b        which of two paths is faster? 3 minutes, no file to write
        fairlane init demo -o study.yaml     a commented study to start from
        fairlane study check study.yaml      is it valid, and how long will it take?
        fairlane run study.yaml              carry it out
        fairlane report runs/demo            the answer, as a page that opens offline
    """,
)
@click.version_option(__version__, "-V", "--version", prog_name="fairlane", message="%(prog)s %(version)s")
def main() -> None:
    """Compare storage paths of virtual machines, with evidence.

    Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 wrong input, 2 wrong usage,
    3 the run failed, 4 not decided (a gate not met, or nothing left to compare), 130 interrupted.
    """


def run(args: Sequence[str]) -> int:
    """Carry out one command line; returns its exit code. A command sets it by returning it or with ``ctx.exit``."""
    try:
        result: Any = main.main(args=list(args), prog_name="fairlane", standalone_mode=False)
        sys.stdout.flush()
    except FairlaneError as error:
        _complain(error.labelled(), error.hint)
        return error.code
    except click.ClickException as error:  # wrong usage: click's own form, with the usage line
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe: `fairlane schema | head`
        _close_stdout()
        return Exit.USER_ERROR
    except OSError as error:
        if os.environ.get("FAIRLANE_TRACEBACK"):
            raise
        if not error.filename:  # most likely the output failed
            _close_stdout()
        failure = _of_files(error)
        _complain(failure.labelled(), failure.hint)
        return failure.code
    return result if isinstance(result, int) else Exit.OK


_LONGEST = 20_000
"""Characters of an error: a study can have many."""
_WRITING = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing alone; others can also come from reading."""


def _of_files(error: OSError) -> FairlaneError:
    """The error of a file, as all others are printed."""
    where = str(error.filename or "input or output failed")
    if error.errno in _WRITING:
        reason, remedy = unwritable(error)
        hint = f"{remedy}, or choose another --out"
        return FairlaneError("unwritable", f"cannot write: {reason}", where=where, hint=hint)
    return FairlaneError("file-error", str(error.strerror or error), where=where)


def _close_stdout() -> None:
    """Discard the buffer, so that the flush at exit cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, hint: str = "") -> None:
    from fairlane.report.text import clean

    message, hint = clean(message, _LONGEST), clean(hint, _LONGEST)  # names come from outside
    colour = False if os.environ.get("NO_COLOR") else None  # None: click decides by the terminal
    click.echo(click.style("Error: ", fg="red", bold=True) + message, err=True, color=colour)
    if hint:
        click.echo(click.style("Hint: ", fg="cyan", bold=True) + hint, err=True, color=colour)


def entry() -> NoReturn:
    """Entry point of the console script."""
    # Ten thousand trials are millions of objects that stay: to look them through for garbage every 700 new ones is a
    # fifth of the time (bench/import_speed.py).
    gc.set_threshold(100_000, 50, 100)
    # numpy's BLAS starts a thread per core when it is imported, and they wait in a loop: 0.15 s of CPU for nothing, as
    # no matrix here is large. With one thread, sums do not depend on the number of cores either.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))
