"""One machine drives an engine, the client over gRPC, and HTTP. Each history gives the same answers.

The digests are equal. Sessions are repeated, cut and reordered. `check` recomputes the views of each store at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import penstock as ps
from penstock.client import Client, ServiceError
from penstock.engine.calls import session_calls
from penstock.engine.calls.session_calls import SessionCalls
from penstock.views import json_text
from tests.serve.asgi import AsgiServer, lines, shop
from tests.serve.grpc.rpc_server import TOKEN, RpcServer

KEYS = st.integers(0, 4)
DOCUMENTS = st.lists(
    st.builds(
        lambda key, ts, country, amount: {"id": key, "ts": ts, "country": country, "day": 1, "amount": amount},
        KEYS,
        st.integers(0, 5),
        st.sampled_from(["NO", "SE", "Å"]),
        st.integers(-3, 9),
    ),
    min_size=1,
    max_size=4,
)
CONDITIONS = st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 5)), max_size=2)
Answer = tuple[Any, ...]


def counted(counts: ps.Counts, upto: int = 0) -> Answer:
    return counts.applied, counts.equal, counts.late, counts.rejected, upto


class Contract(RuleBasedStateMachine):
    """Calls to three stores, with equal arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.stores = [ps.open(shop(), None) for _ in range(3)]
        self.engine = self.stores[0]
        self.rpc = RpcServer(self.stores[1], shop()).__enter__()
        self.client = Client(self.rpc.target, TOKEN)
        self.sessions = {"engine": self.engine.session("s"), "client": self.client.session("s")}
        self.http = AsgiServer(self.stores[2], shop()).__enter__()
        self.upto = 0

    def teardown(self) -> None:
        try:
            digests = {store.digest() for store in self.stores}
            assert len(digests) == 1
            assert [list(store.check().wrong) for store in self.stores] == [[], [], []]
        finally:
            self.client.close()
            self.rpc.__exit__(None, None, None)
            self.http.__exit__(None, None, None)
            for store in self.stores:
                store.close()

    @rule(documents=DOCUMENTS, wanted=CONDITIONS)
    def put(self, documents: list[Any], wanted: dict[int, int | None]) -> None:
        conditions = {key: ps.ABSENT if ts is None else ts for key, ts in wanted.items()}
        listed = [{"key": key, "absent": True} if ts is None else {"key": key, "ts": ts} for key, ts in wanted.items()]
        asked = f"conditions={quote(json_text(listed))}"
        found = [
            self.outcome(lambda: counted(self.whole(self.engine.put_many("orders", documents, conditions=conditions)))),
            self.outcome(lambda: counted(self.client.put_many("orders", documents, conditions=conditions))),
            self.over_http(f"/v1/tables/orders?{asked}", documents),
        ]
        assert found[0] == found[1] == found[2]

    @rule(key=KEYS, ts=st.one_of(st.none(), st.integers(0, 6)))
    def delete(self, key: int, ts: int | None) -> None:
        asked = "" if ts is None else f"&ts={ts}"
        answer = self.http.ask("DELETE", f"/v1/tables/orders?key={key}{asked}").json
        found = [
            counted(self.whole(self.engine.delete("orders", key, ts))),
            counted(self.client.delete("orders", key, ts)),
            (*(answer[name] for name in ("applied", "equal", "late", "rejected")), 0),
        ]
        assert found[0] == found[1] == found[2]

    @rule(documents=DOCUMENTS, shift=st.integers(-4, 2))
    def write_in_session(self, documents: list[Any], shift: int) -> None:
        """Write from a number on: a repeated write, an overlap, the next one, or a gap."""
        number = max(1, self.upto + 1 + shift)
        own = self.sessions["engine"]
        found = [
            self.outcome(lambda: counted(own.put_many("orders", documents, number=number), own.upto)),
            self.outcome(lambda: self.client_session(documents, number)),
            self.over_http(f"/v1/tables/orders?session=s&number={number}", documents),
        ]
        assert found[0] == found[1] == found[2]
        assert (found[0][0] == "SESSION_GAP") is (number > self.upto + 1)
        if found[0][0] != "SESSION_GAP":
            self.upto = max(self.upto, number + len(documents) - 1)
            assert found[0][-1] == self.upto

    @rule(documents=DOCUMENTS)
    def try_only(self, documents: list[Any]) -> None:
        found = [
            counted(self.whole(self.engine.put_many("orders", documents, dry_run=True))),
            counted(self.client.put_many("orders", documents, dry_run=True)),
            self.over_http("/v1/tables/orders?dry_run=1", documents),
        ]
        assert found[0] == found[1] == found[2]

    @rule()
    def read(self) -> None:
        with self.engine.snapshot() as snap:
            rows = [(row.key, row.value) for row in snap.view("revenue")]
        assert [(row.key, row.value) for row in self.client.view("revenue")] == rows
        page = self.http.ask("GET", "/v1/views/revenue/rows").json
        assert [(row["key"], row["value"]) for row in page["rows"]] == rows
        documents = self.client.table("orders").get_many(range(5))
        with self.engine.snapshot() as snap:
            assert documents == [snap.table("orders").get(key) for key in range(5)]

    def client_session(self, documents: list[Any], number: int) -> Answer:
        session = self.sessions["client"]
        counts = session.put_many("orders", documents, number=number)
        return counted(counts, self.client.session("s").upto("orders"))

    def over_http(self, path: str, documents: list[Any]) -> Answer:
        answer = self.http.ask("POST", path, lines(*documents))
        if answer.status == 200:
            return (
                *(answer.json[name] for name in ("applied", "equal", "late", "rejected")),
                answer.json.get("upto", 0),
            )
        error = json.loads(answer.body)["error"]
        if error["code"] == "session gap":
            return "SESSION_GAP", str(error["upto"])
        return "CONDITION_FAILED", error["failed"]

    @staticmethod
    def outcome(call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except ps.ConditionFailed as failed:
            return "CONDITION_FAILED", {key: found for key, _, found in failed.failed}
        except ps.SessionGap as failed:
            return "SESSION_GAP", str(failed.upto)
        except ServiceError as failed:
            return failed.reason, failed.about.get("upto", failed.about)

    @staticmethod
    def whole(counts: Any) -> ps.Counts:
        assert isinstance(counts, ps.Counts)
        return counts


def run(examples: int = 12, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        Contract, settings=settings(max_examples=examples, stateful_step_count=12, deadline=None, phases=phases)
    )


def test_three_ways_give_the_same_answers() -> None:
    run()


def test_sessions_that_store_gaps_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug: a number beyond the next one is taken."""
    inner = SessionCalls._write_in_session

    def gap(self: Any, tables: Any, strict: Any, session: Any, number: int, *rest: Any) -> Any:
        return inner(self, tables, strict, session, min(number, self.session_upto(session) + 1), *rest)

    monkeypatch.setattr(SessionCalls, "_write_in_session", gap)
    with pytest.raises(AssertionError):
        run(60, (Phase.generate,))


def test_conditions_that_always_hold_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a bug in one of three stores: its conditions are not checked."""
    inner, calls = session_calls.must_hold, [0]

    def unchecked(*about: Any) -> None:
        calls[0] += 1
        if calls[0] % 3:
            inner(*about)

    monkeypatch.setattr(session_calls, "must_hold", unchecked)
    with pytest.raises(AssertionError):
        run(60, (Phase.generate,))
