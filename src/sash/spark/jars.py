"""Jars from Maven's repositories: Spark's Kafka connector by name, and files that the Ivy in Spark resolves.

Spark itself resolves what `spark.jars.packages` names. `fetched` is for jars that are not for Spark's own class path.
It runs the same Ivy, with Ivy's default settings.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark import __version__
from pyspark.find_spark_home import _find_spark_home

from sash.errors import ArgumentError, UnsupportedError, shown
from sash.spark.java import cache, java_home

_SCALA = "2.13"  # the only version that Spark 4 is built for
_CONNECTOR = f"spark-sql-kafka-0-10_{_SCALA}"
_NAMED_BY = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_UNRESOLVED = re.compile(r"^\s*:: (\S+#\S+;\S+): (.*)$", re.MULTILINE)
_PATIENCE_SECONDS = 600
_MODULE = """<ivy-module version="2.0"><info organisation="sash" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies>
{dependencies}
</dependencies></ivy-module>
"""


def kafka_connector(version: str = __version__) -> str:
    """Return the Maven coordinate of Spark's Kafka connector.

    >>> kafka_connector("4.2.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    return f"org.apache.spark:{_CONNECTOR}:{version}"


def with_kafka_connector(confs: dict[str, Any]) -> dict[str, Any]:
    """Return Spark settings that also load the Kafka connector, unchanged where they or Spark's folder have one.

    >>> with_kafka_connector({"spark.jars": "jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"})
    {'spark.jars': 'jars/spark-sql-kafka-0-10_2.13-4.2.0.jar'}
    """
    if any("kafka" in str(confs.get(name, "")) for name in _NAMED_BY) or installed_connector() is not None:
        return confs
    packages = [*filter(None, [confs.get("spark.jars.packages")]), kafka_connector()]
    return {**confs, "spark.jars.packages": ",".join(packages)}


def installed_connector() -> Path | None:
    """Return the Kafka connector in the folder of Spark's own jars, if there is one."""
    return next(spark_jars().glob("spark-sql-kafka-0-10_*.jar"), None)


def cached_connector(version: str = __version__) -> Path | None:
    """Return the Kafka connector that Spark fetched for an earlier session, if it did."""
    name = f"org.apache.spark_{_CONNECTOR}-{version}.jar"
    return next(Path.home().glob(f".ivy2*/jars/{name}"), None)


def spark_jars() -> Path:
    """Return the folder of Spark's own jars."""
    return Path(_find_spark_home()) / "jars"


def fetched(coordinates: Sequence[str], *, transitive: bool = True) -> list[Path]:
    """Return the jars of Maven coordinates, with all that they depend on if `transitive`; downloaded once per user."""
    text = _MODULE.format(dependencies="\n".join(_dependency(one, transitive) for one in coordinates))
    place = cache() / "jars" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not place.exists():
        try:
            _fill(place, text)
        except OSError as error:
            raise UnsupportedError(f"Jars could not be written to {place}: {error.strerror}.") from error
    return sorted(place.glob("*.jar"))


def _fill(place: Path, module: str) -> None:
    """Fetch jars under a temporary name and rename the folder, so that no process sees half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        _retrieve(module, draft)
        draft.rename(place)
    except OSError:
        if not place.exists():  # otherwise another process was quicker
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _dependency(coordinate: str, transitive: bool) -> str:
    parts = coordinate.split(":")
    if len(parts) != 3 or not all(re.fullmatch(r"[\w.-]+", part) for part in parts):
        raise ArgumentError(
            f"coordinates must have the form group:artifact:version, got {shown(coordinate)}.", argument="coordinates"
        )
    group, name, version = parts
    # Of a Maven module, `master` is its own jar and `runtime` what it needs in addition.
    wanted = "default->master,runtime(*)" if transitive else "default->master"
    follow = str(transitive).lower()
    return f'<dependency org="{group}" name="{name}" rev="{version}" conf="{wanted}" transitive="{follow}"/>'


def _retrieve(module: str, place: Path) -> None:
    """Have Ivy write the jars of a module to a folder."""
    description = place / "ivy.xml"
    description.write_text(module)
    java, ivy = java_home() / "bin" / "java", next(spark_jars().glob("ivy-*.jar"), None)
    if ivy is None:
        raise UnsupportedError(f"Jars are resolved with the Ivy of Spark, and {spark_jars()} has none.")
    command = [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-warn", "-m2compatible", "-cache", str(cache() / "ivy"), "-ivy", str(description), "-confs", "default"]
    command += ["-types", "jar", "bundle", "-retrieve", str(place / "[artifact]-[revision](-[classifier]).[ext]")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnsupportedError(f"Ivy could not be run with {java}: {error}.") from error
    missing = _UNRESOLVED.findall(done.stdout + done.stderr)
    if missing:
        name, why = missing[0]
        raise UnsupportedError(f"{name.replace('#', ':').replace(';', ':')} could not be fetched by Ivy: {why}.")
    if done.returncode or not any(place.glob("*.jar")):
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise UnsupportedError(f"Ivy could not fetch jars: {lines[-1].strip()}")
