"""The fixed part of a run directory: study, settings and schedule, written once before anything runs.

``study.yaml`` as the user wrote it, ``run.json`` (format, version, seed, looks, hash of the study) and
``schedule.jsonl`` (every block that may be needed, in order). They never change: a resumed run does the same work.
"""

import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlane import __version__
from fairlane.errors import FairlaneError
from fairlane.records import Block
from fairlane.runs.files import creating, sync_folder, write_atomic
from fairlane.runs.journal import now
from fairlane.runs.raw import FOLDER as RAW
from fairlane.study.load import parse_study
from fairlane.study.provisionings import fitting, misfit
from fairlane.study.schedule import schedule
from fairlane.study.spec import Study

FORMAT = 1
"""Version of the run directory; raised when older readers would misread it."""


@dataclass(frozen=True)
class Plan:
    """A study with its schedule. ``study.design`` holds the effective seed and looks; where it stops on width, every
    number of blocks at which a cell may end is a look."""

    study: Study
    text: str
    """The study file, as written."""
    blocks: tuple[Block, ...]
    """The whole schedule, up to the last look."""
    unjudged: bool = False
    """Whether the user runs it although no comparison in it is possible."""
    rules: tuple[str, ...] = ()
    """Rules of a gate, as written: the cells they name run until these are decided."""

    @property
    def quick(self) -> bool:
        """Whether the study's quick form is run."""
        return bool(self.study.quick)

    @property
    def looks(self) -> tuple[int, ...]:
        return self.study.design.looks

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def provisionings(self) -> dict[str, int]:
        """Trial id -> number of its provisioning, from 0."""
        of = self.study.design.provisioning_of
        return {block.trial_id(lane): of(block) for block in self.blocks for lane in block.order}

    def stage(self, number: int, opened: Sequence[frozenset[str]]) -> tuple[Block, ...]:
        """The blocks that lead to look ``number``. ``opened[k]``: keys of the cells that went on after look k."""
        first = self.looks[number - 1] if number else 0
        within = (b for b in self.blocks if first <= b.index < self.looks[number])
        return tuple(b for b in within if not number or b.cell.key in opened[number - 1])

    def due(self, opened: Sequence[frozenset[str]]) -> tuple[Block, ...]:
        """All blocks up to the next look, finished ones included; ``opened``: the looks taken."""
        stages = range(min(len(opened) + 1, len(self.looks)))
        return tuple(block for number in stages for block in self.stage(number, opened))


def make(
    study: Study,
    text: str,
    *,
    seed: int | None = None,
    blocks: int | None = None,
    unjudged: bool = False,
    rules: tuple[str, ...] = (),
) -> Plan:
    """The plan of a new run. ``blocks``: a fixed number per cell in place of the study's looks or its ``stop``."""
    if blocks is not None and blocks < 2:
        raise FairlaneError("blocks-few", f"{blocks} blocks give no interval", hint="--blocks takes 2 or more")
    if blocks is not None and (trials := study.too_many(blocks)):
        raise FairlaneError("blocks-many", f"--blocks {blocks}: {trials}", hint="take fewer blocks, cells or lanes")
    count = study.design.provisionings
    if blocks is not None and (problem := misfit((blocks,), count)):
        hint = f"--blocks {fitting(blocks, count)}, or another multiple of {fitting(1, count)}"
        raise FairlaneError("provisionings-uneven", f"--blocks {blocks}: {problem}", hint=hint)
    study = _in_force(study, study.design.seed if seed is None else seed, (blocks,) if blocks else study.design.looks)
    return Plan(study, text, schedule(study, study.design.looks[-1]), unjudged, rules)


def _in_force(study: Study, seed: int, looks: tuple[int, ...]) -> Study:
    stop = study.design.stop if looks == study.design.looks else None
    design = study.design.model_copy(update={"seed": seed, "looks": looks, "stop": stop})
    return study.model_copy(update={"design": design})


_IN_PLACE = "continue that run with --resume, or name another folder with --out"


def create(folder: Path, plan: Plan) -> None:
    """Creates the run directory atomically: after a crash it is complete or absent. Raises FairlaneError."""
    with beside(folder) as fresh, creating(folder):
        write(fresh, plan)


@contextmanager
def beside(folder: Path, hint: str = _IN_PLACE) -> Iterator[Path]:
    """A new folder beside ``folder``, with an empty ``raw``, that is renamed to it at the end and removed after an
    error. Raises FairlaneError if it cannot be created and, with ``hint``, if ``folder`` exists and is not empty."""
    with creating(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FairlaneError("run-exists", "already exists", where=str(folder), hint=hint)
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".new", dir=folder.parent))
    try:
        with creating(folder):
            fresh.chmod(0o755)
            (fresh / RAW).mkdir()
        yield fresh
        with creating(folder):
            fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def write(folder: Path, plan: Plan) -> None:
    """Writes the fixed files of ``plan`` into ``folder``. Raises OSError."""
    for name, text in _files(plan).items():
        write_atomic(folder / name, text.encode())


def _files(plan: Plan) -> dict[str, str]:
    manifest = {
        "format": FORMAT,
        "fairlane": __version__,
        "name": plan.study.name,
        "seed": plan.study.design.seed,
        "looks": list(plan.looks),
        "study_sha256": plan.sha256,
        **({"quick": True} if plan.quick else {}),
        **({"unjudged": True} if plan.unjudged else {}),
        **({"gate": list(plan.rules)} if plan.rules else {}),
        "created": now(),
        "id": secrets.token_hex(5),
    }
    lines = ({"cell": b.cell.key, "block": b.index, "order": list(b.order), "seed": b.seed} for b in plan.blocks)
    return {
        "study.yaml": plan.text,
        "run.json": json.dumps(manifest, indent=2) + "\n",
        "schedule.jsonl": "".join(json.dumps(line) + "\n" for line in lines),
    }


def is_run(folder: Path) -> bool:
    """Whether ``folder`` is a run directory."""
    return (folder / "run.json").is_file()


def read(folder: Path) -> Plan:
    """The plan of an existing run. Raises FairlaneError if the folder is no run, or its files were changed."""
    manifest = _manifest(folder)
    text = _text(folder / "study.yaml")
    if hashlib.sha256(text.encode()).hexdigest() != manifest.get("study_sha256"):
        raise FairlaneError(
            "run-changed",
            "the study was changed after the run began",
            where=str(folder / "study.yaml"),
            hint="restore the file; a changed study needs a new run",
        )
    study = parse_study(text, str(folder / "study.yaml"), quick=bool(manifest.get("quick")))
    try:
        study = _in_force(study, int(manifest["seed"]), tuple(int(n) for n in manifest["looks"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FairlaneError("run-damaged", f"not readable: {error!r}", where=str(folder / "run.json")) from None
    if not study.design.looks:
        raise FairlaneError("run-damaged", "no looks", where=str(folder / "run.json"))
    rules = manifest.get("gate")
    return Plan(
        study,
        text,
        _schedule(folder / "schedule.jsonl", study),
        manifest.get("unjudged") is True,
        tuple(map(str, rules)) if isinstance(rules, list) else (),
    )


def created(folder: Path) -> str:
    """Time when the run was created, as text that sorts by time."""
    return str(_manifest(folder).get("created", ""))


def identity(folder: Path) -> str:
    """The run's id: ten hexadecimal digits, unique, unchanged when the run is resumed or moved."""
    manifest = _manifest(folder)
    run_id = manifest.get("id")
    if isinstance(run_id, str) and re.fullmatch(r"[0-9a-f]{10}", run_id):
        return run_id
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:10]  # of an earlier version


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not is_run(folder):
        raise FairlaneError("not-a-run", "not a run directory (it has no run.json)", where=str(folder))
    try:
        manifest = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise FairlaneError("run-damaged", f"not JSON: {error}", where=str(path)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FairlaneError(
            "run-format",
            f"this fairlane ({__version__}) reads run directories of format {FORMAT}",
            where=str(path),
            hint="use the version of fairlane that wrote it",
        )
    return manifest


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise FairlaneError("run-damaged", "not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise FairlaneError("unreadable", f"cannot be read: {error.strerror}", where=str(path)) from None


def _schedule(path: Path, study: Study) -> tuple[Block, ...]:
    cells = {cell.key: cell for cell in study.cells()}
    blocks = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            entry = json.loads(line)
            order = tuple(str(lane) for lane in entry["order"])
            if not set(order) <= set(study.lanes):
                raise ValueError("a lane that the study does not have")
            blocks.append(Block(cells[entry["cell"]], int(entry["block"]), order, int(entry["seed"])))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise FairlaneError(
                "run-damaged", f"not a block of this study: {error!r}", where=f"{path}:{number}"
            ) from None
    return tuple(blocks)
