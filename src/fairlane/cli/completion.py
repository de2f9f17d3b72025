"""``fairlane completion``: tab completion for the user's shell."""

import os
from pathlib import Path

import click

from fairlane.cli._click import Command, Group

_SHELLS = ("bash", "zsh", "fish")
_RELOAD = {
    "bash": "it works in new shells that load bash-completion (package bash-completion); without it, add to ~/.bashrc: "
    'eval "$(fairlane completion show bash)"',
    "zsh": "add to ~/.zshrc, if it is not there: fpath=({folder} $fpath); autoload -Uz compinit; compinit",
    "fish": "it works in new shells",
}


@click.group(
    cls=Group,
    examples="""
        fairlane completion install                writes the script where your shell looks for it
        fairlane completion show zsh               prints it
        eval "$(fairlane completion show bash)"    for this shell only
    """,
)
def command() -> None:
    """Complete commands, options and runs with the Tab key."""


@command.command(
    cls=Command,
    examples="""
        fairlane completion show bash > /etc/bash_completion.d/fairlane    for all users
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS))
def show(shell: str) -> None:
    """Print the completion script of a shell."""
    click.echo(script(shell))


@command.command(
    cls=Command,
    examples="""
        fairlane completion install               for the shell in $SHELL
        fairlane completion install fish
        fairlane completion install --dry-run     prints the file's path, and writes nothing
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@click.option("--dry-run", is_flag=True, help="Print the file's path; write nothing.")
def install(shell: str | None, *, dry_run: bool) -> None:
    """Write the completion script for your user.

    It goes where the shell looks for completions. No start-up file such as ~/.bashrc is changed; what must be in
    one is printed.
    """
    from fairlane.errors import FairlaneError
    from fairlane.runs.files import write_atomic

    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise FairlaneError(
            "shell-unknown",
            f"no completion for shell {shell!r}" if shell else "the variable SHELL is not set",
            hint=f"name one: fairlane completion install {'|'.join(_SHELLS)}",
        )
    path, text = place(shell), script(shell) + "\n"
    if shell == "zsh":  # the file is the function that zsh loads; click's end would only register it the second time
        text = text.partition("\nif [[ $zsh_eval_context")[0] + '\n_fairlane_completion "$@"\n'
    if dry_run:
        click.echo(path)
        return
    old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if old != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    click.echo(f"{path}{' (was there already)' if old == text else ''}")
    click.echo(_RELOAD[shell].replace("{folder}", str(path.parent)), err=True)


def script(shell: str) -> str:
    """The completion script of ``shell``."""
    from click.shell_completion import get_completion_class

    from fairlane.cli.main import main

    kind = get_completion_class(shell)
    assert kind  # noqa: S101 - click has these three
    return kind(main, {}, "fairlane", "_FAIRLANE_COMPLETE").source().strip()


def place(shell: str) -> Path:
    """File in which ``shell`` looks for the completion of a command, for this user (zsh: a folder of its fpath)."""
    home = Path.home()
    if shell == "bash":
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
        return Path(os.environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions/fairlane"
    if shell == "zsh":
        return Path(os.environ.get("ZDOTDIR") or home) / ".zfunc/_fairlane"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/fairlane.fish"
