"""What a Python worker of Spark's does once, for all the tasks it will have."""

import gc

from pyspark import TaskContext

_TASKS = 4  # in which everything is imported that any of its kinds needs
_seen = 0


def settle() -> None:
    """Have the collector look no more at what is there already: the modules.

    After each task Spark's worker collects garbage, and walks through all that was ever imported: some fifty
    milliseconds, four times in a micro-batch, while the next task waits for the same worker. What is frozen is still
    freed when nothing refers to it; the worker has just collected what only cycles held.
    """
    global _seen
    if _seen < _TASKS and TaskContext.get() is not None:
        _seen += 1
        gc.freeze()
