"""Aggregates as pipeline files write them: what is read, what is refused, and that nothing is run."""

import sys

import pytest

from sash import Monoid, monoids
from sash.errors import ArgumentError
from sash.pipeline.config.aggregate_syntax import aggregate

READ = {
    "count()": monoids.count(),
    " sum( amount ) ": monoids.sum("amount"),
    "approx_quantile(latency, [0.5, 0.99])": monoids.approx_quantile("latency", [0.5, 0.99]),
    "approx_quantile(latency, 0.95, relative_error=0.02)": monoids.approx_quantile(
        "latency", 0.95, relative_error=0.02
    ),
    "median(latency, relative_error=0.02)": monoids.median("latency", relative_error=0.02),
    "quantile(latency, 0.95)": monoids.quantile(0.95, "latency"),
    "quantile(q=0.5, column=latency)": monoids.quantile(0.5, "latency"),
    "top_k(amount, 3)": monoids.top_k(3, "amount"),
    "histogram(amount, [0, 10, 20.5])": monoids.histogram((0, 10, 20.5), "amount"),
    "string_agg(name, ';')": monoids.string_agg(";", "name"),
    'sum("my column", exact=True)': monoids.sum("my column", exact=True),
    "weighted_mean(price, size)": monoids.weighted_mean("price", "size"),
    "argmax(by=price, value='id')": monoids.argmax("price", "id"),
    "variance(x, ddof=0)": monoids.variance("x", ddof=0),
    "decayed_sum(amount, 60)": monoids.decayed_sum(60, "amount"),
    "struct(n=count(), top=max(amount))": monoids.struct(n=monoids.count(), top=monoids.max("amount")),
}


@pytest.mark.parametrize("text", READ)
def test_a_call_gives_the_monoid(text):
    """Columns come first and parameters after them, whatever the order of the constructor's own."""
    assert repr(aggregate(text)) == repr(READ[text])
    assert aggregate(text).columns == READ[text].columns


@pytest.mark.parametrize("name", sorted(set(monoids.BUILT_IN) - {"struct"}))
def test_every_built_in_can_be_written(name):
    """As its card has it: a column where it reads one, and what it needs."""
    needed = {"histogram": "[0, 1]", "quantile": "0.5", "decayed_sum": "60", "kll": "q=0.5"}
    needed |= dict.fromkeys(("first_k", "last_k", "top_k", "bottom_k"), "2")
    columns = ["a", "b"] if len(aggregate_inputs(name)) == 2 else ["a"]
    made = aggregate(f"{name}({', '.join([*columns, *filter(None, [needed.get(name)])])})")
    assert made.name == name
    assert made.columns == tuple(columns)


def refusal(call):
    """Return the message of the error that a call raises."""
    with pytest.raises(ArgumentError) as raised:
        call()
    return str(raised.value)


def aggregate_inputs(name):
    from inspect import signature

    return [p for p in signature(monoids.BUILT_IN[name]).parameters.values() if p.annotation == str | None]


@pytest.mark.parametrize(
    "text, said",
    [
        ("summ(x)", "unknown aggregate summ in 'summ(x)'; did you mean sum?"),
        ("zzz(x)", "unknown aggregate zzz in 'zzz(x)'; expected one of affine, all, any,"),
        ("sum(", "must be a call such as sum(amount), got 'sum('."),
        ("", "must be a call such as sum(amount), got ''."),
        ("sum", "must be a call such as sum(amount), got 'sum'."),
        ("1 + 1", "must be a call such as sum(amount), got '1 + 1'."),
        ("sum(x, y)", "too many columns in 'sum(x, y)'; usage: sum(column, dtype=None, exact=False)."),
        ("quantile(x, 0.9, 3)", "too many positional parameters in 'quantile(x, 0.9, 3)'; usage: quantile(column, q)."),
        ("quantile(x)", "missing q in 'quantile(x)'; usage: quantile(column, q)."),
        ("sum(x, foo=1)", "unknown parameter foo in 'sum(x, foo=1)'; usage: sum("),
        ("sum(x, column=y)", "column is set twice in 'sum(x, column=y)'; usage: sum("),
        ("quantile(x, 2)", f"'quantile(x, 2)' is not valid: {refusal(lambda: monoids.quantile(2, 'x'))}"),
        ("top_k(x, a.b)", "parameters must be numbers, strings or lists of them, got a.b in 'top_k(x, a.b)'."),
        ("top_k(x, len([1]))", "unknown aggregate len in "),
        ("struct(n=3)", "'struct(n=3)' is not valid: "),
        ("sash.nothing:x", "directory (ModuleNotFoundError: No module named 'sash.nothing')."),
        ("sash.monoids:nothing", "'sash.monoids:nothing' not found: the module sash.monoids has no attribute nothing."),
        ("sash.monoids:sum", "'sash.monoids:sum' must name a Monoid, got a function."),
    ],
)
def test_a_wrong_aggregate_is_refused(text, said):
    with pytest.raises(ArgumentError) as raised:
        aggregate(text)
    assert said in str(raised.value)
    assert raised.value.argument == "aggs"


@pytest.mark.parametrize("text", ["__import__('os').abort()", "(lambda: exit())()", "sum(__import__('os').abort())"])
def test_nothing_is_run(text):
    """Whatever stands in the file is syntax; the process lives on to refuse it."""
    with pytest.raises(ArgumentError):
        aggregate(text)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with custom monoids."""
    (tmp_path / "ours.py").write_text(
        "from sash import Monoid\n"
        "longest = Monoid(identity='', combine=lambda a, b: max(a, b, key=len), name='longest', returns='string')\n"
        "fixed = Monoid(identity=0, combine=max, column='size', name='fixed')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("ours", None)


@pytest.mark.usefixtures("own")
def test_a_custom_monoid_is_found_and_applied():
    longest = aggregate("ours:longest(name)")
    assert isinstance(longest, Monoid)
    assert (longest.name, longest.columns) == ("longest", ("name",))
    assert aggregate("ours:fixed").columns == ("size",)
    with pytest.raises(ArgumentError, match=r"must name one column, as in ours:longest\(amount\)"):
        aggregate("ours:longest(1, 2)")
