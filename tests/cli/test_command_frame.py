"""The frame of all commands: help, examples, global options, exit codes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from penstock.cli.command_frame import Command
from penstock.cli.program import ENTRIES, group
from tests.cli.conftest import Run
from tests.cli.terminal import Terminal

COMMANDS = list(ENTRIES)
MODULES = 120  # limit of the modules that a start imports beyond the interpreter's


def command_of(name: str) -> Command:
    found = group.get_command(click.Context(group), name)
    assert isinstance(found, Command)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help_and_examples(name: str) -> None:
    command = command_of(name)
    assert command.name == name
    assert command.help
    assert len(command.help.strip()) > 20
    assert [p.name for p in command.params if isinstance(p, click.Option) and not p.help] == []
    assert [e for e in command.examples if f"penstock {name}" not in e] == []
    assert any(e.startswith(f"penstock {name}") for e in command.examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_argument_and_shows_the_examples(name: str, run: Run) -> None:
    command = command_of(name)
    shown = run(name, "--help").stdout
    assert shown.startswith(f"Usage: penstock {name} ")
    for example in command.examples:
        assert f"  {example}\n" in shown
    prose = " ".join((command.help or "").split())
    for argument in (p for p in command.params if isinstance(p, click.Argument)):
        for word in re.findall("[A-Za-z]+", argument.make_metavar(click.Context(command))):
            assert word.lower() in prose.lower(), f"{name} doesn't say what {word} is"


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str, workdir: Path) -> None:
    for example in command_of(name).examples:
        parse(example)


def test_the_groups_examples_parse(workdir: Path) -> None:
    for example in group.examples:
        parse(example)


def parse(example: str) -> None:
    """Parse a command line, without the parts for the shell."""
    words = next(part for part in re.split(r" (?:\||>>?|<|&) ?", example) if part.startswith("penstock"))
    program, name, *args = shlex.split(words)
    assert program == "penstock"
    command = command_of(name)
    if "--help" not in args and args:
        with command.make_context(name, args, parent=click.Context(group)):
            pass


def test_the_groups_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; from penstock.cli.program import group\n"
        "try: group.main(['--help'], prog_name='penstock')\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'numpy', 'lmdb', 'rich', 'msgspec', 'penstock.cache', 'penstock.cli.commands.query'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name, entry in ENTRIES.items():
        assert re.search(rf"^  {name} +{re.escape(entry.short)}$", shown, re.MULTILINE)


def test_help_imports_few_modules() -> None:
    """A start costs about half a millisecond for each module."""
    code = (
        "import sys\n"
        "before = len(sys.modules)\n"
        "from penstock.cli.program import group\n"
        "try: group.main(['--help'], prog_name='penstock')\n"
        "except SystemExit: print(len(sys.modules) - before, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stderr) < MODULES


def test_no_command_is_help(run: Run) -> None:
    assert run().stdout == run("--help").stdout


def test_a_command_that_is_not_there_is_answered_by_the_nearest(run: Run) -> None:
    assert run("quer", code=2).stderr == "penstock: there is no command 'quer'; did you mean 'query'?\n"
    assert "`penstock --help` lists" in run("frobnicate", code=2).stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["get"], "penstock get: missing argument 'VIEW'; `penstock get --help` shows how it is used\n"),
        (["query", "x", "--limit", "few"], "penstock query: invalid value for '--limit'"),
        (["query", "x", "--limti", "2"], "penstock query: no such option '--limti'; did you mean '--limit'?\n"),
        (["query", "x", "--format", "xml"], "penstock query: invalid value for '--format'"),
        (["--stoer", "x"], "penstock: no such option '--stoer'"),
    ],
)
def test_what_is_used_wrongly_is_one_line_and_2(args: list[str], line: str, run: Run) -> None:
    output = run(*args, code=2).stderr
    assert output.startswith(line)
    assert output.count("\n") == 1


def test_global_options_stand_before_and_after_the_command_and_after_it_they_win(shop: Path, run: Run) -> None:
    (shop / "app.py").rename(shop / "mine.py")
    run("--app", "mine.py", "--store", "a", "put", "users", '{"id": 1, "name": "A", "ts": 1}')
    run("put", "users", '{"id": 1, "name": "B", "ts": 1}', "--app", "mine.py", "--store", "b")
    both = ["--app", "nothing.py", "--store", "a"]
    assert run(*both, "get", "namecount", "B", "--app", "mine.py", "--store", "b").stdout == "1\n"
    run("--app", "mine.py", "get", "namecount", "B", "--store", "a", code=1)


def test_the_environment_gives_app_and_store(shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop / "app.py").rename(shop / "mine.py")
    monkeypatch.setenv("PENSTOCK_APP", "mine.py")
    monkeypatch.setenv("PENSTOCK_STORE", "there")
    run("put", "users", '{"id": 1, "name": "A", "ts": 1}')
    assert (shop / "there").is_dir()
    assert run("get", "namecount", "A").stdout == "1\n"
    run("get", "namecount", "A", "--store", "elsewhere", code=2)


def test_a_command_that_needs_no_app_and_no_store_asks_for_neither(run: Run) -> None:
    shown = run("completion", "--help").stdout
    assert "--app" not in shown
    assert "--store" not in shown
    run("--app", "nothing.py", "completion", "bash")


def test_quiet_leaves_results_and_errors(shop: Path, run: Run) -> None:
    said = run("-q", "put", "users", '{"id": 1, "name": 7, "ts": 1}', '{"ts": 1}', code=1)
    assert said.stdout == ""
    assert said.stderr == "rejected: users, record 2: no key in field 'id': it is null\n"
    assert run("get", "namecount", "7", "-q").stdout == "1\n"
    assert run("-q", "put", "users", '{"id": 2, "name": "A", "ts": 1}', "-v").stdout == "1 applied\n"


def test_a_negative_number_is_a_value(shop: Path, run: Run) -> None:
    run("put", "users", '{"id": -5, "name": -1.5, "ts": 1}')
    assert run("get", "namecount", "-1.5").stdout == "1\n"
    assert '"id": -5' in run("doc", "users", "-5").stdout
    assert run("query", "namecount", "--start", "-1.5", "--stop", "-1").stdout == '{"key": -1.5, "value": 1}\n'


def test_version(run: Run) -> None:
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize(("env", "bold"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_color_is_for_terminals_that_want_it(env: dict[str, str], bold: bool, filled: Path) -> None:
    with Terminal("query", "namecount", cwd=filled, env=env) as terminal:
        assert terminal.end() == 0
    assert ("\x1b[1m" in terminal.seen) is bold
    assert re.search(r"Joe +2\nSue +1", terminal.seen)
