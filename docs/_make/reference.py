"""MkDocs hook: the pages that are written by the code itself, and what lies outside ``docs/`` and belongs to the site.

``pages`` makes them from the registry of plugins (``tables``), the metrics and the commands, so that nothing can be
missing or out of date; ``mkdocs.yml`` names this file. CONTRIBUTING and CHANGELOG stay where a forge looks for them,
and are pages.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import sample  # beside this file: MkDocs looks there
import tables

from fairlane import registry
from fairlane.cli.main import main
from fairlane.errors import Exit
from fairlane.metrics import METRICS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

EXITS = {
    Exit.OK: "done. A refusal or a tie is an answer too",
    Exit.USER_ERROR: "wrong input: a study with mistakes, a file that is not there, a run that cannot be read",
    Exit.USAGE: "wrong usage: an unknown command or option",
    Exit.RUN_FAILED: "the run failed: a machine died, a disk is full, a device must not be written. What was measured "
    "is kept, and `fairlane run --resume` goes on",
    Exit.NOT_DECIDED: "not decided: a gate not met or not proven, lanes that `fairlane check` refuses to compare, "
    "`fairlane compare --strict` without an answer in every cell, a study of which nothing could be compared "
    "(`fairlane study check`, and `fairlane run` before the first trial)",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; everything was undone, and `fairlane run --resume` goes on",
}

ENVIRONMENT = {
    "FAIRLANE_CACHE": "folder of the cache; otherwise `$XDG_CACHE_HOME/fairlane`, otherwise `~/.cache/fairlane`",
    "XDG_CACHE_HOME": "see `FAIRLANE_CACHE`",
    "FAIRLANE_TOKEN": "`fairlane serve`: the token that opens the viewer, in place of a random one",
    "FAIRLANE_TRACEBACK": "any value: errors of the operating system (full disk, missing file) have a traceback",
    "NO_COLOR": "any value: no colours",
    "TMPDIR": "folder for sockets and disks of running machines; otherwise `/tmp`",
    "SHELL": "`fairlane completion install`: the shell, where none is named",
    "XDG_DATA_HOME": "`fairlane completion install bash`: folder of the user's data, otherwise `~/.local/share`",
    "XDG_CONFIG_HOME": "`fairlane completion install fish`: folder of settings, otherwise `~/.config`",
    "BASH_COMPLETION_USER_DIR": "`fairlane completion install bash`: bash-completion's folder",
    "ZDOTDIR": "`fairlane completion install zsh`: zsh's folder, otherwise the home folder",
    "KUBECONFIG": "platform `kubevirt`: the kubeconfig, otherwise `~/.kube/config`",
    "KUBERNETES_SERVICE_HOST": "platform `kubevirt`: set in a pod, whose service account is used without a kubeconfig",
    "HTTPS_PROXY": "platform `kubevirt`: proxy to the API server; also `HTTP_PROXY`, `NO_PROXY`, in small letters too",
    "OPENBLAS_NUM_THREADS": "threads of numpy's linear algebra: 1, unless set",
}
"""Environment variable -> what it does."""

FILES = {
    "`runs/STUDY-TIME/`": "a run, in the working directory, unless `--out` names another place: [what lies in it]"
    "(../run-directory.md). Nothing else is needed to make its report again",
    "`~/.cache/fairlane/`": "images of the lab (`images`, `roots`), saved states of its machine (`states`), "
    "`figures.key`, by which this user's `figures.index` files are known, and runs of `make docs` (`sample`). May be "
    "deleted; `fairlane lab clean` removes images and states",
    "`$TMPDIR/fairlane-*/`": "sockets, disks and logs of running machines, removed at the end; "
    "`fairlane lab clean --leftovers` removes those of killed runs",
    "`/var/tmp/fairlane-RUN/`": "platform `hosts`, on each machine: the list of steps to undo, and the programs that a "
    "run sends. Removed at the end, or by `fairlane hosts clean`",
    "`.fairlane-*`": "files of a run in a lane's directory. Removed at the end, or by `fairlane hosts clean`",
    "`~/.ssh/config`, agent, `known_hosts`": "platform `hosts`: read by OpenSSH, never written",
    "completion scripts": "`fairlane completion install --dry-run` prints the path",
}
"""File or folder -> what Fairlane does with it."""

_SAMPLE = "<!-- the site has a link to the sample report here -->"

_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """MkDocs asks which files the site has."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only a build of the site needs it

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    for source, path in _OUTSIDE.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text(encoding="utf-8")))
    if sample.page().exists():  # `make docs` makes it first
        files.append(File.generated(config, "sample/report.html", content=sample.page().read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:  # noqa: ARG001
    """MkDocs is about to read a page: links that are right in the checkout are made right in the site, and the sample
    report is linked if it is there."""
    found = files.get_file_from_path("sample/report.html")
    markdown = markdown.replace(_SAMPLE, "**[Open the sample report](sample/report.html)**" if found else "")
    for source, path in _OUTSIDE.items():
        markdown = markdown.replace(f"]({source})", f"]({path})").replace(f"](../{source})", f"]({path})")
        if page.file.src_uri == path:
            markdown = re.sub(r"\]\(docs/", "](", markdown)
    return markdown


def on_post_build(config: "MkDocsConfig") -> None:
    """MkDocs has written the site: the index for searching is also written as a script. Pages that are opened from a
    folder ask for it; without a server they cannot search, and hide the field. (Material's own plugin for that loads a
    script from elsewhere.)"""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


def pages() -> dict[str, str]:
    """Path within the site's sources -> Markdown."""
    return {
        "reference/index.md": _index(),
        "reference/commands.md": "\n".join(_commands()),
        "reference/interface.md": "\n".join(_interface()),
        "reference/metrics.md": "\n".join(_metrics()),
        "reference/checks.md": "\n".join(_checks()),
        "reference/plugins.md": "\n".join(_plugins()),
    }


def _index() -> str:
    return f"""\
# Reference

| page | has | made from |
|---|---|---|
| [The study file](../study-file.md) | every key of a study: value, default, meaning | the model that checks it |
| [Commands](commands.md) | every command with its options and examples | the commands |
| [Exit codes, environment, files](interface.md) | what scripts can rely on, what is read and written | the program |
| [Metrics](metrics.md) | every metric with unit, margin and definition | the registry |
| [Checks](checks.md) | every check in a sentence ([limits and reasons](../checks.md)) | the plugins |
| [Plugins](plugins.md) | {", ".join(f"{kind.name}s" for kind in registry.KINDS)} | the plugins |
| [The run directory](../run-directory.md) | what lies where in a run, and what may be relied on | written by hand |
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand as it is called, ``fairlane`` itself first."""
    yield from _walk("fairlane", main)


def _walk(called: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield called, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=called)
        for name, child in _children(command, context):
            yield from _walk(f"{called} {name}", child)


def _children(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        child = group.get_command(context, name)
        if child and not child.hidden:
            yield name, child


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield "`fairlane COMMAND --help` prints the same. What a command finds goes to stdout, progress and errors to"
    yield "stderr. With `--format json` it is data. [Exit codes](interface.md) are the same for all of them.\n"
    for called, command in commands():
        context = click.Context(command, info_name=called)
        usage = " ".join([called, *command.collect_usage_pieces(context)])
        yield f"## {called}\n"
        yield f"```text\n{usage}\n```\n"
        yield f"{_unwrap(command.help or '')}\n"
        records = [found for each in command.get_params(context) if (found := each.get_help_record(context))]
        if records:
            yield "| option | meaning |\n|---|---|"
            for option, meaning in records:
                yield f"| `{_cell(option)}` | {_cell(meaning)} |"
            yield ""
        if isinstance(command, click.Group):
            yield "| command | does |\n|---|---|"
            for name, child in _children(command, context):
                anchor = f"{called} {name}".replace(" ", "-")
                yield f"| [`{name}`](#{anchor}) | {_cell(child.get_short_help_str(200))} |"
            yield ""
        if package := getattr(command, "plugins", ""):
            yield f"{registry.kind(package).title}:\n\n{tables.table(package)}"
        if examples := getattr(command, "examples", ""):
            yield f"```text\n{examples}\n```\n"


def _interface() -> Iterator[str]:
    yield "# Exit codes, environment, files\n"
    yield "## Exit codes\n"
    yield "The same for every command, so that a script can tell a bad answer from no answer.\n"
    yield "| code | name | when |\n|---|---|---|"
    for code in Exit:
        yield f"| {code.value} | `{code.name}` | {EXITS[code]} |"
    yield "\n## Environment variables\n"
    yield "A study may name further ones, for secrets (`env:`).\n"
    yield "| variable | does |\n|---|---|"
    for name, meaning in ENVIRONMENT.items():
        yield f"| `{name}` | {meaning} |"
    yield "\n## Files and folders\n"
    yield "| where | what |\n|---|---|"
    for where, meaning in FILES.items():
        yield f"| {where} | {meaning} |"
    yield ""


def _metrics() -> Iterator[str]:
    yield "# Metrics\n"
    yield "One registry: whatever shows, compares or exports a figure looks here. Names are for `primary` and"
    yield "`design.margins` of a [study](../study-file.md) and for `in` of a [rule](../gate.md).\n"
    yield "| name | what | unit | better | default margin | of a fleet | definition |\n|---|---|---|---|---|---|---|"
    fleet = {"sum": "added", "mean": "weighted by I/Os", "most": "the largest"}
    for m in METRICS.values():
        better = "more" if m.better > 0 else "less"
        of_fleet = "of the merged bins" if m.percentile else fleet[m.fleet]
        row = (f"`{m.name}`", m.title, m.unit, better, f"{m.margin:.0%}", of_fleet, _cell(m.definition))
        yield f"| {' | '.join(row)} |"
    yield ""


def _checks() -> Iterator[str]:
    yield "# Checks\n"
    yield "Each is one file, and says what it found in a sentence with the figures as evidence. What each one looks at"
    yield "exactly, its limits and where they come from: [what is checked](../checks.md).\n"
    yield "| check | what is wrong, or odd | by what | holds |\n|---|---|---|---|"
    for name, check in registry.every("checks"):
        holds = "lanes against each other" if check.between else "trials, lanes and run by themselves"
        yield f"| `{name}` | {_cell(registry.summary('checks', name))} | {_cell(_first(type(check)))} | {holds} |"
    yield ""


def _plugins() -> Iterator[str]:
    yield "# Plugins\n"
    yield "What this version has. One file each; [how to add one](../contributing.md).\n"
    for kind in registry.KINDS:
        about = _first(import_module(f"fairlane.{kind.package}.base"))
        yield f"## {kind.title}\n\n{_cell(about)}\n"
        yield tables.table(kind.package)


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0]


def _unwrap(help_text: str) -> str:
    """click's help as Markdown: paragraphs, and what stands after a line with a backspace as it is."""
    out = []
    for part in inspect.cleandoc(help_text).split("\n\n"):
        out.append(f"```text\n{part[2:].rstrip()}\n```" if part.startswith("\b\n") else part)
    return "\n\n".join(out)


def _cell(text: str) -> str:
    """A table cell: one line; bars and angle brackets mean themselves."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
