"""Run the console blocks of the README and the guide, and compare the output; … stands for any text."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, files

from .terminal import Terminal

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


_PAGES = [page for page in files(".md") if _BLOCK.search(page.read_text("utf-8"))]


def test_the_pages_have_console_blocks() -> None:
    assert {page.name for page in _PAGES} >= {"README.md", "command-line.md", "crash-tests.md"}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_the_console_of_a_page(page: Path, workdir: Path) -> None:
    blocks = _BLOCK.findall(page.read_text("utf-8"))
    shutil.copytree(ROOT / "examples", workdir / "examples")
    for block in blocks:
        env = {"NO_COLOR": "1"}
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            program, *args = shlex.split(line)
            if program == "export":
                env |= dict(setting.split("=") for setting in args)
                continue
            if program in ("sed", "python"):
                shell = ["bash", "-c", re.sub("^python ", f"{sys.executable} ", line)]
                subprocess.run(shell, cwd=workdir, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
                continue
            assert program == "penstock"
            with Terminal(*args, cwd=workdir, env=env) as terminal:
                terminal.end()
            pattern = re.escape(shown.strip()).replace("…", ".*")
            assert re.search(f"^{pattern}$", terminal.plain(), re.DOTALL | re.MULTILINE), (line, terminal.seen)
