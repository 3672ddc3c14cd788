"""The HTTP application without sockets: requests go through the gate and the routes to an engine in memory."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

import penstock as ps
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, digest_of
from penstock.serve.console.console import Console, routes_of_console
from penstock.serve.http.gate import Gate
from penstock.serve.http.routes import HttpService, routes_of_api
from penstock.serve.metrics.scrape import metrics_application
from penstock.serve.operations.audit_log import AuditLog
from penstock.serve.operations.controlled_store import ControlledStore
from penstock.serve.operations.operation_folder import OperationFolder
from penstock.serve.operations.operation_runner import OperationRunner
from penstock.serve.store.call_meters import CallMeters
from penstock.serve.store.store_access import LocalAccess, StoreAccess
from penstock.serve.store.store_reading import StoreReading
from tests.serve.serving import Answer

A = TypeVar("A")
TOKEN = "t0k"


def shop() -> ps.App:
    """Return the app of the tests."""
    app = ps.App("shop")
    orders = app.table("orders", key="id", ts="ts")
    orders.view("revenue", key="country", reduce={"n": ps.count(), "total": ps.sum("amount")})
    orders.view("by_day", key=("country", "day"), reduce=ps.count())
    return app


class AsgiServer:
    """An application over a store in memory."""

    def __init__(
        self,
        engine: ps.Engine,
        app: ps.App,
        access: StoreAccess | None = None,
        tokens: TokenBook | None = None,
        **gate: Any,
    ) -> None:
        self._tokens = tokens or TokenBook(AccessToken("test", Role.ADMIN, digest_of(TOKEN)))
        self.engine = engine
        self._app = app
        self._access = access or LocalAccess(engine)
        self._settings = {"hosts": ["localhost"], **gate}

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self.calls = CallMeters([*routes_of_api(), *routes_of_console()], 1)
        self.store = StoreReading(self._app, self._access, self.calls.front(0))
        self._folder = tempfile.TemporaryDirectory()
        place = os.path.join(self._folder.name, "state")
        controlled = ControlledStore(self._app, self._access, self.engine.store.state.path, f"{place}.snapshots")
        folder = OperationFolder.of_store(place)
        self.operations = OperationRunner(controlled, folder, AuditLog.of_store(place))
        self.service = HttpService(self.store, self.operations)
        self.console = Console(self.store, self.service.watch, self.operations)
        settings = {"meter": self.store.meter, "answer": self.console.refusal, **self._settings}
        self.gate = Gate(self.service.application(self.console.routes, self.console.error), self._tokens, **settings)
        self.metrics = Gate(metrics_application(self.store, self.calls), self._tokens, [])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.close()
        self._runner.close()
        self.operations.close()
        self.store.close()
        self._folder.cleanup()

    def run(self, work: Awaitable[A]) -> A:
        """Run a coroutine on the loop of the server."""

        async def done() -> A:
            return await work

        return self._runner.run(done())

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send one request."""
        return self.run(self.asked(method, path, [body], **headers))

    async def asked(self, method: str, path: str, parts: Iterable[bytes], **headers: str) -> Answer:
        """Send one request whose body comes in parts."""
        sent = [message async for message in self.messages(method, path, parts, **headers)]
        head = sent[0]
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(head["status"], {k.decode(): v.decode() for k, v in head["headers"]}, body)

    async def messages(
        self, method: str, path: str, parts: Iterable[bytes] = (b"",), **headers: str
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the messages of a response. The client disconnects when the iteration ends."""
        given = {"host": "localhost:1", "authorization": f"Bearer {TOKEN}"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        given = {name: value for name, value in given.items() if value is not None}
        where = urlsplit(path)
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(where.path),
            "raw_path": where.path.encode(),
            "query_string": where.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("localhost", 1),
            "client": ("localhost", 2),
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        body = list(parts)
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not body:
                await gone.wait()
                return {"type": "http.disconnect"}
            part = body.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(body)}

        async def send(message: Any) -> None:
            await sent.put(dict(message))

        gate = self.metrics if where.path == "/metrics" else self.gate
        task = asyncio.ensure_future(gate(scope, receive, send))
        try:
            while True:
                message = await sent.get()
                yield message
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    return
        finally:
            gone.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until a condition holds."""
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def lines(*documents: Any) -> bytes:
    """Return documents as JSON lines."""
    return b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in documents)
