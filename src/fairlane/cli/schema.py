"""``fairlane schema``: the study file's form, for editors and for readers."""

import click

from fairlane.cli._click import Command


@click.command(
    cls=Command,
    examples="""
        fairlane schema > study.schema.json        then, as the first line of a study:
                                                   # yaml-language-server: $schema=study.schema.json
        fairlane schema --docs > study-file.md     the same for reading
    """,
)
@click.option("--docs", is_flag=True, help="Print the reference (Markdown) instead.")
def command(docs: bool) -> None:
    """Print the JSON Schema of a study file.

    Draft 2020-12, with every transport, workload and platform of this installation. An editor with YAML support
    completes and checks a study with it as you type.
    """
    from fairlane.cli._output import print_json
    from fairlane.study import reference, schema

    if docs:
        click.echo(reference.markdown(), nl=False)
    else:
        print_json(schema.json_schema())
