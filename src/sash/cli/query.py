"""sash query: results for keys from the checkpoint of a stream, as of a time or for a range."""

import json as js
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sash.cli.environment import ready
from sash.cli.open_checkpoint import Batch, Json, Operator, Place, opened, pipeline_at
from sash.cli.options import Traceback
from sash.errors import ArgumentError, shown

if TYPE_CHECKING:
    import pyarrow as pa

    from sash.spark import Answer
    from sash.spark.stream.plan import Plan

Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="COLUMN=VALUE", help="A key: card=a, card=a,shop=b, or as JSON. Repeatable."),
]
Moment = Annotated[str | None, typer.Option(metavar="TIME", help="As of this time, in UTC. [default: the newest row]")]
Start = Annotated[str | None, typer.Option(metavar="TIME", help="First time of a range.")]
Stop = Annotated[str | None, typer.Option(metavar="TIME", help="Last time of a range.")]
Closed = Annotated[
    str | None, typer.Option(metavar="SIDE", help="Ends of the range that belong to it: both, left, right or neither.")
]


def query(
    path: Place,
    key: Keys = None,
    at: Moment = None,
    start: Start = None,
    stop: Stop = None,
    closed: Closed = None,
    batch: Batch = None,
    operator: Operator = 0,
    json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Print the results of keys as of a time, or for a range, from the checkpoint of a stream.

    Nothing in the checkpoint is changed, and the stream may run meanwhile: everything is as of one committed
    micro-batch. Exit codes: 0 done, 1 the checkpoint cannot be read, 2 mistake in the arguments.
    """
    times = {name: moment_of(text, name) for name, text in (("at", at), ("start", start), ("stop", stop)) if text}
    keys = [key_of(text) for text in key or []]
    ready()
    from sash.spark.stream.checkpoint_query import answer

    def question(plan: "Plan") -> tuple[Any, dict[str, Any]]:
        like = {"at": None, "start": None, "stop": None, "closed": closed}
        found = {name: _zoned(time, plan.schema.field(plan.spec.time).type) for name, time in times.items()}
        return table_of(keys, [plan.schema.field(name) for name in plan.spec.keys]), like | found

    pipeline = pipeline_at(path)
    aggs = None if pipeline is None else pipeline.rolling.arguments()["aggs"]
    checkpoint, spark = opened(path, traceback)
    answered = answer(checkpoint, question, aggs=aggs, batch=batch, operator=operator, spark=spark)
    if json:
        _print_json(answered)
    else:
        _print_table(answered)


# --- arguments ------------------------------------------------------------------------------------


def moment_of(text: str, name: str) -> datetime:
    """Return a time of the command line; without a zone it is in UTC.

    >>> moment_of("2026-01-01 10:00", "at").isoformat()
    '2026-01-01T10:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"{name} must be a time such as 2026-01-01T10:00, got {shown(text)}.", argument=name
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _zoned(time: datetime, kind: "pa.DataType") -> datetime:
    """Return a time as it is compared with those of a column, which may have no zone."""
    return time if kind.tz is not None else time.astimezone(UTC).replace(tzinfo=None)


def key_of(text: str) -> dict[str, Any]:
    """Return a key of the command line as values by column.

    >>> key_of("card=a,shop=b"), key_of('{"card": null}')
    ({'card': 'a', 'shop': 'b'}, {'card': None})
    """
    try:
        found = js.loads(text) if text.startswith("{") else dict(part.split("=", 1) for part in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"key must be COLUMN=VALUE, several with commas, or a JSON object, got {shown(text)}.", argument="key"
        ) from None
    return {name.strip(): value for name, value in found.items()}


def table_of(keys: list[dict[str, Any]], fields: "list[pa.Field]") -> "pa.Table | None":
    """Return keys as a table of the types that the checkpoint has; None if there are no key columns, and no keys."""
    import pyarrow as pa

    if not keys and not fields:
        return None
    names = [field.name for field in fields]
    for key in keys:
        if set(key) != set(names):
            wanted = f"have the columns {', '.join(names)}" if names else "be left out, because all rows have one key"
            raise ArgumentError(f"key must {wanted}, got {shown(key)}.", argument="key")
    columns = [pa.array([_typed(key[field.name], field) for key in keys], field.type) for field in fields]
    return pa.table(columns, pa.schema(fields))


def _typed(value: Any, field: "pa.Field") -> Any:
    import pyarrow as pa

    try:
        one = pa.scalar(value)
        return (one if one.type == field.type else one.cast(field.type)).as_py()
    except (pa.ArrowException, NotImplementedError, OverflowError):
        raise ArgumentError(
            f"key must hold {field.type} in the column {field.name}, got {shown(value)}.",
            argument="key",
            column=field.name,
        ) from None


# --- results --------------------------------------------------------------------------------------


def _print_json(answer: "Answer") -> None:
    rows = [{name: _plain(value) for name, value in row.items()} for row in answer.table.to_pylist()]
    watermark = None if answer.watermark is None else answer.watermark.isoformat()
    typer.echo(js.dumps({"batch": answer.batch, "watermark": watermark, "rows": rows}, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON can write it."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _print_table(answer: "Answer") -> None:
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for field in answer.table.schema:
        table.add_column(Text(field.name), justify="right" if _is_number(field.type) else "left", overflow="fold")
    for row in answer.table.to_pylist():
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    console.print(table)
    watermark = "none" if answer.watermark is None else answer.watermark.isoformat(sep=" ").replace("+00:00", " UTC")
    console.print(Text(f"as of micro-batch {answer.batch}, watermark {watermark}", style="dim"))


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _is_number(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
