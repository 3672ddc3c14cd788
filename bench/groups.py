"""Figures of function views that yield many groups for a document: a count, and a max, which keeps contributions.

Beside each, a Python dict does the work in memory: it decodes the same lines, calls the same function, and keeps the
contributions of each document, so that it can retract them. It stores nothing.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

import penstock as ps
from bench import child
from bench.load import fresh
from bench.plan import Plan
from bench.report import Figure, cpu_rate
from bench.workload import TABLE, cut

EACH, WORDS = 20, 5_000  # groups per document, and different ones
REDUCERS = {"count": ps.count, "max": ps.max}


def groups(plan: Plan) -> Iterator[Figure]:
    """Measure a count and a max over 20 groups per document: texts, and tuples of a text and an int."""
    docs = plan.docs // 10
    for reducer in REDUCERS:
        for parts in (1, 2):
            how = {"docs": docs, "keys": plan.keys // 10, "batch": plan.batches[1], "reducer": reducer, "parts": parts}
            rounds = [child.run("bench.groups:load", 1, folder=plan.at("groups"), **how) for _ in range(plan.rounds)]
            case = f"{reducer}, {'texts' if parts == 1 else '(text, int)'}"
            yield cpu_rate("groups", case, rounds, "Python dict", [r["dict"] for r in rounds])


def load(folder: str, docs: int, keys: int, batch: int, reducer: str, parts: int) -> dict[str, Any]:
    """Return the CPU seconds of upserts into a store, and of a dict for the same work."""
    lines = list(_lines(docs, keys))
    root = fresh(folder)
    app = ps.App("bench")
    function = FUNCTIONS[reducer][parts - 1]
    view = app.table(TABLE, key="id", ts="ts").view("by_word", reduce=REDUCERS[reducer]())(function)
    with ps.open(app, root / "store") as engine:
        began = time.process_time()
        for part in cut(lines, batch):
            engine.put_many(TABLE, part, batch=batch)
        cpu = time.process_time() - began
        began = time.process_time()
        expected = (_counts if reducer == "count" else _greatest)(lines, function)
        alone = time.process_time() - began
        with engine.snapshot() as snap:
            assert dict(snap.view(view.name).items()) == expected, "the view differs from the input"
    shutil.rmtree(root)
    return {"docs": docs, "cpu": cpu, "dict": alone}


def _lines(docs: int, keys: int) -> Iterator[bytes]:
    random = np.random.default_rng(3)
    words = np.minimum(random.pareto(0.8, (docs, EACH)), WORDS - 1).astype(int).tolist()
    for ts, (key, own) in enumerate(zip(random.integers(0, keys, docs).tolist(), words, strict=True)):
        yield b'{"id": %d, "ts": %d, "words": [%s]}' % (key, ts, ", ".join([f'"word{n}"' for n in own]).encode())


def _words(doc: dict[str, Any]) -> Iterator[Any]:
    for word in doc["words"]:
        yield word, None


def _pairs(doc: dict[str, Any]) -> Iterator[Any]:
    for place, word in enumerate(doc["words"]):
        yield (word, place), None


def _places(doc: dict[str, Any]) -> Iterator[Any]:
    for place, word in enumerate(doc["words"]):
        yield word, place


def _documents(doc: dict[str, Any]) -> Iterator[Any]:
    for place, word in enumerate(doc["words"]):
        yield (word, place), doc["id"]


FUNCTIONS = {"count": (_words, _pairs), "max": (_places, _documents)}  # by texts, and by tuples


def _counts(lines: list[bytes], function: Any) -> dict[Any, int]:
    """Count the documents' contributions by group, and retract those of the last version of each document."""
    decode, counts, last = msgspec.json.Decoder().decode, Counter[Any](), dict[int, list[Any]]()
    for line in lines:
        doc = decode(line)
        key, own = doc["id"], [group for group, _ in function(doc)]
        for group in last.get(key, ()):
            counts[group] -= 1
            if not counts[group]:
                del counts[group]
        for group in own:
            counts[group] += 1
        last[key] = own
    return dict(counts)


def _greatest(lines: list[bytes], function: Any) -> dict[Any, int]:
    """Keep the contributions of each document by group, and compute the greatest of each group once, at the end."""
    decode, last = msgspec.json.Decoder().decode, dict[int, list[Any]]()
    kept: defaultdict[Any, dict[int, int]] = defaultdict(dict)
    for line in lines:
        doc = decode(line)
        key, own = doc["id"], list(function(doc))
        for group, _ in last.get(key, ()):
            kept[group].pop(key, None)
        for group, value in own:
            kept[group][key] = max(value, kept[group].get(key, value))
        last[key] = own
    return {group: max(values.values()) for group, values in kept.items() if values}
