"""Describe the code of a function as plain data that stays the same as long as the code means the same.

The data is the syntax tree without positions, comments, docstrings, decorators and the function's name. So neither
reformatting nor another version of Python changes it. Without a source (an interactive session, `exec`), or after the
file was edited since its import, the data is the bytecode without line numbers. That depends on the version of Python.
Invariant: source is used only if its compiled code equals the function's code.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Dotted", "Imported", "SourceFiles", "Tree", "imports_in", "names_in"]

Tree = list[Any] | str  # texts, and lists of trees
Dotted = tuple[str, ...]
Imported = tuple[int, str, Dotted]  # level, module, names of `from level module import names`
_DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (*_DEFINITION, ast.ClassDef)
_NO_MEANING = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_PASSED_OVER = frozenset({"PUSH_NULL", "CACHE", "EXTENDED_ARG"})
_LAMBDA = "<lambda>"


class SourceFiles:
    """Source files of functions. Each file is read once, and results for equal text are cached."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def code_of(self, function: FunctionType) -> Tree:
        """Describe the code of a function."""
        code = function.__code__
        return _code_of(code, self._text(code.co_filename, function.__globals__))

    def _text(self, name: str, names: dict[str, Any]) -> str:
        if name not in self._texts:
            linecache.checkcache(name)
            self._texts[name] = "".join(linecache.getlines(name, names))
        return self._texts[name]


@lru_cache(maxsize=1024)
def _code_of(code: CodeType, text: str) -> Tree:
    node = _node(code, text)
    if node is None:
        return ["bytecode", _signature(code), _rendered(code)]
    if isinstance(node, ast.Lambda):
        return ["source", _parameters(node.args), _tree([ast.Return(node.body)])]
    return [type(node).__name__, _parameters(node.args), _tree(_body(node))]


def _node(code: CodeType, text: str) -> ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | None:
    file = _file(code.co_filename, text)
    if file is None or not any(_is_same(code, other) for other in _inside(file[1])):
        return None
    if code.co_name == _LAMBDA:
        return _lambda_of(file[0], code)
    for node in ast.walk(file[0]):
        if isinstance(node, _DEFINITION) and node.name == code.co_name:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == code.co_firstlineno:
                return node
    return None


@lru_cache(maxsize=64)
def _file(name: str, text: str) -> tuple[ast.Module, CodeType] | None:
    try:
        return (ast.parse(text), compile(text, name, "exec", dont_inherit=True)) if text else None
    except (SyntaxError, ValueError):
        return None


# -- what code reads


@lru_cache(maxsize=1024)
def names_in(code: CodeType) -> tuple[Dotted, ...]:
    """Return the global names that code reads, with their dotted attributes."""
    found: set[Dotted] = set()
    for own in _inside(code):
        dotted: list[str] = []
        for step in dis.get_instructions(own):
            if dotted and step.opname in _ATTRIBUTE:
                dotted.append(str(step.argval))
            elif step.opname not in _PASSED_OVER:
                if dotted:
                    found.add(tuple(dotted))
                dotted = [str(step.argval)] if step.opname in _GLOBAL else []
    return tuple(sorted(found))


@lru_cache(maxsize=1024)
def imports_in(code: CodeType) -> tuple[Imported, ...]:
    """Return the imports that code makes when it runs."""
    found: set[Imported] = set()
    for own in _inside(code):
        before: list[Any] = [0, None]
        for step in dis.get_instructions(own):
            if step.opname == "IMPORT_NAME":
                level, names = before
                found.add((level, str(step.argval), tuple(names or ())))
            before = [before[1], step.argval]
    return tuple(sorted(found))


def _inside(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all code objects nested in it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _inside(part)


# -- trees


def _parameters(args: ast.arguments) -> Tree:
    """Describe the parameters of a function without their defaults, whose values are read from the function."""
    return _tree(ast.arguments(args.posonlyargs, args.args, args.vararg, args.kwonlyargs, [], args.kwarg, []))


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.stmt]:
    """Return the statements without the docstring."""
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str
    )
    return (node.body[1:] or [ast.Pass()]) if documented else node.body


def _tree(node: Any) -> Tree:
    """Convert a syntax tree to lists. Empty and meaningless fields are left out, so that versions of Python agree."""
    if isinstance(node, list):
        return [_tree(part) for part in node]
    if not isinstance(node, ast.AST):
        return ascii(node)
    out: list[Any] = [type(node).__name__]
    for name, part in ast.iter_fields(node):
        if name == "body" and isinstance(node, _DOCUMENTED):
            part = _body(node)
        elif name == "values" and isinstance(node, ast.JoinedStr):
            part = _pieces(part)
        if name not in _NO_MEANING and part is not None and part != []:
            out.append([name, _constant(part) if isinstance(node, ast.Constant) else _tree(part)])
    if isinstance(node, ast.Constant) and node.value is None:
        out.append("None")
    return out


def _constant(value: Any) -> Tree:
    return [type(value).__name__, ascii(value)]


def _pieces(parts: list[ast.expr]) -> list[ast.expr]:
    """Return the pieces of a formatted text, without empty texts, and with adjacent texts joined."""
    out: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant):
            if out and isinstance(out[-1], ast.Constant):
                out[-1] = ast.Constant(str(out[-1].value) + str(part.value))
            elif part.value:
                out.append(part)
        else:
            out.append(part)
    return out


def _lambda_of(tree: ast.Module, code: CodeType) -> ast.Lambda | None:
    """Find the lambda of a code object: the innermost one whose body contains all positions in the code."""
    steps = [place for place in code.co_positions() if None not in place]
    spans = [(a, c, b, d) for a, b, c, d in steps if a is not None and (c or d)]
    found = [
        (_size(body), node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
        for body in [node.body]
        if spans and all(_holds(body, span) for span in spans)
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _holds(body: ast.expr, span: tuple[Any, Any, Any, Any]) -> bool:
    first, column, last, end = span
    begins = (body.lineno, body.col_offset) <= (first, column)
    return begins and (last, end) <= (body.end_lineno or 0, body.end_col_offset or 0)


def _size(body: ast.expr) -> tuple[int, int]:
    return (body.end_lineno or 0) - body.lineno, (body.end_col_offset or 0) - body.col_offset


# -- bytecode


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Return whether code from a file equals the code that runs."""
    if (code.co_name, code.co_firstlineno) != (other.co_name, other.co_firstlineno):
        return False
    return _signature(code) == _signature(other) and _rendered(code) == _rendered(other)


def _signature(code: CodeType) -> Tree:
    arguments = code.co_argcount + code.co_kwonlyargcount
    taken = code.co_varnames[: arguments + 2]
    counts = (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount, code.co_flags & 0x2AC)
    return ascii((counts, taken))


def _rendered(code: CodeType) -> Tree:
    """Return the instructions of code, with argument values instead of their indexes."""
    return [[step.opname, _argument(step.argval)] for step in dis.get_instructions(code)]


def _argument(value: Any) -> Tree:
    if isinstance(value, CodeType):
        return [value.co_name, _signature(value), _rendered(value)]
    if isinstance(value, frozenset):  # its order differs between processes
        return ["frozenset", *sorted(ascii(item) for item in value)]
    if isinstance(value, tuple):
        return ["tuple", *(_argument(item) for item in value)]
    return [type(value).__name__, ascii(value)]
