"""``fairlane capture``: the load of a disk in production, as a picture and as a workload."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.capture.record import Capture
    from fairlane.capture.shape import Shape


@click.command(
    cls=Command,
    examples="""
        fairlane capture sda --out captured.yaml             watch for 5 minutes, write a workload
        fairlane capture /var/lib/mysql --for 10m            the disk behind a folder
        fairlane capture db1:/dev/nvme0n1 --out db1.yaml     a disk of another machine, over ssh
        fairlane capture vm:db1,vda --out db1.yaml           a disk of a virtual machine on this host (libvirt)
        fairlane capture --from captured.json --closed --out fast.yaml
        fairlane capture --replay captured.yaml --on /mnt/new
    """,
)
@click.argument("disk", required=False)
@click.option("--for", "duration", metavar="TIME", help="How long: 30s, 5m, 1h.  [default: 5m; a replay: 30s]")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write a workload, and the counts as .json."
)
@click.option("--force", is_flag=True, help="Overwrite the files of --out.")
@click.option("--closed", is_flag=True, help="Workload without the captured rate: as fast as its depth allows.")
@click.option(
    "--source",
    type=click.Choice(["auto", "events", "blktrace", "counters"]),
    default="auto",
    show_default=True,
    help="Where the trace comes from.",
)
@click.option("--from", "saved", type=click.Path(path_type=Path), metavar="JSON", help="Analyse a capture again.")
@click.option("--replay", type=click.Path(path_type=Path), metavar="YAML", help="Run this workload and capture it.")
@click.option("--on", type=click.Path(path_type=Path), metavar="PATH", help="Replay on a new file, or in a folder.")
@click.option("--size", metavar="SIZE", help="Largest file of a replay.  [default: 1g]")
@format_option
def command(
    *,
    disk: str | None,
    duration: str | None,
    out: Path | None,
    force: bool,
    closed: bool,
    source: str,
    saved: Path | None,
    replay: Path | None,
    on: Path | None,
    size: str | None,
    output: Format,
) -> None:
    """Capture the load of a disk, and write it as a workload.

    DISK is a kernel name, a path in /dev, an identity (serial:...), a file or folder on the disk, a virtual machine's
    (vm:NAME,TARGET of libvirt, qmp:SOCKET,DEVICE of QEMU), or HOST:DISK over your own ssh. Nothing is written to it. As
    root the kernel's block events are traced; without root only the disk's counters are read. Ctrl-C ends early and
    keeps the capture.
    """
    _one_of(disk, saved, replay)
    if (replay is None) != (on is None):
        raise click.UsageError("--replay needs --on, and --on needs --replay")
    if replay is not None and on is not None:
        _replay(replay, on, _seconds(duration, 30), most=_bytes(size), source=source, output=output)
        return
    _free(out, saved, force=force)
    if saved is not None:
        from fairlane.capture.record import load

        capture = load(saved)
    else:
        capture = _watch(str(disk), _seconds(duration, 300), source)
        if out is not None:  # before any analysis: what was captured must not be lost
            out.with_suffix(".json").write_text(capture.dump(), encoding="utf-8")
    from fairlane.capture.shape import shape

    found = shape(capture)
    written = _write(capture, found, out, closed=closed, again=saved is not None)
    _show(capture, found, output)
    if written:
        notify(written)


def _one_of(disk: str | None, saved: Path | None, replay: Path | None) -> None:
    given = [word for word in (disk, saved, replay) if word is not None]
    if len(given) != 1:
        raise click.UsageError("give one of: DISK, --from JSON, --replay YAML")


def _seconds(text: str | None, default: int) -> int:
    from fairlane.units import parse_duration

    if text is None:
        return default
    try:
        seconds = parse_duration(text) / 1e9
    except ValueError as error:
        raise FairlaneError("duration", f"--for: {error}") from None
    if not 2 <= seconds <= 7 * 86400:
        raise FairlaneError("duration", "--for: expected 2s to 168h")
    return round(seconds)


def _bytes(text: str | None) -> int:
    from fairlane.capture.replay import MOST
    from fairlane.units import parse_size

    if text is None:
        return MOST
    try:
        size = parse_size(text)
    except ValueError as error:
        raise FairlaneError("size", f"--size: {error}") from None
    if size < 16 << 20:
        raise FairlaneError("size", "--size: expected at least 16m")
    return size


def _free(out: Path | None, saved: Path | None, *, force: bool) -> None:
    """Raises FairlaneError if a file of --out exists: better before five minutes than after them."""
    if out is None:
        return
    if out.suffix not in (".yaml", ".yml"):
        raise FairlaneError("out-name", "--out: expected a name that ends in .yaml", where=str(out))
    for path in (out, out.with_suffix(".json")):
        mine = saved is not None and saved.exists() and path.exists() and path.samefile(saved)
        if path.exists() and not force and not mine:
            raise FairlaneError(
                "file-exists", "exists already", where=str(path), hint="choose another --out, or add --force"
            )
    if not out.absolute().parent.is_dir():
        raise FairlaneError("file-error", "the folder does not exist", where=str(out.parent), hint="create the folder")


def _watch(disk: str, seconds: int, source: str) -> "Capture":
    from fairlane.capture import target, watch
    from fairlane.units import format_duration

    found = target.look(disk)
    notify(
        f"watching {found.disk.name} on {found.machine} for {format_duration(seconds * 10**9)}; "
        "Ctrl-C ends early and keeps the capture"
    )
    return watch.watch(found, seconds, source, _progress(seconds))


def _progress(seconds: int) -> Any:
    """A line that counts down on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None
    last = -1

    def show(passed: float) -> None:
        nonlocal last
        left = max(seconds - int(passed), 0)
        if left != last:
            last = left
            click.echo(f"\r{left:5d} s left ", err=True, nl=left == 0)

    return show


def _write(capture: "Capture", found: "Shape", out: Path | None, *, closed: bool, again: bool) -> str:
    """Writes the workload; returns what to tell about it."""
    if out is None:
        return ""
    from fairlane.capture.workload import text, workload

    words = ["fairlane", "capture", "--from", out.with_suffix(".json").name, *(["--closed"] if closed else [])]
    out.write_text(text(capture, workload(found, closed=closed), words), encoding="utf-8")
    counts = out.with_suffix(".json")
    if again and not counts.exists():
        counts.write_text(capture.dump(), encoding="utf-8")
    return f"wrote {out} and {counts}; next: fairlane capture --replay {out} --on FOLDER"


def _show(capture: "Capture", found: "Shape", output: Format) -> None:
    from dataclasses import asdict

    from fairlane.capture.draw import picture
    from fairlane.capture.workload import workload
    from fairlane.cli._output import print_json
    from fairlane.report.text import clean

    lines = [clean(line) for line in picture(capture, found)]
    if output == "json":
        about = {k: getattr(capture, k) for k in ("machine", "kernel", "began", "seconds", "interrupted")}
        keys = dict(workload(found).keys) if found.parts else None
        about |= {"disk": asdict(capture.disk), "sources": [*capture.sources], "gaps": [*capture.gaps]}
        print_json({**about, "cpu": dict(capture.cpu), "shape": _plain(asdict(found)), "workload": keys})
    elif output == "md":
        click.echo("\n".join(["```text", *lines, "```"]))
    else:
        click.echo("\n".join(lines))


def _plain(value: Any) -> Any:
    """Sizes are keys of mappings, which JSON has as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _replay(path: Path, on: Path, seconds: int, *, most: int, source: str, output: Format) -> None:
    from fairlane.capture import compare
    from fairlane.capture import replay as again
    from fairlane.capture.record import load
    from fairlane.capture.shape import shape
    from fairlane.cli._output import print_json, print_rows

    tree = again.read(path)
    captured = load(path.with_suffix(".json"))
    done = again.replay(tree, on, seconds, most=most, source=source, where=str(path), progress=notify)
    before, after = shape(captured), shape(done.capture)
    closed = not any(
        key in part for part in (tree, *tree.get("jobs", {}).values()) for key in ("rate_iops", "thinktime")
    )
    table = compare.rows(before, after, scaled=done.scale < 1, closed=closed)
    verdict = compare.sentence(table)
    rows = [
        {"property": r.name, "captured": r.captured, "replayed": r.replayed, "deviation": r.text,
         "within": ("yes" if r.alike else "no") if r.judged else "not judged"} for r in table
    ]  # fmt: skip
    if output == "json":
        print_json({"properties": rows, "sentence": verdict, "scale": done.scale})
        return
    print_rows(rows, output)
    click.echo()
    click.echo(verdict)
    if done.scale < 1:
        click.echo(f"The replay used {100 * done.scale:.0f} % of the working set (--size sets more).")
    if not after.traced:
        click.echo("Only counters were compared: a trace needs root.")
