"""``fairlane doctor``: examine this machine or a cluster."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fairlane import registry
from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify, print_rows, remote, text
from fairlane.errors import Exit, FairlaneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlane.doctor import Line
    from fairlane.study.spec import Study

COLOURS = {"ok": "green", "warn": "yellow", "missing": "red"}


@click.command(
    cls=Command,
    examples="""
        fairlane doctor                         can the lab run here?
        fairlane doctor --format json           the same, for a program
        fairlane doctor --platform fake         invented figures need next to nothing
        fairlane doctor --platform kubevirt     the cluster that is current in the kubeconfig
        fairlane doctor study.yaml              what keeps this study from running: lanes, room, permissions
        fairlane doctor protocols  --quick      the same of its quick form
    """,
)
@click.argument("study", metavar="[STUDY]", required=False)
@click.option(
    "--platform",
    type=click.Choice(registry.names("platforms")),
    help="Platform that provides the virtual machines.  [default: lab, or the study's]",
)
@click.option("--context", default="", help="Context of the kubeconfig.  [default: the study's, or the current one]")
@click.option("--quick", is_flag=True, help="The study's quick form.")
@click.option("--namespace", default="", help="Namespace of the cluster.  [default: the study's]")
@format_option
def command(
    study: str | None, platform: str | None, context: str, namespace: str, *, quick: bool, output: Format
) -> int:
    """Check what can run here, and what to install for the rest.

    STUDY is a study file or the name of a preset: whatever `fairlane run` would refuse is listed before anything is
    made. Nothing is changed. Exit code 0 if the platform, and the study, can run; 1 if something is missing.
    """
    from fairlane import doctor

    if quick and study is None:
        raise click.UsageError("--quick goes with a study")
    loaded = _study(study, platform, quick=quick)
    platform = platform or (loaded.platform.kind if loaded else "lab")
    if (context or namespace) and not registry.load("platforms", platform).remote:
        raise click.UsageError(f"--context and --namespace go with --platform {remote()}")
    if platform == "lab":
        notify(f"looking; trying KVM takes up to {doctor.KVM_SECONDS} s")
    lines = doctor.examine(platform, loaded, context=context, namespace=namespace)
    if output == "table":
        _show(lines)
        missing = dict.fromkeys(text(line.name) for line in lines if line.state == "missing")
        planned = registry.load("platforms", platform).described
        short = planned or f"cannot run here; missing: {', '.join(missing)}"
        click.echo(f"\n{platform}: {short if missing else 'can run here'}")
    else:
        print_rows([asdict(line) for line in lines], output)
    return Exit.OK if doctor.able(lines) else Exit.USER_ERROR


def _study(ref: str | None, platform: str | None, *, quick: bool) -> "Study | None":
    if ref is None:
        return None
    from fairlane.study.load import load_study

    study, _ = load_study(ref, quick=quick)
    if platform not in (None, study.platform.kind):
        message = f"the study is for platform {study.platform.kind}, not for {platform}"
        raise FairlaneError("platform-other", message, where=ref, hint="remove --platform")
    return study


def _show(lines: "Sequence[Line]") -> None:
    """State, name, details; the fix on a line below, so that nothing is cut on a narrow terminal."""
    width = max(len(line.name) for line in lines)
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        state = click.style(f"{line.state:<7}", fg=COLOURS[line.state])
        click.echo(f"{state}  {text(line.name):<{width}}  {text(line.found)}")
        if line.fix and (after is None or after.fix != line.fix):  # once for lines with the same fix
            click.echo(f"{'':<{width + 11}}fix: {text(line.fix)}")
