"""`penstock repartition`, and the reading commands on a store of several partitions."""

import json
from pathlib import Path

import penstock as ps
from penstock.cli.app_file import load as load_app
from tests.cache.processes import heard, process
from tests.cli.conftest import Run
from tests.recovery.damage import add_to_lane

STORE = "penstock-state"
READ = (
    ("get", "namecount", "Joe"),
    ("query", "ages"),
    ("query", "ages", "--level", "1", "--format", "csv"),
    ("query", "by_length", "--reverse"),
    ("why", "namecount", "Joe", "--documents"),
    ("why", "adults", "NO"),
    ("doc", "users", "2"),
    ("explain",),
    ("export", "namecount"),
)


def test_commands_read_as_they_did(filled: Path, run: Run) -> None:
    run("put", "users", '{"id": null, "ts": 1}', code=1)
    before = {args: run(*args).stdout for args in READ}
    digest = json.loads(run("status", "--digest").stdout)["digest"]
    done = run("repartition", "--to", "3", "-v")
    assert done.stdout == f"{STORE}: 3 partitions, 1 partition before\n"
    assert "partition 2: " in done.stderr
    for args in READ:
        assert run(*args).stdout == before[args], args
    status = json.loads(run("status", "--digest").stdout)
    assert status["digest"] == digest
    assert status["owner"] is None
    assert status["committed"] is not None
    assert len(status["partitions"]) == 3
    assert status["position"] == [part["position"] for part in status["partitions"]]
    page = run("status", "--format", "table").stdout
    assert " + ".join(f"{p['position']}" for p in status["partitions"]) in page
    assert "1-2" in page
    assert "r0@" in run("quarantine", "list").stdout
    assert "3 partitions already" in run("repartition", "--to", "3").stdout
    assert "1 partition, 3 partitions before" in run("repartition", "--to", "1").stdout
    assert {args: run(*args).stdout for args in READ} == before


def test_changes_are_watched_by_positions_of_all(filled: Path, run: Run) -> None:
    run("repartition", "--to", "2")
    with ps.open(load_app("app.py"), STORE, readonly=True) as engine, engine.snapshot() as snap:
        first = list(snap.position)
    run("watch", "namecount", "--since", "soon", code=2)
    refused = run("watch", "namecount", "--since", f"[{first[0]}, 99]", code=2)
    assert f"changes since [{first[0]}, 99] were asked for" in refused.stderr
    expired = run("watch", "namecount", "--since", "0", code=3)
    assert f"--since '{first}' goes back as far" in expired.stderr
    history = run("why", "namecount", "Joe", "--history", code=1)
    assert f"since position {first[0]} + {first[1]}" in history.stderr


def test_sinks_are_for_stores_of_one_partition(filled: Path, run: Run) -> None:
    run("repartition", "--to", "2")
    refused = run("run", "--from", "users=users.jsonl", "--to", "namecount=out.jsonl", code=None)
    assert refused.exit_code in (2, 3)
    assert not Path("out.jsonl").exists() or not Path("out.jsonl").read_text()


def test_nobody_else_may_have_it_open(filled: Path, run: Run) -> None:
    reading = (
        "import penstock as ps\nfrom penstock.cli.app_file import load\n"
        f"with ps.open(load('app.py'), {STORE!r}, readonly=True) as engine:\n    say('open')\n    wait()"
    )
    with process(reading) as child:
        assert heard(child) == "open"
        refused = run("repartition", "--to", "2", code=3)
        assert f"process {child.pid} has the store at {STORE} open to read it" in refused.stderr
    with ps.open(load_app("app.py"), STORE):
        assert "is being written by" in run("repartition", "--to", "2", code=3).stderr
    run("repartition", "--to", "2")
    with process(reading) as child:
        assert heard(child) == "open"
        assert f"process {child.pid}" in run("repartition", "--to", "1", code=3).stderr
    run("repartition", "--to", "1")


def test_what_is_asked_wrongly_says_so(filled: Path, run: Run) -> None:
    assert "there is no store at elsewhere" in run("repartition", "--to", "2", "--store", "elsewhere", code=2).stderr
    run("repartition", "--to", "0", code=2)
    assert "a number from 1 to 256" in run("repartition", "--to", "257", code=2).stderr
    run("repartition", code=2)


def test_a_copy_of_one_partition_takes_the_place_of_several_where_that_is_asked_for(filled: Path, run: Run) -> None:
    run("snapshot", "copy")
    run("repartition", "--to", "2")
    status = json.loads(run("status", "--digest").stdout)
    assert "replace it with --force" in run("restore", "copy", code=3).stderr
    left = json.loads(run("status", "--digest").stdout)
    assert (left["digest"], left["position"]) == (status["digest"], status["position"])
    for where in (STORE, "again"):
        assert run("restore", "copy", "--store", where, "--force").stdout.startswith(f"{where}: ")
        again = json.loads(run("status", "--digest", "--store", where).stdout)
        assert again["digest"] == status["digest"]
        assert isinstance(again["position"], int)


def test_commands_work_on_several_partitions_or_say_so(filled: Path, run: Run) -> None:
    """The commands find a store of several partitions, though it has no data beside them."""
    run("repartition", "--to", "2")
    assert run("check").stderr.endswith("nothing is wrong\n")
    Path("more.jsonl").write_text('{"id": 5, "ts": 1}\n')
    assert "is a store already" in run("backfill", "users=more.jsonl", code=2).stderr
    assert "old versions" in run("compact").stdout
    app = Path("app.py")
    app.write_text(app.read_text().replace('"namecount", key="name"', '"namecount", key="id"'))
    assert "run `penstock migrate`" in run("put", "users", '{"id": 1, "ts": 99}', code=3).stderr
    assert json.loads(run("migrate", "--dry-run", code=1).stdout)["documents"] == 3
    assert "built of 3 documents" in run("migrate").stdout
    assert run("get", "namecount", "1").stdout == "1\n"


def damaged(run: Run) -> str:
    """Damage a store of two partitions: the counts of all names are wrong by three. Return its digest before that."""
    run("repartition", "--to", "2")
    digest: str = json.loads(run("status", "--digest").stdout)["digest"]
    with ps.open(load_app("app.py"), STORE, processes=False) as engine:
        for handle in engine.store.handles:  # type: ignore[attr-defined]
            with handle.engine.snapshot() as snap:
                groups = [row.key for row in snap.view("namecount")]
            for group in groups:
                add_to_lane(ps.Engine(handle.engine), "namecount", group, lane=0, by=3)
    return digest


def test_commands_repair_as_they_did(filled: Path, run: Run) -> None:
    digest = damaged(run)
    with ps.open(load_app("app.py"), STORE, processes=False):  # the holder does the work
        assert '"group": "Joe", "old": 5, "new": 2' in run("check", code=1).stdout
        assert '"group": "Joe", "old": 5, "new": 2' in run("post", '{"topic": "users", "ts": 0, "id": 2}').stdout
        said = run("restate", "namecount", "Sue")
        assert '"group": "Sue", "old": 4, "new": 1' in said.stdout
        assert run("repost", "users", '{"id": 1, "name": "Sam"}').stderr == "nothing was wrong\n"
        assert run("check", "--fix").stdout == ""
        run("put", "users", '{"id": null, "ts": 1}', code=1)
        [entry] = [json.loads(line) for line in run("quarantine", "list").stdout.splitlines()]
        run("quarantine", "retry", code=1)
        run("quarantine", "drop", entry["id"])
        assert run("quarantine", "list").stdout == ""
    assert json.loads(run("status", "--digest").stdout)["digest"] == digest


def test_a_command_repairs_a_store_that_nobody_holds(filled: Path, run: Run) -> None:
    digest = damaged(run)
    assert '"group": "Joe", "old": 5, "new": 2' in run("check", "--fix").stdout
    assert json.loads(run("status", "--digest").stdout)["digest"] == digest


def test_a_copy_is_made_and_restored(filled: Path, run: Run) -> None:
    run("repartition", "--to", "2")
    digest = json.loads(run("status", "--digest").stdout)["digest"]
    with ps.open(load_app("app.py"), STORE, processes=False):
        assert " + " in run("snapshot", "monday").stdout
    assert "there is a store" in run("restore", "monday", code=3).stderr
    assert " of app shop, position " in run("restore", "monday", "--force").stdout
    assert " of app shop, position " in run("restore", "monday", "--store", "again").stdout
    for store in (STORE, "monday", "again"):
        status = json.loads(run("status", "--digest", "--store", store).stdout)
        assert (status["digest"], len(status["partitions"])) == (digest, 2)
