"""Input that a helper process decodes beside the writer: the content, counts and rejections are those without it.

This also holds if the helper is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.core.input import decode_ahead
from penstock.core.input.batches import batches_of
from penstock.core.input.decode_ahead import DecodeTask, Helper
from penstock.gateway import IntakeReport, TableNode
from penstock.mapreduce import DecodedColumns, FieldPlan, Spaces
from tests.harness.worlds import Polynomial
from tests.waiting import PATIENCE

ODD = [
    b"{", b"7", b"[]", b"null", b"", b"  ", b'{"id":1}{"id":2}', b'{"id":1,\n"name":"Sue","ts":3}',
    b'{"name":"Sue","ts":1}', b'{"id":null,"ts":1}', b'{"id":{},"ts":1}', b'{"id":5}', b'{"id":5,"ts":"soon"}',
    b'{"id":5,"ts":true}', b'{"id":"\xff","ts":1}', b'{"id":8,"ts":9,"x":"\xff"}', b'{"id":1e999,"ts":1}',
    b'{"id":2,"ts":1,"name":{"a":1}}',
]  # fmt: skip
NAMES: Sequence[Any] = ["Sue", "Sam", "é", "", None, True, 1, 1.0, 2.5, -0.0, 1 << 70, [1, "a"], ["b"], "x" * 500]
AMOUNTS: Sequence[Any] = [0, 1, -7, 2.5, 1e300, None, 1 << 63, 1 << 90, "much", False, [1], {"a": None}]


class Lines:
    """Lines of documents, most of them plain and the rest odd."""

    def __init__(self, seed: int, odd: float) -> None:
        self._random = random.Random(seed)
        self._odd = odd

    def of(self, n: int) -> list[bytes]:
        """Return n lines."""
        return [self._line(i) for i in range(n)]

    def _line(self, i: int) -> bytes:
        pick = self._random.choice
        if self._random.random() >= self._odd:
            key = self._random.randrange(300)
            doc = {"id": key, "ts": i, "name": pick("abc"), "amount": key, "paid": True, "at": {"city": "Oslo"}}
            return json.dumps(doc).encode()
        if self._random.random() < 0.3:
            return pick(ODD)
        fields: dict[str, Any] = {
            "id": pick([3, -4, "k1", "é", 1.5, 2.0, 1 << 80, [1, 2], True]),
            "ts": pick([i, i, i + 0.5, None, 1 << 65]),
            "name": pick(NAMES),
            "amount": pick(AMOUNTS),
            "paid": pick([True, False, None, 1]),
            "at": pick([{"city": pick(NAMES)}, {"city": "Oslo"}, {}, None, 7]),
        }
        return json.dumps({k: v for k, v in fields.items() if self._random.random() < 0.9}).encode()


def app(ts: str | None = "ts", key: str | tuple[str, ...] = "id") -> ps.App:
    out = ps.App("shop")
    table = out.table("docs", key=key, ts=ts)
    table.view("name", key="name", reduce=ps.count())
    table.view("pair", key=("name", "at.city"), reduce={"n": ps.count("paid"), "total": ps.sum("amount")})
    table.view("all", key=(), reduce=ps.count(), where=(ps.field("amount") > 0) & ~(ps.field("name") == "Sue"))
    table.view("city", key="at.city", value="amount", reduce=ps.mean(), where="paid")
    table.view("sizes", key="name", value="at", reduce=ps.group(Polynomial()))
    return out


class Watched:
    """The helpers of a test, and the number of decoded batches that the writer took from them."""

    def __init__(self) -> None:
        self.helpers: list[Helper] = []
        self.taken = 0
        self.kill_at: int | None = None


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Start helpers for short input too, before the first batch."""
    out = Watched()
    start, columns = Helper.start, DecodeTask.columns

    def started(plan: FieldPlan, seed: int) -> Helper | None:
        own = start(plan, seed)
        assert own is not None
        assert own.wait()
        out.helpers.append(own)
        return own

    def counted(self: DecodeTask, spaces: Spaces) -> DecodedColumns | None:
        got = columns(self, spaces)
        out.taken += got is not None
        if out.taken == out.kill_at:
            os.kill(out.helpers[-1].pid, signal.SIGKILL)
        return got

    monkeypatch.setattr(decode_ahead, "LONG", 100)
    monkeypatch.setattr(decode_ahead, "WORTH", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(Helper, "start", started)
    monkeypatch.setattr(DecodeTask, "columns", counted)
    yield out
    for own in out.helpers:
        with pytest.raises(ProcessLookupError):
            os.kill(own.pid, 0)


def outcome(definition: ps.App, docs: Any, batch: int) -> tuple[str, ps.Counts]:
    with ps.open(definition, None) as engine:
        counts = engine.put_many("docs", docs, batch=batch)
        assert isinstance(counts, ps.Counts)
        return engine.digest(), counts


def alone(definition: ps.App, docs: Any, batch: int) -> tuple[str, ps.Counts]:
    """Return the outcome without a helper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: {0})
        return outcome(definition, docs, batch)


@pytest.mark.parametrize(
    ("ts", "key", "odd"), [("ts", "id", 0.0), ("ts", "id", 0.02), ("ts", ("id", "name"), 0.5), (None, "id", 0.9)]
)
def test_the_outcome_is_the_same(watched: Watched, ts: str | None, key: str | tuple[str, ...], odd: float) -> None:
    lines = Lines(7, odd).of(4000)
    expected = alone(app(ts, key), lines, 300)
    assert not watched.helpers
    assert outcome(app(ts, key), lines, 300) == expected
    assert watched.taken >= 10
    assert outcome(app(ts, key), b"\n".join(lines), 1500) == alone(app(ts, key), b"\n".join(lines), 1500)


def test_dictionaries_dropped_in_between_change_nothing(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(8, 0.1).of(4000)
    expected = alone(app(), lines, 100)
    process, seen = TableNode.process, [0]

    def forgetting(self: TableNode, *args: Any) -> IntakeReport:
        seen[0] += 1
        if seen[0] % 4 == 0:
            self.forget()
        return process(self, *args)

    monkeypatch.setattr(TableNode, "process", forgetting)
    assert outcome(app(), lines, 100) == expected
    assert 10 <= watched.taken < 39


@pytest.mark.parametrize("kill_at", [1, 2, 9])
def test_a_killed_helper_changes_nothing(watched: Watched, kill_at: int) -> None:
    lines = Lines(9, 0.1).of(3000)
    watched.kill_at = kill_at
    assert outcome(app(), lines, 100) == alone(app(), lines, 100)
    assert kill_at <= watched.taken <= kill_at + 2


def test_a_batch_that_is_declined_is_decoded_here(watched: Watched) -> None:
    lines = Lines(10, 0.0).of(2000)
    lines[700] = b'{"id":1,"ts":1,"amount":"\\ud800"}'
    assert outcome(app(), lines, 100) == alone(app(), lines, 100)


def test_strict_input_ends_at_the_same_line(watched: Watched) -> None:
    lines = Lines(11, 0.0).of(2000)
    lines[1234] = b"{"
    with ps.open(app(), None) as engine:
        with pytest.raises(ps.BatchRejected) as caught:
            engine.put_many("docs", lines, strict=True, batch=100)
        assert caught.value.accepted == 1200
        assert [r.where for r in caught.value.rejections] == ["line 1235"]
    assert watched.taken > 5


def test_an_error_of_the_input_comes_after_what_was_before_it(watched: Watched) -> None:
    class Broken(list[str]):
        def __iter__(self) -> Iterator[Any]:
            yield from Lines(12, 0.0).of(1000)
            raise LookupError("the input broke")

    with ps.open(app(None), None) as engine:
        with pytest.raises(LookupError):
            engine.put_many("docs", Broken([""] * 1000), batch=100)
        assert engine.status()["position"] == 10
    assert watched.taken > 5


@pytest.mark.parametrize("ts", ["ts", None])
def test_a_quick_iterator_is_decoded_beside(watched: Watched, monkeypatch: pytest.MonkeyPatch, ts: str | None) -> None:
    monkeypatch.setattr(decode_ahead, "QUICK", 1.0)
    lines = Lines(14, 0.05).of(4000)
    assert outcome(app(ts), iter(lines), 300) == alone(app(ts), lines, 300)
    assert len(watched.helpers) == 1
    assert watched.taken >= 10
    docs = [json.loads(line) for line in Lines(15, 0.0).of(2000)]
    assert outcome(app(ts), (doc for doc in docs), 300) == alone(app(ts), docs, 300)
    assert len(watched.helpers) == 2


class Source:
    """An iterator that counts its lines. Some lines take a second, by its own clock."""

    def __init__(self, n: int, slow: range) -> None:
        self._lines = iter(Lines(16, 0.0).of(n))
        self._slow = slow
        self.given = 0
        self.now = 0.0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = next(self._lines)
        self.now += self.given in self._slow
        self.given += 1
        return line

    def given_at_batches(self) -> list[int]:
        """Return the number of lines read when each batch of 100 was ready to commit."""
        with ps.open(app(), None) as engine:
            node = engine.store.core.tables["docs"]
            with decode_ahead.helped(batches_of(self, 100), self, node, lambda: self.now) as batches:
                return [self.given for _ in batches]


def test_only_a_quick_iterator_is_read_ahead(watched: Watched) -> None:
    assert Source(600, range(600)).given_at_batches() == [100, 200, 300, 400, 500, 600]
    assert not watched.helpers
    assert Source(600, range(0)).given_at_batches() == [200, 300, 400, 500, 600, 600]
    assert len(watched.helpers) == 1
    assert Source(800, range(250, 450)).given_at_batches() == [200, 300, 300, 400, 500, 700, 800, 800]


def test_an_iterator_of_small_batches_is_not_read_ahead(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_ahead, "WORTH", 101)
    assert Source(300, range(0)).given_at_batches() == [100, 200, 300]
    assert not watched.helpers


def test_an_error_of_an_iterator_comes_after_what_was_before_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_ahead, "QUICK", 1.0)

    def broken() -> Iterator[bytes]:
        yield from Lines(12, 0.0).of(1050)
        raise LookupError("the input broke")

    with ps.open(app(None), None) as engine:
        with pytest.raises(LookupError):
            engine.put_many("docs", broken(), batch=100)
        assert engine.status()["position"] == 10
    assert watched.taken > 5


def test_nothing_is_left_behind(watched: Watched) -> None:
    before = len(os.listdir("/proc/self/fd"))
    outcome(app(), Lines(13, 0.1).of(1000), 100)
    assert len(watched.helpers) == 1
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_helper_ends_when_its_parent_dies(tmp_path: Path) -> None:
    script = (
        "import os, sys, penstock as ps\n"
        "from penstock.core.input.decode_ahead import Helper\n"
        "from tests.core.input.test_agreement_decode_ahead import app\n"
        "node = ps.open(app(), None).store.core.tables['docs']\n"
        "own = Helper.start(node.plan, node.seed)\n"
        "assert own.wait()\n"
        "print(own.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[3]
    # The helper has the same stderr, so this call returns after both have ended.
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == b""
    assert int(done.stdout) > 0


@pytest.mark.parametrize("flags", [["-I"], ["-I", "-S"], ["-P"]])
def test_it_starts_as_its_parent_did(flags: list[str]) -> None:
    script = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import penstock as ps\n"
        "from penstock.core.input.decode_ahead import Helper\n"
        "app = ps.App('shop'); app.table('docs', key='id')\n"
        "engine = ps.open(app, None)\n"
        "node = engine.store.core.tables['docs']\n"
        "own = Helper.start(node.plan, node.seed)\n"
        "assert own.wait()\n"
        "own.close()\n"
        "engine.close()\n"
    )
    subprocess.run([sys.executable, *flags, "-c", script], check=True, timeout=PATIENCE)
