"""The agreement of all partitions, before any is opened, on the views to build and on their numbers.

A view has the same number in all partitions, because productions name it by that number. So the changes of an app are
found over all catalogs, and each partition is told which builds to begin. Invariants:

- all partitions begin the same builds; if only some had begun, all begin again;
- a number is given to one generation of one view only, in whichever partition it was given;
- the process that opens the store describes its app, and partitions use these definitions: a class sent to another
  process can have another fingerprint there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.core import Catalog, Described, described
from penstock.generations.app_comparison import Agreement, agrees, compared, refused
from penstock.views import App, Changed, Kind, shown_join, sources_of

__all__ = ["GenerationNumbers", "agree_numbers"]


@dataclass(frozen=True, slots=True)
class GenerationNumbers:
    """The definitions of an app, the number of each in all partitions, and the views that all begin to build."""

    wanted: dict[str, Described]
    numbers: dict[str, int] = field(default_factory=dict)
    changes: dict[str, Changed] = field(default_factory=dict)

    def agreement(self, known: Catalog) -> Agreement:
        """Return the agreement for a partition with this catalog. A build that it has begun or finished goes on."""
        own = compared(known, self.wanted)
        if agrees(known, own.wanted) and _written(known, own.wanted) == self.numbers:
            return Agreement(own.wanted, own.changes, True, self.numbers)
        return Agreement(own.wanted, dict(self.changes), False, self.numbers)


def _written(catalog: Catalog, wanted: Iterable[str]) -> dict[str, int]:
    return {name: catalog.entries[name].written for name in wanted if name in catalog.entries}


def agree_numbers(
    app: App, catalogs: Sequence[Catalog | None], refuse: bool = False
) -> tuple[GenerationNumbers, tuple[Changed, ...]]:
    """Return the builds that all partitions begin for an app, and every view that is built for it.

    Raise DefinitionChanged if a table changed, or, with `refuse`, if anything changed.
    """
    known = [catalog for catalog in catalogs if catalog is not None]
    wanted = described(app)
    found = [compared(catalog, wanted) for catalog in known]
    changes: dict[str, Changed] = {}
    for own in found:
        changes = {**own.changes, **changes}
    if changes and refuse:
        raise refused(changes)
    numbers = [_written(catalog, wanted) for catalog in known]
    under_way = all(agrees(catalog, wanted) for catalog in known)
    if under_way and all(own == numbers[0] for own in numbers):
        return GenerationNumbers(wanted, numbers[0] if numbers else {}), tuple(changes.values())
    unlike = [name for name in wanted if len({own.get(name) for own in numbers}) > 1]
    return _begun(wanted, known, changes, unlike), tuple(changes.values())


def _begun(
    wanted: dict[str, Described], known: Sequence[Catalog], changes: dict[str, Changed], unlike: Sequence[str]
) -> GenerationNumbers:
    """Begin to build all definitions that changed in some partition or differ in number, and all that stands on them.

    A join and its prefixes begin together: the rows of one are documents of the next one.
    """
    last = max(catalog.highest() for catalog in known)
    joins = {shown_join(name) for name in unlike if wanted[name]["kind"] == "join"}
    wholes = [name for name, own in wanted.items() if own["kind"] == "join" and shown_join(name) in joins]
    out: dict[str, Changed] = {name: own for name, own in changes.items() if own.kind is Kind.DROPPED}
    numbers: dict[str, int] = {}
    for name, definition in wanted.items():
        entry = next((catalog.entries[name] for catalog in known if name in catalog.entries), None)
        anew = entry is None
        follows = next((source for source in sources_of(definition) if source in out), name)
        differs = name in changes or name in unlike or name in wholes or follows != name
        if definition["kind"] != "table" and (anew or differs):
            out[name] = changes.get(name) or Changed(name, Kind.FOLLOWS, f"it is on {follows}")
            anew = True
        last += anew
        numbers[name] = last if anew or entry is None else entry.number
    return GenerationNumbers(wanted, numbers, out)
