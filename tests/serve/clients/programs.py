"""The clients in Go and Node, as `make clients` builds them, run as programs of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE

__all__ = ["LANGUAGES", "Run", "missing", "run"]

_ROOT = Path(__file__).resolve().parents[3]
_BUILT = _ROOT / "build" / "clients"
_TARGETS = {"go": _BUILT / "go" / "client", "node": _BUILT / "node" / ".ready"}
_COMMANDS = {"go": [str(_TARGETS["go"])], "node": ["node", str(_BUILT / "node" / "client.js")]}
LANGUAGES = list(_COMMANDS)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a program: its exit code and output."""

    code: int
    lines: list[str]
    errors: list[str]


def missing(language: str) -> str:
    """Return the reason why a client can't run, or an empty text."""
    for program in (language, "make"):
        if shutil.which(program) is None:
            return f"the client in {language} needs {program}, which is missing here"
    target = str(_TARGETS[language].relative_to(_ROOT))
    asked = ["make", "--question", "--no-print-directory", target]
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}  # of a make around this one
    done = subprocess.run(asked, cwd=_ROOT, env=env, capture_output=True, check=False)
    return (
        f"the client in {language} is not built, or older than its files; run make clients" if done.returncode else ""
    )


def run(language: str, *words: object) -> Run:
    """Run a client to its end."""
    command = [*_COMMANDS[language], *map(str, words)]
    env = {name: value for name, value in os.environ.items() if name != "PENSTOCK_TOKEN"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return Run(done.returncode, done.stdout.splitlines(), done.stderr.splitlines())
