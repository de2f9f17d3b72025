"""``fairlane completion``: tab completion for the user's shell."""

import click

from fairlane.cli._click import Command


@click.command(
    cls=Command,
    examples="""
        bash   fairlane completion bash > ~/.local/share/bash-completion/completions/fairlane
        zsh    fairlane completion zsh > ~/.zfunc/_fairlane     (with ~/.zfunc in fpath, before compinit)
        fish   fairlane completion fish > ~/.config/fish/completions/fairlane.fish
        now    eval "$(fairlane completion bash)"
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    Save it where the shell looks for completions (see the examples), then open a new shell.
    """
    from click.shell_completion import get_completion_class

    from fairlane.cli.main import main

    if kind := get_completion_class(shell):
        click.echo(kind(main, {}, "fairlane", "_FAIRLANE_COMPLETE").source())
