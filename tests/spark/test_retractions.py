"""Conditions for deletes as text, by which a checkpoint knows them."""

from pyspark.sql import functions as F

from sash.spark.retractions import condition_text


def test_spaces_between_words_are_one():
    """Those within quotes are part of a value."""
    assert condition_text(" op  IN ('a  b',\n 'c') ") == "op IN ('a  b', 'c')"
    assert condition_text("op = 'a b'") != condition_text("op = 'a  b'")


def test_a_column_is_the_same_at_every_start(spark):
    """Variables of functions are numbered through a program, and Python's functions have addresses."""

    def conditions() -> list[str]:
        large = F.udf(lambda x: x > 3, "boolean")
        found = [F.expr("op = 'delete'"), F.col("op") == "delete", F.exists("xs", lambda x: x == "a"), large("x")]
        return [condition_text(one) for one in found]

    assert conditions() == conditions()
    assert len(set(conditions())) == 4
    assert condition_text(F.expr("op  =  'delete'")) == condition_text("op = 'delete'")
    assert condition_text(F.col("x_1") > 3) != condition_text(F.col("x_2") > 3)
