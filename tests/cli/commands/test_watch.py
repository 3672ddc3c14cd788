"""Watching views in a pipe and on a terminal, and the history of a result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import penstock as ps
from penstock.cli.app_file import load
from penstock.cli.drawing.watch_table import WatchTable
from penstock.cli.running.feed_steps import FeedSteps
from penstock.core import feed_log
from penstock.engine import Engine
from tests.cli.conftest import Run
from tests.cli.loading import PENSTOCK
from tests.cli.terminal import Terminal
from tests.waiting import PATIENCE

STORE = "penstock-state"


@contextmanager
def watching(*args: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `penstock watch` in a process of its own, and wait until it watches."""
    with subprocess.Popen(
        [*PENSTOCK, "watch", *args, "-v"], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline().startswith("from position ")
            yield child
        finally:
            child.kill()


def next_line(stream: IO[str] | None) -> Any:
    assert stream is not None
    return json.loads(stream.readline())


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def user(i: int, name: str, ts: int = 1) -> str:
    return json.dumps({"id": i, "name": name, "ts": ts})


@pytest.fixture
def expired(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store at position 4 whose feed begins at position 3."""
    monkeypatch.setattr(feed_log, "_DROPPED", 1)
    with ps.open(load("app.py"), STORE, changes=1) as engine:
        for i in range(3):
            engine.put("users", {"id": 9, "name": "Ada", "ts": 10 + i} if i % 2 else {"id": 9, "name": "Bob", "ts": 10})
            engine.put("users", {"id": 9, "name": f"Ada {i}", "ts": 20 + i})
    return filled


# -- in a pipe


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_changes_come_as_they_are_committed_until_a_signal(how: int, filled: Path, run: Run) -> None:
    with watching("namecount", cwd=filled) as child:
        run("put", "users", user(4, "Joe"))
        found = next_line(child.stdout)
        assert found == {"view": "namecount", "group": "Joe", "old": 2, "new": 3, "position": 2}
        run("delete", "users", "1")
        found = next_line(child.stdout)
        assert found == {"view": "namecount", "group": "Sue", "old": 1, "position": 3}
        run("put", "users", user(5, "Ada"))
        assert next_line(child.stdout) == {"view": "namecount", "group": "Ada", "new": 1, "position": 4}
        child.send_signal(how)
        assert child.communicate(timeout=PATIENCE) == ("", "")
        assert child.returncode == 0


def test_it_works_beside_a_writer_and_several_views_are_in_one_order(filled: Path) -> None:
    with (
        ps.open(load("app.py"), STORE) as engine,
        watching("namecount", "by_length", "--since", "0", cwd=filled) as child,
    ):
        seen = [next_line(child.stdout) for _ in range(3)]
        assert {(c["view"], c["group"], c["new"]) for c in seen} == {
            ("namecount", "Sue", 1),
            ("namecount", "Joe", 2),
            ("by_length", 3, 3),
        }
        for i in range(10, 20):
            engine.put("users", {"id": i, "name": "Tommy", "ts": 1})
        seen = [next_line(child.stdout) for _ in range(20)]
        assert [c["position"] for c in seen] == [p for p in range(2, 12) for _ in range(2)]
        assert seen[-1]["new"] == 10


def test_changes_as_csv_or_as_one_array(filled: Path, run: Run) -> None:
    with watching("namecount", "--since", "0", "--format", "csv", cwd=filled) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "view,group,old,new,position\n"
        seen = {child.stdout.readline(), child.stdout.readline()}
        assert seen == {"namecount,Joe,,2,1\n", "namecount,Sue,,1,1\n"}
        run("delete", "users", "1")
        assert child.stdout.readline() == "namecount,Sue,1,,2\n"
    with watching("namecount", "--since", "1", "--format", "json", cwd=filled) as child:
        assert child.stdout is not None
        head = child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert json.loads(head + child.stdout.read()) == [
            {"view": "namecount", "group": "Sue", "old": 1, "position": 2}
        ]
    assert "--format table needs a terminal" in run("watch", "namecount", "--format", "table", code=2).stderr


def test_lines_of_json_on_a_terminal(filled: Path, run: Run) -> None:
    with Terminal("watch", "namecount", "--since", "0", "--format", "jsonl", cwd=filled) as terminal:
        terminal.until('{"view": "namecount", "group": "Sue", "new": 1, "position": 1}\n')
        terminal.interrupt()
        assert terminal.end() == 0


def test_whoever_reads_may_leave(filled: Path) -> None:
    with watching("namecount", "--since", "0", cwd=filled) as child:
        next_line(child.stdout)
        assert child.stdout is not None
        child.stdout.close()  # it must end although it writes nothing more
        assert child.wait(PATIENCE) == 0
        assert child.stderr is not None
        assert child.stderr.read() == ""


def test_a_position_that_is_gone_is_one_line(expired: Path, run: Run) -> None:
    output = run("watch", "namecount", "--since", "1", code=3).stderr
    with ps.open(load("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        oldest = snap.state.followed
    assert oldest > 1
    assert output == (
        f"penstock: the feed no longer has all changes since position 1; --since {oldest} goes back as far as it does, "
        "and `penstock query VIEW` shows what there is now\n"
    )


def test_what_was_typed_wrong(filled: Path, run: Run) -> None:
    assert "did you mean 'namecount'?" in run("watch", "namecuont", code=2).stderr
    assert "missing argument 'VIEW...'" in run("watch", code=2).stderr
    ahead = run("watch", "namecount", "--since", "99", code=2).stderr
    assert ahead.startswith("penstock: the store is at position 1, and changes since 99 were asked for; ")
    assert "invalid value for '--since'" in run("watch", "namecount", "--since", "now", code=2).stderr
    assert "there is no store at " in run("watch", "namecount", "--store", "other", code=2).stderr


# -- on a terminal


def test_the_table_of_a_terminal_follows_the_writer_until_ctrl_c(filled: Path, run: Run) -> None:
    with Terminal("watch", "namecount", cwd=filled) as terminal:
        terminal.until("position 1, 0 changes, 0.0/s; Ctrl-C ends it")
        assert "Joe" in terminal.seen
        run("put", "users", user(4, "Joe"), user(5, "Ada"))
        place = terminal.until("position 2, 2 changes, ")
        assert terminal.seen.rindex("Ada") < place
        terminal.interrupt()
        assert terminal.end() == 0
    last = terminal.plain().rpartition("group")[2].splitlines()
    shown = [line.split()[:4] for line in last if line.strip().startswith(("Joe", "Sue", "Ada"))]
    assert shown == [["Joe", "3", "2", "1"], ["Sue", "1"], ["Ada", "1", "1", shown[2][3]]]


def page(board: WatchTable, width: int = 80) -> list[str]:
    from rich.console import Console

    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(board.page(7, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def change(group: str, old: Any, new: Any, view: str = "v") -> ps.Change:
    return ps.Change(view, group, old, new, 7)


def test_a_group_keeps_its_place_and_the_one_that_is_still_gives_way() -> None:
    now = 0.0
    board = WatchTable(["v"], 3, lambda: now)
    board.show("v", [ps.Row("a", 1), ps.Row("b", 2), ps.Row("c", 3)])
    now = 1.0
    board.take([change("b", 2, 5), change("c", 3, 4), change("c", 4, ps.ABSENT)])
    now = 2.0
    board.take([change("d", ps.ABSENT, {"n": 1})])
    groups = [line.split() for line in page(board)[2:5]]
    assert [words[0] for words in groups] == ["d", "b", "c"]
    assert groups[1][1:4] == ["5", "2", "1"]
    assert groups[2][1:3] == ["4", "2"], "a group that is gone has no value, and what it was stands beside it"
    assert page(board)[-1].startswith("position 7, 4 changes, ")
    now = 1000.0
    assert page(board)[-1] == "position 7, 4 changes, 0.0/s; Ctrl-C ends it"


def test_more_groups_than_there_is_room_for_are_the_last_ones() -> None:
    board = WatchTable(["v", "w"], 3, lambda: 0.0)
    board.take([change(f"g{i}", i, i + 1, view="w") for i in range(10_000)])
    shown = page(board)
    assert shown[0].split() == ["view", "group", "value", "before", "changes", "/s"]
    assert [line.split()[:2] for line in shown[2:5]] == [["w", "g9997"], ["w", "g9998"], ["w", "g9999"]]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_long_values_are_cut_and_nothing_else(width: int) -> None:
    board = WatchTable(["v", "w"], 3, lambda: 0.0)
    board.take([change("Ada", {"text": "x" * 70}, {"text": "y" * 70}), change("Bob\x1b[2J", 1, 2, view="w")])
    shown = page(board, width)
    assert max(map(len, shown)) <= width
    assert shown[0].split() == ["view", "group", "value", "before", "changes", "/s"]
    assert shown[2].split()[:2] == ["v", "Ada"]
    assert shown[2].split()[-2:] == ["1", "0.3"]
    assert ("…" in shown[2]) is (width < 200)
    assert "\x1b" not in shown[3]


# -- steps


@pytest.fixture
def engine(workdir: Path) -> Iterator[Engine]:
    app = ps.App("shop")
    app.table("users", key="id").view("namecount", key="name", reduce=ps.count())
    app.table("marks", key="id").view("marked", key="mark", reduce=ps.count())
    with ps.open(app, None) as engine:
        yield engine


def test_a_step_ends_while_others_write_and_the_next_goes_on(engine: Engine) -> None:
    steps = FeedSteps(engine, ["namecount"], 0)
    engine.put("users", {"id": 0, "name": "A"})
    step = steps.step()
    for i in range(1, 4):
        engine.put("users", {"id": i, "name": "A"})
    assert [len(changes) for changes, _ in step] == [4], "it looks when it is first asked"
    engine.put_many("users", [{"id": i, "name": f"B{i}"} for i in range(10, 2_510)])
    step = steps.step()
    first, position = next(step)
    assert (len(first), position) == (1_000, None), "inside of a commit"
    engine.put("users", {"id": -1, "name": "C"})
    assert [(len(changes), position) for changes, position in step] == [(1_000, None), (500, 5)]
    assert [[c.group for c in changes] for changes, _ in steps.step()] == [["C"]]
    assert list(steps.step()) == []


def test_steps_stand_where_the_store_does_though_none_of_their_views_changed(engine: Engine) -> None:
    steps = FeedSteps(engine, ["namecount"], 0)
    for i in range(5):
        engine.put("marks", {"id": i, "mark": i})
    assert [([*changes], position) for changes, position in steps.step()] == [([], 5)]
    assert steps.position == 5


@pytest.mark.parametrize("n", [0, 3, 2_000])
def test_without_a_position_rows_come_first(engine: Engine, n: int) -> None:
    engine.put_many("users", [{"id": i, "name": f"A{i}"} for i in range(n)])
    steps = FeedSteps(engine, ["namecount"], None)
    parts = list(steps.step())
    assert sum(len(changes) for changes, _ in parts) == n
    assert [position for _, position in parts[:-1]] == [None] * (len(parts) - 1), "they are all, or nothing"
    assert parts[-1][1] == steps.position == min(n, 1)
    engine.put("users", {"id": -1, "name": "A0"})
    [(changes, position)] = steps.step()
    assert ([c.group for c in changes], position) == (["A0"], min(n, 1) + 1)


# -- the history of a result


def test_the_history_is_oldest_first_and_says_where_the_feed_begins(filled: Path, run: Run) -> None:
    run("put", "users", user(4, "Joe"))
    run("put", "users", user(4, "Ada", 2), user(5, "Ada"))
    run("delete", "users", "2", "3")
    found = run("why", "namecount", "Joe", "--history")
    assert lines(found.stdout) == [
        {"position": 1, "change": "added", "old": None, "new": 2},
        {"position": 2, "change": "changed", "old": 2, "new": 3},
        {"position": 3, "change": "changed", "old": 3, "new": 2},
        {"position": 4, "change": "removed", "old": 2, "new": None},
    ]
    assert found.stderr == "the feed has all changes since position 0, which is the beginning\n"
    assert run("why", "namecount", "Ada", "--history", "--format", "csv", "-q").stdout == (
        "position,change,old,new\n3,added,,2\n"
    )
    table = run("why", "namecount", "Ada", "--history", "--format", "table").stdout.splitlines()
    assert table[0].split() == ["position", "change", "old", "new"]


def test_groups_that_are_equal_in_python_have_their_own_history(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": 6, "name": 1, "ts": 1}', '{"id": 7, "name": true, "ts": 1}')
    run("put", "users", '{"id": 8, "name": true, "ts": 1}')
    assert [row["new"] for row in lines(run("why", "namecount", "1", "--history").stdout)] == [1]
    assert [row["new"] for row in lines(run("why", "namecount", "true", "--history").stdout)] == [1, 2]
    assert [row["new"] for row in lines(run("why", "ages", '["NO", "Sue"]', "--history").stdout)] == [
        {"n": 1, "mean": 40.0}
    ]


def test_a_history_that_the_feed_no_longer_has(expired: Path, run: Run) -> None:
    output = run("why", "namecount", "Sue", "--history", code=1).stderr
    assert output.startswith("penstock: the feed has all changes since position ")
    assert output.endswith(", and group \"Sue\" of view 'namecount' has not changed since then\n")
    nobody = run("why", "namecount", "Nobody", "--history", code=1).stderr
    assert nobody.endswith("does not exist, and did not since then\n")


def test_a_history_has_no_documents(filled: Path, run: Run) -> None:
    assert "leave one out" in run("why", "namecount", "Joe", "--history", "--documents", code=2).stderr
    assert "did you mean 'namecount'?" in run("why", "namecuont", "Joe", "--history", code=2).stderr


def test_watch_needs_rich_on_a_terminal_alone(filled: Path) -> None:
    code = (
        "import sys; from penstock.cli.program import group\n"
        "try: group.main(['watch', 'namecount', '--since', '99'], prog_name='penstock')\n"
        "except SystemExit as end: assert end.code == 2\n"
        "assert 'rich' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE, cwd=filled, capture_output=True)
