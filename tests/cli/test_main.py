"""The frame of the command line: how commands are found, how errors and the ends of a run are told."""

import errno
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fairlane import __version__, cli
from fairlane.cli import _click, main
from fairlane.cli.main import run
from fairlane.errors import Exit, FairlaneError, RunFailed, unwritable
from testkit.process import Fairlane
from tests.words import kinds

FAIRLANE = [sys.executable, "-m", "fairlane"]


def names() -> list[str]:
    return main.main.list_commands(click.Context(main.main))


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from walk(child, (*path, name))


COMMANDS = list(walk(main.main))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A command ``fail`` beside the real ones, which raises what the test puts into ``failing``."""
    error: list[BaseException] = []

    @click.command(cls=_click.Command)
    def fail() -> None:
        raise error[0]

    real = main.Commands.get_command
    monkeypatch.setattr(
        main.Commands, "get_command", lambda self, ctx, name: fail if name == "fail" else real(self, ctx, name)
    )
    listed = names()
    monkeypatch.setattr(main.Commands, "list_commands", lambda self, ctx: [*listed, "fail"])
    return error


def test_every_file_is_a_command() -> None:
    files = {p.stem for p in Path(cli.__path__[0]).glob("*.py") if not p.stem.startswith("_")} - {"main"}
    assert names() == sorted(f.replace("_", "-") for f in files)
    assert {"schema", "init", "study", "completion"} <= set(names())


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([flag]) == Exit.OK
    assert capsys.readouterr().out == f"fairlane {__version__}\n"


@pytest.mark.parametrize("args", [["-h"], ["--help"]])
def test_help(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == Exit.OK
    out, err = capsys.readouterr()
    assert out.startswith("Usage: fairlane ")
    assert re.search(r"^  fairlane run study.yaml +\S", out, re.MULTILINE)
    assert err == ""


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) or "fairlane" for path, _ in COMMANDS])
def test_every_command_has_help_with_an_example(
    path: tuple[str, ...], command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path, "--help"]) == Exit.OK
    out = capsys.readouterr().out
    examples = out.partition("\nExamples:\n")[2]
    assert "fairlane " + " ".join(path[:1]) in examples, f"{' '.join(path)}: no example"
    assert command.help
    assert command.get_short_help_str(), f"{' '.join(path)}: no short help"
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) or "fairlane" for path, _ in COMMANDS])
def test_a_summary_is_one_short_sentence(path: tuple[str, ...], command: click.Command) -> None:
    first = (command.help or "").splitlines()[0]
    assert first.endswith((".", "?")), f"{' '.join(path)}: the first line of its help is no sentence"
    assert len(first.rstrip(".")) <= 60
    assert command.get_short_help_str(limit=1000) == first, "a second sentence on the first line is not in the list"


def test_the_help_page_has_every_command_once_with_its_whole_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == Exit.OK
    out = capsys.readouterr().out
    titles = re.findall(r"^([A-Z][\w ]+):$", out, re.MULTILINE)
    assert titles == ["Options", *main._SECTIONS, "Examples"]
    listed = out.partition(f"\n{next(iter(main._SECTIONS))}:\n")[2].partition("\nExamples:")[0]
    rows = re.findall(r"^  (\S+)  +(.+)$", listed, re.MULTILINE)
    assert sorted(name for name, _ in rows) == names()
    heads = {path[0]: (command.help or "").splitlines()[0] for path, command in COMMANDS if len(path) == 1}
    assert dict(rows) == {name: head.rstrip(".") for name, head in heads.items()}
    assert "..." not in listed
    assert max(map(len, listed.splitlines())) <= 80


def test_a_command_without_a_section_is_listed_too(
    failing: list[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == Exit.OK
    assert re.search(r"^Others:\n  fail\b", capsys.readouterr().out, re.MULTILINE)


def test_fairlane_alone_says_what_to_do_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == Exit.OK
    out, err = capsys.readouterr()
    assert err == ""
    lines = re.findall(r"^  fairlane (\S+).*\S{2}$", out, re.MULTILINE)
    assert lines == ["versus", "run", "import", "doctor"]
    assert set(lines) <= set(names())
    assert "fairlane --help" in out
    assert max(map(len, out.splitlines())) <= 80


def test_group_without_subcommand_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study"]) == Exit.OK
    assert capsys.readouterr().out.startswith("Usage: fairlane study ")


@pytest.mark.parametrize(
    ("args", "tokens"),
    [
        (["shcema"], ["'shcema'", "'schema'"]),
        (["study", "chekc"], ["'chekc'", "'check'"]),
        (["zzz"], ["'zzz'", "compare, ", ", watch"]),
        (["--nope"], ["--nope"]),
        (["study", "check"], ["'FILE'"]),
        (["study", "check", "demo", "--jobs", "0"], ["'--jobs'", "0"]),
        (["study", "check", "demo", "--format", "xml"], ["'--format'", "'xml'", "'table', 'json', 'md'"]),
    ],
)
def test_wrong_usage(args: list[str], tokens: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert [token for token in tokens if token not in err.partition("Error: ")[2]] == []
    assert err.startswith("Usage: fairlane")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (FairlaneError("invented", "it broke"), 1, "Error: it broke [invented]\n"),
        (
            FairlaneError("invented", "it broke", where="s.yaml:3", hint="mend it"),
            1,
            "Error: s.yaml:3: it broke [invented]\nHint: mend it\n",
        ),
        (RunFailed("invented", "guest died"), 3, "Error: guest died [invented]\n"),
        (FairlaneError("invented", "not met", code=Exit.NOT_DECIDED), 4, "Error: not met [invented]\n"),
        (KeyboardInterrupt(), 130, "Error: interrupted\n"),
        (PermissionError(13, "Permission denied", "/a/b"), 1, "Error: /a/b: Permission denied [file-error]\n"),
    ],
)
def test_errors(
    error: BaseException, code: int, text: str, failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(error)
    assert run(["fail"]) == code
    out, err = capsys.readouterr()
    assert (out, err.lstrip("\n")) == ("", text)


def test_a_defect_keeps_its_traceback(failing: list[BaseException]) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["fail"])


def test_help_and_completion_import_nothing_heavy() -> None:
    code = (
        "import sys; from fairlane.cli.main import run; run(['--help']);"
        "print([m for m in ('pydantic', 'numpy', 'scipy', 'rich', 'jinja2', 'yaml', 'asyncio') if m in sys.modules])"
    )
    out = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert out.splitlines()[-1] == "[]"


def test_errors_have_no_colour_in_a_pipe() -> None:
    done = subprocess.run([*FAIRLANE, "study", "check", "dem0"], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USER_ERROR
    assert done.stdout == ""
    first, hint = done.stderr.splitlines()
    assert first.startswith("Error: dem0: ")
    assert kinds(first) == ["study-unknown"]
    assert hint.startswith("Hint: ")
    assert "'demo'" in hint
    assert "\x1b" not in done.stderr


def test_a_reader_that_leaves_early_is_no_error_message() -> None:
    process = subprocess.Popen([*FAIRLANE, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == Exit.USER_ERROR


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_result_that_cannot_be_written_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*FAIRLANE, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == Exit.USER_ERROR
    first, hint = done.stderr.splitlines()
    assert first.startswith("Error: ")
    assert unwritable(OSError(errno.ENOSPC, ""))[0] in first
    assert hint.startswith("Hint: ")
    assert "--out" in hint


def test_interrupt_from_outside() -> None:
    code = "import time, click; from fairlane.cli import main, _click\n" + (
        "@click.command(cls=_click.Command)\n"
        "def slow():\n    print('ready', flush=True)\n    time.sleep(600)\n"
        "main.Commands.get_command = lambda self, ctx, name: slow\n"
        "main.Commands.list_commands = lambda self, ctx: ['slow']\n"
        "import sys; sys.argv = ['fairlane', 'slow']; main.entry()\n"
    )
    with Fairlane(program=("-c", code)) as process:
        assert process.stdout.readline() == "ready\n"
        process.send(signal.SIGINT)
        exit_code, _, err = process.end()
    assert (exit_code, err.strip()) == (Exit.INTERRUPTED, "Error: interrupted")
