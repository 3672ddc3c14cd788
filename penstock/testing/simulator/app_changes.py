"""Definitions that change under a store: which apps it may change to, and what readers see meanwhile.

While views are built for another app, those that it replaces or drops show what they showed when that began, views that
it adds are not there, and all others go on. `Frozen` holds readers to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from penstock.engine import Snapshot
from penstock.recovery import identity
from penstock.testing.simulator.checks import Finding
from penstock.views import App, Production, Source, Table


class Frozen:
    """What the views show that stay behind while others are built in their place."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Any]] = {}  # with the position

    def leave(self, snap: Snapshot) -> None:
        """Another app is about to be opened: these are the rows that its readers may go on to see."""
        for name in snap.schema.views:
            if snap.schema.as_of(name) is None:
                self._rows[name] = snap.position, _rows(snap, name)

    def differences(self, snap: Snapshot, app: App, exempt: Collection[str] = ()) -> Iterator[Finding]:
        """What readers see otherwise than they should of views that are being built, or that give way."""
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
    """Apps that a store of this one may come from or change to: one with half of its views anew, one without some."""
    views = [view.name for view in app.views()]
    if not views:
        return ()
    anew = changed(app, again=views[::2])
    less = changed(app, without=views[-1:])
    return (anew, less) if len(views) > 1 else (anew,)


def told_by(app: App, production: Production) -> App:
    """The app, whose views on tables are told so."""
    out = App(app.name)
    made: dict[str, Source] = {}
    for name in app.names():
        definition = app.lookup(name)
        if isinstance(definition, Table):
            made[name] = out.add(replace(definition, app=out, order=out.size))
            continue
        source = made[definition.source.name]
        own = replace(definition, app=out, order=out.size, source=source)
        if isinstance(source, Table):
            own = replace(own, production=production, sources=own.sources or production.early)
        made[name] = out.add(own)
    return out


def changed(app: App, again: Collection[str] = (), without: Collection[str] = ()) -> App:
    """The app with some views kept in another way, which builds them anew, and without others and those on them."""
    out = App(app.name)
    made: dict[str, Source] = {}
    for name in app.names():
        definition = app.lookup(name)
        if isinstance(definition, Table):
            made[name] = out.add(replace(definition, app=out, order=out.size))
        elif name not in without and definition.source.name in made:
            kept = definition.sources != (name in again)
            source = made[definition.source.name]
            made[name] = out.add(replace(definition, app=out, order=out.size, source=source, sources=kept))
    return out
