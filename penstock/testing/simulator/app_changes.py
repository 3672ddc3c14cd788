"""Apps that change under a store: the variants of an app, and the rows that readers see meanwhile.

During a build, the views that it will replace or drop keep their former rows. Views that it adds are absent. All other
views are updated as usual. `Frozen` checks that readers see exactly this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from penstock.engine import Snapshot
from penstock.recovery import identity
from penstock.testing.simulator.checks import Finding
from penstock.views import App, DeliveryMode, Join, Source, Table, View


class Frozen:
    """The rows of views that stay unchanged while others are built in their place."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Any]] = {}  # by view, with the position

    def leave(self, snap: Snapshot) -> None:
        """Save the rows of current views before another app is opened: readers may continue to see them."""
        for name in snap.schema.views:
            if snap.schema.as_of(name) is None:
                self._rows[name] = snap.position, _rows(snap, name)

    def differences(self, snap: Snapshot, app: App, exempt: Collection[str] = ()) -> Iterator[Finding]:
        """Yield a finding for each view that is missing, left over, or changed although it waits to be replaced."""
        wanted = {view.name for view in app.views()}
        building = snap.schema.catalog.since is not None
        for name in sorted(wanted - snap.schema.views.keys()):
            if not building:
                yield Finding("generations", f"view {name!r}", "is not there, and nothing is being built", name)
        for name in snap.schema.views:
            if snap.schema.as_of(name) is None:
                if name not in wanted:
                    yield Finding("generations", f"view {name!r}", "is there, and the app has it no more", name)
                continue
            if not building:
                yield Finding("generations", f"view {name!r}", "stays behind, and nothing is being built", name)
            position, rows = self._rows.get(name, (None, None))
            if position == snap.schema.as_of(name) and name not in exempt and _rows(snap, name) != rows:
                text = f"stands at {position} until it is replaced, and shows other rows than it did there"
                yield Finding("generations", f"view {name!r}", text, name)


def _rows(snap: Snapshot, name: str) -> list[Any]:
    return [identity(tuple(row)) for row in snap.view(name).items()]


def variants_of(app: App) -> tuple[App, ...]:
    """Return apps that a store of this app may change to.

    One variant rebuilds half of the views and changes half of the joins. One drops the last view, and one the last
    join, so the way back adds them.
    """
    views, joins = [view.name for view in app.views()], [join.name for join in app.joins()]
    if not views:
        return ()
    anew = changed(app, again=[*views[::2], *joins[::2]])
    less = [changed(app, without=names[-1:]) for names in (views, joins) if len(names) > (names is views)]
    return (anew, *less)


def with_production(app: App, production: DeliveryMode) -> App:
    """Return a copy of the app whose views on tables use this delivery mode."""
    out = App(app.name)
    made: dict[str, Source] = {}
    for name in app.names():
        definition = app.lookup(name)
        if isinstance(definition, Table):
            made[name] = out.add(replace(definition, app=out, order=out.size))
            continue
        assert isinstance(definition, View), "apps of the simulator have no joins"
        source = made[definition.source.name]
        own = replace(definition, app=out, order=out.size, source=source)
        if isinstance(source, Table):
            own = replace(own, production=production, sources=own.sources or production.early)
        made[name] = out.add(own)
    return out


def changed(app: App, again: Collection[str] = (), without: Collection[str] = ()) -> App:
    """Return a copy of the app.

    For the views in `again` it toggles `sources`, so that they are rebuilt, and for the joins in it the limit. It omits
    the definitions in `without`, and those that are chained to them.
    """
    out = App(app.name)
    made: dict[str, Source] = {}
    for name in app.names():
        definition = app.lookup(name)
        if isinstance(definition, Table):
            made[name] = out.add(replace(definition, app=out, order=out.size))
        elif isinstance(definition, Join) and name not in without:
            if all(side.source.name in made for side in definition.sides):
                sides = tuple(replace(side, source=made[side.source.name]) for side in definition.sides)
                limit = definition.limit + (name in again)
                made[name] = out.add(replace(definition, app=out, order=out.size, sides=sides, limit=limit))
        elif isinstance(definition, View) and name not in without and definition.source.name in made:
            sources = definition.sources != (name in again)
            source = made[definition.source.name]
            made[name] = out.add(replace(definition, app=out, order=out.size, source=source, sources=sources))
    return out
