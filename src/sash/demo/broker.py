"""A Kafka broker of one node on this machine, started and stopped by this process: for the demo and the tests.

Its jars come from Maven's repositories, once per user. Its data is in a directory, so a broker that is started there
again has the topics and records of the one before. It listens on 127.0.0.1 only.
"""

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sash.errors import SashError, UnsupportedError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
_JAVA_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = ("slf4j-api-*", "log4j-slf4j2-impl-*", "log4j-api-2*", "log4j-core-*")  # of Spark's jars; Kafka's have none
_PATIENCE_SECONDS = 60.0
_STOP_SECONDS = 20.0
# The broker has a session of its own, so that Ctrl-C does not end it before the stream that reads from it. It ends when
# its standard input does: when `stop` closes it, or when this process is gone, however that happened.
_GUARD = 'exec 3<&0; "$@" </dev/null 3<&- & java=$!; (cat <&3 >/dev/null; kill $java 2>/dev/null) & wait $java'
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""


class BrokerError(SashError):
    """A broker that cannot be fetched or started."""


class Broker:
    """A broker with its data in a directory: `with Broker(path) as broker: broker.servers`."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).resolve()
        self.servers = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Broker":
        """Start the broker."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the broker."""
        self.stop()

    def start(self) -> None:
        """Fetch the jars if need be, start the broker, and wait until it answers."""
        require_client()
        java = _java_command()
        until = time.monotonic() + _PATIENCE_SECONDS
        self.directory.mkdir(parents=True, exist_ok=True)
        while not self._started(java, until):
            # The broker of a process that was killed may still hold the directory for a moment.
            if "Failed to acquire lock" not in self._log() or time.monotonic() > until:
                raise BrokerError(f"The Kafka broker did not start: {self._last_line()}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Stop the broker, and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

    def admin(self) -> "AdminClient":
        """Return a client that manages topics."""
        from confluent_kafka.admin import AdminClient

        # A broker that is not there yet is expected: librdkafka would write every attempt to stderr.
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
        return AdminClient({"bootstrap.servers": self.servers, **quiet})

    def create(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic unless it exists."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self.admin()  # referenced until the answer is there
        try:
            admin.create_topics([new], operation_timeout=_PATIENCE_SECONDS)[topic].result(_PATIENCE_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerError(f"Topic {topic} could not be created: {error.args[0].str()}.") from error

    # --- the process ------------------------------------------------------------------------------

    def _started(self, java: list[str], until: float) -> bool:
        """Start the process and wait until the broker answers; return False if it ends instead."""
        properties, data = self.directory / "server.properties", self.directory / "data"
        broker, controller = _free_ports(2)
        properties.write_text(_PROPERTIES.format(broker=broker, controller=controller, data=data))
        with (self.directory / "broker.log").open("wb") as log:
            if not (data / "meta.properties").exists():
                name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
                # An id that starts with a dash would be read as an option.
                format = ["kafka.tools.StorageTool", "format", f"--cluster-id=A{name[1:]}", "-c", str(properties)]
                if subprocess.run([*java, *format], stdout=log, stderr=log).returncode:
                    return False
            command = ["/bin/sh", "-c", _GUARD, "sh", *java, "kafka.Kafka", str(properties)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self.servers = f"127.0.0.1:{broker}"
        if self._answers(until):
            return True
        self.stop()
        return False

    def _answers(self, until: float) -> bool:
        from confluent_kafka import KafkaException

        admin = self.admin()
        while time.monotonic() < until and self._process is not None and self._process.poll() is None:
            with suppress(KafkaException):
                admin.list_topics(timeout=0.5)
                return True
        return False

    def _log(self) -> str:
        return (self.directory / "broker.log").read_text(errors="replace")

    def _last_line(self) -> str:
        lines = self._log().strip().splitlines()
        return lines[-1].strip() if lines else f"no answer within {_PATIENCE_SECONDS:g} s."


def require_client() -> None:
    """Raise an error that names what to install if Python lacks a Kafka client."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            'A Kafka broker of one\'s own needs confluent-kafka, which is not installed: pip install "sash[kafka]".'
        ) from error


def _java_command() -> list[str]:
    """Return the command of a Java with the broker on its class path."""
    from sash.spark.jars import fetched, spark_jars
    from sash.spark.java import java_home

    logging = [path for pattern in _LOGGING for path in spark_jars().glob(f"{pattern}.jar")]
    path = ":".join(map(str, [*logging, *fetched([KAFKA])]))
    return [str(java_home() / "bin" / "java"), *_JAVA_OPTIONS, "-cp", path]


def _free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
