"""Compare two definitions of a view, and describe the build of the next generation.

If the definition of a view changes, the next generation is built beside the current one, and replaces it when it is
complete. A stored definition is plain data, with the fingerprint of its code as `code`. Invariant: two definitions are
equal exactly if they give the same rows for the same documents, as far as data and code can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.cache import PenstockError, repr_of
from penstock.views.conditions.condition_notation import condition_text
from penstock.views.definitions import View
from penstock.views.fingerprints.code_fingerprint import fingerprint

__all__ = ["Changed", "Kind", "Migrated", "NotBuilt", "Preview", "Sampled", "difference", "stored_definition"]

Described = Mapping[str, Any]
_CODE, _VERSION = "code", "version"


class Kind(Enum):
    """The reason to build or drop a view."""

    CHANGED = "changed"
    NEW = "new"
    DROPPED = "dropped"
    FOLLOWS = "follows"
    """The view is unchanged, but its parent view is built again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A view whose stored definition differs from the app, and the reason.

    >>> print(Changed("namecount", Kind.CHANGED, "its map changed"))
    namecount: changed, its map changed
    """

    view: str
    kind: Kind
    why: str = ""

    def __str__(self) -> str:
        return f"{self.view}: {self.kind.value}{', ' if self.why else ''}{self.why}"

    def data(self) -> dict[str, str]:
        """Return it as plain data."""
        return {"view": self.view, "kind": self.kind.value, "why": self.why}

    @classmethod
    def of(cls, data: Mapping[str, str]) -> Changed:
        """Create it from plain data."""
        return cls(data["view"], Kind(data["kind"]), data["why"])


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of building views: the views, the documents and rows that were read, and the groups with another
    result.

    `groups` is None if the store keeps no changes feed, which would count them.

    >>> print(Migrated((Changed("namecount", Kind.NEW),), 1200, 7))
    1 view built of 1,200 documents and rows: namecount; 7 groups have another result
    >>> print(Migrated((), 0, 0))
    all views are as the app has them
    """

    changes: tuple[Changed, ...]
    told: int
    groups: int | None

    def __str__(self) -> str:
        if not self.changes:
            return "all views are as the app has them"
        dropped = [c.view for c in self.changes if c.kind is Kind.DROPPED]
        built = [c.view for c in self.changes if c.kind is not Kind.DROPPED]
        texts: list[str] = []
        if built:
            views = f"{len(built)} view{'' if len(built) == 1 else 's'}"
            texts.append(f"{views} built of {self.told:,} documents and rows: {', '.join(built)}")
        if dropped:
            texts.append(f"dropped: {', '.join(dropped)}")
        if self.groups is not None:
            texts.append(f"{self.groups:,} group{' has' if self.groups == 1 else 's have'} another result")
        return "; ".join(texts)

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"changes": [c.data() for c in self.changes], "told": self.told, "groups": self.groups}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Migrated:
        """Create it from plain data."""
        return cls(tuple(map(Changed.of, data["changes"])), data["told"], data["groups"])


@dataclass(frozen=True, slots=True)
class Sampled:
    """A group of a view with its current and its future result. `ABSENT` means no row."""

    view: str
    group: Any
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Preview:
    """The changes that opening a store with an app would make.

    A build would read `documents` of tables and `rows` of parent views, and replace the `groups` that exist now.
    `sample` has rows computed from `sampled` documents. If these are not `all`, both sides count them alone. A view
    whose former code is lost has no sample. `seconds` is the approximate time of the build without concurrent writes.
    `held` gives per view the number of sampled documents that it could not accept, and the reason for the first.
    """

    changes: tuple[Changed, ...]
    documents: int = 0
    rows: int = 0
    groups: int = 0
    seconds: float = 0.0
    sampled: int = 0
    all: bool = True
    sample: tuple[Sampled, ...] = ()
    held: Mapping[str, tuple[int, str]] = field(default_factory=dict)


class NotBuilt(PenstockError):
    """The requested view is being built, and was never complete.

    >>> print(NotBuilt("namecount", 43))
    view 'namecount' is being built, 43 % of what it is made of is in; wait until it is complete, or run \
`penstock migrate` or engine.migrate(), which do the rest at once
    """

    def __init__(self, name: str, percent: int) -> None:
        super().__init__(name, percent)
        self.name = name
        self.percent = percent

    def __str__(self) -> str:
        return (
            f"view {self.name!r} is being built, {self.percent} % of what it is made of is in; wait until it is "
            "complete, or run `penstock migrate` or engine.migrate(), which do the rest at once"
        )


def stored_definition(view: View) -> dict[str, Any]:
    """Return a view as a store keeps it: its description, and the fingerprint of its code if it has any."""
    code = fingerprint(view)
    return {**view.describe(), _CODE: code} if code else view.describe()


def difference(old: Described, new: Described) -> str:
    """Describe in words how two stored definitions of a view or a join differ; an empty text if they are equal.

    >>> difference({"source": "users", "reducers": []}, {"source": "orders", "reducers": []})
    "its source was 'users' and is 'orders'"
    """
    before, now = _bare(old), _bare(new)
    names = [name for name in dict.fromkeys([*before, *now]) if before.get(name) != now.get(name)]
    if "by" in names:
        names = [name for name in names if name not in ("key", "value", "where")]
    if "reducers" in names:  # an index has a different form of rows
        names = [name for name in names if name != "rows"]
    texts = [_changed(name, before.get(name), now.get(name)) for name in names]
    versions = old.get(_VERSION), new.get(_VERSION)
    if None not in versions:
        if versions[0] != versions[1]:
            texts.append(f"its version was {repr_of(versions[0])} and is {repr_of(versions[1])}")
    elif not texts:
        texts = list(_code(old.get(_CODE) or {}, new.get(_CODE) or {}))
    return "; ".join(texts)


def _changed(name: str, old: Any, new: Any) -> str:
    """Describe the change of one part of a definition, in users' notation if that shows the difference."""
    if name == "by":
        return "it was made by fields, and is by a function" if old == "fields" else "it was a function, and is fields"
    one, two = _written(name, old), _written(name, new)
    if one == two:
        one, two = repr_of(old), repr_of(new)
    return (
        f"its {name} {'were' if name.endswith('s') else 'was'} {one} and {'are' if name.endswith('s') else 'is'} {two}"
    )


def _written(name: str, part: Any) -> str:
    """Return a part of a definition in users' notation."""
    if name == "rows":
        return part or "(group, key), with a rank if it is not 0"
    if part is None:
        return "none"
    if name == "key":
        paths = [".".join(path) for path in part["paths"]]
        return repr(paths[0] if part["single"] else tuple(paths))
    if name == "value":
        return repr(".".join(part))
    if name == "reducers":
        return ", ".join(map(_reducer, part)) or "none"
    if name == "sides":
        return ", ".join(map(_side, part))
    if name == "on":
        return ", ".join(f"{'.'.join(one)} = {'.'.join(other)}" for one, other in part)
    return repr_of(part)


def _side(described: Described) -> str:
    """Return a side of a join in users' notation."""
    where = described["where"]
    return f"{described['side']}={described['source']}{'' if where is None else f' where {condition_text(where)}'}"


def _reducer(described: Described) -> str:
    """Return a reducer in users' notation."""
    field, where = ".".join(described["field"] or ()), described.get("where")
    reads = [part for part in (field, "" if where is None else f"where {condition_text(where)}") if part]
    return f"{described['reducer']}({', '.join(reads)})"


def _bare(definition: Described) -> dict[str, Any]:
    """Return a definition without its code and without names of functions, which do not affect results."""
    out = {name: value for name, value in definition.items() if name not in (_CODE, _VERSION, "map", "reducers")}
    out |= {name: value for name, value in (definition.get("map") or {}).items() if name != "function"}
    reducers = definition.get("reducers") or []
    out["reducers"] = [{k: v for k, v in reducer.items() if k != "function"} for reducer in reducers]
    return out


def _code(old: Described, new: Described) -> Iterator[str]:
    """Yield the parts of the code that differ: changed parts, otherwise added and removed ones."""
    if not old and new:
        yield "its code was not kept with it"
        return
    changed = sorted(name for name in old if name in new and old[name] != new[name])
    if changed:
        yield f"{', '.join(changed)} changed"
        return
    yield from (f"{name} is read by it" for name in sorted(set(new) - set(old)))
    yield from (f"{name} is no longer read by it" for name in sorted(set(old) - set(new)))
