"""Run a small demo: it ends well in a pipe and on a terminal, leaves nothing behind, and finds a wrong answer."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import story
from examples.demo.recompute import Answers, Documents, newest, recompute
from examples.demo.screen import Bar
from tests.tidy.tree import ROOT
from tests.waiting import PATIENCE


def _demo(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.demo", *arguments]
    own = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(command, cwd=ROOT, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_it_comes_to_its_end(tmp_path: Path) -> None:
    with _demo(tmp_path, "--orders", "3000", "--seed", "3") as demo:
        out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (0, "")
    acts = [line.split(":")[0] for line in out.splitlines() if line.startswith("== ")]
    wanted = [
        "Load",
        "Read",
        "Change",
        "Kill -9",
        "Reopen",
        "Go on",
        "Explain",
        "Mend",
        "Change the code of a view",
        "The end",
    ]
    assert acts == [f"== {act}" for act in wanted]
    assert out.count("groups equal") == 20
    one, other = (line.split()[-1] for line in out.splitlines() if "digest of" in line)
    assert one == other
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_interrupted(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        assert demo.stdout
        while not demo.stdout.readline().startswith("== Load"):
            pass
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130
    assert err.splitlines()[-1] == "interrupted; nothing is left on the disk"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_view_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_one(users: Documents, orders: Documents, letters: int) -> Answers:
        answers = recompute(users, orders, letters)
        answers["namecount"]["Sue"] += 1
        return answers

    monkeypatch.setattr(story, "recompute", off_by_one)
    with pytest.raises(story.Wrong, match="view namecount"):
        story.Story(tmp_path, 1_000, 3).run()


def test_a_missing_order_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "newest", lambda lines: newest(list(lines)[:-1]))
    with pytest.raises(story.Wrong, match="the orders are not those"):
        story.Story(tmp_path, 1_000, 3).run()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals() -> None:
    pipe, terminal = io.StringIO(), _Terminal()
    for stream in (pipe, terminal):
        with Bar("orders", 200, stream) as bar:
            bar.at(50)
            bar.at(100)
    assert pipe.getvalue() == ""
    assert " 25%  50 " in terminal.getvalue()
    assert " 50%  100 " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
