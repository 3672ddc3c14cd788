"""Check in a second process that a view gives the same result there, also for each document alone.

The app goes to a process with another hash seed (PYTHONHASHSEED). There each document has a fork of its own. So no
other document is in its memory, wherever a function keeps it. Invariants:

- a result that differs between the two processes depends on the process: on hashes, the order of a set, an id, a clock;
- a result that differs only after other documents is hidden state;
- the order in which a map yields means nothing.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from penstock.engine import AppTransfer, importable, transferred
from penstock.recovery import emission, identity, recomputed, user_of
from penstock.testing.laws.laws import Breach, Law, Pair
from penstock.testing.laws.map_laws import Same
from penstock.views import App, FieldMap, View

Emitted = list[tuple[Any, Any]] | str
"""The pairs that a map yields for a document, or the name of the error that it raises."""
_SEEDS = ("1", "2")  # of hashes; the second one where this process has the first
_SECOND = "PENSTOCK_SECOND_PROCESS"  # set in it: a module that runs a crash test when it is imported runs no third one
_PROGRAM = "from penstock.testing.laws.process_laws import main; main()"


@dataclass(slots=True)
class Trace:
    """The results of a view for some documents: of each alone, of each after those before it, and the rows of all."""

    alone: list[Emitted]
    after: list[Emitted]  # each after all before it
    rows: list[tuple[Any, Any]]
    unsteady: set[int] = field(default_factory=set)  # places where two forks differ
    cause: dict[int, int] = field(default_factory=dict)  # by place: the one other document that changes it


@dataclass(frozen=True, slots=True)
class Named:
    """An app, by the module that defines it. The second process imports that module."""

    module: str
    attribute: str
    paths: tuple[str, ...]

    def app(self) -> App:
        """Import the app."""
        sys.path.extend(path for path in self.paths if path not in sys.path)
        app: App = getattr(importlib.import_module(self.module), self.attribute)
        return app


def _named(app: App) -> Named | None:
    """Find the module of an app. Return None if no other process can import it."""
    for name, module in list(sys.modules.items()):
        if name == "__main__" or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if value is app and importable(module):
                return Named(name, attribute, tuple(map(os.path.abspath, sys.path)))
    return None


class Second:
    """An app that a second process will run, saved before any of its functions ran."""

    def __init__(self, app: App) -> None:
        self._views = {view.name for view in app.views() if _has_functions(view)}
        self._app: AppTransfer | Named | None = None
        self.trouble = ""
        self._asked: list[tuple[View, list[Pair]]] = []
        if not self._views or _SECOND in os.environ:
            return
        self._app = _named(app)
        try:
            self._app = self._app or transferred(app)
        except Exception as error:  # pickle raises errors of many kinds
            self.trouble = f"the app can't be sent to another process ({type(error).__name__}: {error})"

    def add(self, view: View, docs: Sequence[Pair]) -> None:
        """Ask for the results of a view on these documents of its source."""
        if view.name in self._views:
            self._asked.append((view, list(docs)))

    def breaches(self) -> Iterator[Breach]:
        """Yield the first broken law of each view."""
        if self._app is None or not self._asked:
            return
        traces = self._ran(self._app)
        if traces is None:
            return
        for (view, docs), trace in zip(self._asked, traces, strict=True):
            found = _breach(view, docs, trace)
            if found is not None:
                yield found

    def _ran(self, app: AppTransfer | Named) -> list[Trace] | None:
        seed = next(seed for seed in _SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
        order = pickle.dumps((app, [(view.name, docs) for view, docs in self._asked]))
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=order,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, _SECOND: "1"},
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            self.trouble = f"the second process failed ({lines[-1] if lines else f'exit code {done.returncode}'})"
            return None
        traces: list[Trace] = pickle.loads(done.stdout)
        return traces


def _has_functions(view: View) -> bool:
    return not isinstance(view.map, FieldMap) or any(user_of(reducer) is not None for reducer in view.reducers)


# -- in the second process


def main() -> None:
    """Read an app and documents, and write the traces of its views."""
    out = os.dup(1)
    os.dup2(2, 1)  # the app may print
    app, asked = pickle.loads(sys.stdin.buffer.read())
    own = app.app()
    traces = [_trace(own.view_of(name), docs) for name, docs in asked]
    with os.fdopen(out, "wb") as file:
        file.write(pickle.dumps(traces))


def _trace(view: View, docs: Sequence[Pair]) -> Trace:
    alone: list[Emitted] = [_forked(partial(_emissions_of, view, pair)) for pair in docs]
    after: list[Emitted] = _forked(partial(_in_a_row, view, docs))
    out = Trace(alone, after, _forked(partial(_rows, view, docs)))
    place = next((n for n in range(len(docs)) if _bag(alone[n]) != _bag(after[n])), None)
    if place is None:
        return out
    if _bag(_forked(partial(_emissions_of, view, docs[place]))) != _bag(alone[place]):
        out.unsteady.add(place)
        return out
    for number, other in enumerate(docs):
        then: list[Emitted] = _forked(partial(_in_a_row, view, [other, docs[place]]))
        if number != place and _bag(then[-1]) != _bag(alone[place]):
            out.cause[place] = number
            break
    return out


def _in_a_row(view: View, docs: Sequence[Pair]) -> list[Emitted]:
    return [_emissions_of(view, pair) for pair in docs]


def _forked(ask: Callable[[], Any]) -> Any:
    """Return the answer of `ask` in a fork, whose memory ends with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(writing, "wb") as file:
                file.write(pickle.dumps(ask()))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


# -- in both


def _emissions_of(view: View, pair: Pair) -> Emitted:
    try:
        return list(emission(view, *pair))
    except Exception as error:
        return type(error).__name__


def _rows(view: View, docs: Sequence[Pair]) -> list[tuple[Any, Any]]:
    """Return the rows of a view with a reducer of the user. Return none for other views: only their maps can differ."""
    if all(user_of(reducer) is None for reducer in view.reducers):
        return []
    return [(row.group, row.refused.partition(":")[0] or row.result) for row in recomputed(view, docs).rows.values()]


def _bag(emitted: Emitted) -> Any:
    """Return a value that is equal for equal emissions, in any order."""
    return emitted if isinstance(emitted, str) else Counter((Same(group), Same(value)) for group, value in emitted)


# -- what they show


def _breach(view: View, docs: Sequence[Pair], trace: Trace) -> Breach | None:
    for place, pair in enumerate(docs):
        alone, after = trace.alone[place], trace.after[place]
        if place in trace.unsteady:
            return Breach(view.name, Law.PROCESS, _differing(after, alone), (pair,))
        if _bag(alone) != _bag(after):
            cause = trace.cause.get(place)
            which, others = (f"{place} others", docs[:place]) if cause is None else ("another", [docs[cause]])
            subject = "it keeps something from one document to the next"
            reason = f"{subject}: it yields {_emissions_text(alone)}, and after {which} {_emissions_text(after)}"
            return Breach(view.name, Law.HIDDEN, reason, (*others, pair))
    for place, pair in enumerate(docs):
        own, alone = _emissions_of(view, pair), trace.alone[place]
        if _bag(alone) != _bag(own):
            return Breach(view.name, Law.PROCESS, _differing(own, alone), (pair,))
    for (group, result), (_, other) in zip(_rows(view, docs), trace.rows, strict=False):
        if identity(result) != identity(other):
            reason = f"for group {group!r} its reducer gives {result!r}, and in another process {other!r}"
            return Breach(view.name, Law.PROCESS, reason, _in_group(view, docs, group))
    return None


def _differing(first: Emitted, second: Emitted) -> str:
    return f"for one document it yields {_emissions_text(first)}, and in another process {_emissions_text(second)}"


def _in_group(view: View, docs: Sequence[Pair], group: Any) -> tuple[Pair, ...]:
    """Return the smallest document of a group."""
    for pair in docs:
        emitted = _emissions_of(view, pair)
        if not isinstance(emitted, str) and any(identity(own) == identity(group) for own, _ in emitted):
            return (pair,)
    return ()


def _emissions_text(emitted: Emitted) -> str:
    if isinstance(emitted, str):
        return f"nothing but {emitted}"
    return repr([group if value is None else (group, value) for group, value in emitted])
