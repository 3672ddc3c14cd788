"""Deliver changes of views to sinks while `run` runs.

Each view has a thread of its own, which reads the store as any other process would. Invariants:

- A sink is told a position only after it got all changes up to it. At the end it has all changes of the sources.
- Of the processes of one store, one writes a sink. The others wait, and one of them takes over when it ends.
- If a sink fails, all threads stop in an orderly way, and the command ends with its error.
- If a sink can't be continued, it is refused before it is written to.
- A sink gets saved changes. With ?early=1 it also gets those whose batch is not saved yet.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

from penstock.cache import hidden
from penstock.cli.command_frame import view_of
from penstock.cli.context import WRONG
from penstock.cli.exit_errors import ExitError
from penstock.cli.json_values import dumps
from penstock.cli.running.feed_steps import FeedSteps
from penstock.engine import LOST, Engine
from penstock.kafka import BrokerAway, KafkaFault
from penstock.remote import Claim
from penstock.sink import (
    ENVELOPES,
    FileSink,
    KafkaSink,
    Sink,
    SinkBehind,
    SinkBusy,
    SinkTaken,
    ViewSender,
    WallarooSink,
    WallarooSourceSink,
    open_file,
    open_topic,
    width_of,
)
from penstock.spout import Registry, Uri, UriError, address_in, cookie_in
from penstock.views import App, NotBuilt, Position, PositionAhead, PositionExpired, position_text

_LOOK = 0.02  # seconds between two looks
_FOLDER = "writing"
_TURN = 0.5  # seconds between two attempts to take the sink


def _file(uri: Uri, view: str) -> Sink:
    uri.only("envelope", "early")
    return open_file(uri.rest, view, _envelope(uri), dumps)


def _kafka(uri: Uri, view: str) -> Sink:
    try:
        return open_topic(uri.text, uri.rest, uri.options, view, _envelope(uri), dumps)
    except BrokerAway:
        raise
    except KafkaFault as error:
        raise UriError(error.where, error.reason, error.remedy) from error


def _wallaroo(uri: Uri, view: str) -> Sink:
    return WallarooSink(*_connector(uri), view, _envelope(uri), dumps)


def _wallaroo_source(uri: Uri, view: str) -> Sink:
    return WallarooSourceSink(*_connector(uri), view, _envelope(uri), dumps)


def _connector(uri: Uri) -> tuple[str, tuple[str, int], str, str | None]:
    """Return the text of a URI, its address, its cookie and its name."""
    uri.only("cookie", "cookie-file", "name", "envelope", "early")
    return uri.text, address_in(uri), cookie_in(uri), uri.options.get("name")


def _envelope(uri: Uri) -> str:
    envelope = uri.options.get("envelope", ENVELOPES[0])
    if envelope not in ENVELOPES:
        raise UriError(uri.text, f"there is no envelope {envelope!r}", f"it is one of {', '.join(ENVELOPES)}")
    return envelope


SINKS: Registry[Sink] = Registry(
    "sink",
    "penstock.sinks",
    {"file": _file, "kafka": _kafka, "wallaroo": _wallaroo, "wallaroo+source": _wallaroo_source},
)


def _at_once() -> None:
    """Do nothing: one store has no values in flight."""


class SinkThread(threading.Thread):
    """The thread that delivers one view to a sink."""

    def __init__(self, text: str, view: str, sink: Sink, early: bool = False) -> None:
        super().__init__(name=f"penstock-{hidden(text)}", daemon=True)
        self.text = hidden(text)
        self.error: BaseException | None = None
        self.notes: deque[str] = deque()
        self._view = view
        self._early = early
        self._given = 0
        self._sink = sink
        self._since: Position | None = None
        self._busy: SinkBusy | None = None
        self._engine: Engine | None = None
        self._settle: Callable[[], None] = _at_once
        self._steps: FeedSteps | None = None
        self._last = threading.Event()
        if isinstance(sink, ViewSender):
            sink.stopped, sink.say = self._last.is_set, self.notes.append

    def begin(self) -> bool:
        """Take the sink and read its position. Return False while another process of this store writes it."""
        try:
            self._since = self._sink.begin()
        except SinkBusy as error:
            if self._busy is None:
                self.notes.append(f"{self.text}: {error.reason}; waiting until it ends")
            self._busy = error
            return False
        self._busy = None
        return True

    def read(self, engine: Engine, settle: Callable[[], None] = _at_once) -> None:
        """Set the engine to read from. `settle` waits until all commits are visible in every view."""
        self._engine, self._settle = engine, settle

    def finish(self) -> None:
        """Deliver the remaining changes and end. No more will be committed."""
        self._last.set()

    def run(self) -> None:
        """Deliver changes until `finish` or an error."""
        last = False
        try:
            while not last:
                last = self._last.is_set()  # read before the step, so that the last step sees all
                if last:
                    self._wait_for_sink()
                self._step(last)
                if isinstance(self._sink, ViewSender):
                    self._sink.tend()
                self._last.wait(_LOOK if self._busy is None else _TURN)
            if isinstance(self._sink, ViewSender):
                self._sink.finish()
        except PositionExpired as error:
            self.error = SinkBehind(self.text, error.asked, _expired(error))
        except PositionAhead as error:
            stands = f"the store is at position {position_text(error.position)}"
            at = f"{stands}, so it is another store, or was restored"
            self.error = SinkBehind(self.text, error.asked, at)
        except BaseException as error:
            self.error = error

    def _wait_for_sink(self) -> None:
        try:
            self._settle()
        except LOST as error:
            self.notes.append(f"{self.text}: changes in flight between partitions may come with the next run: {error}")

    def _step(self, last: bool) -> None:
        assert self._engine is not None, "it was told what to read from"
        if self._busy is not None and not self.begin():
            return
        if self._steps is None:
            self._steps = FeedSteps(self._engine, [self._view], self._since, self._early)
        try:
            for changes, position in self._steps.step():
                self._sink.write(changes)
                if position is not None:
                    self._sink.holds(position)
                self._given += len(changes)
        except NotBuilt as error:
            if last:
                self.notes.append(f"{self.text}: no changes were written: {error}")

    def has_done(self) -> bool:
        """Test whether any change was delivered."""
        return self._given > 0

    def summary(self) -> str:
        """Return the progress as text."""
        return f"{self.text}: {self._given:,} changes{'' if self._busy is None else f', {self._busy.reason}'}"


def _expired(error: PositionExpired) -> str:
    oldest = f"position {position_text(error.oldest)}"
    if width_of(error.asked) == width_of(error.oldest):
        return f"the feed reaches back to {oldest} only"
    return f"the store was repartitioned since, so its feed begins at {oldest}"


def asked_of(app: App, text: str) -> tuple[str, str, str]:
    """Return the parts of an argument of --to: its text, the view, the URI."""
    name, sign, uri = text.partition("=")
    if not sign or not uri:
        raise ExitError(f"--to {text} names no view; write --to VIEW={text.strip('=') or 'URI'}", WRONG)
    return text, view_of(app, name).name, uri


def begun(stack: ExitStack, store: str, app: str, text: str, view: str, uri: str) -> SinkThread:
    """Open a sink and the thread for it, and begin it unless another process of the store writes it."""
    sink = SINKS.open(uri, view)

    def claim(what: str) -> str | None:
        """Take the right to write the sink. It is released after the sink is closed, or when this process ends."""
        own = Claim(store, what, _FOLDER)
        other = own.take()
        if other is None:
            own.say("writing", None, 0)
            held.callback(own.release)
            return None
        own.release()
        if other == f"process {os.getpid()}":
            raise SinkTaken(hidden(text), "it is given twice", "name a sink once, for the changes of one view")
        return other

    held = stack.enter_context(ExitStack())
    stack.callback(sink.close)
    if isinstance(sink, FileSink | KafkaSink | ViewSender):
        sink.claim = claim
    if isinstance(sink, ViewSender):
        sink.folder, sink.app = store, app
    delivery = SinkThread(text, view, sink, Uri.parse(uri).flag("early"))
    delivery.begin()
    return delivery
