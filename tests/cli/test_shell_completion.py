"""Completion: the script for each shell, and a real bash that uses it."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from click.shell_completion import BashComplete

from penstock.cli.program import group
from tests.cli.conftest import Run
from tests.waiting import PATIENCE


def completed(*args: str) -> list[str]:
    """Return the proposals for the last word, or their kind."""
    *before, last = args
    made = BashComplete(group, {}, "penstock", "_PENSTOCK_COMPLETE")
    return [item.value if item.type == "plain" else item.type for item in made.get_completions(before, last)]


def test_commands_options_and_the_names_of_the_app(shop: Path) -> None:
    assert completed("que") == ["query"]
    assert completed("query", "--le") == ["--level"]
    assert completed("query", "na") == ["namecount"]
    assert completed("put", "") == ["users", "marks"]
    assert completed("--app", "nothing.py", "put", "") == []
    assert completed("explain", "m") == ["marks"]
    assert completed("watch", "namecount", "ag") == ["ages"]
    assert completed("quarantine", "re") == ["retry"]
    assert completed("query", "namecount", "--format", "") == ["table", "json", "jsonl", "csv"]


def test_files_and_folders_are_left_to_the_shell(shop: Path) -> None:
    assert completed("load", "users", "") == ["file"]
    assert completed("export", "users", "-o", "") == ["file"]
    assert completed("query", "--app", "") == ["file"]
    assert completed("query", "--store", "") == ["dir"]
    assert completed("snapshot", "") == ["dir"]


def test_it_is_printed_for_the_shell(run: Run) -> None:
    assert "_PENSTOCK_COMPLETE=bash_complete" in run("completion", "bash").stdout
    assert "_PENSTOCK_COMPLETE=zsh_complete" in run("completion", "zsh").stdout
    assert "_PENSTOCK_COMPLETE=fish_complete" in run("completion", "fish").stdout
    assert "invalid value for '[shell]'" in run("completion", "tcsh", code=2).stderr.lower()


def test_a_person_presses_tab_in_bash(filled: Path) -> None:
    program = filled / "bin" / "penstock"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    program.chmod(0o755)
    own, theirs = pty.openpty()
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PS1": "$ ", "TERM": "dumb"}
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        cwd=filled,
        start_new_session=True,
    ) as bash:
        os.close(theirs)
        try:
            typed(own, "", "$ ")  # input before the first prompt may be lost
            typed(own, 'source <(penstock completion bash) && echo rea""dy\n', "ready\r\n$ ")
            typed(own, "penstock quer\t", "penstock query ")
            typed(own, "namec\t", "namecount ")
            typed(own, "--form\t", "--format ")
            seen = typed(own, "cs\t\n", "Sue,1")
        finally:
            bash.kill()
            os.close(own)
    assert "key,value" in seen
    assert "Joe,2" in seen


def typed(terminal: int, keys: str, shown: str) -> str:
    """Type these keys, and read until a text is shown. Return all output."""
    os.write(terminal, keys.encode())
    seen, end = "", time.monotonic() + PATIENCE
    while shown not in seen:
        assert select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0], seen
        seen += os.read(terminal, 1 << 16).decode(errors="replace")
    return seen
