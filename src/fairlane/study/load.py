"""Load and check a study from a file or a preset; report all problems at once, each with its line."""

import json
from functools import cache
from importlib import resources
from pathlib import Path as File
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fairlane.errors import SEVERAL, FairlaneError, nearest
from fairlane.study import quick as quick_form
from fairlane.study import yaml_tree
from fairlane.study.embed import embedded
from fairlane.study.explain import STUDY, Form, explain
from fairlane.study.spec import Study
from fairlane.study.yaml_tree import Problem, Tree

M = TypeVar("M", bound=BaseModel)

MAX_PROBLEMS = 10
"""More are counted but not printed: the first ones are enough to start with."""


@cache
def presets() -> dict[str, str]:
    """The studies that come with Fairlane: name -> YAML text, sorted by name."""
    folder = resources.files("fairlane.study") / "presets"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return {f.name.removesuffix(".yaml"): f.read_text("utf-8") for f in files}


def preset_text(name: str) -> str:
    """The preset's YAML. Raises FairlaneError for an unknown name."""
    if name not in presets():
        near = nearest(name, presets())
        hint = f"did you mean {near!r}?" if near else f"presets: {', '.join(presets())}"
        raise FairlaneError("preset-unknown", f"no preset named {name!r}", hint=hint)
    return presets()[name]


def load_study(ref: str, *, quick: bool = False) -> tuple[Study, str]:
    """The study ``ref`` and its text. ``ref`` is a preset's name or a YAML file; ``./demo`` is always a file.
    ``quick``: in its quick form.

    The text has the text of job files in place of their paths. Raises FairlaneError for a file that cannot be read and
    for anything wrong in it.
    """
    if ref in presets():
        text, where = presets()[ref], f"preset {ref}"
    else:
        folder = File(ref).parent
        text, where = embedded(read_text(ref, _no_such_study(ref)), lambda path: _job_file(folder, path, ref)), ref
    return parse_study(text, where, quick=quick), text


def _job_file(folder: File, path: str, ref: str) -> str:
    """The text of a job file; ``path`` is relative to the study file ``ref``. Raises FairlaneError."""
    missing = FairlaneError(
        "job-file-missing",
        f"job_file: {path} does not exist",
        where=ref,
        hint=f"the path is relative to the study file: {folder / path}",
    )
    return read_text(str(folder / path), missing)


def parse_study(text: str, where: str, *, quick: bool = False) -> Study:
    """The study written in ``text``; with ``quick`` its quick form, in which ``Study.quick`` is not empty.

    Both forms are checked. Raises one FairlaneError that names ``where``, the lines, and all problems."""
    whole, short = quick_form.split(yaml_tree.read(text))
    if quick and short is None:
        raise FairlaneError(
            "no-quick-form", "the study has no quick form", where=where, hint="add a top-level key quick"
        )
    study = _parse(whole, where, Study, STUDY)
    if short is None:
        return study
    brief = _parse(short, where, Study, STUDY)
    return brief if quick else study


def parse(text: str, where: str, model: type[M], form: Form) -> M:
    """``text``, parsed as a ``model``. Raises one FairlaneError with ``where``, the lines, and all problems."""
    return _parse(yaml_tree.read(text), where, model, form)


def _parse(tree: Tree, where: str, model: type[M], form: Form) -> M:
    problems = list(tree.problems)
    read = None
    if tree.data is not None:
        try:
            # As JSON, because strict validation of JSON takes a list for a tuple, but neither true for 1 nor "4" for 4.
            read = model.model_validate_json(json.dumps(tree.data), strict=True)
        except ValidationError as error:
            problems += explain(error, tree, form)
    elif not problems:
        problems.append(Problem("empty", 0, (), "the file is empty", "fairlane init writes a commented study"))
    if read is None or problems:
        raise _error(problems, where)
    return read


def read_text(ref: str, missing: FairlaneError) -> str:
    """The text of the YAML file ``ref``. Raises ``missing`` if it does not exist, FairlaneError if it cannot be
    read."""
    path = File(ref)
    try:
        with path.open("rb") as file:
            content = file.read(yaml_tree.MAX_BYTES + 1)
        if len(content) > yaml_tree.MAX_BYTES:
            raise FairlaneError(
                "study-too-large", f"larger than {yaml_tree.MAX_BYTES // 1024} KiB: not a study", where=ref
            )
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise missing from None
    except IsADirectoryError:
        raise FairlaneError(
            "not-a-file", "a directory; expected a study file", where=ref, hint=_yaml_in(path)
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FairlaneError(
            "not-text", "not UTF-8 text", where=f"{ref}:{line}", hint="save the file as UTF-8"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        raise FairlaneError(
            "unreadable", f"cannot be read: {getattr(error, 'strerror', None) or error}", where=repr(ref)
        ) from None


def _no_such_study(ref: str) -> FairlaneError:
    near = nearest(ref, presets())
    meant = f"did you mean the preset {near!r}? " if near else ""
    listed = f"presets: {', '.join(presets())}; fairlane init writes one to a file"
    return FairlaneError("study-unknown", "neither a file nor a preset", where=ref, hint=meant + listed)


def _yaml_in(folder: File) -> str:
    files = sorted(p.name for p in folder.glob("*.y*ml"))[:5]
    return f"it contains {', '.join(files)}" if files else ""


def _error(problems: list[Problem], where: str) -> FairlaneError:
    problems = sorted(problems, key=lambda p: p.line)
    if len(problems) == 1:
        only = problems[0]
        return FairlaneError(only.kind, _sentence(only), where=_place(where, only.line), hint=_printable(only.hint))
    lines = [f"{len(problems)} problems"]
    for problem in problems[:MAX_PROBLEMS]:
        hint = f" ({_printable(problem.hint)})" if problem.hint else ""
        lines.append(f"  {_place(where, problem.line)}: {_sentence(problem)} [{problem.kind}]{hint}")
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"  and {len(problems) - MAX_PROBLEMS} more")
    return FairlaneError(SEVERAL, "\n".join(lines), where=where)


def _place(where: str, line: int) -> str:
    return f"{where}:{line}" if line else where


def _sentence(problem: Problem) -> str:
    path = ".".join(str(step) for step in problem.path)
    return _printable(f"{path}: {problem.message}" if path else problem.message)


def _printable(text: str) -> str:
    """``text`` with control characters escaped: keys and values come from outside."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
