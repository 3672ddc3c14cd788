"""Kafka Streams: a broker in a process of its own, and the Java program of the views, which has the turn.

The arguments of a turn follow the class path and the main class. CPU time includes the broker.
"""

from __future__ import annotations

import subprocess
import sys

from examples.kafka.broker import Broker, java

_BROKER = ("-Xms512m", "-Xmx1g")
_PROGRAM = ("-Xms512m", "-Xmx2g")


def main() -> None:
    classpath, name, *arguments = sys.argv[1:]
    with Broker(jvm=_BROKER) as broker:
        command = [java(), *_PROGRAM, "-cp", classpath, name, broker.servers, *arguments]
        raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
