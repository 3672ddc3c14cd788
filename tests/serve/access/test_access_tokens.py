"""Access tokens: the file, its changes beside a running server, and each role at each route."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock as ps
from penstock.cache import DefinitionError, PenstockError
from penstock.cli.program import group
from penstock.serve.access.access_tokens import AccessToken, Role, TokenBook, TokenFile, digest_of
from tests.serve.asgi import AsgiServer, lines, shop

RUN = AccessToken("run", Role.ADMIN, digest_of("r"))
READERS = {Role.READ, Role.WRITE, Role.OPERATE, Role.ADMIN}
OPERATORS = {Role.OPERATE, Role.ADMIN}
ROUTES = {
    ("GET", "/v1/status"): READERS,
    ("GET", "/v1/tables/{name}"): READERS,
    ("POST", "/v1/tables/{name}"): {Role.WRITE, Role.ADMIN},
    ("DELETE", "/v1/tables/{name}"): {Role.WRITE, Role.ADMIN},
    ("GET", "/v1/views/{name}"): READERS,
    ("GET", "/v1/views/{name}/rows"): READERS,
    ("GET", "/v1/views/{name}/why"): READERS,
    ("GET", "/v1/events"): READERS,
    ("GET", "/v1/quarantine"): READERS,
    ("POST", "/v1/check"): OPERATORS,
    ("POST", "/v1/restate"): OPERATORS,
    ("POST", "/v1/repost"): {Role.ADMIN},
    ("POST", "/v1/quarantine/retry"): OPERATORS,
    ("POST", "/v1/quarantine/drop"): {Role.ADMIN},
    ("POST", "/v1/snapshot"): OPERATORS,
    ("POST", "/v1/migrate"): {Role.ADMIN},
    ("POST", "/v1/compact"): {Role.ADMIN},
    ("POST", "/v1/pause"): {Role.ADMIN},
    ("POST", "/v1/partitions/add"): {Role.ADMIN},
    ("POST", "/v1/partitions/remove"): {Role.ADMIN},
    ("POST", "/v1/restore"): {Role.ADMIN},
    ("POST", "/v1/resume"): {Role.ADMIN},
    ("GET", "/v1/operations"): READERS,
    ("GET", "/v1/operations/{number}"): READERS,
    ("GET", "/v1/operations/{number}/events"): READERS,
    ("POST", "/v1/operations/{number}/cancel"): {Role.ADMIN},
    ("GET", "/healthz"): set(Role),
    ("GET", "/readyz"): set(Role),
    ("GET", "/openapi.json"): set(Role),
    ("GET", "/metrics"): {Role.METRICS, Role.ADMIN},
}


def test_each_role_at_each_route(tmp_path: Path) -> None:
    file = TokenFile(str(tmp_path / "tokens"))
    secrets = {role: file.add(role.value, role, None, None) for role in Role}
    app = shop()
    with AsgiServer(ps.open(app, None), app, tokens=TokenBook(RUN, file)) as server:
        own = {(route.method, route.path) for route in server.service.routes}
        assert own | {("GET", "/metrics")} == ROUTES.keys()
        server.service.events.end()
        for (method, path), allowed in ROUTES.items():
            where = path.replace("{name}", "revenue" if "views" in path else "orders")
            for role, secret in secrets.items():
                answer = server.ask(method, where, authorization=f"Bearer {secret}")
                assert (answer.status != 403) is (role in allowed), (method, path, role, answer)
                assert answer.status != 401


def test_a_token_of_some_tables_reads_no_others(tmp_path: Path) -> None:
    app = shop()
    users = app.table("users", key="id")
    users.view("names", key="name", reduce=ps.count())
    revenue = app.view_of("revenue")
    revenue.view("sizes", key="value.n", reduce=ps.count())
    file = TokenFile(str(tmp_path / "tokens"))
    bearer = "Bearer " + file.add("board", Role.WRITE, frozenset(["orders"]), None)
    with AsgiServer(ps.open(app, None), app, tokens=TokenBook(RUN, file)) as server:
        server.service.events.end()
        for path, status in {
            "/v1/tables/orders?key=1": 404,
            "/v1/views/revenue?group=1": 404,
            "/v1/views/sizes?group=1": 404,
            "/v1/tables/users?key=1": 403,
            "/v1/views/names?group=1": 403,
            "/v1/views/none?group=1": 403,
            "/v1/events?view=revenue&view=sizes": 200,
            "/v1/events?view=revenue&view=names": 403,
            "/v1/events": 403,
            "/v1/status": 403,
        }.items():
            assert server.ask("GET", path, authorization=bearer).status == status, path
        assert server.ask("POST", "/v1/tables/users", lines({"id": 1}), authorization=bearer).status == 403
        assert server.ask("POST", "/v1/tables/orders", lines({"id": 1, "ts": 1}), authorization=bearer).status == 200


def test_a_book_follows_its_file(tmp_path: Path) -> None:
    now = 0.0
    file = TokenFile(str(tmp_path / "tokens"))
    book = TokenBook(RUN, file, lambda: now)
    assert book.find("r") == RUN
    secret = file.add("a", Role.READ, None, None)
    old = file.add("old", Role.READ, None, datetime.now(UTC) - timedelta(seconds=1))
    now = 1.0
    found = book.find(secret)
    assert found is not None
    assert (found.name, found.role) == ("a", Role.READ)
    assert book.find(old) is None
    assert book.find(secret + "x") is None
    Path(file.path).write_text("broken\n")
    now = 2.0
    assert book.find(secret) == found
    os.unlink(file.path)
    now = 3.0
    assert book.find(secret) is None
    assert book.find("r") == RUN


def test_the_file_has_no_secret_and_one_reader(tmp_path: Path) -> None:
    file = TokenFile.of_store(str(tmp_path / "state"))
    secret = file.add("a", Role.READ, frozenset({"x", "y"}), datetime(2027, 1, 1, tzinfo=UTC))
    text = Path(file.path).read_text()
    assert secret not in text
    assert text == f"a read {digest_of(secret)} x,y 2027-01-01T00:00:00+00:00\n"
    assert os.stat(file.path).st_mode & 0o777 == 0o600
    with pytest.raises(DefinitionError, match="there is a token 'a' already"):
        file.add("a", Role.READ, None, None)
    os.chmod(file.path, 0o640)
    with pytest.raises(PenstockError, match="chmod 600"):
        file.read()


@pytest.mark.parametrize(
    "line", ["a", "a read", "a read 12", f"a king {'0' * 64}", f"a/b read {'0' * 64}", f"a read {'0' * 64} * soon x"]
)
def test_a_line_that_is_no_token_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# comment\n\n{line}\n")
    path.chmod(0o600)
    with pytest.raises(DefinitionError, match="line 3 of"):
        TokenFile(str(path)).read()


def test_the_command_adds_lists_and_removes(tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(group, ["serve", *words, "--store", str(tmp_path / "state")])
        return done.exit_code, done.output

    code, secret = run("token", "add", "board", "--role", "read", "--table", "orders", "--until", "2027-01-31")
    assert code == 0
    [token] = TokenFile.of_store(str(tmp_path / "state")).read()
    assert token.digest == digest_of(secret.strip())
    assert run("token", "list") == (0, "board  read  orders, until 2027-01-31T00:00:00+00:00\n")
    assert run("token", "remove", "none")[0] == 2
    assert run("token", "add", "x")[0] == 2
    assert run("token", "add", "x", "--role", "read", "--until", "soon")[0] == 2
    assert run("tokens")[0] == 2
    assert run("--role", "read")[0] == 2
    assert run("token", "remove", "board", "-q") == (0, "")
    assert run("token", "list") == (0, "")
