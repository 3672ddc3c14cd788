"""The client of a server for asyncio: the calls of the client for threads, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self, TypeVar

import grpc
from grpc import aio

from penstock.cache import key_error
from penstock.client.call_steps import (
    CallStep,
    ChangesRequest,
    ScanPages,
    SessionNumbers,
    Steps,
    changes_steps,
    delete_steps,
    get_steps,
    put_steps,
    session_steps,
)
from penstock.client.client_options import ClientOptions, ClientTls, RetryTimes
from penstock.client.service_error import service_error
from penstock.rpc import service_stub
from penstock.views import ABSENT, Change, Counts, Position, Row

__all__ = ["AsyncClient", "AsyncReader", "AsyncSession"]

T = TypeVar("T")


class AsyncClient:
    """A store behind `penstock serve`, for asyncio. Its calls and options are those of `Client`.

    async with ps.AsyncClient("127.0.0.1:7180", token="…") as client:
        await client.put_many("users", [{"id": 7, "name": "Sue"}])
        print(await client.view("namecount").get("Sue"))
    """

    def __init__(
        self,
        target: str,
        token: str = "",
        *,
        tls: ClientTls | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
    ) -> None:
        self._options = ClientOptions(target, token, tls, timeout, patience)
        self._channel = self._options.channel(aio)
        self._stub = service_stub(self._channel)

    def __repr__(self) -> str:
        return f"<client of {self._options.target}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def put(self, table: str, doc: Any, *, conditions: Mapping[Any, Any] | None = None) -> Counts:
        """Put one document, a dict or a JSON object."""
        return await self.run(put_steps(table, [doc], False, conditions))

    async def put_many(
        self,
        table: str,
        docs: Any,
        strict: bool = False,
        *,
        conditions: Mapping[Any, Any] | None = None,
        dry_run: bool = False,
    ) -> Counts:
        """Put many documents, in requests of at most 1 MiB."""
        return await self.run(put_steps(table, docs, strict, conditions, dry_run))

    async def delete(
        self, table: str, key: Any, ts: Any = None, *, conditions: Mapping[Any, Any] | None = None
    ) -> Counts:
        """Delete the document with this key."""
        return await self.run(delete_steps(table, [key], ts, conditions))

    def session(self, name: str) -> AsyncSession:
        """Return a session: its writes are numbered, and repeated until their outcome is known."""
        return AsyncSession(self, name)

    def view(self, name: str) -> AsyncReader:
        """Return the rows of a view."""
        return AsyncReader(self, name)

    def table(self, name: str) -> AsyncReader:
        """Return the documents of a table."""
        return AsyncReader(self, name)

    async def changes(
        self, *views: str, since: Position = None, follow: bool = False, initial: bool = False
    ) -> AsyncIterator[Change]:
        """Iterate over the changes of these views, or of all, after a position."""
        request = ChangesRequest(views, since, follow, initial)
        await self.run(changes_steps(request))
        times = RetryTimes(self._options.patience)
        while not request.done:
            call = self._stub["Watch"](request.message(), metadata=self._options.metadata)
            error = request.end
            try:
                async for message in call:
                    times = RetryTimes(self._options.patience)
                    for change in request.changes_of(message):
                        yield change
                    if request.done:
                        return
            except grpc.RpcError as failed:
                error = request.failed(service_error(failed))
            finally:
                call.cancel()
            await asyncio.sleep(times.pause(request.step, error))

    async def run(self, steps: Steps[T]) -> T:
        """Run the steps of a call; for the rooms of this package."""
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                out: T = end.value
                return out
            reply = await self._call(step)

    async def pages(self, pages: ScanPages) -> AsyncIterator[Row]:
        """Yield the rows of a scan; for the rooms of this package."""
        times = RetryTimes(self._options.patience)
        while not pages.done:
            try:
                async for page in self._stub["Scan"](pages.message(), metadata=self._options.metadata):
                    times = RetryTimes(self._options.patience)
                    for row in pages.rows_of(page):
                        yield row
                pages.done = True
            except grpc.RpcError as failed:
                await asyncio.sleep(times.pause(pages.step, service_error(failed)))

    async def _call(self, step: CallStep) -> Any:
        times = RetryTimes(self._options.patience)
        while True:
            try:
                return await self._stub[step.name](
                    step.request, timeout=self._options.timeout, metadata=self._options.metadata
                )
            except grpc.RpcError as failed:
                await asyncio.sleep(times.pause(step, service_error(failed)))


class AsyncReader:
    """The rows of one view, or the documents of one table, as the server has them at each call."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.name = name

    def __aiter__(self) -> AsyncIterator[Row]:
        return self.items()

    async def get(self, key: Any, default: Any = None) -> Any:
        """Return the result of a group, or the document of a key."""
        return (await self.get_many([key], default))[0]

    async def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the results or documents of several keys, in their order."""
        found = await self._client.run(get_steps(self.name, keys))
        return [default if row is None else row.value for row in found]

    async def row(self, key: Any) -> Row:
        """Return the row of a key. Raise KeyError if there is none."""
        [found] = await self._client.run(get_steps(self.name, [key]))
        if found is None:
            raise key_error(key)
        return found

    def items(
        self,
        *,
        prefix: Any = ABSENT,
        start: Any = ABSENT,
        stop: Any = ABSENT,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Row]:
        """Yield rows in group order, all of one position. A table has no order."""
        limits = {"prefix": prefix, "start": start, "stop": stop}
        return self._client.pages(ScanPages(self.name, limits, reverse, limit, None))

    def rollup(self, level: int = 1, *, prefix: Any = ABSENT, reverse: bool = False) -> AsyncIterator[Row]:
        """Yield results by the first `level` parts of tuple groups."""
        return self._client.pages(ScanPages(self.name, {"prefix": prefix}, reverse, None, level))


class AsyncSession:
    """The numbered writes of one program. Tasks take turns."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self._numbers = SessionNumbers(name)
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._numbers.name

    async def upto(self, table: str) -> int:
        """Return the last number that is stored; `table` is one that the program may write to."""
        async with self._turn:
            return await self._client.run(session_steps(self._numbers, table))

    async def put(self, table: str, doc: Any, *, number: int | None = None) -> Counts:
        """Put one document. Without `number` it is the next one."""
        return await self.put_many(table, [doc], number=number)

    async def put_many(self, table: str, docs: Any, strict: bool = False, *, number: int | None = None) -> Counts:
        """Put many documents; `number` is that of the first one."""
        async with self._turn:
            return await self._client.run(put_steps(table, docs, strict, numbers=self._numbers, number=number))

    async def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        async with self._turn:
            return await self._client.run(delete_steps(table, [key], ts, None, self._numbers))
