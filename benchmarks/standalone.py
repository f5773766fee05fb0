"""A temporary standalone Spark cluster on this machine: a master and some workers, each in a separate JVM."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from sash.spark.java import java_home

_HOST = "127.0.0.1"
_SECONDS = 60  # that a JVM may take to start


@contextmanager
def cluster(workers: int, cores: int, memory: str, room: Path, hosts: Sequence[str] = (_HOST,)) -> Iterator[str]:
    """Yield the URL of the master; logs and files of executors are in `room`, and all processes end with the block.

    Workers take turns with the hosts, which are addresses of this machine; the master is on the first.
    """
    with ExitStack() as stack:
        master = stack.enter_context(_daemon("master.Master", [], room / "master", hosts[0]))
        url = _said(room / "master", r"Starting Spark master at (spark://\S+)", master)
        for number in range(workers):
            place = room / f"worker-{number}"
            options = ["--cores", str(cores), "--memory", memory, "--work-dir", str(place / "work"), url]
            worker = stack.enter_context(_daemon("worker.Worker", options, place, hosts[number % len(hosts)]))
            _said(place, f"Successfully registered with master ({re.escape(url)})", worker)
        yield url


@contextmanager
def _daemon(name: str, options: list[str], place: Path, host: str) -> Iterator[subprocess.Popen[bytes]]:
    place.mkdir(parents=True)
    spark = Path(pyspark.__file__).parent
    command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
    command += ["--port", "0", "--webui-port", "0", *options]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment(host), cwd=place)
    try:
        yield process
    finally:
        process.terminate()  # a worker ends its executors
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(host: str = _HOST) -> dict[str, str]:
    """Return the environment of a Spark process: a Java, this Python and its packages, its address."""
    here = str(Path(__file__).resolve().parent.parent)
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_LOCAL_IP": host,
    }


def _said(place: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """Wait until a log matches a pattern, and return the first group."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and process.poll() is None:
        found = re.search(pattern, (place / "log").read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.2)
    raise SystemExit(f"{place.name} did not start; its log ends: {(place / 'log').read_text(errors='replace')[-500:]}")
