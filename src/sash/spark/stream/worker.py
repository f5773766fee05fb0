"""Setup of a Spark Python worker, done once for all its tasks."""

import gc

from pyspark import TaskContext

_TASKS = 4  # within which every kind of task has run, so that all modules are imported
_started = 0


def freeze_imports() -> None:
    """Exclude all current objects, mostly imported modules, from garbage collection.

    Spark's worker collects garbage after each task and walks through everything that was ever imported: some fifty
    milliseconds, four times in a micro-batch, while the next task waits for the same worker. Frozen objects are still
    freed when nothing refers to them; the worker has just collected the cycles.
    """
    global _started
    if _started < _TASKS and TaskContext.get() is not None:
        _started += 1
        gc.freeze()
