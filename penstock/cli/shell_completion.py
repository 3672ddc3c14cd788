"""The command that prints the shell script for completion of commands, options, tables and views."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from penstock.cli.command_frame import command
from penstock.cli.context import WRONG, Context
from penstock.cli.exit_errors import ExitError

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    examples=[
        "penstock completion bash >> ~/.bashrc",
        "penstock completion zsh >> ~/.zshrc",
        "penstock completion fish > ~/.config/fish/completions/penstock.fish",
    ],
)
@click.argument("shell", metavar="[SHELL]", type=click.Choice(SHELLS), required=False)
def completion(ctx: Context, shell: str | None) -> None:
    """Print the script that lets SHELL (bash, zsh or fish; else the one of $SHELL) complete commands.

    It completes commands, options, and the tables and views of the app. To install it, append it to the start file of
    your shell, as in the examples, and start a new shell.
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    made = get_completion_class(name) if name in SHELLS else None
    if made is None:
        raise ExitError(
            f"completion knows {', '.join(SHELLS)}, and not {name or 'this shell'!r}; name one of them", WRONG
        )
    root = click.get_current_context().find_root().command
    click.echo(made(root, {}, "penstock", "_PENSTOCK_COMPLETE").source())
