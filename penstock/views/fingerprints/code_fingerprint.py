"""Compute the fingerprint of a view's code: its map, its user-defined reducers, and the app code that they use.

The fingerprint maps each part to a digest, so a difference can be named. Parts are functions and classes
(`code_syntax`), and plain values of closures, defaults, instances and globals that the code reads. Python's library and
installed packages are not followed, except for the package of the view's own code. Invariants:

- the same code and values give the same fingerprint, in every process and on every version of Python;
- no user code is called and nothing is changed, except that modules are imported that the code imports when it runs;
- a value that is not plain counts only by its class, since it may change while the app runs.
"""

from __future__ import annotations

import dataclasses
import json
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import blake2b
from importlib import import_module
from inspect import unwrap
from operator import attrgetter, itemgetter, methodcaller
from os import path
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import msgspec

from penstock.views.definitions import View
from penstock.views.fingerprints.code_syntax import Dotted, SourceFiles, Tree, imports_in, names_in
from penstock.views.view_maps import FunctionMap, PlainMap

__all__ = ["fingerprint", "fingerprint_of"]

Parts = dict[str, str]
_SCALARS: tuple[type, ...] = (
    *(type(None), bool, int, float, complex, str, bytes),
    *(Decimal, Fraction, datetime, date, time, timedelta, UUID, range, slice),
)
_SHOWN: dict[type, Callable[[Any], str]] = {kind: vars(kind)["__repr__"] for kind in _SCALARS}
_WRITTEN = 10_000  # bits of the largest int that Python writes out
_GETTERS = (itemgetter, attrgetter, methodcaller)
_PLACES = tuple(
    path.realpath(folder) + path.sep
    for folder in (
        path.dirname(path.dirname(path.dirname(__file__))),  # this package: its code is no code of an app
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
_ABSENT = object()
_DELETE = b"\x7f"
_ascii = json.JSONEncoder(separators=(",", ":")).encode


def fingerprint(view: View) -> Parts:
    """Return the parts of a view's code with their digests. A field view with built-in reducers has none."""
    roots: list[tuple[str, Any]] = []
    if isinstance(view.map, FunctionMap) and not isinstance(view.map.function, PlainMap):
        roots.append(("its map", view.map.function))
    for i, reducer in enumerate(view.reducers):
        code = getattr(reducer, "code", None)  # only of `Coded` reducers, for which a check of the protocol is slow
        if code is not None:
            name = "its reducer" if view.fields is None else f"its reducer {view.fields[i]!r}"
            roots.append((name, code))
    return fingerprint_of(roots) if roots else {}


def fingerprint_of(roots: list[tuple[str, Any]]) -> Parts:
    """Return the parts of these pieces of code, each a function or an object with methods."""
    walk = _CodeWalk([_module(unwrap(code) if callable(code) else code) for _, code in roots])
    for name, code in roots:
        walk.root(name, code)
    return dict(sorted(walk.parts.items()))


class _CodeWalk:
    """Collect the code and values that are reachable from some roots."""

    def __init__(self, homes: list[str]) -> None:
        self.parts: Parts = {}
        self._home = homes[0] if homes else ""
        self._packages = {_top(home) for home in homes} - sys.stdlib_module_names
        self._sources = SourceFiles()
        self._names: dict[str, tuple[Any, ...]] = {}  # the object that each part describes
        self._known: dict[int, tuple[str, Any]] = {}  # parts by object identity; they keep the objects alive
        self._inside: list[int] = []  # objects that are being described

    def root(self, name: str, code: Any) -> None:
        """Add one piece of a view's code, under any name and from any module."""
        if isinstance(code, FunctionType) and self._owns(code):
            self._known[id(code)] = name, code
            self._put(name, self._function(name, code))
        else:
            self._put(name, self._value(code, name, True, mine=True))

    # -- parts

    def _put(self, name: str, tree: Tree) -> None:
        self.parts[name] = blake2b(_compact(tree), digest_size=8).hexdigest()

    def _unique(self, name: str, module: str, *what: Any) -> str:
        """Return a part name that no other object has."""
        name, same = name if module == self._home else f"{_stem(module)}.{name}", 1
        while self._names.setdefault(own := name if same == 1 else f"{name} ({same})", what) != what:
            same += 1
        return own

    def _function(self, name: str, function: FunctionType) -> Tree:
        """Describe a function: its code, and the values of its closure, its defaults and its global names."""
        code = function.__code__
        found: list[Any] = []
        for variable, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if variable != "__class__":
                found.append([variable, self._named(f"{variable} of {name}", _held_by(cell), True)])
        for i, value in enumerate(function.__defaults__ or (), 1):
            found.append([i, self._named(f"default {i} of {name}", value, True)])
        for variable, value in (function.__kwdefaults__ or {}).items():
            found.append([variable, self._named(f"default {variable} of {name}", value, True)])
        names: list[Any] = [self._read(function, dotted) for dotted in names_in(code)]
        names += [self._imported(function, *imported) for imported in imports_in(code)]
        return ["function", self._sources.code_of(function), found, names]

    def _class(self, name: str, own: type) -> Tree:
        """Describe a class: its bases, its methods, and its plain attributes."""
        out: list[Any] = ["class", [self._value(base, name, False) for base in own.__bases__ if base is not object]]
        for attribute, value in sorted(vars(own).items()):
            inner = [value.fget, value.fset] if isinstance(value, property) else [getattr(value, "__func__", value)]
            functions = [part for part in inner if isinstance(part, FunctionType)]
            if functions:
                parts = [self._method(f"{name}.{attribute}", part, own) for part in functions]
                out += [[attribute, type(value).__name__, part] for part in parts if part]
            elif not (attribute.startswith("_") and attribute.endswith("_")):
                out.append([attribute, self._value(value, name, False)])
        if dataclasses.is_dataclass(own):
            for field in dataclasses.fields(own):
                out.append([field.name, self._value(_default(field), name, True)])
        return out

    def _method(self, name: str, function: FunctionType, own: type) -> Tree:
        """Describe a method of a class.

        A method that a decorator (such as `dataclass`) derived from other parts adds nothing.
        """
        home = _file(own.__module__)
        if home is None or _real(function.__code__.co_filename) == _real(home):
            return self._function(name, function)
        made = function.__code__.co_filename.startswith("<") or not self._owns(function)
        return [] if made else self._code(function, False)

    # -- names

    def _read(self, function: FunctionType, dotted: Dotted) -> Tree:
        """Describe the value that a function reads by a global name."""
        value = function.__globals__.get(dotted[0], _ABSENT)
        if value is _ABSENT:
            return ["built in", *dotted]
        return self._reached(value, dotted, _module(function), function.__globals__)

    def _reached(self, value: Any, dotted: Dotted, module: str, names: dict[str, Any]) -> Tree:
        """Describe the value of a dotted name: through modules of the app, and one step into an object."""
        read = len(dotted)
        for i, name in enumerate(dotted[1:], 1):
            if isinstance(value, ModuleType):
                if not self._owns(value):
                    return ["library", _top(value.__name__), *dotted[i:]]
                value = getattr(value, name, _ABSENT)
            elif not isinstance(value, type) and self._owns(type(value)) and name in getattr(value, "__dict__", ()):
                value = vars(value)[name]
            else:
                read = i
                break
        name = ".".join(dotted[:read])
        tree = self._value(value, name, False)
        if tree[0] == "plain":
            name = self._unique(name, module, id(names), dotted[:read])
            self._put(name, tree)
            tree = ["named", name]
        return [tree, *dotted[read:]]

    def _imported(self, function: FunctionType, level: int, module: str, names: Dotted) -> Tree:
        """Describe an import inside a function.

        For a whole module, describe the attributes that the function may read.
        """
        relative = "." * level + module
        try:
            found = import_module(relative, function.__globals__.get("__package__") or None)
        except Exception:  # the function fails when it runs
            return ["no module", relative, *names]
        if not self._owns(found):
            return ["library", _top(found.__name__), *names]
        wanted = names or [name for name in function.__code__.co_names if hasattr(found, name)]
        own = vars(found)
        return ["import", relative, *(self._reached(own.get(n, _ABSENT), (n,), found.__name__, own) for n in wanted)]

    def _named(self, name: str, value: Any, whole: bool) -> Tree:
        """Describe a value that code reads by a name.

        A plain value is its own part, so a change of it has that name.
        """
        tree = self._value(value, name, whole)
        if tree[0] == "plain":
            self._put(name, tree)
            return ["named", name]
        return tree

    # -- values

    def _value(self, value: Any, name: str, whole: bool, mine: bool = False) -> Tree:
        """Describe a value. `whole` includes an instance's attributes, `mine` includes its class from any module."""
        if isinstance(value, Enum):
            return ["plain", type(value).__name__, value.name, self._value(value.value, name, whole)]
        own = _SHOWN.get(type(value))
        for kind, format_value in _SHOWN.items() if own is None else ((type(value), own),):
            if isinstance(value, kind):
                if isinstance(value, int) and value.bit_length() > _WRITTEN:  # Python refuses to write it out
                    return ["plain", type(value).__name__, hex(value)]
                return ["plain", type(value).__name__, _text(format_value(value))]
        if isinstance(value, re.Pattern):
            return ["plain", "pattern", self._value(value.pattern, name, whole), str(value.flags)]
        if isinstance(value, list | tuple | set | frozenset | Mapping):
            return self._container(value, name, whole)
        return ["absent"] if value is _ABSENT else self._object(value, name, whole, mine)

    def _container(self, value: Any, name: str, whole: bool) -> Tree:
        if id(value) in self._inside:
            return ["itself"]
        self._inside.append(id(value))
        try:
            pairs = value.items() if isinstance(value, Mapping) else [(item,) for item in value]
            items = [[self._value(part, name, whole) for part in pair] for pair in pairs]
        finally:
            self._inside.pop()
        if isinstance(value, set | frozenset):
            items.sort(key=json.dumps)
        return ["plain", type(value).__name__, *items]

    def _object(self, value: Any, name: str, whole: bool, mine: bool) -> Tree:
        """Describe a value that is not plain: code, or an instance."""
        if isinstance(value, View) and isinstance(value.map, FunctionMap):  # a map that another map calls
            return self._value(value.map.function, name, whole)
        if isinstance(value, FunctionType | type):
            return self._code(value, mine)
        if isinstance(value, ModuleType):
            return ["module", _top(value.__name__)]
        inner = getattr(value, "__wrapped__", None)
        if inner is not None:  # a cache around a function
            return ["wrapped", type(value).__name__, self._value(inner, name, whole, mine)]
        if isinstance(value, MethodType | BuiltinMethodType):
            bound = ["nothing"] if isinstance(value.__self__, ModuleType) else self._value(value.__self__, name, whole)
            return ["method", value.__qualname__, bound]
        if isinstance(value, partial):
            given = [self._value(part, name, True) for part in (value.args, value.keywords)]
            return ["partial", self._value(value.func, name, whole, mine), *given]
        if isinstance(value, _GETTERS):
            return ["getter", type(value).__name__, self._value(value.__reduce__()[1], name, True)]
        return self._instance(value, name, whole, mine)

    def _instance(self, value: Any, name: str, whole: bool, mine: bool) -> Tree:
        out: list[Any] = ["object", self._code(type(value), mine)]
        followed = (whole or _is_frozen(value)) and (mine or self._owns(type(value)))
        if followed and id(value) not in self._inside:
            self._inside.append(id(value))
            for attribute, item in sorted(_attributes(value).items()):
                out.append([attribute, self._named(f"{attribute} of {name}", item, True)])
            self._inside.pop()
        elif isinstance(called := getattr(value, "__qualname__", None), str):
            out.append(called)
        return out

    def _code(self, code: FunctionType | type, mine: bool) -> Tree:
        """Describe a function or a class: as a part if it is followed, otherwise by its name."""
        if not (mine or self._owns(code)):
            cells = code.__closure__ or () if isinstance(code, FunctionType) else ()
            inner = [cell for cell in map(_held_by, cells) if isinstance(cell, FunctionType)]
            return ["library", _top(_module(code)), code.__qualname__, *(self._code(part, False) for part in inner)]
        known = self._known.get(id(code))
        if known is not None:
            return ["part", known[0]]
        called = code.__qualname__.replace("<locals>.", "").replace("<lambda>", "lambda")
        called = f"{called}()" if isinstance(code, FunctionType) else called
        name = self._unique(called, _module(code), id(code))
        self._known[id(code)] = name, code
        self._put(name, self._function(name, code) if isinstance(code, FunctionType) else self._class(name, code))
        return ["part", name]

    def _owns(self, code: FunctionType | type | ModuleType) -> bool:
        """Return whether this function, class or module belongs to the app's own code."""
        module = code.__name__ if isinstance(code, ModuleType) else _module(code)
        if _top(module) in self._packages:
            return True
        file = code.__code__.co_filename if isinstance(code, FunctionType) else _file(module)
        if file is None or file.startswith("<"):  # built in, frozen, or of an interactive session
            return module == "__main__" or not (_top(module) in sys.stdlib_module_names or isinstance(code, ModuleType))
        return not _real(file).startswith(_PLACES)


def _module(code: Any) -> str:
    """Return the module of code. For a function it is the module whose globals the function uses."""
    if isinstance(code, FunctionType):
        return str(code.__globals__.get("__name__"))
    return str(getattr(code, "__module__", None) or type(code).__module__)


def _compact(tree: Tree) -> bytes:
    """Encode a tree as JSON in printable ASCII. msgspec writes it as `json` does, and faster."""
    try:
        out = msgspec.json.encode(tree)
    except UnicodeEncodeError:  # half a pair of surrogates
        out = _DELETE
    return out if out.isascii() and _DELETE not in out else _ascii(tree).encode()


def _file(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


@lru_cache(maxsize=1024)
def _real(file: str) -> str:
    """Return the path of a file without links. The result is cached."""
    return path.realpath(file)


def _stem(module: str) -> str:
    """Return the name of a module by its file, because a script imports itself as `__main__`."""
    file = _file(module)
    stem = path.splitext(path.basename(file))[0] if file else module
    return module.rpartition(".")[2] if stem == "__init__" else stem


def _top(module: str) -> str:
    """Return the top package of a module, without the underscore of modules written in C."""
    return module.partition(".")[0].lstrip("_")


def _text(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _held_by(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not set yet
        return _ABSENT


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return _ABSENT if field.default_factory is dataclasses.MISSING else field.default_factory


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an instance."""
    out = dict(getattr(value, "__dict__", {}))
    for own in type(value).__mro__:
        slots = vars(own).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot not in ("__dict__", "__weakref__") and (found := getattr(value, slot, _ABSENT)) is not _ABSENT:
                out[slot] = found
    return out


def _is_frozen(value: Any) -> bool:
    """Return whether the class of an instance declares it immutable."""
    made = getattr(type(value), "__dataclass_params__", None) or getattr(type(value), "__struct_config__", None)
    return bool(getattr(made, "frozen", False))
