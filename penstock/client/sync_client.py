"""The client of a server for threads, with the names of an engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import grpc

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

__all__ = ["ClientReader", "ClientSession", "ServiceClient"]

T = TypeVar("T")


class ServiceClient:
    """A store behind `penstock serve`, at the address of its gRPC port.

    A call that fails for the moment is repeated for `patience` seconds, if it is a read or a numbered write of a
    session. So is a write that the server refused before it changed anything. No other write is repeated, so nothing
    counts twice.

    client = ps.Client("127.0.0.1:7180", token="…")
    client.put_many("users", [{"id": 7, "name": "Sue"}])
    client.view("namecount")["Sue"]
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
        self._channel = self._options.channel(grpc)
        self._stub = service_stub(self._channel)

    def __repr__(self) -> str:
        return f"<client of {self._options.target}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection.

        client.close()
        """
        self._channel.close()

    def put(self, table: str, doc: Any, *, conditions: Mapping[Any, Any] | None = None) -> Counts:
        """Put one document, a dict or a JSON object; durable when this returns.

        client.put("users", {"id": 7, "name": "Sue"}, conditions={7: ps.ABSENT})
        """
        return self.run(put_steps(table, [doc], False, conditions))

    def put_many(
        self,
        table: str,
        docs: Any,
        strict: bool = False,
        *,
        conditions: Mapping[Any, Any] | None = None,
        dry_run: bool = False,
    ) -> Counts:
        """Put many documents, in requests of at most 1 MiB, each a transaction per partition.

        client.put_many("users", open("users.jsonl", "rb"))
        """
        return self.run(put_steps(table, docs, strict, conditions, dry_run))

    def delete(self, table: str, key: Any, ts: Any = None, *, conditions: Mapping[Any, Any] | None = None) -> Counts:
        """Delete the document with this key.

        client.delete("users", 7, ts=2)
        """
        return self.run(delete_steps(table, [key], ts, conditions))

    def session(self, name: str) -> ClientSession:
        """Return a session: its writes are numbered, and repeated until their outcome is known.

        client.session("importer").put_many("users", documents)
        """
        return ClientSession(self, name)

    def view(self, name: str) -> ClientReader:
        """Return the rows of a view.

        client.view("namecount").get("Sue")
        """
        return ClientReader(self, name)

    def table(self, name: str) -> ClientReader:
        """Return the documents of a table.

        client.table("users")[7]
        """
        return ClientReader(self, name)

    def changes(
        self, *views: str, since: Position = None, follow: bool = False, initial: bool = False
    ) -> Iterator[Change]:
        """Iterate over the changes of these views, or of all, after a position, as `engine.changes` does.

        for change in client.changes("namecount", since=position, follow=True):
            print(change.group, change.old, change.new)
        """
        request = ChangesRequest(views, since, follow, initial)
        self.run(changes_steps(request))
        times = RetryTimes(self._options.patience)
        while not request.done:
            call = self._stub["Watch"](request.message(), metadata=self._options.metadata)
            error = request.end
            try:
                for message in call:
                    times = RetryTimes(self._options.patience)
                    yield from request.changes_of(message)
                    if request.done:
                        return
            except grpc.RpcError as failed:
                error = request.failed(service_error(failed))
            finally:
                call.cancel()
            time.sleep(times.pause(request.step, error))

    def run(self, steps: Steps[T]) -> T:
        """Run the steps of a call; for the rooms of this package."""
        reply = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                out: T = end.value
                return out
            reply = self._call(step)

    def pages(self, pages: ScanPages) -> Iterator[Row]:
        """Yield the rows of a scan; for the rooms of this package."""
        times = RetryTimes(self._options.patience)
        while not pages.done:
            try:
                for page in self._stub["Scan"](pages.message(), metadata=self._options.metadata):
                    times = RetryTimes(self._options.patience)
                    yield from pages.rows_of(page)
                pages.done = True
            except grpc.RpcError as error:
                time.sleep(times.pause(pages.step, service_error(error)))

    def _call(self, step: CallStep) -> Any:
        times = RetryTimes(self._options.patience)
        while True:
            try:
                return self._stub[step.name](
                    step.request, timeout=self._options.timeout, metadata=self._options.metadata
                )
            except grpc.RpcError as error:
                time.sleep(times.pause(step, service_error(error)))


class ClientReader:
    """The rows of one view, or the documents of one table, as the server has them at each call."""

    def __init__(self, client: ServiceClient, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name!r} of a client>"

    def __getitem__(self, key: Any) -> Any:
        return self.row(key).value

    def __contains__(self, key: Any) -> bool:
        return self._rows([key])[0] is not None

    def __iter__(self) -> Iterator[Row]:
        return self.items()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the result of a group, or the document of a key."""
        return self.get_many([key], default)[0]

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """Return the results or documents of several keys, in their order."""
        return [default if row is None else row.value for row in self._rows(keys)]

    def row(self, key: Any) -> Row:
        """Return the row of a key, which tells if it is held. Raise KeyError if there is none."""
        [found] = self._rows([key])
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
    ) -> Iterator[Row]:
        """Yield rows in group order, all of one position. A table has no order."""
        limits = {"prefix": prefix, "start": start, "stop": stop}
        return self._client.pages(ScanPages(self.name, limits, reverse, limit, None))

    def rollup(self, level: int = 1, *, prefix: Any = ABSENT, reverse: bool = False) -> Iterator[Row]:
        """Yield results by the first `level` parts of tuple groups."""
        return self._client.pages(ScanPages(self.name, {"prefix": prefix}, reverse, None, level))

    def _rows(self, keys: Iterable[Any]) -> list[Row | None]:
        return self._client.run(get_steps(self.name, keys))


class ClientSession:
    """The numbered writes of one program. Threads take turns."""

    def __init__(self, client: ServiceClient, name: str) -> None:
        self._client = client
        self._numbers = SessionNumbers(name)
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._numbers.name

    def upto(self, table: str) -> int:
        """Return the last number that is stored; `table` is one that the program may write to."""
        with self._turn:
            return self._client.run(session_steps(self._numbers, table))

    def put(self, table: str, doc: Any, *, number: int | None = None) -> Counts:
        """Put one document. Without `number` it is the next one."""
        return self.put_many(table, [doc], number=number)

    def put_many(self, table: str, docs: Any, strict: bool = False, *, number: int | None = None) -> Counts:
        """Put many documents; `number` is that of the first one."""
        with self._turn:
            return self._client.run(put_steps(table, docs, strict, numbers=self._numbers, number=number))

    def delete(self, table: str, key: Any, ts: Any = None) -> Counts:
        """Delete the document with this key."""
        with self._turn:
            return self._client.run(delete_steps(table, [key], ts, None, self._numbers))
