"""``fairlane hosts``: machines that studies of platform hosts use."""

import re
from pathlib import Path

import click

from fairlane.cli._click import Command, Group
from fairlane.cli._output import notify
from fairlane.errors import FairlaneError


@click.group(
    cls=Group,
    examples="""
fairlane hosts clean                  # what killed runs left on this machine
fairlane hosts clean study.yaml       # on the machines of a study
fairlane hosts clean alpha root@beta  # on machines as ssh knows them
""",
)
def command() -> None:
    """Machines of your own: remove what killed runs left."""


@command.command(
    cls=Command,
    examples="""
fairlane hosts clean                           # on this machine
fairlane hosts clean --dry-run alpha beta      # only list it
fairlane hosts clean study.yaml                # on every machine of the study, its array last
fairlane hosts clean --run 4f2a91c07b alpha    # of one run; its id is in its run.json
""",
)
@click.argument("where", metavar="[STUDY | MACHINE...]", nargs=-1)
@click.option("--run", default="", help="Id of one run.  [default: all that have ended]")
@click.option("--dry-run", is_flag=True, help="List leftovers; change nothing.")
def clean(where: tuple[str, ...], *, run: str, dry_run: bool) -> None:
    """Remove sessions, mounts, targets and files of killed runs.

    Their processes end too. Every run keeps a list of its steps on each machine (/var/tmp/fairlane-RUN). Only steps on
    this list are undone, newest first. Runs that are at work are left alone. Name an array after the machines that use
    it.
    """
    import asyncio

    from fairlane.living import clean as cleaning

    if run and not re.fullmatch(r"[0-9a-f]{10}", run):
        raise FairlaneError("run-unknown", f"{run!r} is not the id of a run", hint="the id is in its run.json")
    stays = asyncio.run(cleaning.clean(_machines(where), run, notify, dry=dry_run))
    if stays:
        raise FairlaneError(
            "not-removed", "\n".join(["could not be undone:", *(f"  {item}" for item in stays)]),
            hint="fix the cause and try again; the steps stay on the machine's list",
        )  # fmt: skip


def _machines(where: tuple[str, ...]) -> dict[str, str]:
    """Name -> destination."""
    from fairlane.living.destination import LOCAL, problem
    from fairlane.platforms._living.spec import LivingSpec
    from fairlane.study.load import load_study, presets

    if not where:
        return {LOCAL: LOCAL}
    if len(where) == 1 and (Path(where[0]).is_file() or where[0] in presets()):
        spec = load_study(where[0])[0].platform
        if not isinstance(spec, LivingSpec):
            raise FairlaneError(
                "platform-other", f"the study is for platform {spec.kind}, which uses no hosts",
                hint="pass ssh destinations: fairlane hosts clean alpha beta",
            )  # fmt: skip
        return dict(spec.reached)
    for destination in where:
        if wrong := problem(destination):
            raise FairlaneError("machine-unknown", wrong, where=destination)
    return {destination: destination for destination in where}
