"""The Control service: each method for each role, the operations as HTTP has them, its limits and its refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import penstock as ps
from penstock.rpc import penstock_pb2 as pb
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, TokenFile, digest_of
from penstock.serve.access.listen_address import ListenAddress
from penstock.serve.grpc.call_rate import CallRate
from penstock.serve.grpc.control_plane import ControlPlane
from penstock.serve.grpc.placement import PlacementReader
from penstock.serve.operations.operation_kinds import KINDS
from penstock.serve.store.rate_limit import RateLimit
from tests.serve.asgi import TOKEN, AsgiServer, lines, shop
from tests.serve.grpc.rpc_server import refused
from tests.serve.http.test_operations import BAD, DOCUMENTS, SteppedAccess, audit
from tests.serve.http.test_operations import run as run_http
from tests.waiting import PATIENCE

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]
OPERATORS, ADMIN = {Role.OPERATE, Role.ADMIN}, {Role.ADMIN}
METHODS = {
    "AddPartition": ADMIN,
    "RmPart": ADMIN,
    "ListPart": OPERATORS,
    "Move": ADMIN,
    "Snapshot": OPERATORS,
    "Restore": ADMIN,
    "Check": OPERATORS,
    "Restate": OPERATORS,
    "Retry": OPERATORS,
    "Drop": ADMIN,
    "Migrate": ADMIN,
    "Compact": ADMIN,
    "Pause": ADMIN,
    "Resume": ADMIN,
    "GetOperation": OPERATORS,
    "WaitOperation": OPERATORS,
    "Cancel": ADMIN,
}


class Control:
    """A control plane beside the HTTP application of one store, with a channel to it."""

    def __init__(self, http: AsgiServer, tokens: TokenBook, rate: CallRate) -> None:
        self.http = http
        address, placement = ListenAddress("127.0.0.1", 0), PlacementReader("data", "http", "control")
        self.plane = ControlPlane(http.store, http.operations, tokens, address, placement, rate=rate)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.plane.port}")

    def call(self, name: str, request: Any = None, secret: str = TOKEN) -> Any:
        """Call a method; the answer, or the list of answers."""
        method = SERVICE.methods_by_name[name]
        asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        make = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        made: Any = make(f"/{SERVICE.full_name}/{name}", asked.SerializeToString, answered.FromString)
        metadata = [("authorization", f"Bearer {secret}")]
        got = made(asked() if request is None else request, metadata=metadata, timeout=PATIENCE)
        return list(got) if method.server_streaming else got

    def code(self, name: str, request: Any = None, secret: str = TOKEN) -> tuple[str, str]:
        """Return the status and the reason of a call that is refused."""
        with pytest.raises(grpc.RpcError) as error:
            self.call(name, request, secret)
        return refused(error.value)[:2]

    def status(self, name: str, secret: str) -> str:
        """Return the status of a call."""
        try:
            self.call(name, secret=secret)
        except grpc.RpcError as error:
            code: Any = error
            return str(code.code().name)
        return "OK"

    def run(self, name: str, request: Any = None) -> Any:
        """Start an operation, and follow it to its end."""
        begun = self.call(name, request)
        assert (begun.kind, begun.by) == (name, "test")
        last = self.call("WaitOperation", pb.OperationId(id=begun.id))[-1]
        assert last == self.call("GetOperation", pb.OperationId(id=begun.id))
        return last

    def close(self) -> None:
        """End both sides."""
        self.channel.close()
        self.plane.stop(1)


def control_of(http: AsgiServer, file: TokenFile | None = None, rate: CallRate | None = None) -> Control:
    book = TokenBook(AccessToken("test", Role.ADMIN, digest_of(TOKEN)), file)
    return Control(http, book, rate or CallRate(RateLimit(10_000), "calls"))


@pytest.fixture
def control() -> Iterator[Control]:
    app = shop()
    with AsgiServer(ps.open(app, None, partitions=2), app) as http:
        http.ask("POST", "/v1/tables/orders", lines(*DOCUMENTS, *BAD))
        own = control_of(http)
        yield own
        own.close()


def test_each_role_at_each_method(tmp_path: Path) -> None:
    file = TokenFile(str(tmp_path / "tokens"))
    secrets = {role: file.add(role.value, role, None, None) for role in Role}
    assert METHODS.keys() == {own.name for own in SERVICE.methods}, "each method has a row"
    assert KINDS.keys() - METHODS.keys() == {"Repost"}
    app = shop()
    with AsgiServer(ps.open(app, None), app) as http:
        own = control_of(http, file)
        for name, allowed in METHODS.items():
            for role, secret in secrets.items():
                status = own.status(name, secret)
                assert (status != "PERMISSION_DENIED") is (role in allowed), (name, role, status)
                assert status not in ("UNAUTHENTICATED", "UNKNOWN", "INTERNAL"), (name, role, status)
        assert own.code("Check", secret="wrong")[0] == "UNAUTHENTICATED"
        for role, secret in secrets.items():
            stub = reflection_pb2_grpc.ServerReflectionStub(own.channel)
            asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
            answers = stub.ServerReflectionInfo(asked, metadata=[("authorization", f"Bearer {secret}")])
            if role in OPERATORS:
                assert SERVICE.full_name in str(list(answers))
            else:
                with pytest.raises(grpc.RpcError):
                    list(answers)
        assert {"read", "write"} <= {line["by"] for line in audit(http) if line["outcome"] == "refused"}
        own.close()


def test_operations_are_those_of_http(control: Control) -> None:
    checked = control.run("Check")
    assert (checked.state, checked.done, checked.error) == (pb.Operation.DONE, checked.total, "")
    assert checked.began.seconds <= checked.ended.seconds
    assert json.loads(checked.result) == run_http(control.http, "/v1/check")["result"]
    found = control.http.ask("GET", f"/v1/operations/{checked.id}").json
    assert (found["result"], found["state"]) == (json.loads(checked.result), "done")
    assert json.loads(control.run("Restate", pb.RestateRequest(name="revenue", group=b'"NO"')).result)["total"] == 0
    retried = control.run("Retry", pb.RetryRequest(entries=pb.Selection(kind="record", limit=5)))
    assert json.loads(retried.result)["left"] == 1
    [entry] = control.http.ask("GET", "/v1/quarantine?kind=record").json["entries"]
    dropped = control.run("Drop", pb.DropRequest(entries=pb.Selection(ids=[entry["id"]])))
    assert json.loads(dropped.result)["dropped"] == 1
    assert control.run("Snapshot", pb.SnapshotRequest(path="x")).state == pb.Operation.FAILED  # it is in memory


def test_partitions_are_listed(control: Control) -> None:
    placement = control.call("ListPart")
    ranges = [own.range for own in placement.partitions]
    assert ranges == ["0000000000000000-8000000000000000", "8000000000000000-10000000000000000"]
    assert placement.servers[0].control == "control"


@pytest.mark.parametrize(
    ("name", "request_", "code"),
    [
        ("Move", pb.MoveRequest(partition=1, server="2"), "UNIMPLEMENTED"),
        ("AddPartition", pb.AddPartitionRequest(range="3/8"), "UNIMPLEMENTED"),
        ("AddPartition", pb.AddPartitionRequest(), "FAILED_PRECONDITION"),
        ("RmPart", pb.RmPartRequest(range="0-8"), "UNIMPLEMENTED"),
        ("Snapshot", pb.SnapshotRequest(partition=1), "UNIMPLEMENTED"),
        ("Snapshot", pb.SnapshotRequest(path="../x"), "INVALID_ARGUMENT"),
        ("Restore", pb.RestoreRequest(path="none"), "INVALID_ARGUMENT"),
        ("Retry", pb.RetryRequest(entries=pb.Selection(computation="c")), "UNIMPLEMENTED"),
        ("Drop", pb.DropRequest(), "INVALID_ARGUMENT"),
        ("Restate", pb.RestateRequest(name="revnue"), "NOT_FOUND"),
        ("Restate", pb.RestateRequest(name="revenue", group=b"NO"), "INVALID_ARGUMENT"),
        ("Migrate", pb.MigrateRequest(), "FAILED_PRECONDITION"),
        ("GetOperation", pb.OperationId(id="99"), "NOT_FOUND"),
        ("WaitOperation", pb.OperationId(id="99"), "NOT_FOUND"),
        ("Cancel", pb.OperationId(id="../1"), "NOT_FOUND"),
    ],
)
def test_wrong_requests(control: Control, name: str, request_: Any, code: str) -> None:
    assert control.code(name, request_)[0] == code


def test_one_of_a_kind_and_its_cancellation() -> None:
    app = shop()
    engine = ps.open(app, None)
    access = SteppedAccess(engine)
    with AsgiServer(engine, app, access) as http:
        own = control_of(http)
        begun = own.call("Compact")
        assert access.reached.wait(PATIENCE)
        assert own.code("Compact") == ("FAILED_PRECONDITION", "REFUSED")
        own.call("Cancel", pb.OperationId(id=begun.id))
        states = [one.state for one in own.call("WaitOperation", pb.OperationId(id=begun.id))]
        assert states[-1] == pb.Operation.CANCELLED
        assert [line["outcome"] for line in audit(http)] == ["refused", "asked", "cancelled"]
        own.close()


def test_calls_beyond_the_rate_are_told_when_to_come_again() -> None:
    app = shop()
    with AsgiServer(ps.open(app, None), app) as http:
        own = control_of(http, rate=CallRate(RateLimit(5, lambda: 0.0), "calls"))
        for _ in range(5):
            own.call("ListPart")
        with pytest.raises(grpc.RpcError) as error:
            own.call("ListPart")
        assert refused(error.value)[0::3] == ("RESOURCE_EXHAUSTED", True)
        own.close()
