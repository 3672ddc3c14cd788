"""The context of a command: its global options, and the properties of the terminal.

Invariant: it is built once, before a command runs. So no command reads an environment variable or tests again whether
it writes to a terminal.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import click

APP, STORE = "app.py", "penstock-state"
DONE, NO, WRONG, FAILED, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes; NO: the answer is no


@dataclass(frozen=True, slots=True)
class Context:
    """The global options of one run.

    `app` is FILE or FILE:NAME, `store` a folder. `terminal` says whether standard output is one, and `color` whether
    colors may be used there.
    """

    app: str = APP
    store: str = STORE
    quiet: bool = False
    verbose: bool = False
    terminal: bool = False
    color: bool = False

    def say(self, text: str) -> None:
        """Print a line about the work done on standard output. With -q print nothing."""
        if not self.quiet:
            click.echo(text)

    def note(self, text: str) -> None:
        """Print a line on standard error, beside the output. With -q print nothing."""
        if not self.quiet:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        """Print a line on standard error, only with -v."""
        if self.verbose:
            click.echo(text, err=True)


def context_of(app: str | None, store: str | None, quiet: bool, verbose: bool) -> Context:
    """Return the context of a run with these options."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Context(app or APP, store or STORE, quiet, verbose, terminal, color)
