"""``fairlane doctor``: what can this machine do?"""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fairlane import registry
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, print_rows, tell
from fairlane.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlane.doctor import Line

COLOURS = {"ok": "green", "warn": "yellow", "missing": "red"}


@click.command(
    cls=Command,
    examples="""
        fairlane doctor                         can the lab run here?
        fairlane doctor --format json           the same, for a program
        fairlane doctor --platform fake         invented figures need next to nothing
    """,
)
@click.option(
    "--platform",
    type=click.Choice(registry.names("platforms")),
    default="lab",
    show_default=True,
    help="Where the virtual machines are to come from.",
)
@format_option
def command(platform: str, output: Format) -> int:
    """Say what this machine can do, and what to install for the rest.

    Exit code 0 if the platform can run here, 1 if something it needs is missing.
    """
    from fairlane import doctor

    if platform == "lab":
        tell(f"looking; trying KVM takes up to {doctor.KVM_SECONDS} s")
    lines = doctor.examine(platform)
    if output == "table":
        _show(lines)
        lack = [line.name for line in lines if line.state == "missing"]
        click.echo(f"\n{platform}: " + (f"cannot run here, for lack of {', '.join(lack)}" if lack else "can run here"))
    else:
        print_rows([asdict(line) for line in lines], output)
    return Exit.OK if doctor.able(lines) else Exit.USER_ERROR


def _show(lines: "Sequence[Line]") -> None:
    """State, name, what was found; the fix below it, so that nothing has to be cut on a narrow terminal."""
    width = max(len(line.name) for line in lines)
    for line in lines:
        click.echo(f"{click.style(f'{line.state:<7}', fg=COLOURS[line.state])}  {line.name:<{width}}  {line.found}")
        if line.fix:
            click.echo(f"{'':<{width + 11}}fix: {line.fix}")
