"""``fairlane lab``: the lab's image and saved states on this machine."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlane import registry
from fairlane.cli._click import Command, Group
from fairlane.cli._output import Format, format_option, notify, print_rows, remote
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.machines.scratch import Leftover


@click.group(
    cls=Group,
    examples="""
fairlane lab build    # build the image now, not at the first run
fairlane lab info     # the cache, its size and versions; leftovers of killed runs
fairlane lab clean    # remove both; the next run builds again
""",
)
def command() -> None:
    """The lab's VM image and saved states: build, show, remove."""


@command.command(
    cls=Command,
    examples="""
fairlane lab build
fairlane lab build --wall    # the machines of clock: wall too (2 minutes, 3 GB while it builds)
fairlane lab build --force   # again, with today's package versions
""",
)
@click.option("--wall", is_flag=True, help="Also the root disk of wall-clock machines.")
@click.option("--force", is_flag=True, help="Build again even if it is cached: takes today's package versions.")
@format_option
def build(wall: bool, force: bool, output: Format) -> None:
    """Build the lab image (about 20 s and 250 MB of downloads)."""
    import asyncio
    from contextlib import ExitStack

    from fairlane.platforms.lab import image
    from fairlane.platforms.lab.wall import rootfs

    with ExitStack() as held:
        rows = [_image_row(asyncio.run(image.build(notify, held, force=force)).folder)]
        if wall:
            rows.append(_image_row(asyncio.run(rootfs.build(notify, held, force=force)).folder, "root"))
        print_rows(rows, output)


@command.command(
    cls=Command,
    examples="""
fairlane lab info
fairlane lab info --format json
""",
)
@format_option
def info(output: Format) -> None:
    """List cached images and states, and leftovers."""
    from fairlane.machines import scratch
    from fairlane.platforms.lab import cache
    from fairlane.runs.files import cache_dir

    for folder in scratch.abandoned():
        left = ", ".join(map(str, scratch.leftovers(folder)))
        notify(f"left by a killed run: {left}; `fairlane lab clean --leftovers` removes it")
    rows = [_image_row(f) for f in cache.entries("images")]
    rows += [_image_row(f, "part") for f in cache.entries("parts")]
    rows += [_image_row(f, "root") for f in cache.entries("roots")]
    rows += [{"kind": "state", "key": f.name, "size": _size(f), "path": str(f)} for f in cache.entries("states")]
    if not rows:
        notify(f"nothing is cached in {cache_dir()}: `fairlane lab build` builds the image")
    print_rows(rows, output)


@command.command(
    cls=Command,
    examples="""
fairlane lab clean              # states, images, root disks, and what killed runs left
fairlane lab clean --states     # states and leftovers only: the next run boots once more
fairlane lab clean --leftovers  # only leftovers of killed runs, not the cache
fairlane lab clean --platform kubevirt                      # leftovers of killed runs in the current cluster
fairlane lab clean --platform kubevirt --run 4f2a91c07b     # of this run alone
fairlane lab clean --platform kubevirt --namespace storage  # in a namespace that several share, too
""",
)
@click.option("--states", is_flag=True, help="Keep images and root disks; remove saved states and leftovers.")
@click.option("--leftovers", is_flag=True, help="Keep the whole cache; remove only leftovers of killed runs.")
@click.option(
    "--platform",
    type=click.Choice(registry.names("platforms")),
    default="lab",
    show_default=True,
    help="Platform to clean.",
)
@click.option("--context", default="", help="Context of the kubeconfig.  [default: the current one]")
@click.option("--namespace", default="", help="Clean labelled objects in this existing namespace.")
@click.option("--run", default="", help="Clean this run only.  [default: every run that has ended]")
def clean(*, states: bool, leftovers: bool, platform: str, context: str, namespace: str, run: str) -> None:
    """Remove leftovers of killed runs, and the cache.

    Leftovers are processes, mounts, loop devices and folders. Files in use stay. With --platform: leftovers in a
    cluster, except those of runs at work.
    """
    if states and leftovers:
        raise click.UsageError("--states and --leftovers exclude each other: --states removes leftovers too")
    if platform != "lab":
        if states or leftovers:
            raise click.UsageError("--states and --leftovers go with the lab")
        _clean_platform(platform, context, namespace, run)
        return
    if context or namespace or run:
        raise click.UsageError(f"--context, --namespace and --run go with --platform {remote()}")
    freed, stays = _clean_leftovers()
    if not leftovers:
        freed += _clean_cache(("states",) if states else ("states", "images", "parts", "roots"))
    notify(f"{freed / 2**20:.0f} MiB freed")
    if stays:
        raise FairlaneError(
            "not-removed", f"could not be removed: {', '.join(map(str, stays))}", hint="try as root, or after a reboot"
        )


def _clean_leftovers() -> tuple[int, list["Leftover"]]:
    """Remove what killed runs left; returns freed bytes, and the leftovers that could not be removed."""
    from fairlane.machines import scratch
    from fairlane.platforms.lab import cache

    freed, stays = 0, []
    for folder in scratch.abandoned():
        for left in scratch.leftovers(folder):
            notify(f"removing {left}")
        size = cache.size(folder)
        stays += scratch.remove(folder)
        freed += 0 if folder.exists() else size
    return freed, stays


def _clean_cache(kinds: Iterable[str]) -> int:
    """Remove the cache entries of ``kinds`` that no process uses; returns their bytes."""
    from fairlane.platforms.lab import cache

    freed = 0
    for kind in kinds:
        for folder in cache.entries(kind):
            size = cache.size(folder)
            if cache.remove(folder):
                freed += size
            else:
                notify(f"{folder} is in use and stays")
    return freed


def _clean_platform(platform: str, context: str, namespace: str, run: str) -> None:
    import asyncio

    kind = registry.load("platforms", platform)
    asyncio.run(kind.clean(context=context, namespace=namespace, run=run, notify=notify))


def _image_row(folder: Path, kind: str = "image") -> dict[str, Any]:
    from fairlane.platforms.lab import image

    row: dict[str, Any] = {"kind": kind, "key": folder.name, "size": _size(folder), "path": str(folder)}
    if (folder / "manifest.json").exists():
        manifest = image.Image(folder, folder.name).manifest
        row |= {"kernel": manifest.get("kernel_release", ""), "fio": manifest["packages"].get("fio", "")}
    return row


def _size(folder: Path) -> str:
    from fairlane.platforms.lab import cache

    return f"{cache.size(folder) / 2**20:.0f} MiB"
