"""Compiled monoids: Numba compiles a combine over numbers to C functions that the core calls.

A state, a row of inputs and a result are each a few 64-bit words, either int64 or float64 (`Layout`). A `Program` holds
the user's Python functions with the three layouts and returns the addresses of the C functions compiled from them.
Compilation happens once per process for the same code, captured constants and layouts, and compiled code stays until
the process ends, because the core holds bare addresses. Numba is imported on first use.

Compiled arithmetic is NumPy's: integers wrap at 64 bits, a division by zero gives inf, nan or 0.
"""

import dis
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from sash.errors import ArgumentError, KindError, UnsupportedError, shown
from sash.times import as_number

_KINDS = ("int64", "float64")


@dataclass(frozen=True)
class Layout:
    """The 64-bit words of a state, an input row or a result; `single` if it is one number instead of a tuple."""

    kinds: tuple[str, ...]
    single: bool

    def read(self, name: str, at: str = "") -> str:
        """Return the expression that reads these words from the memory `name`, starting at `at`."""
        words = [f"{name}_{kind[0]}[{at}{j}]" for j, kind in enumerate(self.kinds)]
        return words[0] if self.single else f"({', '.join(words)},)"

    def convert(self, name: str) -> str:
        """Return the expression that converts the variable `name` to these kinds."""
        words = [f"{kind}({name if self.single else f'{name}[{j}]'})" for j, kind in enumerate(self.kinds)]
        return words[0] if self.single else f"({', '.join(words)},)"

    def write(self, target: str, name: str) -> list[str]:
        """Return the statements that write the variable `name` to the memory `target`."""
        return [
            f"{target}_{kind[0]}[{j}] = {kind}({name if self.single else f'{name}[{j}]'})"
            for j, kind in enumerate(self.kinds)
        ]

    def __str__(self) -> str:
        """Return the layout as error messages name it."""
        return "a number" if self.single else f"a tuple of {len(self.kinds)}"


@dataclass(frozen=True)
class Program:
    """The C functions of a compiled monoid, with its Python functions and their layouts.

    It pickles as the Python functions; another process compiles them again on first use.
    """

    combine: Callable[[Any, Any], Any]
    lift: Callable[[Any], Any] | None
    lower: Callable[[Any], Any] | None
    state: Layout
    input: Layout
    output: Layout

    @property
    def state_kinds(self) -> tuple[str, ...]:
        """The kind of each word of a state."""
        return self.state.kinds

    @property
    def input_kinds(self) -> tuple[str, ...]:
        """The kind of each word of an input row."""
        return self.input.kinds

    @property
    def output_kinds(self) -> tuple[str, ...]:
        """The kind of each word of a result."""
        return self.output.kinds

    def addresses(self) -> tuple[int, int, int, int]:
        """Return the addresses of lift, fold, join and lower (0 if there is none), compiled on first use."""
        key = (*map(_meaning, (self.combine, self.lift, self.lower)), self.state, self.input, self.output)
        with _LOCK:
            if key not in _COMPILED:
                _COMPILED[key] = _compiled(self)
            lift, fold, join, lower = (0 if code is None else code.address for code in _COMPILED[key])
        return lift, fold, join, lower


def program(
    identity: Any,
    combine: Callable[[Any, Any], Any],
    lift: Callable[[Any], Any] | None,
    lower: Callable[[Any], Any] | None,
    columns: tuple[str, ...] | None,
    dtype: str | None,
) -> Program:
    """Return the program of these functions, or raise for the one that cannot be compiled.

    Without `lift` a value has the identity's layout. With it a value is one number, or a tuple with one number per name
    in `columns`, each of the kind `dtype`, "float64" by default.
    """
    functions: dict[str, Any] = {"combine": combine, "lift": lift, "lower": lower}
    for argument, function in functions.items():
        if not callable(function) and not (function is None and argument != "combine"):
            raise KindError(f"{argument} must be callable, got {shown(function)}.", argument=argument)
    state = _layout_of_identity(identity)
    row = _input_layout(state, lift is not None, columns, dtype)
    _expect(state, _result("combine", combine, state, state), "combine")
    if lift is not None:
        _expect(state, _result("lift", lift, row), "lift")
    return Program(combine, lift, lower, state, row, state if lower is None else _result("lower", lower, state))


def input_columns(column: str | None, columns: Any) -> tuple[str, ...] | None:
    """Return the input columns as a tuple, or None if there are none."""
    if columns is None:
        return None if column is None else (column,)
    if column is not None:
        raise ArgumentError(
            f"columns must be None if column= is set, got {shown(columns)} and column={column!r}.", argument="columns"
        )
    if not isinstance(columns, list | tuple) or not columns or not all(isinstance(name, str) for name in columns):
        raise KindError(f"columns must be a list of column names, got {shown(columns)}.", argument="columns")
    return tuple(columns)


# --- layouts --------------------------------------------------------------------------------------


def _layout_of_identity(identity: Any) -> Layout:
    if type(identity) is not tuple:
        return Layout((_kind_of(identity, identity),), True)
    if len(identity) < 2:
        raise KindError(
            f"identity must be a number or a tuple of at least two numbers, got {shown(identity)}.",
            argument="identity",
        )
    return Layout(tuple(_kind_of(item, identity) for item in identity), False)


def _kind_of(item: Any, identity: Any) -> str:
    number = as_number(item)
    if number is None:
        raise KindError(
            f"identity must be a number or a plain tuple of numbers, got {shown(identity)}.", argument="identity"
        )
    if isinstance(number, float):
        return "float64"
    if not -(2**63) <= number < 2**63:
        raise ArgumentError(f"identity must fit int64 or be a float, got {shown(identity)}.", argument="identity")
    return "int64"


def _input_layout(state: Layout, lifted: bool, columns: tuple[str, ...] | None, dtype: str | None) -> Layout:
    if dtype is not None and dtype not in _KINDS:
        raise ArgumentError(f'dtype must be "int64", "float64" or None, got {shown(dtype)}.', argument="dtype")
    if lifted:
        width = 1 if columns is None else len(columns)
        return Layout((dtype or "float64",) * width, width == 1)
    if dtype is not None and set(state.kinds) != {dtype}:
        kinds = ", ".join(state.kinds)
        raise ArgumentError(
            f"dtype must match the identity ({kinds}) if there is no lift, got {dtype!r}.", argument="dtype"
        )
    if columns is not None and len(columns) != len(state.kinds):
        raise ArgumentError(
            f"columns must name one column per number of the identity, which is {state}, got {shown(columns)}.",
            argument="columns",
        )
    return state


def _expect(state: Layout, result: Layout, argument: str) -> None:
    """Raise for a result that is not a state: another shape, or a float where the identity has an int."""
    if (state.single, len(state.kinds)) != (result.single, len(result.kinds)):
        raise KindError(f"{argument} must return {state}, as the identity is, got {result}.", argument=argument)
    for j, (kind, found) in enumerate(zip(state.kinds, result.kinds, strict=True)):
        if (kind, found) == ("int64", "float64"):
            item = "an int" if state.single else f"an int as item {j}"
            raise KindError(f"{argument} must return {item}, as the identity has, got a float.", argument=argument)


# --- Numba ----------------------------------------------------------------------------------------

_LOCK = threading.RLock()
_JITTED: dict[Any, tuple[Any, Any]] = {}  # a function and its arguments' layouts: the dispatcher, its return type
_COMPILED: dict[Any, tuple[Any, ...]] = {}  # a program: lift, fold, join and lower


def _numba() -> Any:
    try:
        import numba
    except ImportError as error:
        raise UnsupportedError(
            'Monoid.compiled needs Numba, which is not installed; run pip install "sash[jit]".'
        ) from error
    return numba


def _result(argument: str, function: Callable[..., Any], *layouts: Layout) -> Layout:
    """Return the layout of what the function returns for arguments of these layouts."""
    numba = _numba()
    if isinstance(function, FunctionType) and any(map(_raises, _codes(function.__code__))):
        raise ArgumentError(
            f"{argument} must not raise or assert because compiled code cannot; return a value instead.",
            argument=argument,
        )
    try:
        _, returned = _jitted(function, layouts)
    except Exception as error:  # no user code runs here: whatever is raised, Numba raised it
        raise KindError(
            f"{argument} must use only numbers and tuples: Numba cannot compile it ({_reason(error)}).",
            argument=argument,
        ) from error
    if isinstance(returned, numba.types.Optional | numba.types.NoneType):
        raise KindError(f"{argument} must return a number, such as nan, on every path, got None.", argument=argument)
    single = not isinstance(returned, numba.types.BaseTuple)
    members = (returned,) if single else returned.types
    kinds = tuple(filter(None, map(_kind_of_type, members)))
    if not kinds or len(kinds) < len(members):
        raise KindError(
            f"{argument} must return a number or a flat tuple of numbers, got {shown(returned)}.", argument=argument
        )
    return Layout(kinds, single)


def _raises(code: CodeType) -> bool:
    return any(step.opname == "RAISE_VARARGS" for step in dis.get_instructions(code))


_COLORS = re.compile(r"\x1b\[[0-9;]*m")  # of terminals, which Numba writes where colorama is installed


def _reason(error: Exception) -> str:
    """Return Numba's complaint in one line: the first after its heading, with the call if it names one."""
    lines = [line.strip() for line in _COLORS.sub("", str(error)).splitlines()]
    lines = [line for line in lines if line and not line.startswith("Failed in nopython mode")]
    call = [line.removeprefix(">>> ") for line in lines[1:2] if line.startswith(">>> ")]
    text = " ".join(lines[:1] + call).rstrip(".") or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def _kind_of_type(numba_type: Any) -> str | None:
    types = _numba().types
    if isinstance(numba_type, types.Boolean):
        return "int64"
    if isinstance(numba_type, types.Integer):
        return "int64" if numba_type.signed or numba_type.bitwidth < 64 else None
    return "float64" if isinstance(numba_type, types.Float) else None


def _jitted(function: Callable[..., Any], layouts: tuple[Layout, ...]) -> tuple[Any, Any]:
    """Return the function's Numba dispatcher, compiled for arguments of these layouts, and its return type."""
    numba = _numba()
    key = (_meaning(function), layouts)
    with _LOCK:
        if key not in _JITTED:
            arguments = tuple(map(_type_of, layouts))
            jitted = numba.njit(error_model="numpy")(_plain(function, len(layouts)))
            jitted.compile(arguments)
            _JITTED[key] = jitted, jitted.overloads[arguments].signature.return_type
        return _JITTED[key]


def _type_of(layout: Layout) -> Any:
    types = _numba().types
    kinds = tuple(getattr(types, kind) for kind in layout.kinds)
    return kinds[0] if layout.single else types.BaseTuple.from_types(kinds)


def _plain(function: Any, arguments: int) -> Callable[..., Any]:
    """Return a Python function: the one inside a Numba dispatcher, or one that calls a built-in such as max."""
    function = getattr(function, "py_func", function)
    if isinstance(function, FunctionType):
        return _without_globals(function)
    return (lambda a: function(a)) if arguments == 1 else (lambda a, b: function(a, b))


def _without_globals(function: FunctionType) -> FunctionType:
    """Return the function with only the globals that it names, because compiled code keeps its globals alive."""
    used = {name for code in _codes(function.__code__) for name in code.co_names} | {"__builtins__", "__name__"}
    own = {name: function.__globals__[name] for name in used if name in function.__globals__}
    twin = FunctionType(function.__code__, own, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__, twin.__qualname__, twin.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    return twin


def _compiled(program: Program) -> tuple[Any, ...]:
    """Compile the C functions of a program."""
    numba = _numba()
    names: dict[str, Any] = {"int64": numba.int64, "float64": numba.float64}
    names["combine"], _ = _jitted(program.combine, (program.state, program.state))
    if program.lift is not None:
        names["lift"], _ = _jitted(program.lift, (program.input,))
    if program.lower is not None:
        names["lower"], _ = _jitted(program.lower, (program.state,))
    exec(source(program), names)

    pointers = (numba.types.CPointer(numba.int64), numba.types.CPointer(numba.float64)) * 2
    number = numba.int64

    def compile_c(name: str, *more: Any) -> Any:
        return numba.cfunc(numba.void(*pointers, *more), error_model="numpy")(names[name])

    return (
        compile_c("lift_row"),
        compile_c("fold_rows", number),
        compile_c("join_states", number, number),
        None if program.lower is None else compile_c("lower_state"),
    )


def source(program: Program) -> str:
    """Return the Python source of a program's C functions, with every read and write of a word spelled out.

    `_i` and `_f` are the same memory, seen as int64 and as float64.

    >>> text = source(Program(max, None, None, *[Layout(("int64",), True)] * 3))
    >>> print(text.split("\\n\\n")[1])
    def fold_rows(state_i, state_f, rows_i, rows_f, n):
        state = state_i[0]
        for at in range(0, n * 1, 1):
            value = rows_i[at + 0]
            result = combine(state, value)
            state = int64(result)
        state_i[0] = int64(state)
    """
    return "\n\n".join(_functions(program))


def _functions(program: Program) -> list[str]:
    state, row, width = program.state, program.input, len(program.input.kinds)
    load, store = f"state = {state.read('state')}", state.write("state", "state")
    lift = [] if program.lift is None else ["lifted = lift(value)", f"value = {state.convert('lifted')}"]
    step = ["    result = combine(state, value)", f"    state = {state.convert('result')}"]
    return [
        _function("lift_row", "row", [f"value = {row.read('row')}", *lift, *state.write("state", "value")]),
        _function(
            "fold_rows",
            "rows",
            [
                load,
                f"for at in range(0, n * {width}, {width}):",
                f"    value = {row.read('rows', 'at + ')}",
                *(f"    {line}" for line in lift),
                *step,
                *store,
            ],
            "n",
        ),
        _function(
            "join_states",
            "others",
            [
                load,
                "for at in range(0, n * stride, stride):",
                f"    value = {state.read('others', 'at + ')}",
                *step,
                *store,
            ],
            "stride",
            "n",
        ),
        _function("lower_state", "out", [load, "result = lower(state)", *program.output.write("out", "result")]),
    ]


def _function(name: str, other: str, body: list[str], *more: str) -> str:
    parameters = ["state_i", "state_f", f"{other}_i", f"{other}_f", *more]
    return "\n".join([f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in body)])


# --- equality of code -----------------------------------------------------------------------------


def _meaning(function: Any) -> Any:
    """Return a key that is equal for functions that compile to the same code: code, defaults, captured constants."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        return _Same(function)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    used = [(name, _constant(function.__globals__[name])) for name in names if name in function.__globals__]
    return function.__code__, tuple(map(_constant, cells)), tuple(map(_constant, defaults)), tuple(used)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _constant(value: Any) -> Any:
    """Return a key for a value that Numba compiles in; 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, bool | int | float | complex | str):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), tuple(map(_constant, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str, value.shape, value.tobytes()
    return _Same(value)


class _Same:
    """A key that is equal only for the same object, and keeps it alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
