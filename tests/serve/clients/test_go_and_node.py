"""The clients in Go and Node against a real server: put documents, follow a view, resume it, and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.serve.tls.tls_files import TlsContext, TlsFiles
from tests.serve.clients.programs import LANGUAGES, Run, missing, run
from tests.serve.grpc.rpc_server import TOKEN, RpcServer
from tests.serve.serving import RunningServer
from tests.serve.tls.certificates import Authority

# One table and one view for each language, so that both share a server.
APP = """
import penstock as ps

app = ps.App("shop")
for name in ("go", "node"):
    orders = app.table(f"{name}_orders", key="id", ts="ts")
    orders.view(f"{name}_revenue", key="country", reduce={"n": ps.count(), "total": ps.sum("amount")})
"""
MISSING = {name: missing(name) for name in LANGUAGES}
EACH = [
    pytest.param(name, marks=pytest.mark.skipif(bool(MISSING[name]), reason=MISSING[name] or "built"))
    for name in LANGUAGES
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(Path(tmp_path_factory.mktemp("clients")), app=APP) as made:
        yield made


def client(server: RunningServer, language: str, *words: object, token: str = "", of: str = "revenue") -> Run:
    """Run a client on its table and its view."""
    own = ["--server", f"127.0.0.1:{server.rpc_port}", f"--token={token or server.token}"]
    options = [word for word in words if not isinstance(word, Path)]
    files = [word for word in words if isinstance(word, Path)]
    return run(language, *own, *options, f"{language}_orders", f"{language}_{of}", *files)


def order(key: int, country: str, amount: float, ts: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": key, "ts": ts, "country": country, "amount": amount} | more


def written(path: Path, *documents: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


def change(language: str, group: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    sides = {name: side for name, side in (("old", old), ("new", new)) if side is not None}
    return {"view": f"{language}_revenue", "group": group} | sides


def group_of(changed: dict[str, Any]) -> str:
    return str(changed["group"])


def steps(of: Run) -> list[tuple[list[dict[str, Any]], str]]:
    """Return the changes of each step by group, and the position after them. A step has no order of its own."""
    out, found = list[tuple[list[dict[str, Any]], str]](), list[dict[str, Any]]()
    for one in map(json.loads, of.lines):
        if "position" in one:
            out.append((sorted(found, key=group_of), one["position"]))
            found = []
        else:
            found.append(one)
    assert not found, "the last line is no position"
    return out


@pytest.mark.parametrize("language", EACH)
def test_a_client_puts_follows_and_resumes(server: RunningServer, language: str, tmp_path: Path) -> None:
    first = written(tmp_path / "first.jsonl", order(1, "NO", 10), order(2, "NO", 2.5), order(3, "SE", 7))
    second = written(tmp_path / "second.jsonl", order(2, "DK", 2.5, ts=2), order(4, "SE", 1), {"country": "NO"})
    third = written(tmp_path / "third.jsonl", order(4, "NO", 1, ts=2))
    done = client(server, language, first, second, third)
    assert done.code == 0, done.errors
    rejected = f"{language}_orders, line 3: "
    assert done.errors[:2] == [
        f"{language}_orders: 3 applied, 0 equal, 0 late, 0 rejected",
        f"{language}_orders: 2 applied, 0 equal, 0 late, 1 rejected",
    ]
    assert done.errors[2].startswith(rejected)
    assert done.errors[3:] == [f"{language}_orders: 1 applied, 0 equal, 0 late, 0 rejected"]
    no, se, ten = {"n": 2, "total": 12.5}, {"n": 1, "total": 7}, {"n": 1, "total": 10}
    dk, two, eleven = {"n": 1, "total": 2.5}, {"n": 2, "total": 8}, {"n": 2, "total": 11}
    (put, stop), (resumed, _), (moved, end) = steps(done)
    assert put == [change(language, "NO", None, no), change(language, "SE", None, se)]
    assert resumed == [
        change(language, "DK", None, dk),
        change(language, "NO", no, ten),
        change(language, "SE", se, two),
    ]
    assert moved == [change(language, "NO", ten, eleven), change(language, "SE", two, se)]
    again = client(server, language, "--changes", 5, "--since", stop)
    both = [own for step, _ in steps(again) for own in step]  # one step or two
    assert sorted(both, key=group_of) == sorted(resumed + moved, key=group_of)
    assert again.lines[-1] == done.lines[-1]

    last = json.dumps(order(5, "SE", 3)).encode()
    assert server.ask("POST", f"/v1/tables/{language}_orders", last).json["applied"] == 1
    ((later, _),) = steps(client(server, language, "--since", end))
    assert later == [change(language, "SE", se, {"n": 2, "total": 10})]


@pytest.mark.parametrize("language", EACH)
def test_a_long_file_is_several_requests(server: RunningServer, language: str, tmp_path: Path) -> None:
    one = json.dumps(order(90, "FI", 1)).encode()
    since = server.ask("POST", f"/v1/tables/{language}_orders", one).json["position"]
    long = [order(key, "FI", 1, note="x" * 400_000) for key in (91, 92, 93)]
    wide = order(94, "FI", 1, note="x" * (1 << 20))
    files = written(tmp_path / "long.jsonl", *long), written(tmp_path / "wide.jsonl", wide)
    done = client(server, language, "--since", since, "--changes", 2, *files)
    assert done.errors == [
        f"{language}_orders: 2 applied, 0 equal, 0 late, 0 rejected",
        f"{language}_orders: 1 applied, 0 equal, 0 late, 0 rejected",
        f"client: {files[1]} has a line of more than 1 MiB, the most of a request; take it out",
    ]
    assert done.code == 1
    assert [one["new"]["n"] for one in map(json.loads, done.lines) if "new" in one] == [3, 4]


@pytest.mark.parametrize("language", EACH)
def test_a_refusal_names_the_next_step(server: RunningServer, language: str, tmp_path: Path) -> None:
    documents = written(tmp_path / "wrong.jsonl", order(70, "IS", 1))
    wrong = client(server, language, documents, token="guessed")
    assert wrong == Run(
        1,
        [],
        [
            "client: the access token is missing, unknown or expired; send the metadata `authorization: Bearer TOKEN`; "
            "give --token one that penstock serve prints or `penstock serve token add NAME --role write` makes"
        ],
    )
    assert server.ask("GET", f"/v1/tables/{language}_orders?key=70").status == 404
    unknown = client(server, language, of="sales")
    assert (unknown.code, unknown.lines) == (1, [])
    assert unknown.errors == [f"client: there is no view named '{language}_sales'; App.names() lists those there are"]
    absent = client(server, language, tmp_path / "absent.jsonl")
    assert (absent.code, absent.lines, len(absent.errors)) == (1, [], 1)
    assert absent.errors[0].endswith("; give files that can be read")
    usage = client(server, language, "--changes", 0)
    assert (usage.code, usage.lines, "usage: " in "".join(usage.errors)) == (2, [], True)


@pytest.mark.parametrize("language", EACH)
def test_a_client_trusts_the_authority_of_ca(language: str, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path, "ca"), Authority(tmp_path, "other")
    own = authority.issue("server", "DNS:localhost")
    app = ps.App("shop")
    app.table("orders", key="id", ts="ts").view("revenue", key="country", reduce=ps.sum("amount"))
    documents = written(tmp_path / "one.jsonl", order(1, "NO", 10))
    tls = TlsContext(TlsFiles(str(own.certificate), str(own.key)))
    with ps.open(app, None) as engine, RpcServer(engine, app, tls=tls) as server:
        words = ["--server", f"localhost:{server.server.port}", f"--token={TOKEN}", "orders", "revenue", documents]
        refused = run(language, "--ca", other.path, *words)
        assert (refused.code, refused.lines, len(refused.errors)) == (1, [], 1)
        assert "; start penstock serve, give --server its address, and --ca if it has TLS" in refused.errors[0]
        done = run(language, "--ca", authority.path, *words)
        assert (done.code, done.errors) == (0, ["orders: 1 applied, 0 equal, 0 late, 0 rejected"])
        assert [json.loads(line) for line in done.lines[:-1]] == [{"view": "revenue", "group": "NO", "new": 10}]
