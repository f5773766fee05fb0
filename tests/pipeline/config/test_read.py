"""Pipeline files: what is read, and every mistake with its line; no JVM."""

import pickle
import re
from pathlib import Path

import pytest

from sash import KeyedWindows, monoids
from sash.durations import nanoseconds
from sash.errors import SashError
from sash.pipeline.config.read import PipelineFileError, parse, read
from sash.pipeline.config.starter import STARTER

GOOD = """
name = "payments"
mode = "streaming"
checkpoint = "out/checkpoint"
trigger = "10 seconds"

[source]
format = "json"
path = "in/"
schema = "card string, at timestamp, amount double"
watermark = "10 minutes"
[source.options]
maxFilesPerTrigger = 1
start = 2026-01-01T00:00:00Z

[[steps]]
where = "amount > 0"
[[steps]]
select = ["card", "at", "amount * 1.1 as amount"]

[quarantine]
path = "out/quarantine"
ahead = "1 hour"
ahead_of = "arrived"
null_keys = "quarantine"

[rolling]
keys = ["card"]
time = "at"
windows = ["1h", "24h"]
every = "1 minute"
emit = "update"
lateness = "2 hours"
[rolling.aggs]
n = "count()"
total = "sum(amount)"

[sink]
format = "upsert"
path = "out/results"

[spark]
master = "local[2]"
[spark.conf]
"spark.sql.shuffle.partitions" = 2
spark.ui.enabled = true

[view]
column = "total_1h"
"""


SLIDING = {"keys": "card", "time": "at", "windows": "1h", "every": "1 minute", "aggs": {"n": monoids.count()}}


def mistakes(text, *overrides):
    """Return the lines of the error."""
    with pytest.raises(PipelineFileError) as raised:
        parse(text, overrides=overrides)
    return str(raised.value).splitlines()


def message(call, *arguments, **options):
    """Return the message of the error that a function of the library raises, which files show as it is."""
    with pytest.raises(SashError) as raised:
        call(*arguments, **options)
    return str(raised.value)


NEVER, ARRIVAL = (message(KeyedWindows, **SLIDING, emit=emit) for emit in ("never", "arrival"))
HORS = message(nanoseconds, "24 hors", "windows")


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_file_is_read():
    pipeline = parse(GOOD)
    assert (pipeline.name, pipeline.mode, pipeline.trigger) == ("payments", "streaming", "10 seconds")
    assert pipeline.source.columns == "card string, at timestamp, amount double"
    assert pipeline.source.options == {"maxFilesPerTrigger": 1, "start": "2026-01-01T00:00:00+00:00"}
    assert [step.where for step in pipeline.steps] == ["amount > 0", None]
    assert repr(pipeline.rolling.aggs) == "{'n': count(), 'total': sum('amount')}"
    assert pipeline.rolling.spec.lateness == "2 hours"
    assert pipeline.spark.conf == {"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": True}
    assert pipeline.view.column == "total_1h"


def test_an_upsert_of_events_without_an_id_has_a_warning():
    """Events of equal keys and time would become one; an id, chosen keys, or boundaries are fine."""
    events = changed('every = "1 minute"\n', "")
    (warning,) = parse(events).warnings
    assert warning.startswith("pipeline.toml:27: rolling.id: missing; rows with equal card, at are stored as one")
    assert parse(GOOD).warnings == []
    assert parse(events, overrides=["rolling.id=n"]).warnings == []
    assert parse(events, overrides=['sink.options.keys=["card", "at"]']).warnings == []


def test_windows_may_have_names():
    """In a table of their own, or on one line; results are named after them."""
    inline = parse(changed('["1h", "24h"]', '{ hour = "1h", day = "24h" }'))
    table = parse(
        changed('windows = ["1h", "24h"]\n', "").replace("[sink]", '[rolling.windows]\nhour="1h"\nday="24h"\n[sink]')
    )
    assert inline.rolling.spec.windows == table.rolling.spec.windows == {"hour": "1h", "day": "24h"}
    assert parse(GOOD).rolling.spec.windows == {"1h": "1h", "24h": "24h"}


def test_windows_of_all_kinds_may_be_written():
    windows = (
        'windows = ["100 rows", "month to date", "unbounded"]\nidle = "30 days"\nzone = "Europe/Berlin"\nmin_rows = 3'
    )
    pipeline = parse(changed('windows = ["1h", "24h"]', windows).replace('every = "1 minute"', 'every = "1 week"'))
    assert [*pipeline.rolling.spec.windows] == ["100rows", "month_to_date", "unbounded"]
    assert (pipeline.rolling.spec.idle, pipeline.rolling.spec.zone, pipeline.rolling.spec.min_rows) == (
        *("30 days", "Europe/Berlin", 3),
    )


def test_one_name_is_a_list_of_one():
    pipeline = parse(changed('keys = ["card"]', 'keys = "card"').replace('["1h", "24h"]', '"1h"'))
    assert (pipeline.rolling.keys, pipeline.rolling.windows) == (["card"], ["1h"])


def test_a_file_without_a_name_has_that_of_its_file(tmp_path):
    (tmp_path / "trips.toml").write_text(changed('name = "payments"\n', ""))
    assert read(tmp_path / "trips.toml").name == "trips"


def test_the_starter_is_a_pipeline():
    assert parse(STARTER).source.format == "demo"


def test_the_files_in_the_documentation_are_pipelines():
    """Every block of TOML in docs/pipeline.md is a whole file, tables to add to the first, or the aggregates of one."""
    page = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 9
    for block in blocks:
        if "[source]" in block:
            assert parse(block).mode == "streaming"
        elif block.startswith("[at]"):  # questions say when
            base = re.sub(r"(?m)^(every|carry) = .*$", "", blocks[0])
            assert parse(base + block).at is not None
        elif block.startswith("["):
            assert parse(blocks[0] + block) != parse(blocks[0])
        else:
            own = re.sub(r"(?m)^(mine|yours) = .*$", "", block)
            assert len(parse(GOOD.split("n = ")[0] + own + GOOD[GOOD.index("\n[sink]") :]).rolling.aggs) == 6


@pytest.mark.parametrize(
    "old, new, said",
    [
        ('name = "payments"', "name = 3", "2: name: must be a string, got 3."),
        ('"streaming"', '"steaming"', "3: mode: must be 'streaming', 'batch' or 'available-now', got 'steaming'."),
        ("checkpoint =", "chekpoint =", "4: chekpoint: unknown key; did you mean `checkpoint`?"),
        ('"10 seconds"', '"1 month"', f"5: trigger: {message(nanoseconds, '1 month', 'trigger')}"),
        ('"10 minutes"', '"-1s"', "11: source.watermark: watermark must not be negative, got '-1s'."),
        ('"amount > 0"', "true", "17: steps[0].where: must be a string, got True."),
        ('where = "amount > 0"', "", "16: steps[0]: a step must have exactly one of `where` and `select`."),
        ("[[steps]]\nselect =", "selct =", "18: steps[0].selct: unknown key; did you mean `select`?"),
        ('ahead = "1 hour"', "", "24: quarantine.ahead_of: cannot be used without `ahead`."),
        ('"out/quarantine"', '"s3://x"', "22: quarantine.path: path must be a directory on a file system that all"),
        ('"out/quarantine"', '"dbfs:/x"', "22: quarantine.path: path must be a directory on a file system that all"),
        ('"out/checkpoint"', '"file:x"', "4: checkpoint: checkpoint must be an absolute path on this machine after fi"),
        ('"in/"', "'C:\\in'", "9: source.path: path must be a path on Linux or a URI, got 'C:"),
        ('null_keys = "quarantine"', 'null_keys = "x"', "25: quarantine.null_keys: must be 'keep' or"),
        ('time = "at"', "", "27: rolling.time: missing; expected the column of event times."),
        ('keys = ["card"]', 'keys = ["a", 1]', "28: rolling.keys[1]: must be a string, got 1."),
        ('"24h"]', '"24 hors"]', f"30: rolling.windows[1]: {message(nanoseconds, '24 hors', 'windows')}"),
        ('["1h", "24h"]', '[\n"1h",\n"x"]', f"32: rolling.windows[1]: {message(nanoseconds, 'x', 'windows')}"),
        ('windows = ["1h", "24h"]', "[rolling.windows]\nday = '24 hors'", f"31: rolling.windows.day: {HORS}"),
        ('["1h", "24h"]', '["100 rows"]', "27: rolling.idle: idle must be set where windows count rows or"),
        ('["1h", "24h"]', '["next 1h"]', "30: rolling.windows: windows must end at their boundary with every="),
        ('["1h", "24h"]', '["month to dat"]', "30: rolling.windows[0]: windows must be"),
        ('["1h", "24h"]', '["month to date"]\nzone = "Europe/Berlim"', "31: rolling.zone: zone must be the name of a"),
        ('every = "1 minute"', 'every = "2 months"', "31: rolling.every: every must be one calendar period"),
        ('windows = ["1h", "24h"]', "windows = {}", "30: rolling.windows: windows must hold at least one size"),
        ('windows = ["1h", "24h"]', "windos = 1", "30: rolling.windos: unknown key; did you mean `windows`?"),
        ('emit = "update"', 'emit = "never"', f"32: rolling.emit: {NEVER}"),
        ('"update"', '"arrival"', f"32: rolling.emit: {ARRIVAL}"),
        ("sum(amount)", "summ(amount)", "36: rolling.aggs.total: unknown aggregate summ in 'summ(amount)';"),
        ('"count()"', "1", '35: rolling.aggs.n: must be a call such as "sum(amount)", got 1.'),
        ('path = "out/results"', "", "38: sink.path: missing; format = 'upsert' needs a path to write to."),
        ('path = "out/results"', 'path = "x"\nmode = "overwrite"', "41: sink.mode: must be omitted for an upsert"),
        ('path = "out/results"', 'path = "x"\noptions = {tables = 1}', "41: sink.options.tables: unknown key; did you"),
        ('column = "total_1h"', "colum = 1", "49: view.colum: unknown key; did you mean `column`?"),
        ("[view]", "[origin]", "48: origin: unknown key; "),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(old, new, said):
    lines = mistakes(changed(old, new))
    assert [line for line in lines if line.startswith(f"pipeline.toml:{said}")], lines
    assert all(re.match(r"pipeline\.toml:\d+: .+: .+[.?]$", line) for line in lines)


def test_all_mistakes_are_reported_in_the_order_of_lines():
    text = changed('"1h"', '"1x"').replace("count()", "cnt()").replace('format = "json"', 'format = "json"\nx = 1')
    text = text.replace('watermark = "10 minutes"\n', "")
    lines = mistakes(text)
    places = [int(line.split(":")[1]) for line in lines]
    assert [line.split(": ")[1] for line in lines] == [
        "source.watermark", "source.x", "rolling.windows[0]", "rolling.aggs.n",
    ]  # fmt: skip
    assert places == sorted(places)


def test_streams_need_what_batches_do_not():
    """A stream has a checkpoint, a watermark and, of files, a schema."""
    text = "[source]\nformat = 'json'\npath = 'in'\n[rolling]\ntime = 'at'\nwindows = '1h'\n"
    text += "[rolling.aggs]\nn = 'count()'\n[sink]\nformat = 'console'"
    assert [line.split(": ")[1] for line in mistakes(text)] == ["checkpoint", "source.watermark", "source.schema"]
    assert parse("mode = 'batch'\n" + text).mode == "batch"


@pytest.mark.parametrize(
    "text, said",
    [
        ("a = ", "pipeline.toml:1: invalid TOML: Invalid value."),
        ("a = 1\n[b\nc = 2", "pipeline.toml:2: invalid TOML: Expected ']' at the end of a table declaration."),
        ("a = 1\n\na = 2", "pipeline.toml:3: invalid TOML: Cannot overwrite a value."),
        ('a = 1\nb = """x\n', "pipeline.toml:2: invalid TOML: "),
    ],
)
def test_what_is_not_toml_is_reported_with_its_line(text, said):
    assert mistakes(text)[0].startswith(said)


def test_a_file_that_is_not_there():
    with pytest.raises(PipelineFileError, match=r"nowhere\.toml: no such file or directory; `sash new` writes"):
        read("nowhere.toml")


def test_overrides_replace_values_of_the_file():
    pipeline = parse(
        GOOD,
        overrides=[
            "mode=batch", "sink.path=out/other", "rolling.lateness=3h", 'rolling.windows=["2h"]',
            "steps.0.where=amount > 1", 'spark.conf."spark.ui.port"=4050', "name=2026-01-01",
            "source.options.maxFilesPerTrigger=7",
        ],
    )  # fmt: skip
    assert (pipeline.mode, pipeline.sink.path, pipeline.name) == ("batch", "out/other", "2026-01-01")
    assert (pipeline.rolling.lateness, pipeline.rolling.windows) == ("3h", ["2h"])
    assert pipeline.steps[0].where == "amount > 1"
    assert pipeline.spark.conf["spark.ui.port"] == 4050
    assert pipeline.source.options["maxFilesPerTrigger"] == 7


@pytest.mark.parametrize(
    "given, said",
    [
        ("rolling.emit=never", f"pipeline.toml with --set: rolling.emit: {NEVER}"),
        ("steps.0.where=true", "pipeline.toml with --set: steps[0].where: must be a string, got True."),
        ("sink.pth=x", "pipeline.toml with --set: sink.pth: unknown key; did you mean `path`?"),
        ("rolling.emit", "--set rolling.emit: must have the form KEY=VALUE, as in rolling.lateness=1h."),
        ("=3", "--set =3: must have the form KEY=VALUE"),
        ("steps.9.where=x", "--set steps.9.where=x: 9 is not a key of a table or an index of an array in the file."),
        ("name.x=1", "--set name.x=1: x is not a key of a table or an index of an array in the file."),
    ],
)
def test_a_wrong_override_is_not_blamed_on_a_line(given, said):
    assert mistakes(GOOD, given)[0].startswith(said)


def test_the_error_holds_the_mistakes_and_travels():
    with pytest.raises(SashError) as raised:
        parse(changed('"1h"', '"1x"'))
    error = pickle.loads(pickle.dumps(raised.value))
    assert error.mistakes == raised.value.mistakes
    assert error.mistakes[0].path == ("rolling", "windows", 0)
