"""``fairlane init``: a commented study to start from."""

from pathlib import Path

import click

from fairlane.cli._click import Command
from fairlane.cli._output import Format, format_option, notify, print_rows
from fairlane.errors import FairlaneError


@click.command(
    cls=Command,
    examples="""
        fairlane init                        writes demo.yaml
        fairlane init fake -o study.yaml
        fairlane init demo -o -              to stdout
        fairlane init --list                 what there is to start from
    """,
)
@click.argument("preset", default="demo")
@click.option("-o", "--output-file", "target", metavar="FILE", help="Where to; - for stdout.  [default: PRESET.yaml]")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--list", "listing", is_flag=True, help="List the presets instead.")
@format_option
def command(preset: str, target: str | None, force: bool, listing: bool, output: Format) -> None:
    """Write a commented study to start from.

    PRESET is one of the studies that come with Fairlane, demo if not given.
    """
    from fairlane.study.load import preset_text, presets

    if listing:
        rows = [{"preset": name, "question": _question(text)} for name, text in presets().items()]
        print_rows(rows, output)
        return
    text = preset_text(preset)
    target = target or f"{preset}.yaml"
    if target == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(target).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise FairlaneError(
            "file-exists", "exists already", where=target, hint="choose another name with -o, or --force"
        ) from None
    notify(f"wrote {target}; next: fairlane study check {target}")


def _question(text: str) -> str:
    from fairlane.study import yaml_tree

    return str(yaml_tree.read(text).at(("question",)) or "")
