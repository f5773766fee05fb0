"""sash checkpoint: show, verify and export what the checkpoint of a stream holds; nothing in it is changed."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sash.cli.exit_codes import FAILED
from sash.cli.open_checkpoint import Batch, Json, Operator, Place, opened
from sash.cli.options import Traceback
from sash.errors import shown
from sash.formatting import size

if TYPE_CHECKING:
    from sash.spark.stream.description import DescribedDefinition, Description
    from sash.spark.stream.verification import Verification

_LISTED = 30  # findings that are printed
_FIRST = ("keys", "time", "windows")  # arguments that are printed in lines of their own


def show(
    path: Place, batch: Batch = None, operator: Operator = 0, json: Json = False, traceback: Traceback = False
) -> None:
    """Show what a checkpoint holds, and by which definition it was written.

    Nothing in the checkpoint is changed, and the stream may run meanwhile: everything is as of one committed
    micro-batch. Exit codes: 0 done, 1 the checkpoint cannot be read, 2 mistake in the arguments.
    """
    checkpoint, spark = opened(path, traceback)
    from sash.spark import describe_checkpoint

    found = describe_checkpoint(checkpoint, batch=batch, operator=operator, spark=spark)
    if json:
        _print_json(found.to_plain())
        return
    console = Console(highlight=False)
    console.print(f"checkpoint {found.checkpoint}", markup=False, soft_wrap=True)
    console.print(_grid(_facts(found)))
    for definition in found.definitions:
        console.print(_definition(definition, found.buckets), soft_wrap=True)


def verify(
    path: Place, batch: Batch = None, operator: Operator = 0, json: Json = False, traceback: Traceback = False
) -> None:
    """Read the whole state of a checkpoint, and report what is missing or damaged.

    Every record must be there, readable, of the right attempt, and have the rows, times, columns and keys that it
    should. Nothing is changed, and the stream may run meanwhile. Exit codes: 0 sound, 1 damaged, 2 mistake in the
    arguments.
    """
    checkpoint, spark = opened(path, traceback)
    from sash.spark import verify_checkpoint

    found = verify_checkpoint(checkpoint, batch=batch, operator=operator, spark=spark)
    if json:
        _print_json(found.to_plain())
    else:
        _print_findings(found)
    raise typer.Exit(0 if found.sound else FAILED)


def export(
    path: Place,
    out: Annotated[str, typer.Argument(help="Directory or URI to write to; it must not exist or be empty.")],
    batch: Batch = None,
    operator: Operator = 0,
    traceback: Traceback = False,
) -> None:
    """Write all rows that a checkpoint retains to Parquet files.

    The files have the columns that the state stores, and the position and the definition of the stream as JSON. Rows of
    a stream with slide boundaries are panes where it combines them. Nothing in the checkpoint is changed, and the
    stream may run meanwhile. Exit codes: 0 done, 1 the state cannot be exported, 2 mistake in the arguments.
    """
    checkpoint, spark = opened(path, traceback, brief=False)
    from sash.spark import export_checkpoint

    written = export_checkpoint(checkpoint, out, batch=batch, operator=operator, spark=spark)
    typer.echo(f"Wrote {written.rows:,} rows of micro-batch {written.batch} to {written.path}.")


def _print_json(plain: dict[str, Any]) -> None:
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def _grid(facts: Iterator[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
    return table


# --- show -----------------------------------------------------------------------------------------


def _facts(found: "Description") -> Iterator[tuple[str, str]]:
    yield "query", found.query or "unknown"
    yield "micro-batch", f"{found.batch}, watermark {_time(found.watermark)}"
    yield "format", f"version {' and '.join(map(str, found.versions)) or 'unknown'}"
    yield "buckets", str(found.buckets)
    if found.unreadable:
        yield "damaged", f"heads of buckets {', '.join(map(str, found.unreadable))}; see sash checkpoint verify"
    yield "records", f"{found.records:,} with {found.rows:,} rows, {size(found.bytes)}"
    if found.rows_retained is not None:
        yield "retained", f"{found.rows_retained:,} rows, from {_time(found.oldest)} to {_time(found.newest)}"
    else:
        yield "newest", _time(found.newest)
    yield "horizon", _time(found.horizon)
    if found.definitions and found.definitions[0].arguments is None:
        yield "rows since", "unknown: it depends on the definition"
    else:
        yield "rows since", _time(found.retained_since) if found.retained_since else "the first row"
    next_timer = f", the next at {_time(found.next_timer)}" if found.timers else ""
    yield "timers", f"{found.timers} pending{next_timer}"
    for name, bucket in (("largest", found.largest), ("smallest", found.smallest)):
        if bucket is not None:
            yield f"{name} bucket", f"{bucket.bucket}: {bucket.rows:,} rows, {size(bucket.bytes)}"


def _time(time: datetime | None) -> str:
    return "none" if time is None else time.isoformat(sep=" ").replace("+00:00", " UTC")


def _definition(definition: "DescribedDefinition", buckets: int) -> Tree:
    """Return a definition as a tree: its arguments, aggregates and columns."""
    kind = "definition" if definition.current else "older definition"
    share = f", {definition.buckets} of {buckets} buckets" if definition.buckets != buckets else ""
    tree = Tree(Text(f"{kind} {definition.fingerprint}{share}"))
    if definition.arguments is None:
        tree.add(Text("written by an older version of sash, which stored the fingerprint only"))
        return tree
    arguments = {name: value for name, value in definition.arguments.items() if value not in (None, [])}
    for name in _FIRST:
        if name in arguments:
            tree.add(Text(f"{name}: {_listed(arguments[name])}"))
    tree.add(Text(", ".join(f"{name}={_listed(value)}" for name, value in arguments.items() if name not in _FIRST)))
    aggs = tree.add(Text("aggregates"))
    for name, call in (definition.aggs or {}).items():
        aggs.add(Text(f"{name} = {call}"))
    columns = tree.add(Text("columns, stored as panes" if definition.panes else "columns"))
    for name, kind in (definition.columns or {}).items():
        stored = definition.panes or name in (definition.stored or [])
        columns.add(Text(f"{name} {kind}" + ("" if stored else ", not stored")))
    return tree


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        named = [f"{name} = {size}" for name, size in value.items()]
        return shown(value["condition"]) if "condition" in value else ", ".join(named)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# --- verify ---------------------------------------------------------------------------------------


def _print_findings(found: "Verification") -> None:
    console = Console(highlight=False, soft_wrap=True)
    for finding in found.findings[:_LISTED]:
        console.print(str(finding), markup=False)
    if len(found.findings) > _LISTED:
        console.print(f"and {len(found.findings) - _LISTED:,} more; --json prints all of them")
    if found.leftovers:
        console.print(f"{found.leftovers:,} records are listed by no head; they are not used, and do no harm.")
    if found.unchecked:
        console.print(
            f"An older version of sash wrote {found.unchecked:,} records, without their definition; their columns, "
            "times and keys were not checked."
        )
    read = f"{found.records:,} records with {found.rows:,} rows in {found.buckets} buckets"
    state = f"The state of micro-batch {found.batch}, watermark {_time(found.watermark)}"
    if found.sound:
        console.print(f"{state}, is sound: {read}.")
    else:
        console.print(f"{state}, is damaged: {len(found.findings):,} findings in {len(found.by_bucket)} buckets.")
