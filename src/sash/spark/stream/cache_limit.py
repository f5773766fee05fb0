"""How much memory the workers of an executor may use for cached streams, from the settings of the session."""

import re
from collections.abc import Callable

from sash.spark.sessions import SHARED_DAEMON, cores
from sash.spark.stream.cache import Limit

Setting = Callable[[str], str | None]
_UNITS = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}  # powers of two
_LEAST_OVERHEAD = 384 << 20


def cache_limit(setting: Setting, given: int | None) -> Limit:
    """Return the given limit of an executor, or half of the memory that its Python workers have.

    That is `spark.executor.pyspark.memory` if it is set. Otherwise it is the memory beside the heap
    (`spark.executor.memoryOverhead`, or its default), and on a local master as much as the heap of the driver.

    >>> confs = {"spark.master": "yarn", "spark.executor.memory": "10g", "spark.executor.cores": "4"}
    >>> limit = cache_limit(confs.get, None)
    >>> limit.executor_bytes >> 20, limit.workers, limit.own
    (512, 4, False)
    """
    workers = _workers(setting)
    if given is not None:
        return Limit(given, workers, own=True)
    return Limit(_python_bytes(setting) // 2, workers)


def _workers(setting: Setting) -> int | None:
    """Return how many Python workers of an executor may have streams in memory, or None if that is unknown."""
    master = setting("spark.master") or ""
    if master.startswith("local") and not master.startswith("local-cluster"):
        slots = cores(master)
    elif number := setting("spark.executor.cores"):
        slots = int(number)
    else:
        return None
    tasks = max(slots // int(setting("spark.task.cpus") or 1), 1)
    # Where all operators share a daemon, the worker that unpacks a task's results may have the state of the next one.
    return 2 * tasks if setting(SHARED_DAEMON) else tasks


def _python_bytes(setting: Setting) -> int:
    if given := setting("spark.executor.pyspark.memory"):
        return size_of(given, "m")
    if (setting("spark.master") or "").startswith("local"):
        return size_of(setting("spark.driver.memory") or "1g", "b")
    if given := setting("spark.executor.memoryOverhead"):
        return size_of(given, "m")
    factor = float(setting("spark.executor.memoryOverheadFactor") or 0.1)
    return max(int(size_of(setting("spark.executor.memory") or "1g", "b") * factor), _LEAST_OVERHEAD)


def size_of(text: str, unit: str) -> int:
    """Return the bytes of a size as Spark writes it; a bare number is in the given unit.

    >>> size_of("2g", "b"), size_of("512", "m"), size_of("64kb", "b")
    (2147483648, 536870912, 65536)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgtp]?)b?\s*", text.lower())
    return 0 if found is None else int(found[1]) << _UNITS[found[2] or unit]
