"""What the README shows of the command line is what a person sees; … stands for anything."""

import re
import shlex
import shutil
from pathlib import Path

from tests.tidy.tree import ROOT

from .terminal import Terminal

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_console_of_the_readme(here: Path) -> None:
    blocks = _BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    assert blocks
    shutil.copytree(ROOT / "examples" / "unsound", here / "examples" / "unsound")
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            program, *args = shlex.split(line)
            assert program == "penstock"
            with Terminal(*args, cwd=here, env={"NO_COLOR": "1"}) as terminal:
                terminal.end()
            pattern = re.escape(shown.strip()).replace("…", ".*")
            assert re.search(f"^{pattern}$", terminal.plain(), re.DOTALL | re.MULTILINE), (line, terminal.seen)
