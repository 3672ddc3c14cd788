"""What the README shows of the command line is what a person sees; … stands for anything."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT

from .terminal import Terminal

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_console_of_the_readme(here: Path) -> None:
    blocks = _BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert blocks
    shutil.copytree(ROOT / "examples", here / "examples")
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
                subprocess.run(shell, cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
                continue
            assert program == "penstock"
            with Terminal(*args, cwd=here, env=env) as terminal:
                terminal.end()
            pattern = re.escape(shown.strip()).replace("…", ".*")
            assert re.search(f"^{pattern}$", terminal.plain(), re.DOTALL | re.MULTILINE), (line, terminal.seen)
