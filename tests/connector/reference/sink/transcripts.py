"""Transcripts of the scripted cases: the bytes of both directions, as a file that people can read.

Each step has the bytes that the worker sent and the bytes that the sink answered before it answered the fence.
`open` is the fence's answer, the open transactions. `end` is absent while the connection goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.connector.reference.driver import Answer, Driver
from tests.connector.reference.frames import Frame, encoded, split
from tests.connector.reference.judgement import Step
from tests.connector.reference.sink.cases import Case
from tests.connector.reference.sink.process import ReferenceSink

FILE = Path(__file__).parent / "transcripts.json"


@dataclass
class Transcript:
    """The recorded steps of one case, and the files of the sink after it."""

    rule: str
    steps: list[dict[str, Any]]
    workers: dict[str, dict[str, Any]]

    def history(self) -> list[Step]:
        """Return the frames that were sent."""
        return [(step["on"], _frame(step)) for step in self.steps]

    def answers(self) -> list[Answer]:
        """Return the recorded answers."""
        return [_answer(step) for step in self.steps]


def _frame(step: dict[str, Any]) -> Frame:
    if step["frame"] == "kill":
        return ("kill",)
    raw = bytes.fromhex(step["sent"])
    if step["frame"].startswith("cut"):
        return "cut", raw
    [frame], rest = split(raw)
    assert not rest
    return frame


def _answer(step: dict[str, Any]) -> Answer:
    end = step.get("end", "")
    status = int(end.removeprefix("exit ")) if end.startswith("exit") else None
    received = bytes.fromhex(step.get("received", ""))
    return Answer(received, step.get("open"), end == "closed" or status is not None, status, end == "no answer")


def _step(connection: int, frame: Frame, answer: Answer) -> dict[str, Any]:
    name, *fields = frame
    step: dict[str, Any] = {"on": connection, "frame": name}
    if name != "kill":
        step |= {
            "frame": f"{name} {', '.join(map(ascii, fields))}",
            "sent": (fields[0] if name == "cut" else encoded(frame)).hex(),
            "received": answer.received.hex(),
            "replies": ", ".join(ascii(reply) for reply in split(answer.received)[0]),
        }
    if answer.open is not None:
        step["open"] = answer.open
    end = "no answer" if answer.deaf else "closed" if answer.closed else ""
    end = end if answer.status is None else f"exit {answer.status}"
    return step | ({"end": end} if end else {})


def recorded(case: Case, folder: Path) -> Transcript:
    """Play a case against a reference sink of its own, and return the transcript."""
    workers = sorted({frame[4] for _, frame in case.history if frame[0] == "hello"})
    with ReferenceSink(folder, case.refused) as sink:
        driver = Driver(sink)
        deaf = len(case.history) - 1 if case.deaf else None
        steps = [_step(*step, driver.step(*step, deaf=at == deaf)) for at, step in enumerate(case.history)]
        sink.end()
        driver.close()
        files = {
            worker: {
                "output": sink.output(worker).decode(),
                "left": [left.decode() for left in sink.left(worker)],
                "log": [record for record in sink.log(worker) if record[0] != "list-uncommitted"],
            }
            for worker in workers
        }
    # The log has tuples where JSON has lists.
    return Transcript(case.rule, steps, json.loads(json.dumps(files)))


def read() -> dict[str, Transcript]:
    """Return the recorded transcripts by name of case."""
    return {name: Transcript(**fields) for name, fields in json.loads(FILE.read_text("utf-8")).items()}


def _lines(transcripts: dict[str, Transcript]) -> Iterator[str]:
    """Yield the lines of the file: one for each step."""
    for number, (name, one) in enumerate(transcripts.items()):
        yield "{" if not number else ","
        yield f"{json.dumps(name)}: {{"
        yield f' "rule": {json.dumps(one.rule)},'
        yield ' "steps": ['
        yield ",\n".join(f"  {json.dumps(step)}" for step in one.steps)
        yield " ],"
        yield ' "workers": {'
        yield ",\n".join(f"  {json.dumps(worker)}: {json.dumps(files)}" for worker, files in one.workers.items())
        yield " }}"
    yield "}"


def write(transcripts: dict[str, Transcript]) -> None:
    """Replace the recorded transcripts."""
    FILE.write_text("\n".join(_lines(transcripts)) + "\n", "utf-8")
