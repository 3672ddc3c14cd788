"""TLS of a real server: certificates of clients, their roles, and rotation under load."""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.cache import PenstockError
from penstock.cli.program import group
from penstock.serve import ListenAddress, ServerSettings, TlsFiles
from penstock.serve.access.access_tokens import Role, TokenFile
from penstock.serve.tls.tls_files import TlsContext
from tests.serve.serving import RunningServer
from tests.serve.tls.certificates import Authority, Pair
from tests.waiting import PATIENCE

LOCAL = "DNS:localhost,IP:127.0.0.1"


class World:
    """A server with TLS, and clients with certificates."""

    def __init__(self, folder: Path) -> None:
        (folder / "pem").mkdir()
        self.authority = Authority(folder / "pem", "ca")
        self.other = Authority(folder / "pem", "other")
        self.own = self.authority.issue("server", LOCAL)
        self.next = self.authority.issue("next", LOCAL)
        self.clients = {
            "reader": self.authority.issue("reader", "URI:spiffe://shop/reader"),
            "operator": self.authority.issue("operator", "DNS:elsewhere.shop,DNS:operator.shop"),
            "stranger": self.authority.issue("stranger", "DNS:stranger.shop"),
            "expired": self.authority.issue("expired", "URI:spiffe://shop/reader", days=-1),
            "forged": self.other.issue("forged", "URI:spiffe://shop/reader"),
            "admin": self.other.issue("admin", "DNS:operator.shop"),
        }
        tokens = TokenFile.of_store(str(folder / "penstock-state"))
        tokens.add_certificate("reader", "spiffe://shop/reader", Role.READ, None, None)
        tokens.add_certificate("operator", "operator.shop", Role.OPERATE, None, None)
        self.control = self.authority.issue("control", LOCAL)
        pem = ["--tls-cert", str(self.own.certificate), "--tls-key", str(self.own.key)]
        pem += ["--control-tls-cert", str(self.control.certificate), "--control-tls-key", str(self.control.key)]
        pem += ["--control-client-ca", str(self.other.path)]
        self.server = RunningServer(folder, *pem, "--client-ca", str(self.authority.path))

    def ask(self, client: str | None, method: str, path: str, **headers: str) -> int:
        """Send a request without a token on a connection of its own. Return the status."""
        own = None if client is None else self.clients[client]
        self.server.tls = self.authority.context(own)
        connection = self.server.connection()
        try:
            connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    assert shutil.which("openssl"), "the tests of TLS need the command openssl"
    own = World(tmp_path_factory.mktemp("tls"))
    with own.server:
        yield own


@pytest.mark.parametrize(
    ("client", "method", "path", "status"),
    [
        ("reader", "GET", "/v1/status", 200),
        ("reader", "POST", "/v1/check", 403),
        ("operator", "GET", "/v1/status", 200),
        ("operator", "POST", "/v1/check", 202),
        ("operator", "POST", "/v1/compact", 403),
        ("stranger", "GET", "/v1/status", 401),
        ("stranger", "GET", "/healthz", 200),
    ],
)
def test_the_name_in_a_certificate_has_a_role(world: World, client: str, method: str, path: str, status: int) -> None:
    assert world.ask(client, method, path) == status


def test_a_token_goes_before_the_certificate(world: World) -> None:
    bearer = f"Bearer {world.server.token}"
    assert world.ask("reader", "POST", "/v1/compact", authorization=bearer) == 202
    assert world.ask("operator", "GET", "/v1/status", authorization="Bearer wrong") == 401


@pytest.mark.parametrize("client", [None, "expired", "forged"])
def test_a_client_without_a_valid_certificate_gets_no_connection(world: World, client: str | None) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        world.ask(client, "GET", "/healthz")


def test_plain_http_gets_no_answer(world: World) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", world.server.port, timeout=PATIENCE)
    connection.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        connection.getresponse()
    connection.close()


def channel(world: World, client: str, port: int = 0) -> grpc.Channel:
    own = world.clients[client]
    credentials = grpc.ssl_channel_credentials(
        world.authority.path.read_bytes(), own.key.read_bytes(), own.certificate.read_bytes()
    )
    return grpc.secure_channel(f"localhost:{port or world.server.rpc_port}", credentials)


def healthy(world: World, client: str) -> bool:
    with channel(world, client) as own:
        asked = health_pb2.HealthCheckRequest()
        answer: Any = health_pb2_grpc.HealthStub(own).Check(asked, timeout=PATIENCE)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_grpc_has_the_same_certificates(world: World) -> None:
    assert healthy(world, "stranger")
    with pytest.raises(grpc.RpcError):
        healthy(world, "forged")
    for client, code in (("reader", grpc.StatusCode.OK), ("stranger", grpc.StatusCode.UNAUTHENTICATED)):
        with channel(world, client) as own:
            reflected = own.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
            answers = reflected(iter([b"\x3a\x01*"]), timeout=PATIENCE)  # list_services: "*"
            with suppress(grpc.RpcError):
                list(answers)
            assert answers.code() is code, client


@pytest.mark.parametrize(
    ("client", "codes"),
    [
        ("admin", {grpc.StatusCode.OK}),
        ("forged", {grpc.StatusCode.PERMISSION_DENIED}),  # it has a certificate of this authority, and the role read
        ("operator", {grpc.StatusCode.UNAVAILABLE}),  # no certificate of this authority: no connection
    ],
)
def test_the_control_plane_has_certificates_of_its_own(world: World, client: str, codes: set[grpc.StatusCode]) -> None:
    with channel(world, client, world.server.control_port) as own:
        listed = own.unary_unary("/penstock.v1.Control/ListPart")
        try:
            answer, call = listed.with_call(b"", timeout=PATIENCE)
            assert b"127.0.0.1" in answer
        except grpc.RpcError as error:
            call: Any = error
        assert call.code() in codes, call


def serials(world: World) -> list[str]:
    """Return the serial numbers of the certificates that handshakes show: of HTTP, metrics and gRPC."""
    out: list[str] = []
    for port in (world.server.port, world.server.metrics_port, world.server.rpc_port):
        context = world.authority.context(world.clients["reader"])
        context.set_alpn_protocols(["h2", "http/1.1"])
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        with context.wrap_socket(plain, server_hostname="localhost") as own:
            certificate: Any = own.getpeercert()
            out.append(certificate["serialNumber"])
    return out


class Load(threading.Thread):
    """Requests on one connection that stays, and on others; `answered` grows."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.answered = 0
        self.failures: list[str] = []
        self._grown = threading.Condition()
        self.stop = threading.Event()

    def run(self) -> None:
        """Send requests until the stop; each must be answered."""
        context = self._world.authority.context(self._world.clients["reader"])
        port = self._world.server.port
        kept = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
        kept.connect()
        own = kept.sock
        while not self.stop.is_set():
            try:
                kept.request("GET", "/v1/status")
                kept.getresponse().read()
                assert kept.sock is own, "the connection was dropped"
                fresh = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
                fresh.request("GET", "/healthz")
                assert fresh.getresponse().status == 200
                fresh.close()
            except (OSError, AssertionError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                return
            with self._grown:
                self.answered += 1
                self._grown.notify_all()
        kept.close()

    def more(self, answers: int) -> None:
        """Wait for so many further answers."""
        with self._grown:
            enough = self.answered + answers
            assert self._grown.wait_for(lambda: self.answered >= enough or self.failures, PATIENCE)
            assert not self.failures, self.failures


def test_certificates_are_read_again_under_load(world: World) -> None:
    before = serials(world)
    assert len(set(before)) == 1
    load = Load(world)
    load.start()
    try:
        load.more(3)
        world.own.certificate.write_text("broken")
        world.server.process.send_signal(signal.SIGHUP)
        load.more(3)
        assert serials(world) == before
        world.own.replace(world.next)
        world.server.process.send_signal(signal.SIGHUP)
        for _ in range(int(PATIENCE / 0.01)):
            load.more(1)
            if set(before).isdisjoint(serials(world)):
                break
        else:
            raise AssertionError("the certificate stayed")
        load.more(3)
    finally:
        load.stop.set()
        load.join()
    assert not load.failures, load.failures
    assert "stay as they were" in world.server.errors
    assert healthy(world, "reader")


def test_a_pair_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    one, two = authority.issue("one", LOCAL), authority.issue("two", LOCAL)
    for pair, client_ca, text in (
        (Pair(one.certificate, two.key), None, "no certificate with its key"),
        (Pair(tmp_path / "none", one.key), None, "can't be read"),
        (one, str(one.key), "no certificates of an authority"),
    ):
        with pytest.raises(PenstockError, match=text):
            TlsContext(TlsFiles(str(pair.certificate), str(pair.key), client_ca))


def test_another_address_needs_tls() -> None:
    address = ListenAddress("0.0.0.0", 0)
    with pytest.raises(PenstockError, match="--tls-cert"):
        ServerSettings("state", address)
    assert ServerSettings("state", address, tls=TlsFiles("a", "b")).http == address


def test_a_certificate_without_its_key_is_a_mistake() -> None:
    done = CliRunner().invoke(group, ["serve", "--tls-cert", "x.pem"])
    assert (done.exit_code, "--tls-key" in done.output) == (2, True), done.output
    done = CliRunner().invoke(group, ["serve", "--san", "board.shop"])
    assert (done.exit_code, "token add" in done.output) == (2, True), done.output


def test_the_command_gives_a_role_to_a_name(tmp_path: Path) -> None:
    store = str(tmp_path / "state")
    words = ["serve", "token", "add", "board", "--role", "read", "--san", "spiffe://shop/board", "--store", store]
    assert CliRunner().invoke(group, words).exit_code == 0
    listed = CliRunner().invoke(group, ["serve", "token", "list", "--store", store]).output
    assert listed == "board  read  all tables, san:spiffe://shop/board\n"
    wrong = CliRunner().invoke(group, [*words[:3], "other", "--role", "read", "--san", "two words", "--store", store])
    assert (wrong.exit_code, "two words" in wrong.output) == (2, True), wrong.output
