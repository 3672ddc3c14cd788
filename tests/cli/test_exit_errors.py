"""The mistakes of a new user: each ends in one line with the next step, and the right exit code."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

import click
import msgspec
import pytest
from click.testing import CliRunner

from penstock.cache import open_lmdb
from penstock.cli.command_frame import CommandEntry, Frame, command
from penstock.cli.context import Context
from penstock.cli.exit_errors import of_system
from penstock.core.metadata.catalog import read_catalog, write_catalog
from tests.cli.conftest import APP, USERS, Run

READING = [
    ["get", "namecount", "Joe"],
    ["query", "namecount"],
    ["doc", "users", "1"],
    ["status"],
]


@pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
def test_a_store_that_is_not_there(args: list[str], shop: Path, run: Run) -> None:
    output = run(*args, code=2).stderr
    assert output.startswith("penstock: there is no store at ")
    assert output.endswith("penstock-state; `penstock load TABLE FILE` makes one, --store names another\n")
    assert not (shop / "penstock-state").exists()


@pytest.mark.parametrize("args", [*READING, ["explain"], ["put", "users", USERS[0]]], ids=lambda args: args[0])
def test_a_store_of_another_format(args: list[str], filled: Path, run: Run) -> None:
    store = open_lmdb("penstock-state")
    with store.write() as writer:
        catalog = read_catalog(writer, "penstock-state")
        assert catalog is not None
        write_catalog(writer, msgspec.structs.replace(catalog, format=99))
    store.close()
    output = run(*args, code=3).stderr
    assert output.startswith("penstock: the store at penstock-state has format 99 and this version of penstock reads ")
    assert "open it with the version of penstock that wrote it" in output
    assert output.count("\n") == 1


def test_a_store_that_is_no_folder(shop: Path, run: Run) -> None:
    (shop / "file").write_text("")
    for args in (["query", "namecount"], ["put", "users", USERS[0]]):
        output = run(*args, "--store", "file", code=3).stderr
        assert "file" in output
        assert output.startswith("penstock: ")
        assert output.count("\n") == 1


def test_a_damaged_row(filled: Path, run: Run) -> None:
    store = open_lmdb("penstock-state")
    with store.write() as writer, store.read() as reader:
        rows = [(db, key) for db in (f"view:{n}" for n in range(1, 9)) for key, _ in reader.scan(db)]
        for db, key in rows:
            writer.put_many(db, [(key, b"\x93\x01\x02\x03garbage")])
    store.close()
    output = run("query", "namecount", code=3).stderr
    assert output.startswith("penstock: damaged row: ")
    assert output.count("\n") == 1


def test_a_definition_that_changed(filled: Path, run: Run) -> None:
    (filled / "app.py").write_text(APP.replace('key="name"', 'key="age"'))
    output = run("put", "users", USERS[0], code=3).stderr
    assert output.startswith("penstock: the store was filled under another definition of 'namecount': ")
    assert "`penstock migrate`" in output
    assert output.count("\n") == 1
    assert run("query", "namecount").stdout.startswith('{"key": "Joe"'), "who reads sees what the store has"


AS_NOBODY = """
import os, sys
import penstock.cli.exit_errors, penstock.cli.commands.query, penstock.cli.commands.records
import penstock.engine.writers.open_writer
from penstock.cli.program import group
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
group.main(sys.argv[1:], prog_name="penstock")
"""
SHORT = """
import resource, sys
from penstock.cli.program import group
import penstock.cli.commands.records
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
group.main(sys.argv[1:], prog_name="penstock")
"""


def child(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)


@pytest.mark.parametrize("args", [["query", "namecount"], ["put", "users", USERS[0]]], ids=lambda args: args[0])
def test_no_permission(args: list[str], filled: Path, run: Run) -> None:
    for name in ("data.mdb", "lock.mdb", "owner"):
        (filled / "penstock-state" / name).chmod(0o000)
    for folder in (filled, *filled.parents):
        if Path(gettempdir()) in folder.parents:  # keep pytest's own folders accessible
            folder.chmod(0o755)
    ended = child(AS_NOBODY, *args)
    assert ended.returncode == 3
    assert "ermission" in ended.stderr
    assert "this user" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_full_disk(filled: Path, run: Run) -> None:
    ended = child(SHORT, "put", "users", *(f'{{"id": {i}, "name": "{"x" * 60_000}", "ts": 1}}' for i in range(10)))
    assert ended.returncode == 3
    assert ended.stdout == ""
    assert "penstock-state can't grow: " in ended.stderr
    assert "what was being written is undone; free some space" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert run("get", "namecount", "Joe").stdout == "2\n"


def test_ctrl_c_is_130_and_one_line(shop: Path, run: Run) -> None:
    (shop / "app.py").write_text("raise KeyboardInterrupt\n")
    assert run("explain", code=130).stderr.strip() == "penstock: interrupted"


@command("boom", examples=["penstock boom"])
@click.argument("kind")
def boom(ctx: Context, kind: str) -> int:
    """Fail with an unexpected error."""
    if kind == "os":
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "out.csv")
    if kind == "pipe":
        raise BrokenPipeError
    raise RuntimeError("nobody thought of this")


ODD = Frame("penstock", entries={"boom": CommandEntry("Odd", f"{__name__}:boom", "Fails.")}, examples=())


def test_a_fault_of_ours_is_3_with_its_traceback() -> None:
    result = CliRunner().invoke(ODD, ["boom", "x"], prog_name="penstock")
    assert result.exit_code == 3
    assert "RuntimeError: nobody thought of this" in result.stderr
    assert result.stderr.endswith("penstock: this is a fault of penstock itself; please report the lines above\n")


def test_an_error_of_the_system_names_the_file() -> None:
    result = CliRunner().invoke(ODD, ["boom", "os"], prog_name="penstock")
    assert result.exit_code == 3
    assert (
        result.stderr
        == "penstock: out.csv: permission denied; give this user the right to it, or choose another place\n"
    )
    assert of_system(OSError("odd")).line == "odd; fix that and run this again"


def test_nobody_reads() -> None:
    assert CliRunner().invoke(ODD, ["boom", "pipe"], prog_name="penstock").exit_code == 0
