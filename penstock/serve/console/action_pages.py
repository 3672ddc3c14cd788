"""Actions of the console: a page that shows the effect, then an operation with progress, then its result.

The first page changes nothing. Its form has the value of the session, and the address of the operation can be shared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.cache import DefinitionError
from penstock.serve.access.access_tokens import AccessToken
from penstock.serve.console.page_parameters import wants_json
from penstock.serve.console.page_rendering import PageRendering, shown_text
from penstock.serve.console.store_numbers import StoreNumbers
from penstock.serve.http.gate import FORM_VALUE, TEMPLATE, TOKEN
from penstock.serve.http.parameters import read_body
from penstock.serve.http.responses import RequestRefused
from penstock.serve.http.route_permissions import check_allowed
from penstock.serve.operations.operation_kinds import KINDS, OperationKind
from penstock.serve.operations.operation_record import OperationRecord
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.views import View, json_text, json_value

__all__ = ["ActionPages"]

_LISTED = 50  # entries of an action's page
_LINES = 200  # of the audit log
_TAIL = 256 << 10  # bytes of the audit log that are read
_FLAGS = ("fix", "dry_run")
Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Action:
    """The texts of an action. `typed` names the argument whose value must be typed again, as nothing undoes it."""

    title: str
    button: str
    effect: str
    typed: bool = False


_ACTIONS = {
    "Check": _Action(
        "Check the store",
        "Check",
        "It reads the whole store, and compares all views with the remembered contributions. It changes nothing.",
    ),
    "Restate": _Action(
        "Restate",
        "Restate",
        "It computes the groups from the remembered contributions. A correct group is not written.",
    ),
    "Retry": _Action("Retry", "Retry", "It puts each entry again. An entry that fails again stays, with its reason."),
    "Drop": _Action(
        "Drop",
        "Drop",
        "It deletes rejected records. A view stops to count a held document until its next version. Nothing undoes it.",
        typed=True,
    ),
    "Snapshot": _Action(
        "Copy the store", "Copy", "It copies the store into a folder beside it, and reads the copy back."
    ),
    "Migrate": _Action(
        "Compare the app's file",
        "Compare",
        "It shows the views that the file defines in another way, with sample rows. It changes nothing.",
    ),
}

_FIXED = "It reads the whole store, and restates each group that differs from the remembered contributions."


class ActionPages:
    """The pages of actions and operations of one front."""

    def __init__(self, facts: StoreNumbers, runner: OperationRunner, rendering: PageRendering) -> None:
        self._facts = facts
        self._runner = runner
        self._rendering = rendering

    async def get(self, request: Request) -> Response:
        """Show the effect of an action."""
        kind, action = self._kind(request)
        given = _given(request.query_params.multi_items())
        data = await self._facts.store.read(lambda: self._effect(kind, action, given))
        twin = request.url.path.endswith(".json") or _is_twin(request)
        return self._rendering.response(request, "action.html", data, twin=twin)

    async def post(self, request: Request) -> Response:
        """Start the operation, and lead to its page."""
        kind, action = self._kind(request)
        form = parse_qs((await read_body(request)).decode("utf-8", "replace"), keep_blank_values=True)
        if form.pop("form_value", [""]) != [request.scope.get(FORM_VALUE)]:
            raise RequestRefused(403, "other origin", "the form is of another session; open the page again")
        typed = form.pop("typed", [""])[0]
        given = _given((name, value) for name, values in form.items() for value in values)
        if action.typed and typed.strip() != _name_to_type(given):
            raise RequestRefused(400, "not confirmed", f"type {_name_to_type(given)} to confirm; nothing was done")
        token: AccessToken = request.scope[TOKEN]
        record = await self._facts.store.read(lambda: self._runner.start(kind, given, token.name))
        return RedirectResponse(f"/operations/{record.id}", 303)

    async def operations(self, request: Request) -> Response:
        """List all operations."""
        records = await self._facts.store.read(self._runner.folder.listed)
        data = {"operations": [record.data() for record in records]}
        return self._rendering.response(request, "operations.html", data, twin=_is_twin(request))

    async def operation(self, request: Request) -> Response:
        """Show one operation: its progress, or its result."""
        number, _, suffix = request.path_params["number"].partition(".")
        record = await self._facts.store.read(lambda: self._runner.folder.find(number))
        if record is None:
            text = f"there is no operation {number}; those of the last 24 hours are kept"
            raise RequestRefused(404, "no operation", text)
        return self._rendering.response(
            request, "operation.html", _shown(record), twin=suffix == "json" or _is_twin(request)
        )

    async def cancel(self, request: Request) -> Response:
        """Ask an operation to end at its next step."""
        form = parse_qs((await read_body(request)).decode("utf-8", "replace"))
        if form.get("form_value") != [request.scope.get(FORM_VALUE)]:
            raise RequestRefused(403, "other origin", "the form is of another session; open the page again")
        number, token = request.path_params["number"], request.scope[TOKEN]
        await self._facts.store.read(lambda: self._runner.cancel(number, token.name))
        return RedirectResponse(f"/operations/{number}", 303)

    async def audit(self, request: Request) -> Response:
        """Show the last lines of the audit log."""
        lines = await self._facts.store.read(lambda: _last_lines(self._runner.audit.path))
        return self._rendering.response(request, "audit.html", {"lines": lines}, twin=_is_twin(request))

    def _kind(self, request: Request) -> tuple[OperationKind, _Action]:
        name = request.path_params["kind"].removesuffix(".json")
        if name not in _ACTIONS:
            raise RequestRefused(404, "no action", f"there is no action {name}; there are: {', '.join(_ACTIONS)}")
        kind = KINDS[name]
        try:
            check_allowed(request, kind.permission, self._facts.store.app)
        except RequestRefused as error:
            self._runner.refused(name, request.scope[TOKEN].name, str(error))
            raise
        return kind, _ACTIONS[name]

    def _effect(self, kind: OperationKind, action: _Action, given: Given) -> dict[str, Any]:
        """Return the data of the first page. An error of the arguments is raised here already."""
        kind.asked(given).check(self._runner.store)
        found: Mapping[str, Callable[[Given], list[dict[str, Any]]]] = {
            "Retry": self._entries,
            "Drop": self._entries,
            "Restate": self._group,
        }
        rows = found[kind.name](given) if kind.name in found else []
        fields = [(name, text) for name, value in given.items() for text in _texts(value)]
        return {
            "kind": kind.name,
            "title": action.title,
            "effect": _FIXED if given.get("fix") else action.effect,
            "button": f"{action.button} {len(rows)}" if kind.name in ("Retry", "Drop") and rows else action.button,
            "fields": [list(field) for field in fields],
            "rows": rows[:_LISTED],
            "total": len(rows),
            "typed": _name_to_type(given) if action.typed else None,
            "arguments": {name: shown_text(value) for name, value in given.items()},
        }

    def _entries(self, given: Given) -> list[dict[str, Any]]:
        kind, table, view, limit = (given.get(name) for name in ("kind", "table", "view", "limit"))
        found = self._facts.store.reader.quarantine(kind, table, view, limit, ids=given.get("ids"))
        return [{"name": own.id, "of": own.view or own.table, "text": own.reason} for own in found]

    def _group(self, given: Given) -> list[dict[str, Any]]:
        definition = self._facts.store.app.lookup(given["name"])
        if "group" not in given or not isinstance(definition, View):
            return []
        with self._facts.store.snapshot() as snap:
            shown = snap.view(definition.name).get(_hashable(given["group"]), None)
        return [{"name": shown_text(given["group"]), "of": definition.name, "text": f"now {json_text(shown)}"}]


def _is_twin(request: Request) -> bool:
    return request.scope[TEMPLATE].endswith(".json") or wants_json(request)


def _given(pairs: Any) -> Given:
    """Return the arguments of a form; empty fields are left out."""
    out: Given = {}
    for name, value in pairs:
        if not value or name == "token":
            continue
        if name == "ids":
            out.setdefault("ids", []).append(value)
        elif name in _FLAGS:
            out[name] = value == "1"
        elif name == "group":
            out[name] = _value(value)
        elif name == "limit":
            out[name] = int(value) if value.isdecimal() and len(value) < 10 else value
        else:
            out[name] = value
    return out


def _value(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError:
        return text


def _texts(value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(own, str) for own in value):
        return value
    return ["1" if value is True else "0" if value is False else value if isinstance(value, str) else json_text(value)]


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _name_to_type(given: Given) -> str:
    """Return the name to type: the view or table of a selection, else its first entry."""
    found = given.get("view") or given.get("table") or given.get("kind") or next(iter(given.get("ids", ())), None)
    if found is None:
        raise DefinitionError("Drop needs a selection; choose entries, a kind, a table or a view")
    return str(found)


def _shown(record: OperationRecord) -> dict[str, Any]:
    """Return a record for its page, with the parts of the result apart: facts, repaired groups, lists."""
    data = record.data()
    result = data.get("result")
    result = result if isinstance(result, dict) else {} if result is None else {"result": result}
    plain = {name: own for name, own in result.items() if not isinstance(own, dict | list)}
    return {
        **{name: data.get(name) for name in ("id", "kind", "by", "state", "done", "total", "began", "ended", "error")},
        "result": data.get("result"),
        "running": not record.state.ended,
        "facts": plain,
        "groups": result.get("wrong") or result.get("repaired") or [],
        "reasons": result.get("reasons") or [],
        "more": {n: own for n, own in result.items() if isinstance(own, dict | list) and own and n not in _APART},
    }


_APART = ("wrong", "repaired", "reasons")


def _last_lines(path: str) -> list[dict[str, Any]]:
    """Return the last lines of a log, the last one first."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    whole = lines if size <= _TAIL else lines[1:]
    return [json.loads(line) for line in reversed(whole[-_LINES:])]
