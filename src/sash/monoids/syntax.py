"""Aggregates as text, in calls and in pipeline files: `quantile(latency, 0.95)`. Parsed as syntax, never run as code.

A call names one of `sash.monoids`, columns first and parameters after them, positional or by name. A custom `Monoid` is
named by its module, which is imported: `mypackage.module:monoid`, or `mypackage.module:monoid(column)`.
"""

import ast
import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from sash.errors import ArgumentError, SashError, shown
from sash.monoid import Monoid
from sash.monoids.names import BUILT_IN

_CUSTOM = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL)


def aggregate(text: str) -> Monoid:
    """Return the monoid that a text describes.

    >>> aggregate("sum(amount)"), aggregate('quantile("response time", 0.95)'), aggregate("variance(x, ddof=0)").columns
    (sum('amount'), quantile(q=0.95, column='response time'), ('x',))
    """
    custom = _CUSTOM.fullmatch(text.strip())
    if custom is not None:
        return _custom(text, custom[1], custom[2], custom[3])
    return _called(text, _parsed(text))


def monoid_of(value: Any, argument: str, column: str | None = None) -> Any:
    """Return the monoid that a text describes, and anything else unchanged; `column` is its name among several.

    >>> monoid_of("max(amount)", "aggs", "top"), monoid_of(5, "aggs", "top")
    (max('amount'), 5)
    """
    if not isinstance(value, str):
        return value
    try:
        return aggregate(value)
    except ArgumentError as error:
        place = argument if column is None else f"{argument}[{column!r}]"
        between = " " if str(error).startswith("must ") else ": "
        raise ArgumentError(f"{place}{between}{error}", argument=argument, column=column) from error.__cause__


def monoids_of(aggs: Any) -> Any:
    """Return a dict of aggregates by name with monoids in place of texts, and anything else unchanged."""
    if not isinstance(aggs, dict):
        return aggs
    return {name: monoid_of(value, "aggs", name) if isinstance(name, str) else value for name, value in aggs.items()}


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _error(f"must be a call such as sum(amount), got {shown(text)}.") from None


def _called(text: str, node: ast.expr) -> Monoid:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise _error(f"must be a call such as sum(amount), got {shown(text)}.")
    name = node.func.id
    make = BUILT_IN.get(name)
    if make is None:
        close = get_close_matches(name, BUILT_IN, 1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(sorted(BUILT_IN))}."
        raise _error(f"unknown aggregate {name} in {shown(text)}; {hint}")
    arguments = _arguments(text, node, make)
    try:
        return make(**arguments)
    except (SashError, TypeError, ValueError) as error:
        raise _error(f"{shown(text)} is not valid: {error}") from error


def _arguments(text: str, node: ast.Call, make: Callable[..., Monoid]) -> dict[str, Any]:
    """Return the arguments by name: names of columns go to parameters that take columns, the rest to the others."""
    parameters = signature(make).parameters
    columns = [name for name, parameter in parameters.items() if _is_column(parameter)]
    others = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and name not in columns]
    arguments: dict[str, Any] = {}
    for argument in node.args:
        column = _column(argument)
        for_column = isinstance(argument, ast.Name) or (column is not None and _left(columns, arguments))
        places = columns if for_column else others
        name = next(iter(_left(places, arguments)), None)
        if name is None:
            what = "columns" if places is columns else "positional parameters"
            raise _error(f"too many {what} in {shown(text)}; usage: {_usage(make)}.")
        arguments[name] = column if places is columns else _literal(text, argument)
    for keyword in node.keywords:
        _take_keyword(text, keyword, make, columns, arguments)
    missing = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    for name in _left(missing, arguments):
        raise _error(f"missing {name} in {shown(text)}; usage: {_usage(make)}.")
    return arguments


def _take_keyword(
    text: str, keyword: ast.keyword, make: Callable[..., Monoid], columns: list[str], arguments: dict[str, Any]
) -> None:
    parameters = signature(make).parameters
    name, anything = keyword.arg, any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if name is None or (name not in parameters and not anything):
        raise _error(f"unknown parameter {name} in {shown(text)}; usage: {_usage(make)}.")
    if name in arguments:
        raise _error(f"{name} is set twice in {shown(text)}; usage: {_usage(make)}.")
    column = _column(keyword.value) if name in columns else None
    arguments[name] = column if column is not None else _literal(text, keyword.value)


def _left(names: list[str], arguments: dict[str, Any]) -> list[str]:
    return [name for name in names if name not in arguments]


def _is_column(parameter: Parameter) -> bool:
    """Return whether a parameter of a built-in takes a column: those are optional strings."""
    return parameter.annotation in ("str | None", str | None) and parameter.default is None


def _column(node: ast.expr) -> str | None:
    """Return the column that an argument names, bare or in quotes, or None."""
    if isinstance(node, ast.Name):
        return node.id
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _literal(text: str, node: ast.expr) -> Any:
    """Return a number, string, boolean, list of them or, within a struct, another aggregate."""
    if isinstance(node, ast.Call):
        return _called(text, node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _error(
            f"parameters must be numbers, strings or lists of them, got {ast.unparse(node)} in {shown(text)}."
        ) from None


def _usage(make: Callable[..., Monoid]) -> str:
    """Return the signature as a file writes it: columns first."""
    parameters = signature(make).parameters.values()
    columns = [p.name for p in parameters if _is_column(p)]
    others = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters if not _is_column(p)]
    others = [f"name={'count()'}" if other == "fields" else other for other in others]
    return f"{make.__name__}({', '.join(columns + others)})"


def _custom(text: str, module: str, name: str, argument: str | None) -> Monoid:
    """Return a custom monoid, applied to a column where one is named."""
    try:
        monoid = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise _error(f"{shown(text)} not found: the module {module} has no attribute {name}.") from None
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise _error(f"{shown(text)} cannot be imported ({reason}).") from error
    if not isinstance(monoid, Monoid):
        raise _error(f"{shown(text)} must name a Monoid, got a {type(monoid).__name__}.")
    if argument is None:
        return monoid
    column = _column(_parsed(argument))
    if column is None:
        raise _error(f"{shown(text)} must name one column, as in {module}:{name}(amount).")
    if monoid.parts:
        raise _error(f"{shown(text)} names a column, but the monoid has its own; remove the column.")
    return replace(monoid, column=column)


def _error(message: str) -> ArgumentError:
    return ArgumentError(message, argument="aggs")
