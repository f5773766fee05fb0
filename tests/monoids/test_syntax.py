"""Aggregates as text: what is read, what is refused, where it is taken, and that nothing is run."""

import sys

import pytest

from sash import KeyedWindows, Monoid, Window, monoids, rolling, serialize
from sash.errors import ArgumentError, CorruptStateError, KindError
from sash.monoids.syntax import aggregate

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
    needed = {"histogram": "[0, 1]", "quantile": "0.5", "decayed_sum": "60", "decayed_mean": "60", "kll": "q=0.5"}
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
        ("sash.nothing:x", "cannot be imported (ModuleNotFoundError: No module named 'sash.nothing')."),
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


# --- wherever a monoid is taken -------------------------------------------------------------------

ROWS = {"k": ["a", "b", "a"], "t": [1, 2, 3], "v": [5, None, 7]}
TEXTS = {"n": "count()", "high": "quantile(v, 0.75)", "both": "struct(top=max(v), low='min(v)')"}
MONOIDS = {
    "n": monoids.count(),
    "high": monoids.quantile(0.75, "v"),
    "both": monoids.struct(top=monoids.max("v"), low=monoids.min("v")),
}


def test_rolling_takes_text():
    asked = {"keys": "k", "time": "t", "windows": [2, 10]}
    expected = rolling(ROWS, **asked, aggs=MONOIDS)
    assert rolling(ROWS, **asked, aggs=TEXTS).equals(expected)
    assert expected["both_10"].to_pylist()[2] == {"top": 7, "low": 5}


def test_keyed_windows_take_text_and_save_what_it_means():
    """The state holds the monoids; text that is passed to `from_bytes` has to mean the same."""
    kw = KeyedWindows(keys="k", time="t", windows=[10], aggs=TEXTS)
    same = KeyedWindows(keys="k", time="t", windows=[10], aggs=MONOIDS)
    assert kw.push(ROWS).equals(same.push(ROWS))
    assert kw.to_bytes() == same.to_bytes()
    loaded = KeyedWindows.from_bytes(kw.to_bytes(), aggs=TEXTS)
    assert loaded.now({"k": "a"}) == same.now({"k": "a"})
    with pytest.raises(ArgumentError, match="high was"):
        KeyedWindows.from_bytes(kw.to_bytes(), aggs=TEXTS | {"high": "quantile(v, 0.5)"})


def test_a_window_takes_text():
    w = Window("struct(n=count(), total=sum())")
    w.insert_many([1, 2], [10, 20])
    assert w.query() == {"n": 2, "total": 30}
    assert Window.from_bytes(w.to_bytes(), "struct(n=count(), total=sum())").query() == w.query()
    assert Window(monoids.struct(n="count()", low=monoids.min())).monoid.timed is False


def aggregates_of(aggs):
    return lambda: rolling(ROWS, keys="k", time="t", windows=[10], aggs=aggs)


@pytest.mark.parametrize(
    ("call", "said", "argument", "column"),
    [
        (aggregates_of({"n": "count()", "total": "summ(v)"}), "aggs['total']: unknown aggregate summ", "aggs", "total"),
        (aggregates_of({"total": "sum"}), "aggs['total'] must be a call such as sum(amount)", "aggs", "total"),
        (aggregates_of({"total": "sum()"}), "aggs must name their columns", "aggs", "total"),
        (aggregates_of("sum(v)"), "aggs must be a dict", "aggs", None),
        (aggregates_of({1: "sum(v)"}), "aggs must have names of type str", "aggs", None),
        (lambda: Window("summ()"), "monoid: unknown aggregate summ", "monoid", None),
        (lambda: monoids.struct(top="maxx()"), "top: unknown aggregate maxx", "top", None),
        (lambda: monoids.struct(top="struct(n=count())"), "top must not be a struct itself", "top", None),
    ],
)
def test_an_error_names_the_argument_and_the_aggregate(call, said, argument, column):
    with pytest.raises((ArgumentError, KindError)) as raised:
        call()
    assert said in str(raised.value)
    assert (raised.value.argument, raised.value.column) == (argument, column)


def test_bytes_hold_no_text_that_would_be_imported(tmp_path, monkeypatch):
    """A saved struct whose field is a text, which could name any module, is corrupt: nothing is imported."""
    (tmp_path / "evil.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plain = serialize.monoid_to(monoids.struct(n=monoids.count()))
    with pytest.raises(CorruptStateError, match="invalid monoid"):
        serialize.monoid_from(plain | {"arguments": {"n": "evil:monoid"}})
    assert "evil" not in sys.modules
