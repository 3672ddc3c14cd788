"""Facts of the whole store for pages: its numbers as text, and the list of all that needs attention.

A number has a name, such as `groups:revenue`. Pages show numbers by these names, and live values come by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.cache import size_text, writer_name
from penstock.remote import claims, is_stopped
from penstock.serve.access.table_limits import tables_below
from penstock.serve.console.store_samples import StoreSamples
from penstock.serve.store.store_reading import StoreReading
from penstock.views import App

__all__ = ["StoreNumbers", "attention", "numbers_of", "rate_text", "seconds_text", "visible_numbers"]

_STALE = 5.0  # seconds after which the age of a sample is shown


class StoreNumbers:
    """The store of one front, with its samples, as pages read it. Calls block, so they belong in a thread."""

    def __init__(self, store: StoreReading, samples: StoreSamples) -> None:
        self.store = store
        self.samples = samples

    def status(self) -> dict[str, Any]:
        """Return the status, with the writer and the readers of sources."""
        status = self.store.reader.status()
        path = status["path"]
        status["writer"] = "this process" if path is None else writer_name(path)
        reading = [] if path is None else claims(path)
        status["reading"] = [{**one, "state": "stopped"} if is_stopped(one["pid"]) else one for one in reading]
        return status

    def numbers(self) -> dict[str, str]:
        """Return all numbers as text, by name."""
        return numbers_of(self.store.reader.status(), self.samples)


def numbers_of(status: Mapping[str, Any], samples: StoreSamples) -> dict[str, str]:
    """Return the numbers of a status and of samples as text, by name."""
    position, totals = status["position"], _totals(status)
    out = {
        "position": f"{position:,}" if isinstance(position, int) else " + ".join(f"{own:,}" for own in position),
        "epoch": f"{status['epoch']:,}",
        "rate": rate_text(samples.rate()),
        "p99": seconds_text(samples.p99()),
        "held": f"{totals['held']:,}",
        "quarantined": f"{totals['quarantined']:,}",
        "used": size_text(status["store"]["used"]),
        "readers": f"{status['store']['readers']:,}",
        "age": _age(samples.age),
    }
    for name, table in status["tables"].items():
        out[f"documents:{name}"] = f"{table['documents']:,}"
        out[f"quarantined:{name}"] = f"{table['quarantined']:,}"
        out[f"rate:{name}"] = rate_text(samples.rate(name))
    for name, view in status["views"].items():
        out[f"groups:{name}"] = f"{view['groups']:,}"
        out[f"held:{name}"] = f"{view['held'] + view['held_groups']:,}"
    for name, join in status["joins"].items():
        out[f"held:{name}"] = f"{join['held'] + join['above_limit']:,}"
    building = status["building"]
    if building is not None:
        out["building"] = f"{100 * building['done'] // max(building['total'], 1)} %"
    return out


def _totals(status: Mapping[str, Any]) -> dict[str, int]:
    held = sum(view["held"] + view["held_groups"] for view in status["views"].values())
    held += sum(join["held"] + join["above_limit"] for join in status["joins"].values())
    return {"held": held, "quarantined": sum(table["quarantined"] for table in status["tables"].values())}


def attention(status: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return all that needs a person: its level, a sentence, the next step, and the page for it."""
    return list(_attention(status))


def _attention(status: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if status["writer"] is None:
        yield _item("bad", "No process takes writes.", "The server begins its holder again within seconds.", "/")
    for name, table in status["tables"].items():
        if n := table["quarantined"]:
            text = f"{n:,} record{'s' if n != 1 else ''} of {name} {'were' if n != 1 else 'was'} rejected."
            yield _item("warn", text, "See the reasons, then retry or drop.", f"/quarantine?table={name}")
    for kind in ("views", "joins"):
        for name, own in status[kind].items():
            if n := own["held"] + own.get("held_groups", 0):
                text = f"{name} holds {n:,} document{'s' if n != 1 else ''}, so some results are not current."
                yield _item("warn", text, "Correct the documents or the function.", f"/quarantine?view={name}")
    for name, join in status["joins"].items():
        if n := join["above_limit"]:
            text = f"{name} has {n:,} condition value{'s' if n != 1 else ''} with too many matches."
            yield _item("warn", text, "Raise limit= of the join, or correct the documents.", f"/graph?node={name}")
    building = status["building"]
    if building is not None:
        names = ", ".join(building["views"])
        share = 100 * building["done"] // max(building["total"], 1)
        yield _item("info", f"{names}: {share} % is built.", "Readers see the former rows until the end.", "/repair")
        if building["trouble"] is not None:
            yield _item("bad", f"The build stopped: {building['trouble']}", "It is tried again.", "/repair")
    scrub = status["scrub"]
    for line in [] if scrub is None else scrub["damaged"]:
        yield _item("bad", f"Damaged page: {line}", "Restore a copy, or run `penstock check --fix`.", "/repair")
    for one in status["reading"]:
        if one["lag"]:
            text = f"{one['source']} is {one['lag']:,} records behind."
            yield _item("info", text, "See the sources.", "/sources?sort=lag")
        if one["state"] in ("stopped", "paused", "failed"):
            yield _item("warn", f"The source {one['source']} is {one['state']}.", "See the sources.", "/sources")


def _item(level: str, text: str, step: str, link: str) -> dict[str, str]:
    return {"level": level, "text": text, "step": step, "link": link}


def rate_text(rate: float | None) -> str:
    """Return a rate for people.

    >>> rate_text(None), rate_text(0.0), rate_text(2.5), rate_text(81234.5)
    ('–', '0/s', '2.5/s', '81,234/s')
    """
    if rate is None:
        return "–"
    return f"{rate:.1f}/s" if 0 < rate < 10 else f"{rate:,.0f}/s"


def seconds_text(seconds: float | None) -> str:
    """Return a duration for people.

    >>> seconds_text(None), seconds_text(0.000262), seconds_text(0.0042), seconds_text(2)
    ('–', '0.26 ms', '4.2 ms', '2.0 s')
    """
    if seconds is None:
        return "–"
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"


def _age(age: float | None) -> str:
    return "" if age is None or age < _STALE else f"rates are {age:.0f} s old: the holder does not answer"


def visible_numbers(numbers: Mapping[str, str], tables: frozenset[str] | None, app: App) -> dict[str, str]:
    """Return the numbers of the tables that an access token allows, and of the views on them; None allows all."""
    if tables is None:
        return dict(numbers)
    named = {name: name.partition(":")[2] for name in numbers if ":" in name}
    return {name: numbers[name] for name, own in named.items() if tables_below(app, own) <= tables}
