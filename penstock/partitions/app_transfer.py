"""An app in the form that other processes receive, with the module paths of this process.

A worker of Spark or of a partition imports the modules of an app's functions, from these paths. A module that workers
can't import travels by value. Invariant: a worker reads an app once, however many tasks it gets.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from penstock.recovery import user_of
from penstock.views import App, FunctionMap

__all__ = ["AppTransfer", "importable", "transferred"]

_READ: dict[bytes, App] = {}
_MOST = 4  # apps that a worker remembers


@dataclass(frozen=True, slots=True)
class AppTransfer:
    """An app as bytes, and the paths of its modules."""

    data: bytes
    paths: tuple[str, ...]

    def app(self) -> App:
        """Return the app, in a worker."""
        found = _READ.get(self.data)
        if found is None:
            sys.path.extend(path for path in self.paths if path not in sys.path)
            found = pickle.loads(self.data)
            assert isinstance(found, App), "an app was sent"
            if len(_READ) >= _MOST:
                _READ.clear()
            _READ[self.data] = found
        return found


def transferred(app: App) -> AppTransfer:
    """Return an app in the form that workers receive."""
    cloud: Any = importlib.import_module("cloudpickle")
    foreign = [module for module in _modules(app) if not importable(module)]
    for module in foreign:
        cloud.register_pickle_by_value(module)
    try:
        data: bytes = cloud.dumps(app)
    finally:
        for module in foreign:
            cloud.unregister_pickle_by_value(module)
    return AppTransfer(data, tuple(os.path.abspath(path) for path in sys.path))


def _modules(app: App) -> list[ModuleType]:
    """Return the modules that define the functions and classes of an app."""
    names: dict[str, None] = {}
    for view in app.views():
        own = [view.map.function] if isinstance(view.map, FunctionMap) else []
        own += [user for reducer in view.reducers if (user := user_of(reducer)) is not None]
        for part in own:
            names[getattr(part, "__module__", None) or type(part).__module__] = None
            names[type(part).__module__] = None
    return [sys.modules[name] for name in names if name in sys.modules and name != "__main__"]


def importable(module: ModuleType) -> bool:
    """Return True if another process would find this very module by its name."""
    if module.__name__.partition(".")[0] == "penstock":
        return True
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError, AttributeError):
        return False
    file = getattr(module, "__file__", None)
    return spec is not None and (file is None or spec.origin == file) and not module.__name__.startswith("__penstock")
