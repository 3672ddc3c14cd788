"""Load the `ps.App` of a command from a Python file. The file is imported as in a program of its own.

The folder of the file is on `sys.path`, so the app can import its neighbours. Output during the import goes to standard
error, because standard output belongs to the command. The traceback of an error shows only lines of the user's code.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
import traceback
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from types import ModuleType

from penstock.cli.context import FAILED, WRONG
from penstock.cli.exit_errors import ExitError
from penstock.views import App, nearest

_ELSEWHERE = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        os.path.dirname(os.path.dirname(__file__)),
        sysconfig.get_path("stdlib"),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)


def load(spec: str) -> App:
    """Return the app that FILE or FILE:NAME names."""
    path, name = _split(spec)
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "does not exist"
        raise ExitError(f"the app file {path} {what}; `penstock init` writes one, --app FILE names another", WRONG)
    return _pick(_imported(path), path, name)


def _split(spec: str) -> tuple[str, str | None]:
    path, colon, name = spec.rpartition(":")
    if os.path.exists(spec) or not colon or not name.isidentifier():
        return spec, None
    return path, name


def _imported(path: str) -> ModuleType:
    path = os.path.abspath(path)
    folder, file = os.path.split(path)
    stem = file.removesuffix(".py")
    taken = not stem.isidentifier() or stem in sys.modules or stem in sys.stdlib_module_names
    name = "__penstock_app__" if taken else stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loader = SourceFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with redirect_stdout(sys.stderr):
            loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, if the app exits
        del sys.modules[name]
        raise ExitError(f"{file} can't be imported; fix that and run this again", FAILED, trimmed(error)) from None
    return module


def _pick(module: ModuleType, path: str, name: str | None) -> App:
    found = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if name is not None:
        if name in found:
            return found[name]
        if name in vars(module):
            raise ExitError(f"{name} in {path} is no ps.App; write --app {path}:NAME with the name of one", WRONG)
        near = nearest(name, found)
        hint = f"did you mean {path}:{near}?" if near else "write --app FILE:NAME with a name that it has"
        raise ExitError(f"{path} has nothing named {name!r}; {hint}", WRONG)
    apps = list(dict.fromkeys(found.values()))
    if not apps:
        raise ExitError(f"{path} has no ps.App; write app = ps.App('name') at its top level", WRONG)
    if len(apps) > 1:
        named = ", ".join(found)
        raise ExitError(f"{path} has several apps ({named}); choose one with --app {path}:{next(iter(found))}", WRONG)
    return apps[0]


def trimmed(error: BaseException) -> str:
    """Return the traceback of an error without the lines of this package, of Python and of installed packages."""
    trace = traceback.TracebackException.from_exception(error)
    _trim(trace, set())
    return "".join(trace.format())


def _trim(trace: traceback.TracebackException, seen: set[int]) -> None:
    seen.add(id(trace))
    trace.stack = traceback.StackSummary.from_list([frame for frame in trace.stack if _is_users(frame.filename)])
    for inner in (trace.__cause__, trace.__context__):
        if inner is not None and id(inner) not in seen:
            _trim(inner, seen)


def _is_users(file: str) -> bool:
    return not file.startswith("<") and not os.path.realpath(file).startswith(_ELSEWHERE)
