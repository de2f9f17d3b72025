"""What the code writes into the repository: tables of plugins in the documentation, the study file's reference, the
pictures of ``docs/statistics-in-pictures.md``, the manifests in ``deploy``.

    .venv/bin/python docs/_make/tables.py           writes them
    .venv/bin/python docs/_make/tables.py --check   says which files lag behind; exit code 1 if any does

A table stands in a page between ``<!-- plugins: PACKAGE -->`` and ``<!-- end -->``; ``kinds`` is the table of the kinds
of plugin. A page with other rows gets this version's, so that a new plugin needs no edit by hand.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pictures  # beside this file
import study_file
from click.testing import CliRunner

from fairlane import registry
from fairlane.cli.main import main as fairlane

ROOT = Path(__file__).parents[2]
_TABLE = re.compile(r"(<!-- plugins: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)

_PRINTED = {
    "rbac.yaml": ("rbac",),
    "rbac-existing.yaml": ("rbac", "--use-existing"),
    "job.yaml": (
        *("manifests", f"{ROOT}/deploy/study.yaml"),
        *("--image", "registry.example.com/fairlane:0.1.0", "--without-rbac"),
    ),
}
"""File in ``deploy`` -> the words after ``fairlane cluster`` that print it."""

Row = Sequence[str]


def _kinds() -> Iterator[Row]:
    yield "to add", "write", "it defines `PLUGIN`,"
    for kind in registry.KINDS:
        base = getattr(import_module(f"fairlane.{kind.package}.base"), kind.base)
        about = (inspect.getdoc(base) or "").partition("\n\n")[0].rstrip(".")
        yield (
            f"{_a(kind.name)} {kind.name}",
            f"`{kind.package}/NAME.py`",
            f"{_a(kind.base)} `{kind.base}`: {about[0].lower()}{about[1:]}",
        )


def _lanes(name: str, transport: Any) -> Row:
    spec = transport.Spec
    clock = "yes" if transport.virtual else ""
    return f"`{name}`", registry.summary("lanes", name), clock, " or ".join(spec.initiators), _names(spec.platforms)


def _workloads(name: str, workload: Any) -> Row:
    virtual, invents = ("yes" if able else "" for able in (workload.virtual, workload.invents))
    return f"`{name}`", registry.summary("workloads", name), virtual, invents, _names(workload.Spec.platforms)


def _probes(name: str, probe: Any) -> Row:
    return f"`{name}`", registry.summary("probes", name), probe.place, "yes" if probe.virtual else ""


def _checks(name: str, check: Any) -> Row:
    return f"`{name}`", registry.summary("checks", name), "yes" if check.between else ""


def _importers(name: str, importer: Any) -> Row:
    found = f"with `--tool {name}`" if importer.explicit else "by itself"
    return f"`{name}`", importer.title, found, importer.source


def _export(name: str, writer: Any) -> Row:
    return f"`{name}`", registry.summary("export", name), f"`{writer.stream}`" if writer.stream else ""


def _platforms(name: str, _: Any) -> Row:
    return f"`{name}`", registry.summary("platforms", name)


ROWS: dict[str, tuple[Row, Callable[[str, Any], Row]]] = {
    "lanes": (("transport", "what it is", "virtual clock", "initiator in", "only on platform"), _lanes),
    "platforms": (("platform", "what it is"), _platforms),
    "workloads": (("workload", "what it is", "virtual clock", "platform `fake`", "only on platform"), _workloads),
    "probes": (("probe", "what it sees", "of the", "virtual clock"), _probes),
    "checks": (("check", "what is wrong, or odd", "lanes against each other"), _checks),
    "importers": (("tool", "what is read", "found", "documented in"), _importers),
    "export": (("format", "what is written", "one file, also to stdout"), _export),
}
"""Package -> the head of its table, and the row of a plugin."""


def table(package: str) -> str:
    """The table of a package's plugins, or of ``kinds``; Markdown, with a line end."""
    if package == "kinds":
        head, *rows = _kinds()
    else:
        head, row = ROWS[package]
        rows = [row(name, plugin) for name, plugin in registry.every(package)]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in (head, ["---"] * len(head), *rows))


def files() -> Iterator[tuple[Path, str]]:
    """Every file that has something made here, and what it has to be. KeyError for a table that there is none of."""
    yield ROOT / "docs/study-file.md", study_file.markdown()
    for page in (ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if _TABLE.search(text):
            yield page, _TABLE.sub(lambda found: found[1] + table(found[2]), text)
    for name, svg in pictures.pictures():
        yield ROOT / "docs/pictures" / name, svg
    for name, words in _PRINTED.items():
        yield ROOT / "deploy" / name, _stdout("cluster", *words)


def main(arguments: Sequence[str]) -> int:
    late = [(file, text) for file, text in files() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file, text in late:
        if "--check" in arguments:
            print(f"{file.relative_to(ROOT)} lags behind the code: run .venv/bin/python docs/_make/tables.py")
        else:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(ROOT)}")
    return int("--check" in arguments and bool(late))


def _stdout(*words: str) -> str:
    """What a command of ours prints. SystemExit if it fails."""
    done = CliRunner().invoke(fairlane, words, catch_exceptions=False)
    if done.exit_code:
        sys.exit(f"fairlane {' '.join(words)}: {done.output}")
    return done.stdout


def _a(noun: str) -> str:
    return "an" if noun[0] in "AEIOUaeiou" else "a"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    """A table's cell: one line; bars and angle brackets mean themselves."""
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
