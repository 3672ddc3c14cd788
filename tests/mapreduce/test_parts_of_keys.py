"""Field views on views read parts of tuple keys; lists in documents of tables have no parts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import penstock as ps

CITIES = ["Oslo", 1, 1.0, True, None, 0.5, ["a", ["b"]], "é" * 300]


def shop() -> ps.App:
    app = ps.App("shop")
    users = app.table("users", key="id")
    both = users.view("both", key=("city", "name"), reduce=ps.count())
    both.view("cities", key="key.0", value="value", reduce=ps.sum())
    both.view("inner", key=("key.0.1.0", "key.1"), value="value", reduce=ps.sum())
    users.view("listed", key="city.0", reduce=ps.count())
    return app


def documents(first: int) -> list[dict[str, Any]]:
    return [{"id": i, "city": CITIES[(i + first) % len(CITIES)], "name": f"n{i % 3}"} for i in range(60)]


@pytest.mark.parametrize("size", [1, 60])
def test_parts_of_keys_are_groups(size: int) -> None:
    with ps.open(shop(), None) as engine:
        for docs in (documents(0), documents(3)):
            for a in range(0, len(docs), size):
                engine.put_many("users", docs[a : a + size])
        engine.delete("users", 7)
        with engine.snapshot() as snap:
            cities = {repr(group): n for group, n in snap.view("cities").items()}
            inner = dict(snap.view("inner").items())
            listed = dict(snap.view("listed").items())
        assert engine.check().ok
    kept = [doc for doc in documents(3) if doc["id"] != 7]
    expected = Counter(repr(_group(doc["city"])) for doc in kept)
    assert cities == dict(expected)
    assert inner == Counter(("b" if isinstance(doc["city"], list) else None, doc["name"]) for doc in kept)
    assert listed == {None: 59}


@pytest.mark.parametrize("size", [1, 60])
def test_a_tuple_in_a_document_is_a_list(size: int) -> None:
    with ps.open(shop(), None) as engine:
        docs = [{"id": i, "city": ("Oslo", 1), "name": "n"} for i in range(60)]
        for a in range(0, len(docs), size):
            engine.put_many("users", docs[a : a + size])
        with engine.snapshot() as snap:
            assert dict(snap.view("listed").items()) == {None: 60}
            assert dict(snap.view("cities").items()) == {("Oslo", 1): 60}


def _group(city: Any) -> Any:
    if isinstance(city, list):
        return tuple(map(_group, city))
    return 1 if type(city) is float and city == 1 else city
