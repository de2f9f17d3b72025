"""``fairlane lab``: the lab's image and saved states on this machine."""

from pathlib import Path
from typing import Any

import click

from fairlane.cli._click import Command, Group
from fairlane.cli._output import Format, format_option, print_rows, tell


@click.group(
    cls=Group,
    examples="""
fairlane lab build    # build the image now, not at the first run
fairlane lab info     # what is cached, how large, of which versions
fairlane lab clean    # free the space; the next run builds again
""",
)
def command() -> None:
    """The lab's VM image and saved states: build, show, remove."""


@command.command(
    cls=Command,
    examples="""
fairlane lab build
fairlane lab build --force   # again, with today's package versions
""",
)
@click.option("--force", is_flag=True, help="Build again even if it is cached: takes today's package versions.")
@format_option
def build(force: bool, output: Format) -> None:
    """Build the lab image (about 20 s and 250 MB of downloads)."""
    import asyncio
    from contextlib import ExitStack

    from fairlane.platforms.lab import image

    with ExitStack() as held:
        built = asyncio.run(image.build(tell, held, force=force))
        print_rows([_image_row(built.folder)], output)


@command.command(
    cls=Command,
    examples="""
fairlane lab info
fairlane lab info --format json
""",
)
@format_option
def info(output: Format) -> None:
    """Show cached images and saved states."""
    from fairlane.platforms.lab import cache

    rows = [_image_row(f) for f in cache.entries("images")]
    rows += [{"kind": "state", "key": f.name, "size": _size(f), "path": str(f)} for f in cache.entries("states")]
    if not rows:
        tell(f"nothing is cached in {cache.cache_dir()}: `fairlane lab build` builds the image")
    print_rows(rows, output)


@command.command(
    cls=Command,
    examples="""
fairlane lab clean            # states and images
fairlane lab clean --states   # states only: the next run boots once more
""",
)
@click.option("--states", is_flag=True, help="Only saved states, not images.")
def clean(states: bool) -> None:
    """Remove cached images and states that no run is using."""
    from fairlane.platforms.lab import cache

    freed = 0
    for kind in ("states",) if states else ("states", "images"):
        for folder in cache.entries(kind):
            size = cache.size(folder)
            if cache.remove(folder):
                freed += size
            else:
                tell(f"{folder} is in use and stays")
    tell(f"{freed / 2**20:.0f} MiB freed")


def _image_row(folder: Path) -> dict[str, Any]:
    from fairlane.platforms.lab import image

    row: dict[str, Any] = {"kind": "image", "key": folder.name, "size": _size(folder), "path": str(folder)}
    if (folder / "manifest.json").exists():
        manifest = image.Image(folder, folder.name).manifest
        row |= {"kernel": manifest["kernel_release"], "fio": manifest["packages"].get("fio", "")}
    return row


def _size(folder: Path) -> str:
    from fairlane.platforms.lab import cache

    return f"{cache.size(folder) / 2**20:.0f} MiB"
