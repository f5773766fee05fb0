"""The tables and keys of a pipeline file, and the values that each of them accepts."""

from collections.abc import Callable
from datetime import date, time
from typing import Annotated, Any, Literal

from sash.durations import listed, nanoseconds
from sash.errors import ArgumentError, SashError, UnsupportedError, shown
from sash.keyed.definition import column_name
from sash.keyed.kinds import calendar_step, kind_of
from sash.keyed.spec import Spec
from sash.monoid import Monoid
from sash.monoids.syntax import aggregate
from sash.pipeline.config.errors import Mistake, Origin, PipelineFileError
from sash.pipeline.config.toml_lines import Path

TO_PATHS = ("upsert", "delta")
UPSERTS = (*TO_PATHS, "postgresql")
AS_LIST, AS_TABLE = "<list>", "<table>"  # forms of windows, which pydantic puts into the paths of their mistakes

try:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Discriminator,
        Field,
        PlainValidator,
        Tag,
        ValidationError,
        ValidationInfo,
    )
except ImportError as error:
    raise UnsupportedError(
        'Pipeline files need pydantic, which is not installed: pip install "sash[cli,spark]".'
    ) from error

__all__ = ["TABLES", "Output", "Part", "Pipeline", "Step", "ValidationError", "flat"]


def _collected(check: Callable[[Any, str], Any]) -> Callable[[Any, ValidationInfo], Any]:
    """Return a validator that calls `check(value, key)` and raises ValueError, which pydantic collects."""

    def validator(value: Any, info: ValidationInfo) -> Any:
        try:
            return check(value, str(info.field_name))
        except SashError as error:
            raise ValueError(str(error)) from error

    return validator


def _duration(value: str, key: str) -> str:
    if nanoseconds(value, key) < 0:
        raise ArgumentError(f"{key} must not be negative, got {shown(value)}.", argument=key)
    return value


def _size(value: Any, key: str) -> Any:
    """Check a size without the time column: a duration, or a number where times are numbers."""
    if not isinstance(value, int) or isinstance(value, bool):
        nanoseconds(value, key)
    return value


def _window(value: Any, key: str) -> Any:
    """Check a window without the time column: a size, or another kind."""
    kind_of(value, None if isinstance(value, int) and not isinstance(value, bool) else "ns")
    return value


def _step(value: Any, key: str) -> Any:
    """Check a step of boundaries: a size, or a calendar period."""
    return value if calendar_step(value, "UTC") is not None else _size(value, key)


def _aggregate(value: Any, key: str) -> Monoid:
    if not isinstance(value, str):
        raise ArgumentError(f'must be a call such as "sum(amount)", got {shown(value)}.', argument=key)
    return aggregate(value)


def flat(options: Any) -> Any:
    """Return options with dotted names, which TOML reads as tables unless they are quoted, and instants as text."""
    if not isinstance(options, dict):
        return options
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": option for inner, option in flat(value).items()}
        else:
            found[name] = value.isoformat() if isinstance(value, (date, time)) else value
    return found


def _name_or_names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Duration = Annotated[str, AfterValidator(_collected(_duration))]
Size = Annotated[Any, PlainValidator(_collected(_size))]
Window = Annotated[Any, PlainValidator(_collected(_window))]
Every = Annotated[Any, PlainValidator(_collected(_step))]
Windows = Annotated[
    Annotated[list[Window], BeforeValidator(listed), Tag(AS_LIST)] | Annotated[dict[str, Window], Tag(AS_TABLE)],
    Discriminator(lambda windows: AS_TABLE if isinstance(windows, dict) else AS_LIST),
]
Names = Annotated[list[str], BeforeValidator(_name_or_names)]
Flat = Annotated[dict[str, Any], BeforeValidator(flat)]


_SPARK_ONLY = ("buckets", "cache_bytes")


class Part(BaseModel):
    """A table of the file: unknown keys are refused, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class Source(Part):
    """Where rows come from."""

    format: str | None = None
    path: str | None = None
    table: str | None = None
    topic: Names | None = None
    servers: Names | None = None
    value: Literal["json", "bytes"] = "json"
    columns: str | None = Field(None, alias="schema")
    watermark: Duration | None = None
    options: Flat = {}


class Step(Part):
    """A transformation of rows before they are aggregated, or of results after it."""

    where: str | None = None
    select: Names | None = None


class History(Source):
    """The rows before a stream: a source of their own, and steps."""

    steps: list[Step] = []


class At(Source):
    """The questions: rows as of whose times results are wanted, from a source of their own, and steps."""

    time: str | None = None
    id: str | None = None
    steps: list[Step] = []


class Quarantine(Part):
    """Which rows are set aside, and where to."""

    path: str | None = None
    ahead: Duration | None = None
    ahead_of: str | None = None
    null_keys: Literal["keep", "quarantine"] = "keep"


class Rolling(Part):
    """The arguments of `sash.spark.rolling`."""

    keys: Names = []
    time: str = Field(description="the column of event times")
    windows: Windows = Field([], description='sizes, as in ["1h", "24h"]')
    aggs: dict[str, Annotated[Any, PlainValidator(_collected(_aggregate))]] = Field(
        description='aggregates by name, as in total = "sum(amount)"'
    )
    per: Literal["event", "session"] = "event"
    gap: Size | None = None
    every: Every | None = None
    emit: str | None = None
    lateness: Size | None = None
    late: str = "drop"
    retract: str | None = None
    id: str | None = None
    carry: Names = []
    closed: str | None = None
    offset: Size | None = None
    resolution: Size | None = None
    on_error: str = "null"
    zone: str | None = None
    min_rows: int | None = None
    idle: Size | None = None
    buckets: int | None = None
    cache_bytes: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the call."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @property
    def of_events(self) -> bool:
        """Whether results are for rows, or questions."""
        return self.every is None and self.gap is None

    @property
    def result_names(self) -> dict[str, list[str]]:
        """The result columns of each aggregate, one per window."""
        windows = list(self.spec.windows) or [""]
        return {agg: [column_name(agg, window) for window in windows] for agg in self.aggs}

    @property
    def spec(self) -> Spec:
        """The arguments that all engines share, checked."""
        return Spec.of(**{name: value for name, value in self.arguments().items() if name not in _SPARK_ONLY})


class Output(Part):
    """What is done with results before they are written."""

    steps: list[Step] = []


class Sink(Part):
    """Where results go."""

    format: str = Field(description='"upsert", "delta", "postgresql", "kafka", "console" or a Spark format')
    path: str | None = None
    table: str | None = None
    topic: str | None = None
    servers: Names | None = None
    mode: Literal["append", "overwrite", "error", "ignore"] = "append"
    options: Flat = {}

    @property
    def upserts(self) -> bool:
        """Whether the latest revision of each result is kept."""
        return self.format in UPSERTS


class Cluster(Part):
    """The Spark session to start."""

    master: str | None = None
    conf: Flat = {}


class View(Part):
    """Settings of the live view."""

    column: str | None = None


class Pipeline(Part):
    """A pipeline file, read and checked."""

    name: str = "pipeline"
    mode: Literal["streaming", "batch", "available-now"] = "streaming"
    checkpoint: str | None = None
    trigger: Duration | None = None
    finish: bool = False
    source: Source = Field(description="where rows come from")
    steps: list[Step] = []
    history: History | None = None
    at: At | None = None
    quarantine: Quarantine = Quarantine()
    rolling: Rolling = Field(description="keys, time, windows and aggregates")
    output: Output = Output()
    sink: Sink = Field(description="where results go")
    spark: Cluster = Cluster()
    view: View = View()
    origin: Origin = Field(default=Origin(), exclude=True, repr=False)

    @property
    def warnings(self) -> list[str]:
        """What works, but may not be meant: a sentence each, with the line of the key."""
        rolling, sink = self.rolling, self.sink
        said: list[str] = []
        if not self.keeps_latest:
            return said
        table, what, id = ("rolling", "rows", rolling.id) if self.at is None else ("at", "questions", self.at.id)
        if rolling.of_events and id is None and "keys" not in sink.options:
            same = ", ".join(self.identity)
            cure = ", or set sink.options.keys if nothing is equal." if sink.upserts else "."
            said.append(
                f"{self.origin.place((table,))}: {table}.id: missing; {what} with equal {same} are stored as one "
                f"result; name a column that tells them apart{cure}"
            )
        for place, step in enumerate(self.output.steps if rolling.spec.emit == "update" else []):
            if step.where is not None:
                where = self.origin.place(("output", "steps", place, "where"))
                said.append(
                    f"{where}: output.steps[{place}].where: a revision that no longer meets the condition is left out, "
                    "and the sink keeps the one before it."
                )
        return said

    @property
    def identity(self) -> list[str]:
        """The columns that identify a result: the keys and the time, and the id where there is one."""
        id = self.rolling.id if self.at is None else self.at.id
        return [*self.rolling.keys, self.anchor_time, *([id] if id is not None and self.rolling.of_events else [])]

    @property
    def anchor_time(self) -> str:
        """The column that says as of when a result is."""
        if self.rolling.every is not None:
            return "window_end"
        if self.rolling.gap is not None:
            return "session_start"
        return (self.at.time if self.at is not None else None) or self.rolling.time

    @property
    def keeps_latest(self) -> bool:
        """Whether the sink identifies results, so that a revision replaces the one before it."""
        return self.sink.upserts or self.sink.format == "kafka"

    def mistake(self, path: Path, message: str) -> PipelineFileError:
        """Return the error for a mistake at a key, with its line."""
        return self.origin.error([Mistake(path, message)])


TABLES: dict[str, type[Part]] = {
    "source": Source,
    "steps": Step,
    "history": History,
    "at": At,
    "quarantine": Quarantine,
    "rolling": Rolling,
    "output": Output,
    "sink": Sink,
    "spark": Cluster,
    "view": View,
}
