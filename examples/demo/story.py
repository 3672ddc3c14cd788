"""The acts of the demo, in order. Each checks its results, and a wrong result ends the story."""

import math
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import penstock as ps
from examples.demo.damage import flip_a_bit
from examples.demo.loading import load, source_of
from examples.demo.recompute import Documents, newest, recompute
from examples.demo.screen import Bar, heading, say, table
from examples.demo.shop import app, make_app, make_orders, make_users, write_lines

_ROOT = Path(__file__).resolve().parents[2]
_AHEAD = 5  # transactions that the writer may be ahead of the reader of its output


class Wrong(Exception):
    """The error for a store that differs from the recomputation."""


class Story:
    """One run of the story, with its files in `folder`."""

    def __init__(self, folder: Path, orders: int, seed: int) -> None:
        self.store = folder / "state"
        self.file = folder / "orders.jsonl"
        self.lines = max(orders, 1_000)
        self.batch = max(self.lines // 100, 10)
        self.buyers = max(self.lines // 10, 100)
        self.seed = seed

    def run(self) -> None:
        """Run all acts."""
        self.load()
        self.show()
        self.change()
        self.kill()
        self.check()
        self.finish()
        self.explain()
        self.mend()
        self.reshape()

    def load(self) -> None:
        """Load documents."""
        heading(f"Load: {self.buyers:,} users, and the first half of {self.lines:,} orders from a file of JSON lines")
        write_lines(self.file, make_orders(self.lines, self.buyers, self.seed))
        people = make_users(self.buyers, self.seed)
        half = self.lines // 2
        begun = time.monotonic()
        with ps.open(app, self.store) as engine:
            say(f"users: {engine.put_many('users', people)}")
            with Bar("orders", half) as bar:
                for place in load(engine, self.file, self.batch, half):
                    bar.at(place)
        say(f"{self.buyers + half:,} records in {time.monotonic() - begun:.1f} s, each transaction synced to the disk")

    def show(self) -> None:
        """Read the views."""
        heading("Read: every view at one position of the store")
        with ps.open(app, self.store, readonly=True) as engine, engine.snapshot() as snap:
            say(f"position {snap.position}, next line of each source {snap.sources}")
            say("namecount, the first of names in order from 'S':")
            table(snap.view("namecount").items(start="S", limit=3))
            say("by_length, a view of namecount:")
            table(snap.view("by_length").items())
            say("revenue of Norway, three reducers a row:")
            days = snap.view("revenue").items(prefix=("NO",), limit=3)
            table((*key, *row.values()) for key, row in days)
            say("revenue by country, the same rows rolled up:")
            table((*key, *row.values()) for key, row in snap.view("revenue").rollup(level=1))

    def change(self) -> None:
        """Change documents, and with them only the views that depend on them."""
        heading("Change: each line is a transaction, and views follow in it")
        half_a_line = b'{"id": 7, "name": "S'
        with ps.open(app, self.store) as engine:

            def step(what: str, outcome: object) -> None:
                say(f"{what:<24}{outcome!s:<13}{_names(engine)}")

            step("before", "")
            step("user 7 is named Sue", engine.put("users", {"id": 7, "name": "Sue", "ts": 10}))
            step("user 7 is renamed Joe", engine.put("users", {"id": 7, "name": "Joe", "ts": 20}))
            step("the same once more", engine.put("users", {"id": 7, "name": "Joe", "ts": 20}))
            step("an older version", engine.put("users", {"id": 7, "name": "Bob", "ts": 15}))
            step("user 7 is deleted", engine.delete("users", 7, ts=30))
            say(f"half a line of JSON     {engine.put('users', half_a_line)}")

    def kill(self) -> None:
        """Kill a writer in the middle of its work."""
        heading("Kill -9: another process loads the rest, and is killed in the middle of it")
        acknowledged, target = 0, self.lines * 3 // 4
        with ps.open(app, self.store, readonly=True) as engine, self._writer() as writer:
            assert writer.stdin
            assert writer.stdout
            ahead = "\n" * _AHEAD
            try:
                with Bar("orders, read while another process writes", self.lines) as bar:
                    while acknowledged < target and (line := writer.stdout.readline()):
                        if not acknowledged:
                            say(f"a second writer is refused: {_refused(self.store)}")
                        acknowledged = int(line)
                        writer.stdin.write(ahead)
                        writer.stdin.flush()
                        ahead = "\n"
                        with engine.snapshot() as snap:
                            bar.at(snap.sources[source_of(self.file)])
            finally:
                writer.kill()
            acknowledged = max([acknowledged, *map(int, writer.stdout)])
        if writer.wait() != -signal.SIGKILL:
            raise Wrong(f"the writer was to be killed and ended by itself, at line {acknowledged:,}")
        say(f"killed process {writer.pid}; the last line that it reported durable was {acknowledged:,}")
        self.acknowledged = acknowledged

    def check(self) -> None:
        """Check that no document is lost or counted twice."""
        heading("Reopen: what was acknowledged is there, and every view equals a recompute by plain Python")
        begun = time.monotonic()
        with ps.open(app, self.store) as engine:
            say(f"opened in {(time.monotonic() - begun) * 1000:.0f} ms")
            place = self._equal(engine)
        if place < self.acknowledged or (place % self.batch and place != self.lines):
            raise Wrong(f"the store stands at line {place:,}, and {self.acknowledged:,} was acknowledged")

    def finish(self) -> None:
        """Continue the load after the kill."""
        heading("Go on: from the line that the store itself knows, to the end")
        with ps.open(app, self.store) as engine:
            with Bar("orders", self.lines) as bar:
                for place in load(engine, self.file, self.batch):
                    bar.at(place)
            self._equal(engine)
            say(f"digest of all content              {_shown(engine.digest())}")
            say(f"digest of a store that never died  {_shown(self._twin(engine))}")

    def explain(self) -> None:
        """Show the documents behind a result."""
        heading("Explain: the documents behind a number")
        with ps.open(app, self.store, readonly=True) as engine, engine.snapshot() as snap:
            view = snap.view("revenue")
            group = next(view.items(prefix=("NO",))).key
            behind = view.why(group)
            say(f"revenue of {group} is {view[group]['total']:,.2f}, of {len(behind):,} orders, among them:")
            table((one.key, one.document["amount"]) for one in behind[:3])
            if math.fsum(one.document["amount"] for one in behind) != view[group]["total"]:
                raise Wrong(f"what is behind {group} does not give its result")

    def mend(self) -> None:
        """Damage a row and repair it."""
        heading("Mend: a bit flips in a row on the disk, and the row is made again from the documents")
        flip_a_bit(self.store, b"Sue")
        with ps.open(app, self.store) as engine:
            try:
                _names(engine)
                raise Wrong("a damaged row was served")
            except ps.StoreDamaged as error:
                say(str(error))
            for one in engine.restate("namecount", "Sue"):
                say(f"restated: {one.view} of {one.group} was {one.what.value}, and is {one.new:,} now")
            say(str(engine.check()))
            self._equal(engine)

    def reshape(self) -> None:
        """Change the code of a view."""
        heading("Change the code of a view: initials are two letters from now on, while others write")
        with ps.open(make_app(letters=2), self.store) as engine:
            engine.put("users", {"id": 8, "name": "Sue", "ts": 40})
            say(str(engine.migrate()))
            self._equal(engine, letters=2)

    def _equal(self, engine: ps.Engine, letters: int = 1) -> int:
        """Compare documents and views with the lines of the file up to the store's offset. Return the offset."""
        with engine.snapshot() as snap:
            place = snap.sources[source_of(self.file)]
            users: Documents = dict(snap.table("users").items())
            orders: Documents = dict(snap.table("orders").items())
            with self.file.open("rb") as file:
                expected = newest(islice(file, place))
            if orders != expected:
                raise Wrong(f"the orders are not those of the first {place:,} lines of the file")
            say(f"orders: {len(orders):,} documents, those of the first {place:,} lines of the file")
            for name, answers in recompute(users, orders, letters).items():
                if dict(snap.view(name).items()) != answers:
                    raise Wrong(f"view {name} is not what its documents say")
                say(f"{name + ':':<10} {len(answers):,} groups equal")
        return place

    def _twin(self, engine: ps.Engine) -> str:
        """Return the digest of a store in memory that got only the final documents."""
        with ps.open(app, None) as twin, engine.snapshot() as snap:
            for name in ("users", "orders"):
                twin.put_many(name, [row.value for row in snap.table(name)])
            twin.delete("users", 7, ts=30)
            if (digest := twin.digest()) != engine.digest():
                raise Wrong("the digests differ")
            return digest

    def _writer(self) -> subprocess.Popen[str]:
        """Start the process to be killed. It has its own session, so that Ctrl-C reaches only this process."""
        arguments = [os.fspath(self.store), os.fspath(self.file), str(self.batch)]
        command = [sys.executable, "-m", "examples.demo.writer", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def _names(engine: ps.Engine) -> str:
    with engine.snapshot() as snap:
        return ", ".join(f"{name} {snap.view('namecount').get(name, 0):,}" for name in ("Sue", "Joe", "Bob"))


def _refused(store: Path) -> str:
    try:
        with ps.open(app, store):
            raise Wrong("two writers have one store")
    except ps.StoreInUse as error:
        return str(error)


def _shown(digest: str) -> str:
    return f"{digest[:16]}…"
