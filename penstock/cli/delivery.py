"""Changes of views into sinks, for as long as `run` runs.

Each view has a thread of its own, which reads the store as any other process would. Invariants:

- a sink is told that it holds a position when it was given all up to there, and at the end it has all that the sources
  gave;
- where a sink fails, everything stops in good order, and its error is what the command ends with;
- what a sink can't go on from is refused before it is written to.
"""

from __future__ import annotations

import threading
from collections import deque

from penstock.cli.context import WRONG
from penstock.cli.faults import Fault
from penstock.cli.frame import view_of
from penstock.cli.steps import Steps
from penstock.cli.values import dumps
from penstock.engine import Engine
from penstock.kafka import BrokerAway, KafkaFault
from penstock.sink import ENVELOPES, Sink, SinkBehind, open_file, open_topic
from penstock.spout import Registry, Uri, UriError
from penstock.views import App, NotBuilt, PositionAhead, PositionExpired, shown_position

_LOOK = 0.02  # seconds between two looks


def _file(uri: Uri, view: str) -> Sink:
    uri.only("envelope")
    return open_file(uri.rest, view, _envelope(uri), dumps)


def _kafka(uri: Uri, view: str) -> Sink:
    try:
        return open_topic(uri.text, uri.rest, uri.options, view, _envelope(uri), dumps)
    except BrokerAway:
        raise
    except KafkaFault as error:
        raise UriError(error.where, error.reason, error.remedy) from error


def _envelope(uri: Uri) -> str:
    envelope = uri.options.get("envelope", ENVELOPES[0])
    if envelope not in ENVELOPES:
        raise UriError(uri.text, f"there is no envelope {envelope!r}", f"it is one of {', '.join(ENVELOPES)}")
    return envelope


SINKS: Registry[Sink] = Registry("sink", "penstock.sinks", {"file": _file, "kafka": _kafka})


class Delivery(threading.Thread):
    """One view on its way into a sink."""

    def __init__(self, engine: Engine, text: str, view: str, sink: Sink, began: int | None) -> None:
        super().__init__(name=f"penstock-{text}", daemon=True)
        self.text = text
        self.error: BaseException | None = None
        self.notes: deque[str] = deque()
        self._given = 0
        self._sink = sink
        self._steps = Steps(engine, [view], began)
        self._last = threading.Event()

    def finish(self) -> None:
        """No more will be committed: give what there is, and end."""
        self._last.set()

    def run(self) -> None:
        """Until it is told to finish, or fails."""
        last = False
        try:
            while not last:
                last = self._last.is_set()  # before it looks, so that the last look sees all
                self._step(last)
                self._last.wait(_LOOK)
        except PositionExpired as error:
            at = f"the feed reaches back to position {shown_position(error.oldest)} only"
            self.error = SinkBehind(self.text, error.asked, at)
        except PositionAhead as error:
            stands = f"the store is at position {shown_position(error.position)}"
            at = f"{stands}, so that it is another store, or one that was restored"
            self.error = SinkBehind(self.text, error.asked, at)
        except BaseException as error:
            self.error = error

    def _step(self, last: bool) -> None:
        try:
            for changes, position in self._steps.step():
                self._sink.write(changes)
                if position is not None:
                    self._sink.holds(position)
                self._given += len(changes)
        except NotBuilt as error:
            if last:
                self.notes.append(f"{self.text}: nothing was given: {error}")

    def has_done(self) -> bool:
        """Whether anything came of it."""
        return self._given > 0

    def said(self) -> str:
        """How far it is, in words."""
        return f"{self.text}: {self._given:,} changes"


def asked_of(app: App, text: str) -> tuple[str, str, str]:
    """What --to asks for: its text, the view, the URI."""
    name, sign, uri = text.partition("=")
    if not sign or not uri:
        raise Fault(f"--to {text} names no view; write --to VIEW={text.strip('=') or 'URI'}", WRONG)
    return text, view_of(app, name).name, uri
