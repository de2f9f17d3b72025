"""The load of a command line: a profile, options as in fio, a job file, or a captured workload."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from fairlane.errors import FairlaneError, nearest
from fairlane.formats import fio_job_file
from fairlane.records import Cell
from fairlane.study.load import parse_study, read_text
from fairlane.versus.plan import LARGEST
from fairlane.versus.profiles import DEFAULT, PROFILES, READ_ONLY, Limit, Workloads
from fairlane.versus.wording import of_job_file, of_options

_STUDY = """\
name: load
baseline: a
platform: {kind: hosts, machines: {here: local}}
lanes:
  a: {transport: directory, path: /a}
  b: {transport: directory, path: /b}
"""


@dataclass(frozen=True)
class Load:
    """What is run on every path."""

    workloads: Workloads
    title: str
    """Where it comes from: ``the default``, ``profile etcd``."""
    source: str = ""
    """Who says that it is so."""
    limits: Sequence[Limit] = field(default=())
    largest: int = LARGEST
    """Bytes of a file that are planned for it at most."""
    chosen: bool = True
    """Whether the user chose it; False: it may be replaced by one that only reads."""
    job_file: str = ""
    """Where it was read from."""

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Its cells. Raises FairlaneError for keys that workload ``fio`` refuses."""
        whole = {name: {"kind": "fio", **keys} for name, keys in self.workloads.items()}
        text = _STUDY + yaml.safe_dump({"workloads": whole}, sort_keys=False, allow_unicode=True)
        try:
            return parse_study(text, self.title).cells()
        except FairlaneError as error:
            if self.job_file:
                raise of_job_file(error, self.job_file) from None
            raise of_options(error) from None

    @property
    def reads_only(self) -> bool:
        return not any(_writes(job) for cell in self.cells for job in _jobs(cell.params))

    @property
    def changes(self) -> Iterator[str]:
        """What of its job file is another load here."""
        if not self.job_file:
            return
        parsed = fio_job_file.parse(str(self.workloads["job"]["job_file"]))
        if parsed.dropped:
            yield f"Not as in the file, because Fairlane sets it for all paths alike: {', '.join(parsed.dropped)}."
        if parsed.files:
            yield "All processes load one file for each path; fio would give each process a file of its own."

    @property
    def fills(self) -> bool:
        """Whether new files are filled before they are measured."""
        return any(keys.get("prefill", True) for keys in self.workloads.values())

    @property
    def syncs(self) -> bool:
        return any(
            job.get(key) not in (None, 0, False, "none")
            for cell in self.cells
            for job in _jobs(cell.params)
            for key in ("fsync", "fdatasync", "sync", "end_fsync")
        )

    @property
    def cached(self) -> bool:
        """Whether any of it goes through the page cache."""
        return any(job.get("direct") is False for cell in self.cells for job in _jobs(cell.params))

    @property
    def tail(self) -> bool:
        """Whether a percentile beyond p90 decides."""
        return any("_p9" in str(keys.get("primary", "")) for keys in self.workloads.values())

    @property
    def needs(self) -> int:
        """Bytes that a file must have for the regions that its jobs name; 0: it names none."""
        return max(
            ((job.get("offset") or 0) + (job.get("size") or 0) for cell in self.cells for job in _jobs(cell.params)),
            default=0,
        )

    def reading(self) -> "Load":
        """The default for what is only read."""
        return Load(READ_ONLY.workloads, "the default for read-only paths", READ_ONLY.source)

    def keys(self, *, prefill: bool) -> Workloads:
        """The workloads for a study."""
        if prefill:
            return self.workloads
        return {name: {**keys, "prefill": False} for name, keys in self.workloads.items()}


def _jobs(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    jobs = params.get("jobs")
    return [params, *jobs.values()] if isinstance(jobs, Mapping) else [params]


def _writes(job: Mapping[str, Any]) -> bool:
    return job.get("rw") not in (None, "read", "randread")


SHAPES = ("rw", "bs", "iodepth", "numjobs", "fsync", "fdatasync", "rate_iops")
"""Options that are keys of a workload, as lists."""


def load(shapes: Mapping[str, Sequence[Any]], profile: str | None, job_file: str | None, workload: str | None) -> Load:
    """The load of a command line. ``shapes``: those of ``SHAPES`` that were given. Raises FairlaneError."""
    given = [f"--{key.replace('_', '-')}" for key in shapes]
    chosen = [flag for flag, value in
              (("--profile", profile), ("--job-file", job_file), ("--workload", workload)) if value]  # fmt: skip
    if len(chosen) > 1 or (chosen and given):
        both = [*chosen, *given][:2]
        raise FairlaneError("loads-several", f"{both[0]} and {both[1]} both define the load", hint="give one of them")
    if profile:
        return _profile(profile)
    if job_file:
        text = read_text(job_file, FairlaneError("file-missing", "no such file", where=job_file))
        keys = {"job_file": text if "\n" in text else text + "\n"}
        return Load({"job": keys}, f"job file {Path(job_file).name}", job_file=job_file)
    if workload:
        return Load(_captured(workload), f"workload {Path(workload).name}")
    if not shapes:
        return Load(DEFAULT.workloads, "the default", DEFAULT.source, chosen=False)
    own: dict[str, Any] = {"rw": ["randread", "randwrite"], "bs": ["4k"]} | {k: list(v) for k, v in shapes.items()}
    if "rw" not in shapes and any(k in shapes for k in ("fsync", "fdatasync")):
        own["rw"] = ["randwrite"]
    if "rate_iops" in shapes:
        own["primary"] = "lat_p99"  # all reach the same rate
    return Load({"main": own}, "the options given")


def acceptable(accepts: Mapping[str, str]) -> None:
    """Raises FairlaneError for unknown parameters."""
    design = {"workloads": {"main": {"kind": "fio"}}, "design": {"accept": dict(accepts)}}
    try:
        parse_study(_STUDY + yaml.safe_dump(design, allow_unicode=True), "--accept")
    except FairlaneError as error:
        raise of_options(error) from None


_PLANNED = ("runtime", "ramp")
"""Parameters of a cell that are no part of its load."""


def limits(cells: Sequence[Cell]) -> list[Limit]:
    """The documented limits of the profile whose load these cells are, key by key; a name alone is none."""
    found: list[Limit] = []
    for name, profile in PROFILES.items():
        if profile.limits and _loads(cells) == _loads(_profile(name).cells):
            found += profile.limits
    return found


def _loads(cells: Sequence[Cell]) -> list[str]:
    return sorted(json.dumps({k: v for k, v in c.params.items() if k not in _PLANNED}, sort_keys=True, default=str)
                  for c in cells)  # fmt: skip


def _profile(name: str) -> Load:
    if name not in PROFILES:
        near = nearest(name, PROFILES)
        hint = f"did you mean {near}?" if near else f"profiles: {', '.join(PROFILES)}"
        raise FairlaneError("profile-unknown", f"no profile named {name}", where="--profile", hint=hint)
    profile = PROFILES[name]
    return Load(profile.workloads, f"profile {name}", profile.source, profile.limits, profile.largest or LARGEST)


_OURS = ("kind", "runtime", "ramp", "prefill", "steady", "check_of")
"""Keys that the plan sets."""


def _captured(file: str) -> dict[str, dict[str, Any]]:
    """The workloads of a file: of ``workloads:`` in it, or the whole, or one of them alone."""
    text = read_text(file, FairlaneError("file-missing", "no such file", where=file))
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FairlaneError("not-yaml", str(error).partition("\n")[0], where=file) from None
    tree = tree.get("workloads", tree) if isinstance(tree, dict) else tree
    if isinstance(tree, dict) and tree.get("kind") == "fio":
        tree = {"main": tree}
    if not isinstance(tree, dict) or not tree or not all(isinstance(v, dict) for v in tree.values()):
        raise FairlaneError(
            "no-workload",
            "the file contains no workload",
            where=file,
            hint="use a file of fairlane capture, or a study with workloads:",
        )
    return {str(name): _unplanned(keys) for name, keys in tree.items()}


def _unplanned(keys: Mapping[str, Any]) -> dict[str, Any]:
    """``keys`` without those of the plan. At a rate that all paths reach, latency tells them apart, and not IOPS."""
    own = {k: v for k, v in keys.items() if k not in _OURS}
    jobs = own.get("jobs")
    parts = [own, *(job for job in jobs.values() if isinstance(job, dict))] if isinstance(jobs, dict) else [own]
    return {"primary": "lat_p99", **own} if any(part.get("rate_iops") for part in parts) else own
