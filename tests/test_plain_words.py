"""The lint of the words users read: each rule refuses what it is for, and the texts it reads are those users see."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import words

ROOT = Path(__file__).resolve().parent.parent


def hits(text: str) -> list[str]:
    return [hit for hit, _ in words.broken(words.Text(Path("x.py"), 1, text))]


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("no prefill was found for this lane", "was found"),
        ("the file is not told apart", "is not told"),
        ("settings said by the study", "said"),
        ("the study is not the one that began", "one that"),
        ("you measured the wire, not what is behind it", "what is"),
        ("What grants the rights of a run.", "What grants the rights of a run."),
        ("a transaction of {} us", "} us"),
        ("a pause of 80us", "0us"),
        ("nobody is at work on this run", "nobody"),
        ("its rate is of no one time", "of no one"),
    ],
)
def test_refused(text: str, hit: str) -> None:
    assert hit in hits(text)


@pytest.mark.parametrize(
    "text",
    [
        "command not found: install fio (Debian: apt install fio)",
        "one sentence per cell",
        "What if the array has a write cache?",
        "between us-east-1 and us-west-2",
        "A latency of 0 is impossible: the tool reported no percentiles.",
    ],
)
def test_let_alone(text: str) -> None:
    assert hits(text) == []


def test_texts_of_a_module(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Docstring of a module."""\n'
        "@click.command(cls=Command)\n"
        "def command():\n"
        '    """Compare two runs and more.\n\n    Each run is a\n    column."""\n'
        '    raise Refused("no-run", f"there is no run at {path}: choose another", hint="list the runs")\n'
        'SCRIPT = "set -eu; echo $(what is) there"\n'
        'WORDS = "two words"\n'
    )
    assert [(text.line, text.text) for text in words.python(module)] == [
        (3, "Compare two runs and more."),
        (3, "Each run is a column."),
        (8, "there is no run at {}: choose another"),
        (8, "list the runs"),
    ]


def test_texts_of_a_template(tmp_path: Path) -> None:
    page = tmp_path / "page.html.j2"
    page.write_text(
        "{# what is this #}\n<p class='what is'>{{ n }} trials {% if x %}ran{% endif %}</p>\n<style>\na\n</style>"
    )
    assert [(text.line, " ".join(text.text.split())) for text in words.template(page)] == [(2, "{} trials ran")]


def test_all_texts_of_the_program_are_read() -> None:
    read = [text.text for text in words.texts()]
    assert len(read) > 3000
    assert "Print the parameters that must match, and all findings." in read


def test_the_command_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/words.py", "--list"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert len(done.stdout.splitlines()) > 3000
