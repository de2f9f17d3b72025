"""``fairlane versus``: compare directories, files, disks or storage classes that exist, and say which is faster."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._accept import accept_option
from fairlane.cli._click import Command
from fairlane.cli._output import Format, notify, print_json, print_rows, rows_option
from fairlane.errors import Exit, FairlaneError

if TYPE_CHECKING:
    from fairlane.cli._conclude import Outcome
    from fairlane.versus.composed import Composed

_ARGS = "fairlane.args"
_GIVEN = click.core.ParameterSource.COMMANDLINE


class _Versus(Command):
    """Remembers the command line, to print the one that goes on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGS] = tuple(args)
        return super().parse_args(ctx, args)


class _Quantity(click.ParamType[Any]):
    """A size, duration or share with its unit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from fairlane import units

        read: Mapping[str, Callable[[Any], Any]] = {
            "size": units.parse_size, "time": lambda v: units.parse_duration(v) / 1e9, "share": units.parse_share,
        }  # fmt: skip
        if not isinstance(value, str):
            return value
        try:
            return read[self.name](value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Several(click.ParamType[Any]):
    """Several values, with commas between them: each is a cell."""

    def __init__(self, name: str, read: Callable[[str], Any] = str) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return [self._read(part.strip()) for part in value.split(",") if part.strip()] or self.fail("empty")
        except ValueError:
            self.fail(f"{value!r}: expected {self.name}", param, ctx)


_NUMBERS = _Several("expected whole numbers, such as 1,16", int)
_TIME, _SIZE, _SHARE = _Quantity("time"), _Quantity("size"), _Quantity("share")


def _profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from fairlane.versus.profiles import PROFILES

    return [name for name in PROFILES if name.startswith(incomplete)]


@click.command(
    cls=_Versus,
    examples="""
        fairlane versus /mnt/old /mnt/new                    two directories, about 3 minutes
        fairlane versus ssd=/mnt/a nas=/mnt/b --profile log  named; how fast is a database's log?
        fairlane versus ./a ./b --for 10m --rw randread,randwrite --bs 4k,64k --iodepth 1,32
        fairlane versus /data/x.img /backup/x.img            two files: they are only read
        fairlane versus /mnt/a storage1:/mnt/b               here against another machine (ssh)
        fairlane versus ./a ./b --dry-run                    what would be run, and written?
        fairlane versus sc:rbd sc:lvms --size 20Gi           two storage classes of a cluster (KubeVirt), 15 minutes
    """,
)
@click.argument("paths", metavar="PATH PATH [PATH...]", nargs=-1, type=click.Path())
@click.option("--profile", metavar="NAME", shell_complete=_profiles,
              help="latency, oltp, log, etcd, vdi, backup or mixed (docs/versus.md).")  # fmt: skip
@click.option("--rw", type=_Several("patterns"), metavar="LIST", help="Access patterns, fio's names.")
@click.option("--bs", type=_Several("sizes"), metavar="LIST", help="Block sizes.")
@click.option("--iodepth", type=_NUMBERS, metavar="LIST", help="I/Os in flight.")
@click.option("--numjobs", type=_NUMBERS, metavar="LIST", help="Jobs at once.")
@click.option("--fsync", type=_NUMBERS, metavar="LIST", help="Writes between fsyncs.")
@click.option("--fdatasync", type=_NUMBERS, metavar="LIST", help="Writes between fdatasyncs.")
@click.option("--rate-iops", type=_NUMBERS, metavar="LIST", help="IOPS to ask for: equal load, judged by p99 latency.")
@click.option("--job-file", type=click.Path(), help="A fio job file.")
@click.option("--workload", type=click.Path(), help="A captured workload (fairlane capture), or a study's.")
@click.option("--buffered", is_flag=True, help="Through the page cache, instead of O_DIRECT.")
@click.option(
    "--for", "time", type=_TIME, metavar="TIME", help="Time for all of it, at most.  [default: 3m; classes: 15m]"
)
@click.option("--blocks", type=click.IntRange(2, 10_000), help="Blocks at most: rounds over all paths.")
@click.option("--runtime", type=_TIME, metavar="TIME", help="Length of a trial.  [default: planned]")
@click.option("--size", type=_SIZE, metavar="SIZE", help="Size of files or volumes.  [default: planned; classes: 10g]")
@click.option("--keep-free", type=_SHARE, default=0.1, metavar="SHARE", help="Share of a file system to keep free.  "
              "[default: 10%]")  # fmt: skip
@click.option("--destroy", multiple=True, metavar="IDENTITY", help="Disk whose contents may be lost, by serial or WWN.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Seed of everything random.  [default: 1]")
@accept_option
@click.option("--shared", is_flag=True, help="Run beside other runs of Fairlane on the machines.")
@click.option("--context", metavar="NAME", help="Classes: context of the kubeconfig.  [default: the current one]")
@click.option("--namespace", metavar="NAME", help="Classes: an existing namespace.  [default: a new one, removed]")
@click.option("--image", metavar="IMAGE", help="Classes: image of the machines.  [default: Fedora 41's container disk]")
@click.option("--out", type=click.Path(path_type=Path), help="The run's directory.  [default: runs/NAME-TIME]")
@click.option("--save-study", type=click.Path(path_type=Path), metavar="FILE", help="Write the study to a file.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop (directories are tried with a small file).")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Finish an interrupted run.")
@click.option("--open", "browse", is_flag=True, help="Open the report in a browser.")
@click.option("--clean", is_flag=True, help="Remove what killed comparisons left on this machine, and stop.")
@click.option("--yes", is_flag=True, help="Do not ask before a disk is overwritten.")
@rows_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    paths: tuple[str, ...],
    resume: Path | None,
    out: Path | None,
    save_study: Path | None,
    dry_run: bool,
    browse: bool,
    clean: bool,
    yes: bool,
    output: Format,
    **options: Any,
) -> int:
    """Compare storage paths: which is faster, and is it certain?

    A PATH is a directory (a new file is made in it, filled, measured and removed, in every round), a file or a block
    device (only read, unless --destroy names it), or HOST:PATH over ssh. sc:CLASS is a storage class of the cluster
    that kubectl uses: KubeVirt runs a virtual machine with a new volume for each, and all is removed afterwards.
    NAME=PATH gives it a name. The first is the baseline. Paths take turns in random order, block by block, and it stops
    as soon as every cell is decided.

    The verdict is the last thing printed. Exit code 0 whatever it says; 1 if the paths cannot be compared, 3 if the run
    failed.
    """
    from fairlane.cli._before import refuse
    from fairlane.cli.hosts import clean as clean_machines
    from fairlane.runs import plan as plans

    if clean:
        ctx.invoke(clean_machines, where=(), run="", dry_run=dry_run)
        return Exit.OK
    if resume is not None:
        return _finish(resume, plans.read(resume), output, browse=browse, again="")
    _free(None if dry_run else out, save_study)
    composed = _compose(ctx, paths, options)
    if save_study:
        _save(save_study, composed.text)
    if dry_run:
        _show(composed, output)
    else:
        _announce(composed)
    refuse(composed.problems)
    if dry_run:
        return Exit.OK
    _agreed(composed, yes=yes)
    folder = _begin(composed, out)
    return _finish(
        folder, plans.read(folder), output, browse=browse, composed=composed, again=shlex.join(ctx.meta[_ARGS])
    )


def _compose(ctx: click.Context, paths: Sequence[str], options: Mapping[str, Any]) -> "Composed":
    """Looks at the targets and plans. Raises FairlaneError."""
    from fairlane import registry
    from fairlane.cli._before import consider
    from fairlane.versus import targets
    from fairlane.versus.loads import SHAPES, acceptable, load
    from fairlane.versus.plan import Wanted
    from fairlane.versus.targets.base import Request

    target = targets.kind(paths)
    targets.refuse(target, [name for name in options if ctx.get_parameter_source(name) == _GIVEN])
    shapes = {key: options[key] for key in SHAPES if options[key]}
    if options["buffered"] and options["job_file"]:
        raise FairlaneError(
            "buffered-job-file", "--buffered has no effect on a job file", hint="write direct=0 into its sections"
        )
    what = load(shapes, options["profile"], options["job_file"], options["workload"])
    _ = what.cells  # wrong keys are refused before any machine is asked
    acceptable(options["accepts"])
    wanted = Wanted(options["time"], options["blocks"], options["runtime"], options["size"])
    command = "fairlane versus " + shlex.join(ctx.meta[_ARGS])
    with _hinted():
        composed = target.compose(Request(paths, what, wanted, options, command, notify))
    study = composed.study
    platform = registry.load("platforms", study.platform.kind).of(study)
    consider(study, "the study of this command line", platform.unfit())
    return composed


@contextmanager
def _hinted(folder: Path | None = None) -> Iterator[None]:
    """Hints of this command in place of those of ``fairlane run``."""
    try:
        yield
    except FairlaneError as error:
        if error.kind == "machine-busy":
            error.hint = "wait for it, or add --shared: each is then in the other's figures"
        elif folder is not None:
            from fairlane.trial.runner import resume_command

            error.hint = error.hint.replace(
                resume_command(folder), f"fairlane versus --resume {shlex.quote(str(folder))}"
            )
        raise


def _free(out: Path | None, study: Path | None) -> None:
    """Raises FairlaneError where ``--out`` or ``--save-study`` is taken, before anything is looked at."""
    from fairlane.runs import plan as plans

    if study is not None and study.exists():
        raise FairlaneError("file-exists", "the file exists", where=str(study), hint="choose another name")
    if out is None:
        return
    if plans.is_run(out):
        raise FairlaneError(
            "run-exists", "the directory already holds a run", where=str(out), hint="choose another --out"
        )
    if out.exists() and not out.is_dir():
        raise FairlaneError("unwritable", "not a directory", where=str(out), hint="choose another --out")


def _save(file: Path, text: str) -> None:
    from fairlane.runs.files import write_atomic

    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise FairlaneError(
            "unwritable", f"cannot write: {error.strerror}", where=str(file), hint="choose another --save-study"
        ) from error
    notify(f"study: {file} (run it again: fairlane run {shlex.quote(str(file))})")


def _show(composed: "Composed", output: Format) -> None:
    from fairlane.versus.before import as_json, lines

    if output == "json":
        print_json(as_json(composed) | {"study": composed.text})
        return
    text = "\n".join(lines(composed))
    click.echo(f"```\n{text}\n```" if output == "md" else text)


def _announce(composed: "Composed") -> None:
    from fairlane.versus.before import lines

    for line in ("", *lines(composed), ""):
        click.echo(line, err=True)


def _agreed(composed: "Composed", *, yes: bool) -> None:
    """Asks before a disk is overwritten. Raises FairlaneError, or click.Abort for no."""
    import sys

    from fairlane.units import format_size

    lost = composed.lost
    if not lost or yes:
        return
    if not sys.stdin.isatty():
        raise FairlaneError(
            "not-confirmed",
            "a disk would be overwritten, and there is no terminal to confirm it",
            hint="to confirm: --yes",
        )
    names = ", ".join(f"{label} ({identity})" for label, identity in lost)
    part = f"The first {format_size(composed.sizes.size)} of" if composed.sizes.size else "All data on"
    click.confirm(f"{part} {names} will be overwritten: its data is LOST. Start?", abort=True, err=True)


def _begin(composed: "Composed", out: Path | None) -> Path:
    from fairlane.cli.run import new_folder
    from fairlane.runs import plan as plans

    folder = out or new_folder(composed.study.name)
    plans.create(folder, plans.make(composed.study, composed.text))
    return folder


def _finish(
    folder: Path,
    plan: Any,
    output: Format,
    *,
    browse: bool,
    again: str,
    composed: "Composed | None" = None,
) -> int:
    """Runs what is left of the plan, and prints what came of it."""
    from fairlane import registry
    from fairlane.cli._conclude import conclude, known
    from fairlane.runs.plan import identity
    from fairlane.trial.runner import carry_out
    from fairlane.versus.display import showing

    platform = registry.load("platforms", plan.study.platform.kind).of(plan.study)
    if composed:
        composed.equip(platform)
    notify(f"run directory: {folder}")
    cached = any(cell.params.get("direct") is False for cell in plan.study.cells())
    with showing(plan.study, identity(folder), cached=cached) as watch, known(folder) as missing, _hinted(folder):
        carry_out(folder, plan, platform, watch, 1)
    outcome = conclude(folder)
    _print(outcome, folder, output, composed, again)
    outcome.check(folder)
    missing.check()
    if browse:
        import webbrowser

        webbrowser.open(outcome.html.absolute().as_uri())
    return Exit.OK


def _print(outcome: "Outcome", folder: Path, output: Format, composed: "Composed | None", again: str) -> None:
    from fairlane.cli._answer import print_verdicts, say
    from fairlane.versus import ending
    from fairlane.versus.again import longer
    from fairlane.versus.loads import limits

    judged = outcome.judged
    if output == "tsv":
        print_verdicts(judged.evidence, [v for v in judged.verdicts if v.primary], output)
        return
    found = ending.Verdicts.of(judged.evidence, judged.verdicts)
    checked = ending.limits(judged.evidence, limits(judged.evidence.study.cells()))
    sentences = [ending.sentence(v, found) for v in found.rows]
    if output == "json":
        print_json({
            "run": str(folder),
            "report": str(outcome.html),
            "figures": ending.figures(judged.evidence),
            "findings": [{"severity": f.severity, "message": f.message} for f in ending.grave(judged.findings)],
            "limits": [vars(c) for c in checked],
            "verdicts": outcome.rows,
            "sentences": sentences,
            "overall": [*ending.overall(found)],
        })  # fmt: skip
        return
    if output == "md":
        click.echo(outcome.markdown.read_text(encoding="utf-8"), nl=False)
        return
    print_rows(ending.figures(judged.evidence), "table")
    if grave := ending.grave(judged.findings):
        click.echo()
        for line in ending.finding_lines(grave, found.labels):
            click.echo(line)
    if (small := ending.small(judged.evidence.study)) and "--size" not in again:
        click.echo(f"\n{small}")
    click.echo()
    for line in ending.next_steps(
        found, report=str(outcome.html), run=str(folder), again=longer(judged.evidence, found, composed, again)
    ):
        click.echo(line)
    click.echo()
    for check in checked:
        click.echo(ending.limit_line(check, found.labels))
    for text in (*sentences, *ending.overall(found)):
        say(text)
