"""What a pipeline file is made of: its tables and keys, and what each of them may be."""

from collections.abc import Callable
from datetime import date, time
from typing import Annotated, Any, Literal

from sash.durations import listed, nanoseconds
from sash.errors import ArgumentError, SashError, UnsupportedError, shown
from sash.keyed.spec import Asked
from sash.pipeline.config.aggregate_syntax import aggregate
from sash.pipeline.config.errors import Mistake, Origin, PipelineFileError, after_its_name
from sash.pipeline.config.toml_lines import Path

try:
    from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError
except ImportError as error:
    raise UnsupportedError(
        'Pipeline files need pydantic, which is not installed; run pip install "sash[cli,spark]".'
    ) from error

__all__ = ["TABLES", "Part", "Pipeline", "ValidationError"]


def _told(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a check whose refusals pydantic collects: it takes a ValueError and no other."""

    def checked(value: Any) -> Any:
        try:
            return check(value)
        except SashError as error:
            raise ValueError(after_its_name(error)[1]) from error

    return checked


def _duration(value: str) -> str:
    if nanoseconds(value, "it") < 0:
        raise ArgumentError(f"{shown(value)} is negative; give a duration that is not.")
    return value


def _size(value: Any) -> Any:
    """Check a size as far as that goes without the column of times: a duration, or a number where times are numbers."""
    if not isinstance(value, int) or isinstance(value, bool):
        nanoseconds(value, "it")
    return value


def _aggregate(value: Any) -> Any:
    if not isinstance(value, str):
        raise ArgumentError(f'{shown(value)} is no text; give a call such as "sum(amount)".')
    return aggregate(value)


def _flat(options: Any) -> Any:
    """Give options whose names hold dots, which TOML takes for tables unless they are quoted, and instants as text."""
    if not isinstance(options, dict):
        return options
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": given for inner, given in _flat(value).items()}
        else:
            flat[name] = value.isoformat() if isinstance(value, (date, time)) else value
    return flat


def _name_or_names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Duration = Annotated[str, AfterValidator(_told(_duration))]
Size = Annotated[Any, PlainValidator(_told(_size))]
Names = Annotated[list[str], BeforeValidator(_name_or_names)]
Flat = Annotated[dict[str, Any], BeforeValidator(_flat)]


class Part(BaseModel):
    """A table of the file: nothing in it that is not known, nothing turned into another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


class Source(Part):
    """Where rows come from."""

    format: str | None = None
    path: str | None = None
    table: str | None = None
    columns: str | None = Field(None, alias="schema")
    watermark: Duration | None = None
    options: Flat = {}


class Step(Part):
    """One thing that is done with rows before they are aggregated."""

    where: str | None = None
    select: Names | None = None


class Quarantine(Part):
    """What becomes of rows that cannot be used."""

    path: str | None = None
    ahead: Duration | None = None
    ahead_of: str | None = None
    null_keys: Literal["keep", "quarantine"] = "keep"


class Rolling(Part):
    """The words of `sash.spark.rolling`."""

    keys: Names = []
    time: str = Field(description="the column that says when a row happened")
    windows: Annotated[list[Size], BeforeValidator(listed)] = Field(description='sizes, as in ["1h", "24h"]')
    aggs: dict[str, Annotated[Any, PlainValidator(_told(_aggregate))]] = Field(
        description='aggregates by name, as in total = "sum(amount)"'
    )
    per: Literal["event"] = "event"
    every: Size | None = None
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
    buckets: int | None = None
    cache_bytes: int | None = None

    def words(self) -> dict[str, Any]:
        """Give the words of the call."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @property
    def asked(self) -> Asked:
        """What is asked, in the words that all engines share."""
        words = self.words()
        return Asked.of(**{name: words[name] for name in words if name not in ("buckets", "cache_bytes")})


class Sink(Part):
    """Where results go."""

    format: str = Field(description='a format of Spark\'s, "console" or "upsert"')
    path: str | None = None
    table: str | None = None
    mode: Literal["append", "overwrite", "error", "ignore"] = "append"
    options: Flat = {}


class Cluster(Part):
    """The Spark that runs it."""

    master: str | None = None
    conf: Flat = {}


class View(Part):
    """What the live view draws."""

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
    quarantine: Quarantine = Quarantine()
    rolling: Rolling = Field(description="keys, time, windows and aggregates")
    sink: Sink = Field(description="where results go")
    spark: Cluster = Cluster()
    view: View = View()
    origin: Origin = Field(default=Origin(), exclude=True, repr=False)

    def mistake(self, path: Path, said: str) -> PipelineFileError:
        """Give the error that tells of a mistake found later, with its line."""
        return self.origin.error([Mistake(path, said)])


TABLES: dict[str, type[Part]] = {
    "source": Source,
    "steps": Step,
    "quarantine": Quarantine,
    "rolling": Rolling,
    "sink": Sink,
    "spark": Cluster,
    "view": View,
}
