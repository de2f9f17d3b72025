"""Click classes of all commands: help with examples, help without a subcommand, the nearest name for a wrong one.

@click.command(cls=Command, examples=\"\"\"
    fairlane run demo
    fairlane run study.yaml --out runs/tuesday --jobs 2
\"\"\")
def command() -> None:
    \"\"\"First line: the short help. Then what a reader needs.\"\"\"
"""

import inspect
from typing import Any

import click

from fairlane import registry
from fairlane.errors import nearest

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Command):
    """A command whose help ends with the plugins of the package ``plugins``, if one is given, each in a sentence, and
    with examples, printed line by line as written."""

    def __init__(self, *args: Any, examples: str = "", plugins: str = "", **kwargs: Any) -> None:
        kwargs["context_settings"] = _SETTINGS | (kwargs.get("context_settings") or {})
        super().__init__(*args, **kwargs)
        self.examples = inspect.cleandoc(examples)
        self.plugins = plugins

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.plugins:
            with formatter.section(registry.kind(self.plugins).title):
                formatter.write_dl([(n, registry.summary(self.plugins, n)) for n in registry.names(self.plugins)])
        _format_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A command with subcommands: prints its help, successfully, when none is named."""

    command_class = Command

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs["context_settings"] = _SETTINGS | (kwargs.get("context_settings") or {})
        super().__init__(*args, **kwargs)
        self.examples = inspect.cleandoc(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(self.opening(ctx))
            ctx.exit()
        return super().parse_args(ctx, args)

    def opening(self, ctx: click.Context) -> str:
        """What is printed where no subcommand is named."""
        return ctx.get_help()

    def sections(self, ctx: click.Context) -> list[tuple[str, list[str]]]:
        """(title, names of subcommands) in the order of the help page."""
        return [("Commands", self.list_commands(ctx))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The subcommands, each with the whole of its summary: the first line of its docstring."""
        sections = self.sections(ctx)
        longest = max((len(name) for _, names in sections for name in names), default=0)
        for title, names in sections:
            with formatter.section(title):
                for name in names:
                    command = self.get_command(ctx, name)
                    if command is not None and not command.hidden:
                        summary = command.get_short_help_str(limit=1000).removesuffix(".")
                        formatter.write(f"{'':{formatter.current_indent}}{name:<{longest}}  {summary}\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        word = args[0]
        if word not in known and not ctx.resilient_parsing and not word.startswith("-"):
            near = nearest(word, known)
            advice = f"did you mean {near!r}?" if near else f"commands: {', '.join(known)}"
            raise click.UsageError(f"no such command {word!r}; {advice}", ctx)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _format_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def _format_examples(examples: str, formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}".rstrip() + "\n")
