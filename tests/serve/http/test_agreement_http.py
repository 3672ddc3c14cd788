"""A history through HTTP and through the engine leaves one state: equal counts, equal digests."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.cache import PenstockError
from penstock.views import json_text
from tests.serve.asgi import AsgiServer, lines, shop

KEYS = st.sampled_from([0, 1, 2, -7, "a", "7", "é", True, None, 2**70, "x" * 300])
DOCUMENTS = st.one_of(
    st.fixed_dictionaries(
        {"id": KEYS, "ts": st.integers(0, 4), "country": st.sampled_from(["NO", "SE", 7, None, [1]])},
        optional={"amount": st.sampled_from([1, -2, 0.1, "much"]), "day": st.integers(0, 2)},
    ),
    st.sampled_from([b"", b"no json", b"{}", b"[1]", b'{"id": 1, "ts": 1, "id": 2}']),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(DOCUMENTS, max_size=6), st.booleans()),
        st.tuples(st.just("delete"), KEYS, st.none() | st.integers(0, 5)),
    ),
    max_size=8,
)


def by_engine(engine: ps.Engine, step: Any) -> Any:
    """Do one step; the counts, or None for an error."""
    try:
        if step[0] == "put":
            found = engine.put_many("orders", lines(*step[1]), strict=step[2])
        else:
            found = engine.delete("orders", step[1], ts=step[2])
    except PenstockError:
        return None
    assert isinstance(found, ps.Counts)
    return (found.applied, found.equal, found.late, found.held, found.rejected)


def by_http(server: AsgiServer, step: Any) -> Any:
    if step[0] == "put":
        answer = server.ask("POST", f"/v1/tables/orders?strict={int(step[2])}", lines(*step[1]))
    else:
        ts = "" if step[2] is None else f"&ts={step[2]}"
        answer = server.ask("DELETE", f"/v1/tables/orders?key={quote(json_text(step[1]))}{ts}")
    if answer.status == 400:
        return None
    assert answer.status == 200, answer
    return tuple(answer.json[name] for name in ("applied", "equal", "late", "held", "rejected"))


@pytest.mark.parametrize("partitions", [1, 2])
@settings(max_examples=15)
@given(steps=STEPS)
def test_a_history_by_http_leaves_the_state_of_the_engine(partitions: int, steps: list[Any]) -> None:
    app = shop()
    with (
        ps.open(app, None, partitions=partitions) as own,
        ps.open(app, None, partitions=partitions) as engine,
        AsgiServer(engine, app) as server,
    ):
        for step in steps:
            expected = by_engine(own, step)
            assert by_http(server, step) == expected, step
        with own.snapshot("position") as snap:
            for view in ("revenue", "by_day"):
                rows = server.ask("GET", f"/v1/views/{view}/rows").json["rows"] if engine.settle() is None else []
                assert [(row["value"], row["held"]) for row in rows] == [(r.value, r.held) for r in snap.view(view)]
        own_digest, digest = own.digest(), engine.digest()
    assert digest == own_digest
