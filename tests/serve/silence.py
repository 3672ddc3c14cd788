"""Hold thousands of silent connections: the server keeps answering, ends all of them, and does not grow.

python -m tests.serve.silence --connections 10000
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.serve.serving import RunningServer

_HALF = b"GET /v1/status HTTP/1.1\r\nhost: 127"
_GROWTH = 30 << 10  # bytes that one connection may cost the server while it is open


@dataclass(slots=True)
class Silence:
    """Counts of connections, and of health checks beside them."""

    opened: int = 0
    ended: int = 0
    healthy: int = 0
    unhealthy: int = 0


async def hold_silent(port: int, connections: int) -> Silence:
    """Open connections that send nothing, or a part of their headers, until the server has ended all of them."""
    found = Silence()

    async def hold(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found.opened += 1
        if number % 2:
            writer.write(_HALF)
        with suppress(ConnectionError):
            await reader.read()
        found.ended += 1
        writer.close()

    async def check() -> None:
        while found.ended < connections:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            found.healthy += b"200 OK" in answer
            found.unhealthy += b"200 OK" not in answer
            writer.close()
            await pause(0.05)

    await asyncio.gather(check(), *(hold(number) for number in range(connections)))
    return found


async def pause(seconds: float) -> None:
    """Let the loop run for so long."""
    loop = asyncio.get_running_loop()
    later = loop.create_future()
    loop.call_later(seconds, later.set_result, None)
    await later


def memory(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def campaign(connections: int) -> None:
    """Hold connections at a real server twice, and compare its memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, connections + 1_000), hard))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > connections, f"`ulimit -n` is {soft}; raise it"
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder)) as server:
        front = server.children()["front"]
        sizes = []
        for _ in range(2):
            found = asyncio.run(hold_silent(server.port, connections))
            sizes.append(memory(front))
            print(f"{found}, {sizes[-1] >> 20} MiB in the front")
            assert (found.opened, found.ended, found.unhealthy) == (connections, connections, 0)
            assert found.healthy
        assert sizes[1] - sizes[0] < connections * _GROWTH // 10, sizes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    campaign(parser.parse_args().connections)
