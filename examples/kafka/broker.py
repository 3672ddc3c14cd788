"""A private Kafka broker: Apache Kafka in one JVM, on free loopback ports, with its data in a folder of its own.

Maven fetches it once, by the coordinates in pom.xml, into its own cache. The classpath is stored in a file, so that
later starts need no Maven. The broker dies with the process that started it, and is ended by its process id.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

POM = Path(__file__).with_name("pom.xml")
_PATIENCE = 120.0  # seconds to wait for a start, which takes two on an idle machine
_LOOK = 0.05
_JVM = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
file.delete.delay.ms=100
broker.session.timeout.ms={session}
broker.heartbeat.interval.ms=500
auto.create.topics.enable=false
"""


# A listener with TLS and a password, for the user `me`.
_SECURE = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{secure}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{password}";
ssl.keystore.location={folder}/keys.p12
ssl.keystore.type=PKCS12
ssl.keystore.password={password}
"""


class NoBroker(Exception):
    """The error if no broker can be installed here. It names the missing part."""


class BrokerFailed(Exception):
    """The error if the broker does not start. It has the broker's output."""


def classpath() -> str:
    """Return the jars of the broker. They are fetched if they are missing."""
    mark = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    noted = cache / f"kafka-{mark}.classpath"
    with suppress(FileNotFoundError):
        jars = noted.read_text()
        if all(map(os.path.exists, jars.split(os.pathsep))):
            return jars
    if shutil.which("mvn") is None:
        raise NoBroker("a broker is fetched by Maven, and there is no mvn here; install the package maven")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        own = Path(folder) / "classpath"
        command = ["mvn", "-B", "-q", "-f", str(POM), "dependency:build-classpath"]
        command += ["-Dmdep.includeScope=runtime", f"-Dmdep.outputFile={own}"]
        for more in (["-o"], []):
            done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
            if done.returncode == 0 and own.exists():
                break
        else:
            raise NoBroker(f"Maven could not fetch the broker: {done.stdout.strip()[-500:]}")
        own.replace(noted)
    return noted.read_text()


def java() -> str:
    """Return a Java that runs the broker."""
    found = shutil.which("java")
    if found is None:
        raise NoBroker("a broker needs Java 17 or later, and there is no java here; install a JRE")
    return found


class Broker:
    """One broker. `start` and `stop` it, or use it in a with block. With a `password` it also has a secure listener.

    After `session` milliseconds of silence its partitions have no leader. A short session lets a killed broker start
    again soon; a long one suits a busy machine.
    """

    def __init__(self, password: str | None = None, session: int = 2_000, jvm: Sequence[str] = _JVM) -> None:
        self._jvm = jvm
        self._java, self._classpath = java(), classpath()
        self._own = tempfile.TemporaryDirectory(prefix="penstock-kafka-")
        self.folder = Path(self._own.name)
        self.port, controller, self._secure = _free_ports()
        own = {"port": self.port, "controller": controller, "secure": self._secure, "folder": self.folder}
        own["session"] = session
        text = _PROPERTIES.format(**own)
        if password is not None:
            self._make_keys(password)
            text += _SECURE.format(password=password, **own)
        self._properties = self.folder / "server.properties"
        self._properties.write_text(text, "utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        self._format()

    @property
    def servers(self) -> str:
        """Return the address of its listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure(self) -> str:
        """Return the address of its listener with TLS and a password. The certificate is in `certificate`."""
        return f"127.0.0.1:{self._secure}"

    @property
    def certificate(self) -> Path:
        """Return the file of its certificate."""
        return self.folder / "broker.pem"

    def _make_keys(self, password: str) -> None:
        tool = os.path.join(os.path.dirname(os.path.realpath(self._java)), "keytool")
        store = ["-alias", "broker", "-keystore", str(self.folder / "keys.p12"), "-storepass", password]
        made = ["-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-validity", "30"]
        named = ["-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
        shown = ["-exportcert", "-rfc", "-file", str(self.certificate)]
        for arguments in ([*made, *named], shown):
            done = subprocess.run([tool, *arguments, *store], capture_output=True, text=True, check=False)
            if done.returncode:
                raise BrokerFailed(f"keytool could not make the broker's keys: {(done.stdout + done.stderr).strip()}")

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process is not None, "it is started first"
        return self._process.pid

    def _format(self) -> None:
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        command = [self._java, *_JVM, "-cp", self._classpath, "kafka.tools.StorageTool", "format"]
        command += ["-t", cluster, "-c", str(self._properties), "--standalone"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerFailed(f"the broker's folder could not be made: {(done.stdout + done.stderr).strip()[-500:]}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with open(self.folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._java, *self._jvm, "-cp", self._classpath, "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C does not reach it
                preexec_fn=dying_with_parent(),
            )
        until = time.monotonic() + _PATIENCE
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise BrokerFailed(f"the broker did not start: {self.log()[-800:]}")
            time.sleep(_LOOK)

    def log(self) -> str:
        """Return its output."""
        return (self.folder / "broker.log").read_text("utf-8", "replace")

    def kill(self) -> None:
        """End it as a power loss would."""
        assert self._process is not None, "it is started first"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in an orderly way, and delete its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        self._own.cleanup()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def dying_with_parent() -> Callable[[], object]:
    """Return a function that a child runs at its start, so that it ends with the thread that started it."""
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(1, signal.SIGKILL)


def _free_ports() -> tuple[int, int, int]:
    with socket.socket() as one, socket.socket() as other, socket.socket() as third:
        for own in (one, other, third):
            own.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1], third.getsockname()[1]


def _answers(port: int) -> bool:
    """Test whether it answers a request for the list of brokers."""
    ask = struct.pack(">hhih3s", 18, 0, 7, 3, b"try"), struct.pack(">hhih3si", 3, 1, 7, 3, b"try", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as own, own.makefile("rb") as answers:
            own.settimeout(1.0)
            answer = b""
            for body in ask:
                own.sendall(struct.pack(">i", len(body)) + body)
                (size,) = struct.unpack(">i", answers.read(4))
                answer = answers.read(size)
            brokers: int = struct.unpack(">i", answer[4:8])[0]
            return brokers >= 1
    except (OSError, struct.error):
        return False
