"""The frame of every command: global options, examples, exit codes and one-line errors.

    @command("get", examples=["penstock get namecount Joe"], app=True, store=True)
    @click.argument("view")
    def get(ctx: Context, view: str) -> int | None: ...

A command returns None or an exit code. Invariants:

- Global options have one meaning before and after the name of a command. If both are given, the one after the name
  wins.
- A user's mistake ends in one line on standard error and an exit code (`exit_errors`). A traceback comes from the
  user's own code, or shows a fault of this package.
"""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from penstock.cli.context import APP, DONE, FAILED, INTERRUPTED, STORE, WRONG, Context, context_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from penstock.cli.exit_errors import ExitError
    from penstock.engine import Engine, Scrubbing, Snapshot, StoreWriter
    from penstock.views import App, Table, View

P = ParamSpec("P")
_NUMBER = re.compile(r"-\.?\d")


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Global options, given before the name of a command or after it."""

    app: str | None = None
    store: str | None = None
    quiet: bool = False
    verbose: bool = False

    def under(self, later: GlobalOptions) -> GlobalOptions:
        """Return these options, overridden by the `later` ones that are set."""
        quiet, verbose = self.quiet, self.verbose
        if later.quiet or later.verbose:
            quiet, verbose = later.quiet, later.verbose
        return GlobalOptions(later.app or self.app, later.store or self.store, quiet, verbose)


def global_options(app: bool, store: bool, env: bool = False) -> list[click.Parameter]:
    """Return the global options as fresh parameters for one command. With `env` they also read the environment."""
    out: list[click.Parameter] = []
    if app:
        text = f"The app's Python file, and its name there if there are several (else PENSTOCK_APP, else {APP})."
        given = "PENSTOCK_APP" if env else None
        out.append(_Global(["--app"], metavar="FILE[:NAME]", envvar=given, help=text, shell_complete=files))
    if store:
        text = f"The store's folder (else PENSTOCK_STORE, else {STORE})."
        given = "PENSTOCK_STORE" if env else None
        out.append(_Global(["--store"], metavar="DIR", envvar=given, help=text, shell_complete=folders))
    out.append(_Global(["-q", "--quiet"], is_flag=True, help="Print only results and errors."))
    out.append(_Global(["-v", "--verbose"], is_flag=True, help="Print more details."))
    return out


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of files."""
    return _left_to_the_shell(incomplete, "file")


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete names of folders."""
    return _left_to_the_shell(incomplete, "dir")


def _left_to_the_shell(incomplete: str, kind: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


class _Global(click.Option):
    """An option of every command."""


class Command(click.Command):
    """A command with examples. It also accepts the global options."""

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), app: bool = False, store: bool = False, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.examples = tuple(examples)
        self.params.extend(global_options(app, store))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. A negative number is a value, though it begins like an option."""
        before = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption:
            if not any(map(_NUMBER.match, before)):
                raise
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, before)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the command, then those of all commands."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        shared = [p for p in options if isinstance(p, _Global) or "--help" in p.opts]
        own = [p for p in options if p not in shared]
        for title, params in (("Options", own), ("Global options", shared)):
            records = [record for p in params if (record := p.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples of the command."""
        _write_examples(self.examples, formatter)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command that is imported on first use: its section, "module:attribute", and a short description."""

    section: str
    where: str
    short: str


class Frame(click.Group):
    """The group of all commands. It lists them without an import of any."""

    def __init__(self, *args: Any, entries: dict[str, CommandEntry], examples: Sequence[str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.entries = entries
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name and return it."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        found = getattr(__import__(module, fromlist=[attribute]), attribute)
        assert isinstance(found, click.Command), f"{entry.where} is no command"
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments begin with. The error for an unknown name suggests the nearest one."""
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.entries, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`penstock --help` lists all commands"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, from the table alone."""
        width = max(map(len, self.entries))
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            with formatter.section(section):
                rows = [(name.ljust(width), e.short) for name, e in self.entries.items() if e.section == section]
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples of the whole program."""
        _write_examples(self.examples, formatter)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit with the code."""
        sys.exit(self._outcome(*args, **{**extra, "standalone_mode": False}))

    def _outcome(self, *args: Any, **extra: Any) -> int:
        before = sys.stdout
        try:
            out = super().main(*args, **extra)
            sys.stdout.flush()
            return out if isinstance(out, int) else DONE
        except click.Abort:
            click.echo("penstock: interrupted", err=True)
            return INTERRUPTED
        except BrokenPipeError:
            return _nobody_reads()
        except SystemExit:
            if sys.stdout is before:
                raise
            sys.stdout = before  # click replaces it after a broken pipe
            return _nobody_reads()
        except click.ClickException as error:
            where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "penstock"
            return _end(_usage(error, where), where)
        except Exception as error:
            fault = _fault(error)
            if fault is None:
                traceback.print_exc()
                click.echo("penstock: this is a fault of penstock itself; please report the lines above", err=True)
                return FAILED
            return _end(fault, "penstock")


def command(
    name: str, *, examples: Iterable[str], app: bool = False, store: bool = False
) -> Callable[[Callable[Concatenate[Context, P], int | None]], Command]:
    """Turn a function into a command; its docstring is the help. `app` and `store` add the options that it needs."""

    def decorate(function: Callable[Concatenate[Context, P], int | None]) -> Command:
        @functools.wraps(function)
        def run(*args: P.args, **options: P.kwargs) -> int | None:
            root = click.get_current_context().find_root().obj
            before = root if isinstance(root, GlobalOptions) else GlobalOptions()
            own = {field: options.pop(field, None) for field in ("app", "store", "quiet", "verbose")}
            later = GlobalOptions(_text(own["app"]), _text(own["store"]), bool(own["quiet"]), bool(own["verbose"]))
            given = before.under(later)
            ctx = context_of(given.app, given.store, given.quiet, given.verbose)
            try:
                out = function(ctx, *args, **options)
                sys.stdout.flush()
            except BrokenPipeError:
                return _nobody_reads()
            return out

        made = click.command(name, cls=Command, examples=tuple(examples), app=app, store=store)(run)
        assert isinstance(made, Command), "click returns the class that it was given"
        return made

    return decorate


def load_app(ctx: Context) -> App:
    """Load the app that the global options name."""
    from penstock.cli.app_file import load

    return load(ctx.app)


def open_reader(ctx: Context, app: App | None = None) -> Engine:
    """Open the store to read it, while another process may write."""
    from penstock.engine import open_engine

    return open_engine(app or load_app(ctx), ctx.store, readonly=True)


def open_writer(ctx: Context, app: App | None = None, migrate: bool = False) -> StoreWriter:
    """Open the store to write it, or send the work to its holder, and later to the next holder.

    With `migrate`, views whose definition in the app differs from the store are built. Without it they are an error.
    """
    from penstock.engine import Failover

    own = app or load_app(ctx)
    return Failover(lambda: reach_writer(ctx, own, migrate))


def reach_writer(ctx: Context, app: App, migrate: bool = False, scrub: Scrubbing | None = None) -> StoreWriter:
    """Open the store to write and scrub it, or connect to its holder. When that holder ends, calls raise an error."""
    from penstock.engine import writer

    made = writer(ctx.store, app, migrate="auto" if migrate else "refuse", scrub=scrub)
    if made.holder is not None:
        ctx.detail(f"handed over to {made.holder}")
    return made


def view_by_name(snap: Snapshot, name: str) -> View:
    """Return a view as the store defines it, not the app. The fault for an unknown name lists the views."""
    entry = snap.schema.catalog.entries.get(name)
    if entry is not None and entry.target["kind"] == "view":
        return snap.schema.view(name, snap.reader()).view  # raises if it can't be read yet
    return view_of(snap.schema.app, name)


def table_by_name(snap: Snapshot, name: str) -> Table:
    """Return a table as the store defines it. The fault for an unknown name lists the tables."""
    return table_of(snap.schema.app, name)


def view_of(app: App, name: str) -> View:
    """Return the view of this name. The fault for an unknown name lists the views."""
    found = app.view_of(name) if name in {view.name for view in app.views()} else None
    if found is None:
        _must_be_no_join(app, name)
        raise _unknown(name, "view", [view.name for view in app.views()], [table.name for table in app.tables()])
    return found


def table_of(app: App, name: str) -> Table:
    """Return the table of this name. The fault for an unknown name lists the tables."""
    if name in {stream.name for stream in app.streams()}:
        raise _no_documents(name)
    return input_of(app, name)


def input_of(app: App, name: str) -> Table:
    """Return the table or stream of this name. The fault for an unknown name lists them."""
    names = [table.name for table in app.inputs()]
    if name not in names:
        raise _unknown(name, "table" if app.tables() or not names else "stream", names, [v.name for v in app.views()])
    return app.input_of(name)


def _no_documents(name: str) -> ExitError:
    from penstock.cli.exit_errors import ExitError

    return ExitError(f"{name!r} is a stream, and a stream has no documents; put the correction", WRONG)


def _must_be_no_join(app: App, name: str) -> None:
    """Raise DefinitionError for the name of a join: it has no rows to read."""
    from penstock.views import rows_refused

    for join in app.joins():
        if join.name == name:
            raise rows_refused(join)


def _unknown(name: str, kind: str, names: Sequence[str], others: Sequence[str]) -> ExitError:
    from penstock.cli.exit_errors import ExitError
    from penstock.views import nearest

    near = nearest(name, names)
    if near is not None:
        hint = f"did you mean {near!r}?"
    elif name in others:
        hint = f"it is a {'table' if kind == 'view' else 'view'}, and this command asks for a {kind}"
    elif not names:
        hint = f"the app has no {kind}s yet"
    else:
        hint = f"there are: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}"
    return ExitError(f"there is no {kind} named {name!r}; {hint}", WRONG)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usage(error: click.ClickException, where: str) -> ExitError:
    from penstock.cli.exit_errors import ExitError

    text = " ".join(error.format_message().split()).rstrip(".").replace(". Did you mean", "; did you mean")
    hint = "" if ";" in text or text.endswith("?") else f"; `{where} --help` shows how it is used"
    return ExitError(f"{text[:1].lower()}{text[1:]}{hint}", WRONG)


def _fault(error: Exception) -> ExitError | None:
    """Return the fault that ended the command. None means a fault of this package, not of the user."""
    from penstock.cli.exit_errors import ExitError, of_system

    if isinstance(error, ExitError):
        return error
    if isinstance(error, OSError):
        return of_system(error)
    from penstock.cache import PenstockError
    from penstock.cli.errors_as_exits import of_package

    return of_package(error) if isinstance(error, PenstockError) else None


def _end(fault: ExitError, where: str) -> int:
    with suppress(OSError):  # if standard error is closed, the exit code is left
        if fault.above:
            click.echo(fault.above, err=True, nl=False)
        click.echo(f"{where}: {' '.join(fault.line.split())}", err=True)
    return fault.code


def _nobody_reads() -> int:
    """Discard further output, because its reader has closed the pipe. This counts as success."""
    import os

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
