"""What comes before the operator in a streaming query, as far as Spark's description of the plan tells."""

import hashlib
import io
import re
from contextlib import redirect_stdout

from pyspark.sql import DataFrame

_STATEFUL = re.compile(r"^[\s:+|~-]*(?:Aggregate|Deduplicate|TransformWithState|FlatMapGroups\w*WithState)", re.M)
_JOIN = re.compile(r"^[\s:+|~-]*Join\b", re.M)
# Numbers of columns, ids of nodes and addresses of objects differ from one start of a query to the next.
_PASSING = re.compile(r"#\d+L?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|@[0-9a-f]+")


def description_of(df: DataFrame) -> str:
    """Return Spark's description of the plan, which has no other public form, here or over Spark Connect."""
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain(extended=True)
    return text.getvalue()


def is_stateful(description: str) -> bool:
    """Return whether rows come from a stateful operator, or from a join of two streams.

    >>> is_stateful("~Project [k#1]\\n+- ~Aggregate [k#1], [k#1, count(1)]\\n   +- StreamingRelation rate")
    True
    >>> is_stateful("~Project [max(k) AS Aggregate#1]\\n+- ~EventTimeWatermark\\n   +- StreamingRelation rate")
    False
    """
    logical = description.split("== Optimized Logical Plan ==")[0].split("== Analyzed Logical Plan ==")[-1]
    joined = _JOIN.search(logical) is not None and logical.count("StreamingRelation") > 1
    return joined or _STATEFUL.search(logical) is not None


def digest_of(description: str) -> str:
    """Return a hash of the plan that is the same at every start of a query.

    >>> one = "Filter (x#7L > 3)\\n+- EventTimeWatermark cdc863b6-9298-47d1-a4ec-5b2607e9f901, t#1, 1 minutes"
    >>> other = "Filter (x#9L > 3)\\n+- EventTimeWatermark 00112233-9298-47d1-a4ec-5b2607e9f901, t#3, 1 minutes"
    >>> digest_of(one) == digest_of(other), digest_of(one) == digest_of("Filter (x#7L > 4)")
    (True, False)
    """
    logical = description.split("== Optimized Logical Plan ==")[0]
    return hashlib.sha256(_PASSING.sub("", logical).encode()).hexdigest()[:16]
