"""Source connector and source acceptor: streams, points, credits, acknowledgements, and each frame that they refuse."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector import (
    NOTHING,
    SOURCE_ACCEPTOR,
    SOURCE_CONNECTOR,
    Ack,
    BeginCheckpoint,
    BeginRollback,
    CompleteCheckpoint,
    DataReceived,
    Disconnected,
    EndStream,
    Eos,
    ErrorFrame,
    Hello,
    MessageFrame,
    Notify,
    NotifyAck,
    Ok,
    OpenStream,
    ProtocolFault,
    Restart,
    RestartPeer,
    RestartRequested,
    SendMessage,
    SessionFailed,
    SessionState,
    SourceAcceptor,
    SourceConnector,
    StartSession,
    StreamAcked,
    StreamClosed,
    StreamOpened,
    StreamRefused,
    StreamRegistry,
    encode,
    stream_id_of,
)
from tests.connector.frame_tuples import tuple_of
from tests.connector.reference.frames import split
from tests.connector.test_session import FRAMES

HELLO = Hello("0.0.1", "C", "files", "i1")


class Side:
    """A role, and the commands and frames that lead it to a state."""

    def __init__(self, role: Any) -> None:
        self.role = role
        self.session = role.session

    def go(self, *inputs: Any) -> Side:
        """Take commands and frames."""
        for value in inputs:
            if type(value) in {type(frame) for frame in FRAMES}:
                self.session.receive(encode(value))
            else:
                self.session.do(value)
        return self

    def quiet(self) -> Side:
        """Drop the frames and events until now."""
        self.session.outgoing()
        self.session.events()
        return self

    @property
    def sent(self) -> list[tuple[Any, ...]]:
        return split(self.session.outgoing())[0]


def connector(*inputs: Any) -> Side:
    return Side(SourceConnector(HELLO)).go(StartSession(), Ok(10)).quiet().go(*inputs)


def acceptor(*inputs: Any, points: dict[int, int] | None = None, credits: int = 500) -> Side:
    registry = StreamRegistry((points or {}).get)
    return Side(SourceAcceptor("C", registry, credits=credits, refill=credits // 2)).go(HELLO).quiet().go(*inputs)


OPENED = [OpenStream(5, b"st"), NotifyAck(True, 5, NOTHING)]


def message(number: int, body: bytes = b"x", stream: int = 5) -> MessageFrame:
    return MessageFrame(stream, number, 0, b"", body)


def refused(side: Side, words: str) -> None:
    [(kind, text)] = side.sent
    assert kind == "error"
    assert words in text
    assert side.session.over
    assert side.session.events()[-1] == SessionFailed(text, by_peer=False)


def test_the_usual_id_of_a_stream() -> None:
    assert stream_id_of(b"st") == 0x56AF4BDE70A47AE7


def test_a_connector_introduces_itself_and_opens_a_stream() -> None:
    side = Side(SourceConnector(HELLO)).go(StartSession())
    assert side.sent == [tuple_of(HELLO)]
    side.go(Ok(10), OpenStream(5, b"st", 12))
    assert side.sent == [("notify", 5, b"st", 12)]
    side.go(NotifyAck(True, 5, 7))
    assert side.session.events() == [StreamOpened(5, 7)]


def test_a_stream_of_which_nothing_was_processed_starts_at_its_first_message() -> None:
    side = connector(*OPENED)
    assert side.sent == [("notify", 5, b"st", NOTHING)]
    assert side.session.events() == [StreamOpened(5, None)]
    side.go(SendMessage(5, 0, b"x"))
    assert side.sent == [tuple_of(message(0))]


def test_a_refused_stream_may_be_opened_later() -> None:
    side = connector(OpenStream(5, b"st"), NotifyAck(False, 5, 0))
    assert side.session.events() == [StreamRefused(5)]
    side.go(*OPENED)
    assert side.session.events() == [StreamOpened(5, None)]


def test_credits_limit_messages_but_neither_notify_nor_eos() -> None:
    side = Side(SourceConnector(HELLO)).go(StartSession(), Ok(2), *OPENED, SendMessage(5, 1, b"x"))
    with pytest.raises(ProtocolFault, match="no credits are left"):
        side.go(SendMessage(5, 2, b"x"))
    side.go(OpenStream(6, b"other"))
    assert side.role.credits == -1
    side.go(Ack(3))
    assert side.role.credits == 2
    side.go(SendMessage(5, 2, b"x"), SendMessage(5, 3, b"x"), EndStream(5))
    assert side.sent[-1] == ("eos", 5)


def test_acknowledgements_are_cumulative_and_an_old_one_changes_nothing() -> None:
    side = connector(*OPENED, *(SendMessage(5, n, b"x") for n in (1, 2, 3))).quiet()
    side.go(Ack(0, ((5, 2),)), Ack(0, ((5, 1),)), Ack(0, ((5, NOTHING), (9, 4))), Ack(0, ((5, 3),)))
    assert side.session.events() == [StreamAcked(5, 2), StreamAcked(5, 3)]


def test_a_stream_closes_after_the_acknowledgement_of_its_last_message() -> None:
    side = connector(*OPENED, SendMessage(5, 1, b"x"), SendMessage(5, 2, b"x"), EndStream(5)).quiet()
    side.go(Ack(0, ((5, 1),)))
    assert side.session.events() == [StreamAcked(5, 1)]
    side.go(Ack(0, ((5, 2),)))
    assert side.session.events() == [StreamAcked(5, 2), StreamClosed(5)]
    with pytest.raises(ProtocolFault, match="stream 5 is not open"):
        side.go(SendMessage(5, 3, b"x"))


def test_an_empty_stream_closes_at_once() -> None:
    side = connector(*OPENED).quiet().go(EndStream(5))
    assert side.session.events() == [StreamClosed(5)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (SendMessage(5, 1, b""), "at least one byte"),
        (SendMessage(5, 3, b"x"), "message ids increase: 3 comes after 3"),
        (SendMessage(5, NOTHING, b"x"), "nothing was processed"),
        (SendMessage(6, 4, b"x"), "stream 6 is not open"),
        (EndStream(6), "stream 6 is not open"),
        (OpenStream(5, b"st"), "already open"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_command_that_breaks_the_protocol_is_refused_and_changes_nothing(command: Any, words: str) -> None:
    side = connector(*OPENED, SendMessage(5, 3, b"x")).quiet()
    with pytest.raises(ProtocolFault, match=words):
        side.go(command)
    assert side.sent == []
    assert side.session.state is SessionState.STREAMING


def test_a_restart_names_the_address() -> None:
    side = connector(*OPENED).quiet().go(Restart("10.0.0.1:7100"))
    assert side.session.events() == [RestartRequested("10.0.0.1:7100")]
    assert side.session.state is SessionState.CLOSED


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (NotifyAck(True, 6, 0), "NOTIFY_ACK for stream 6"),
        (NotifyAck(True, 5, 0), "NOTIFY_ACK for stream 5"),
        (Ack(0, ((5, 9),)), "ACK of message 9 of stream 5, which was not sent"),
        (Ok(10), "OK in state Streaming"),
        (HELLO, "HELLO in state Streaming"),
        (message(1), "MESSAGE in state Streaming"),
        (Notify(5, b"", 0), "NOTIFY in state Streaming"),
        (Eos(5), "EOS in state Streaming"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_frame_of_a_worker_ends_the_session(frame: Any, words: str) -> None:
    refused(connector(*OPENED).quiet().go(frame), words)


def test_an_acceptor_grants_credits_and_opens_a_stream() -> None:
    side = Side(SourceAcceptor("C", StreamRegistry({5: 12}.get))).go(HELLO)
    assert side.sent == [("ok", 500)]
    side.go(Notify(5, b"st", 3), Notify(6, b"new", 0))
    assert side.sent == [("notify_ack", True, 5, 12), ("notify_ack", True, 6, NOTHING)]
    assert side.session.events() == [StreamOpened(5, 12), StreamOpened(6, None)]


def test_an_acceptor_drops_messages_that_it_has_seen() -> None:
    side = acceptor(Notify(5, b"st", 0), points={5: 2}).quiet()
    side.go(message(1), message(2), message(4), message(4), message(3), message(9))
    assert [event.message for event in side.session.events()] == [4, 9]


def test_a_first_message_may_have_any_id() -> None:
    side = acceptor(Notify(5, b"st", 0)).quiet().go(message(0, b"first"))
    assert side.session.events() == [DataReceived(5, 0, 0, b"", b"first")]


def test_acknowledgements_name_only_messages_before_the_checkpoint() -> None:
    side = acceptor(Notify(5, b"st", 0), Notify(6, b"other", 0), message(1), message(2)).quiet()
    side.go(BeginCheckpoint(), message(3), CompleteCheckpoint())
    assert side.sent == [("ack", 6, [(5, 2)])]
    side.go(BeginCheckpoint(), CompleteCheckpoint())
    assert side.sent == [("ack", 0, [(5, 3)])]


def test_an_acknowledgement_without_credits_and_points_is_not_sent() -> None:
    assert acceptor().go(BeginCheckpoint(), CompleteCheckpoint()).sent == [("ack", 1, [])]
    assert (
        acceptor(BeginCheckpoint(), CompleteCheckpoint()).quiet().go(BeginCheckpoint(), CompleteCheckpoint()).sent == []
    )


def test_credits_are_refilled_and_never_block_eos() -> None:
    side = acceptor(Notify(5, b"st", 0), credits=4)
    assert side.sent[1:] == [("ack", 2, [])]
    side.go(message(1), message(2), Eos(5))
    assert side.sent == [("ack", 2, [])]
    assert side.role.credits == 3


def test_a_stream_is_free_after_a_checkpoint_that_began_after_its_end() -> None:
    registry = StreamRegistry({}.get)
    first, second = (Side(SourceAcceptor("C", registry)).go(HELLO).quiet() for _ in range(2))
    first.go(Notify(5, b"st", 0), message(1), BeginCheckpoint(), Eos(5)).quiet()
    second.go(Notify(5, b"st", 9))
    assert second.sent == [("notify_ack", False, 5, 9)]
    first.go(CompleteCheckpoint())
    assert first.session.events() == []
    first.go(BeginCheckpoint(), CompleteCheckpoint())
    assert first.session.events() == [StreamClosed(5)]
    assert second.go(Notify(5, b"st", 9)).sent == [("notify_ack", True, 5, NOTHING)]
    second.role.release()
    assert first.go(Notify(5, b"st", 9)).sent[-1] == ("notify_ack", True, 5, NOTHING)


def test_a_rollback_drops_messages_and_refuses_streams() -> None:
    side = acceptor(Notify(5, b"st", 0)).quiet().go(BeginRollback(), message(1), Eos(5), Notify(6, b"", 3))
    assert side.sent == [("notify_ack", False, 6, 3)]
    assert side.session.events() == []
    side.go(RestartPeer("10.0.0.1:7100"))
    assert side.sent == [("restart", "10.0.0.1:7100")]
    assert side.session.events() == [Disconnected()]
    assert side.session.over


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (message(1, stream=6), "Bad/unregistered stream_id 6"),
        (Eos(6), "Bad/unregistered stream_id 6"),
        (message(1, b""), "No message bytes and BOUNDARY not set"),
        (HELLO, "Invalid message: HELLO"),
        (Ok(1), "Invalid message: OK"),
        (NotifyAck(True, 5, 0), "Invalid message: NOTIFY_ACK"),
        (Ack(1), "Invalid message: ACK"),
        (Restart(), "Invalid message: RESTART"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_frame_of_a_connector_ends_the_session(frame: Any, words: str) -> None:
    refused(acceptor(Notify(5, b"st", 0)).quiet().go(frame), words)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (message(1), "Bad protocol FSM state: MESSAGE"),
        (Notify(5, b"", 0), "Bad protocol FSM state: NOTIFY"),
        (Hello("v0.0.1", "C", "", ""), "Unknown protocol version: 'v0.0.1', wanted: 0.0.1"),
        (Hello("0.0.1", "D", "", ""), "Bad cookie"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_introduction_ends_the_session(frame: Any, words: str) -> None:
    refused(Side(SourceAcceptor("C", StreamRegistry({}.get))).go(frame), words)


def test_messages_after_eos_are_refused() -> None:
    refused(acceptor(Notify(5, b"st", 0), Eos(5)).quiet().go(message(1)), "Bad/unregistered stream_id 5")


@pytest.mark.parametrize("side", [connector(*OPENED), acceptor()], ids=["connector", "acceptor"])
def test_an_error_of_the_peer_ends_the_session(side: Side) -> None:
    side.quiet().go(ErrorFrame("the peer failed"))
    assert side.session.events() == [SessionFailed("the peer failed", by_peer=True)]
    assert side.sent == []


def test_both_tables_name_their_first_state() -> None:
    assert [next(iter(table))[0] for table in (SOURCE_CONNECTOR, SOURCE_ACCEPTOR)] == [
        SessionState.INITIAL,
        SessionState.CONNECTED,
    ]


def exchange(rng: Random) -> None:
    """Send messages 0 to 19 through sessions that end anywhere; the worker keeps exactly one copy of each."""
    points: dict[int, int] = {}
    kept: list[bytes] = []
    while points.get(5, -1) < 19:
        source = Side(SourceConnector(HELLO)).go(StartSession())
        worker = Side(SourceAcceptor("C", StreamRegistry(points.get), credits=6, refill=3))
        fresh: list[DataReceived] = []
        at, life, began = 0, rng.randint(5, 80), -1
        for step in range(life):
            for here, there in ((source, worker), (worker, source)):
                there.session.receive(here.session.outgoing())
            fresh += [event for event in worker.session.events() if isinstance(event, DataReceived)]
            for event in source.session.events():
                if isinstance(event, StreamOpened):
                    at = 0 if event.point is None else event.point + 1
                elif isinstance(event, StreamAcked):
                    assert event.point <= points[5], "only durable messages are acknowledged"
            if step == 0:
                source.go(OpenStream(5, b"st"))
            elif source.role.credits > 0 and at < 20 and step > 1:
                source.go(SendMessage(5, at, bytes([at + 1])))
                at += 1
            if worker.session.state is SessionState.STREAMING and rng.random() < 0.3:
                worker.go(BeginCheckpoint())
                began = len(fresh)
            elif began >= 0 and rng.random() < 0.5:
                kept += [event.body for event in fresh[:began]]
                points.update({event.stream: event.message for event in fresh[:began]})
                fresh, began = fresh[began:], -1
                worker.go(CompleteCheckpoint())
    assert kept[:20] == [bytes([n + 1]) for n in range(20)]


@given(st.integers(0, 2**32))
def test_a_source_survives_lost_sessions_and_repeats_no_committed_message(seed: int) -> None:
    exchange(Random(seed))
