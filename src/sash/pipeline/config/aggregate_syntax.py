"""Aggregates as a pipeline file writes them: `quantile(latency, 0.95)`. Read as syntax, never run as code.

A call names one of `sash.monoids`, its columns first and its parameters after them, which also go by name. Anything
else is a `Monoid` of the reader's own, found by its module: `mypackage.module:monoid`, or `...:monoid(column)`.
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
from sash.monoids import BUILT_IN

_OWN = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:\((.*)\))?", re.DOTALL)


def aggregate(text: str) -> Monoid:
    """Give the monoid that a text describes.

    >>> aggregate("sum(amount)"), aggregate('quantile("response time", 0.95)'), aggregate("variance(x, ddof=0)").columns
    (sum('amount'), quantile(q=0.95, column='response time'), ('x',))
    """
    own = _OWN.fullmatch(text.strip())
    if own is not None:
        return _own(text, own[1], own[2], own[3])
    return _called(text, _parsed(text))


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ArgumentError(f"{shown(text)} cannot be read; give a call such as sum(amount).") from None


def _called(text: str, node: ast.expr) -> Monoid:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ArgumentError(f"{shown(text)} is no call of an aggregate; give one such as sum(amount).")
    name = node.func.id
    make = BUILT_IN.get(name)
    if make is None:
        close = get_close_matches(name, BUILT_IN, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(BUILT_IN))}."
        raise ArgumentError(f"{shown(text)} names no aggregate {name}; {hint}")
    given = _given(text, node, make)
    try:
        return make(**given)
    except (SashError, TypeError, ValueError) as error:
        raise ArgumentError(f"{shown(text)} cannot be made: {error}") from error


def _given(text: str, node: ast.Call, make: Callable[..., Monoid]) -> dict[str, Any]:
    """Give the arguments by their names: what names columns goes to parameters that are columns, the rest to others."""
    parameters = signature(make).parameters
    columns = [name for name, parameter in parameters.items() if _is_column(parameter)]
    others = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and name not in columns]
    given: dict[str, Any] = {}
    for argument in node.args:
        column = _column(argument)
        places = columns if isinstance(argument, ast.Name) or (column is not None and _left(columns, given)) else others
        name = next(iter(_left(places, given)), None)
        if name is None:
            what = "columns" if places is columns else "parameters without a name"
            raise ArgumentError(f"{shown(text)} has too many {what}; it is {_usage(make)}.")
        given[name] = column if places is columns else _literal(text, argument)
    for keyword in node.keywords:
        _take_keyword(text, keyword, make, columns, given)
    missing = [name for name, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    for name in _left(missing, given):
        raise ArgumentError(f"{shown(text)} lacks {name}; it is {_usage(make)}.")
    return given


def _take_keyword(
    text: str, keyword: ast.keyword, make: Callable[..., Monoid], columns: list[str], given: dict[str, Any]
) -> None:
    parameters = signature(make).parameters
    name, anything = keyword.arg, any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if name is None or (name not in parameters and not anything):
        raise ArgumentError(f"{shown(text)} has no parameter {name}; it is {_usage(make)}.")
    if name in given:
        raise ArgumentError(f"{shown(text)} gives {name} twice; it is {_usage(make)}.")
    column = _column(keyword.value) if name in columns else None
    given[name] = column if column is not None else _literal(text, keyword.value)


def _left(names: list[str], given: dict[str, Any]) -> list[str]:
    return [name for name in names if name not in given]


def _is_column(parameter: Parameter) -> bool:
    """Tell whether a parameter of a built-in is a column: those are text that may be left out."""
    return parameter.annotation in ("str | None", str | None) and parameter.default is None


def _column(node: ast.expr) -> str | None:
    """Give the column that an argument names, bare or in quotes; None where it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _literal(text: str, node: ast.expr) -> Any:
    """Give a number, text, truth value, list of them or, within a struct, another aggregate."""
    if isinstance(node, ast.Call):
        return _called(text, node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        written = ast.unparse(node)
        raise ArgumentError(
            f"{shown(text)} has the parameter {written}, which is no plain value; give numbers, text or lists of them."
        ) from None


def _usage(make: Callable[..., Monoid]) -> str:
    """Give a call as a file writes it: columns first."""
    parameters = signature(make).parameters.values()
    columns = [p.name for p in parameters if _is_column(p)]
    others = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters if not _is_column(p)]
    others = [f"name={'count()'}" if other == "fields" else other for other in others]
    return f"{make.__name__}({', '.join(columns + others)})"


def _own(text: str, module: str, name: str, argument: str | None) -> Monoid:
    """Give a monoid of the reader's own, applied to a column where one is named."""
    try:
        found = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ArgumentError(f"{shown(text)} is not there: the module {module} has no {name}.") from None
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ArgumentError(
            f"{shown(text)} cannot be imported ({reason}); give a module that Python finds from where it runs."
        ) from error
    if not isinstance(found, Monoid):
        raise ArgumentError(f"{shown(text)} is a {type(found).__name__}; give the name of a Monoid.")
    if argument is None:
        return found
    column = _column(_parsed(argument))
    if column is None:
        raise ArgumentError(f"{shown(text)} is applied to no column; give one name, as in {module}:{name}(amount).")
    if found.parts:
        raise ArgumentError(f"{shown(text)} names a column of a monoid that has its own; leave the column out.")
    return replace(found, column=column)
