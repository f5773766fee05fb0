"""Tables that users pass: pandas, polars, Arrow, what streams Arrow, and dicts of columns, as Arrow tables, and back.

Only the columns that are read are converted. The others are returned as they are.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from sash.errors import ArgumentError, KindError, shown
from sash.inputs.arrow import is_view, plain, pyarrow, require_columns, with_columns

if TYPE_CHECKING:
    import pyarrow as pa


class Source(Protocol):
    """A table of some kind."""

    column_names: list[str]

    def read(self, names: Iterable[str]) -> "pa.Table":
        """Return some of its columns."""

    def extended(self, columns: dict[str, Any]) -> Any:
        """Return the table with columns appended, which are arrays."""

    def like(self, table: "pa.Table") -> Any:
        """Return results that have other rows as a table of the same kind."""


def source_of(data: Any, argument: str) -> Source:
    """Return what reads a table and returns its results, or raise if it is not one."""
    pa = pyarrow()
    if isinstance(data, pa.Table):
        return _ArrowSource(data)
    if isinstance(data, pa.RecordBatch):
        return _ArrowSource(pa.Table.from_batches([data]))
    if isinstance(data, dict):
        return _ArrowSource(_of_dict(data, argument))
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _PandasSource(data, argument)
    if polars is not None and isinstance(data, polars.DataFrame):
        return _PolarsSource(data)
    if polars is not None and isinstance(data, polars.LazyFrame):
        return _LazySource(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _ArrowSource(_of_stream(data, argument))
    raise KindError(
        f"{argument} must be a pandas, polars or Arrow table, something else with __arrow_c_stream__, or a dict of "
        f"columns, got {shown(data)}.",
        argument=argument,
    )


def table_of(data: Any, argument: str) -> "pa.Table":
    """Return a whole table as an Arrow table."""
    source = source_of(data, argument)
    return source.read(source.column_names)


class _ArrowSource:
    """Arrow tables and batches; their results are tables."""

    def __init__(self, table: "pa.Table") -> None:
        self.table, self.column_names = table, table.column_names

    def read(self, names: Iterable[str]) -> "pa.Table":
        """Return the table: more columns cost nothing. Views, for which Arrow can do little, are read as text."""
        table = self.table
        if not any(is_view(kind) for kind in table.schema.types):
            return table
        for i, field in enumerate(table.schema):
            if field.name in names and is_view(field.type):
                table = table.set_column(i, field.name, plain(table.column(i)))
        return table

    def extended(self, columns: dict[str, Any]) -> Any:
        """Return the table with columns appended."""
        return with_columns(self.table, columns)

    def like(self, table: "pa.Table") -> Any:
        """Return results with other rows."""
        return table


class _PolarsSource:
    """DataFrames of polars."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.column_names = frame, list(frame.columns)

    def read(self, names: Iterable[str]) -> "pa.Table":
        """Return some columns."""
        present = [name for name in dict.fromkeys(names) if name in self.column_names]
        return self.frame.select(present).to_arrow()

    def extended(self, columns: dict[str, Any]) -> Any:
        """Return the frame with columns appended."""
        import polars

        added: Any = polars.from_arrow(pyarrow().table(columns))
        return self.frame.with_columns(added.get_columns())

    def like(self, table: "pa.Table") -> Any:
        """Return results with other rows."""
        import polars

        return polars.from_arrow(table)


class _LazySource(_PolarsSource):
    """LazyFrames of polars, which are collected; so results are lazy only in form."""

    def __init__(self, frame: Any) -> None:
        super().__init__(frame.collect())

    def extended(self, columns: dict[str, Any]) -> Any:
        """Return the frame with columns appended."""
        return super().extended(columns).lazy()

    def like(self, table: "pa.Table") -> Any:
        """Return results with other rows."""
        return super().like(table).lazy()


class _PandasSource:
    """DataFrames of pandas, and of classes derived from them. A named level of the index is a column too."""

    def __init__(self, frame: Any, argument: str) -> None:
        self.frame, self.argument = frame, argument
        levels = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
        self.column_names = [*(name for name in frame.columns if isinstance(name, str)), *levels]

    def read(self, names: Iterable[str]) -> "pa.Table":
        """Return some columns; NaN is null."""
        present = [name for name in dict.fromkeys(names) if name in self.column_names]
        require_columns(self, present, self.argument)
        return pyarrow().table({name: self._column(name) for name in present})

    def _series(self, name: str) -> Any:
        if name in self.frame.columns:
            return self.frame[name]
        return self.frame.index.get_level_values(name).to_series()

    def _column(self, name: str) -> Any:
        try:
            return pyarrow().array(self._series(name), from_pandas=True)
        except (ValueError, TypeError, NotImplementedError, OverflowError) as error:  # Arrow's errors are these too
            raise _unreadable(name, error, self.argument) from None

    def extended(self, columns: dict[str, Any]) -> Any:
        """Return the frame with columns appended."""
        frame = self.frame.copy(deep=False)
        for name, column in columns.items():
            frame[name] = _series_of(column).set_axis(frame.index)
        return frame

    def like(self, table: "pa.Table") -> Any:
        """Return results with other rows; keys have the types that they had."""
        import pandas

        frame = {name: _series_of(table.column(name)) for name in table.column_names}
        for name in frame.keys() & set(self.column_names):
            kind = self._series(name).dtype
            if isinstance(kind, pandas.api.extensions.ExtensionDtype) and not isinstance(kind, pandas.CategoricalDtype):
                frame[name] = frame[name].astype(kind)
        return pandas.DataFrame(frame)


def _series_of(column: Any) -> Any:
    """Return a column as a pandas Series; integers and booleans with nulls have the types of pandas for those."""
    pa = pyarrow()
    if not column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        return column.to_pandas()
    import pandas

    bits = 8 if pa.types.is_boolean(column.type) else column.type.bit_width
    unsigned = "U" if pa.types.is_unsigned_integer(column.type) else ""
    name = "boolean" if pa.types.is_boolean(column.type) else f"{unsigned}Int{bits}"
    return column.to_pandas(types_mapper={column.type: pandas.api.types.pandas_dtype(name)}.get)


def _of_stream(data: Any, argument: str) -> "pa.Table":
    """Read what speaks Arrow's C stream interface, such as a relation of DuckDB."""
    pa = pyarrow()
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's errors are these too
        raise KindError(f"{argument} must be a table, got {shown(data)}: {shown(error)}.", argument=argument) from None


def _of_dict(data: dict[Any, Any], argument: str) -> "pa.Table":
    pa = pyarrow()
    for name, column in data.items():
        if not isinstance(name, str):
            raise KindError(f"{argument} must have column names of type str, got {shown(name)}.", argument=argument)
        if isinstance(column, (str, bytes)) or not (hasattr(column, "__len__") or hasattr(column, "__iter__")):
            raise KindError(
                f"{argument} must be a dict of columns, such as lists or arrays, but {name} is {shown(column)}.",
                argument=argument,
                column=name,
            )
    try:
        return pa.table(data)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
        whole = error
    for name, column in data.items():
        try:
            pa.table({name: column})
        except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
            raise _unreadable(name, error, argument) from None
    lengths = {name: len(column) for name, column in data.items()}
    raise ArgumentError(
        f"{argument} must have columns of one length, got {shown(lengths)}.", argument=argument
    ) from whole


def _unreadable(name: str, error: Exception, argument: str) -> KindError:
    return KindError(
        f"{argument} must have columns of one Arrow type, but {shown(name)} does not: {shown(error)}.",
        argument=argument,
        column=name,
    )
