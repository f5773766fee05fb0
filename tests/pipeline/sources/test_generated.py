"""Generated events and replayed files, without Spark: the same rows in any order of calls, disorder as configured."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sash.durations import nanoseconds
from sash.errors import ArgumentError, KindError, SashError
from sash.pipeline.sources.generated import DELAYS, demo
from sash.pipeline.sources.replay import replay

KINDS = ["payments", "trips", "sensors"]
DISORDERS = {
    "as the kind has it": {},
    "a distance": {"distance": 50, "late": 0.2},
    "an outage": {"outage_every": "2 minutes", "outage_for": "20s", "late": 0},
    "everything": {"outage_every": "1 minute", "retract": 0.1, "retract_after": "5s", "late": 0.3, "delay_mean": "2s"},
}


def ticks(batch, name):
    return batch.column(name).cast(pa.int64()).to_numpy()


def _cases():
    for kind in KINDS:
        for name, options in DISORDERS.items():
            if not (kind == "trips" and "distance" in options):
                yield pytest.param({"kind": kind, **options}, id=f"{kind}, {name}")


CASES = list(_cases())


@pytest.mark.parametrize("options", CASES)
def test_rows_are_the_same_in_any_order_of_calls(options):
    """Any range of rows is that range of all rows, also right after another seed's, and across blocks."""
    events, other = demo(seed=3, **options), demo(seed=4, **options)
    everything = events.batch(0, 60_000)
    rng = np.random.default_rng(0)
    for start in rng.integers(0, 59_000, 12).tolist():
        other.batch(start, start + 1)
        assert events.batch(start, start + 700) == everything.slice(start, 700)
    pieces = list(events.batches(100, 60_000, size=7_001))
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([everything.slice(100)])
    assert everything != other.batch(0, 60_000)


@pytest.mark.parametrize("options", CASES)
def test_rows_come_in_order_of_arrival_and_none_twice(options):
    """Arrivals never fall, none is before its event, and of each event there is one insert and at most one delete."""
    batch = demo(**options).batch(0, 60_000)
    arrivals = ticks(batch, "arrival")
    assert (np.diff(arrivals) >= 0).all()
    assert (arrivals >= ticks(batch, "ts")).all()
    ids = batch.column("id").to_numpy()
    deletes = np.asarray(batch.column("op").to_pylist()) == "delete"
    assert np.unique(ids[~deletes]).size == (~deletes).sum()
    assert np.unique(ids[deletes]).size == deletes.sum()


def test_no_event_is_missing():
    """Once none of them is in transit any more, all early events have arrived."""
    batch = demo(outage_every="5 minutes", retract=0.05).batch(0, 130_000)
    ids = batch.column("id").to_numpy()
    assert set(range(40_000)) <= set(ids.tolist())


@pytest.mark.parametrize("options", CASES)
def test_arrived_counts_the_rows_up_to_an_instant(options):
    """`arrived` is the inverse of `arrival`."""
    events = demo(rows=50_000, **options)
    arrivals = ticks(events.batch(0, 50_000), "arrival")
    for row in (0, 1, 20_000, 49_999):
        time = events.arrival(row)
        assert time == arrivals[row]
        assert events.arrived(time) == np.searchsorted(arrivals, time, side="right")
        assert events.arrived(time - 1) == np.searchsorted(arrivals, time - 1, side="right")
    assert events.arrived(10**18) == 50_000 and events.arrived(0) == 0


@pytest.mark.parametrize("kind", ["payments", "sensors"])
@pytest.mark.parametrize("distance, late", [(1, 0.5), (10, 0.1), (300, 0.25)])
def test_a_fixed_distance_is_exact(kind, distance, late):
    """A share of the rows, and no other, come after exactly so many later ones."""
    times = ticks(demo(kind=kind, distance=distance, late=late).batch(0, 20_000), "ts")
    sooner = np.array([np.count_nonzero(times[:row] > times[row]) for row in range(times.size)])
    assert set(np.unique(sooner)) == {0, distance}
    assert np.isclose((sooner > 0)[2 * distance :].mean(), late, atol=0.01)


@pytest.mark.parametrize("delay", DELAYS)
def test_delays_have_the_asked_share_and_mean(delay):
    """So many rows are late, by so much, and none by more than the maximum."""
    batch = demo(late=0.2, delay=delay, delay_mean="10s", delay_max="200s").batch(0, 100_000)
    late = (ticks(batch, "arrival") - ticks(batch, "ts")) / 1e6
    assert np.isclose((late > 0).mean(), 0.2, atol=0.01)
    assert np.isclose(late[late > 0].mean(), 10, rtol=0.1)
    assert late.max() <= 200


def test_an_outage_holds_back_its_share_and_a_burst_follows():
    """In each outage about the share of rows is missing; all of it comes within a short time after, oldest first."""
    batch = demo(outage_every="10 minutes", outage_for="1 minute", outage_share=0.4, late=0, zipf=0).batch(0, 240_000)
    times, arrivals = ticks(batch, "ts"), ticks(batch, "arrival")
    start, minute = times[0] // 60_000_000 * 60_000_000, 60_000_000
    per_minute = np.bincount((arrivals - start) // minute)
    assert np.isclose(per_minute[9], 0.6 * per_minute[5], rtol=0.1)
    assert np.isclose(per_minute[10], 1.4 * per_minute[5], rtol=0.1)
    held = np.flatnonzero(arrivals > times)
    assert ((times[held] - start) // minute % 10 == 9).all()
    assert ((arrivals[held] - start) % (10 * minute) <= minute / 20).all()
    first = held[times[held] - start < 10 * minute]
    assert (np.diff(times[first]) > 0).all()


def test_retractions_repeat_their_insert_and_come_after_it():
    """Of each hundred events three are retracted, by a row that is equal but for its arrival and op."""
    table = pa.Table.from_batches([demo(retract=0.03, retract_after="1 minute").batch(0, 120_000)])
    rows = table.to_pandas()
    inserts, deletes = (rows[rows.op == op].set_index("id") for op in ("insert", "delete"))
    both = deletes.join(inserts, rsuffix="_before", how="inner")
    assert len(both) == len(deletes)
    assert np.isclose(len(deletes) / len(inserts), 0.03, atol=0.002)
    assert (both.arrival > both.arrival_before).all()
    for name in ("ts", "card", "amount", "merchant"):
        assert (both[name] == both[name + "_before"]).all()


def test_zipf_keys():
    """The second key has 2^-s of the rows of the first; with 0 all keys are alike."""
    counts = np.bincount(demo(zipf=1.2, keys=500).key_of(np.arange(200_000)))
    assert np.isclose(counts[1] / counts[0], 2**-1.2, rtol=0.05)
    alike = np.bincount(demo(zipf=0, keys=50).key_of(np.arange(200_000)))
    assert alike.size == 50 and alike.max() / alike.min() < 1.2


def test_sensors_beat_at_100_hertz():
    """Each sensor gives a row every 10 ms, none missing and none twice."""
    table = pa.Table.from_batches([demo(kind="sensors", keys=3, late=0.1).batch(0, 40_000)])
    for sensor in ("sensor-0", "sensor-1", "sensor-2"):
        times = np.sort(ticks(table.filter(pc.field("sensor") == sensor), "ts"))[:10_000]
        assert (np.diff(times) == 10_000).all()


def test_trips_are_reported_when_they_end():
    """A trip's row comes so many seconds after it began as it took."""
    batch = demo(kind="trips").batch(0, 20_000)
    taken = (ticks(batch, "arrival") - ticks(batch, "ts")) // 10**6
    assert (taken == batch.column("seconds").to_numpy()).all()
    assert 600 < taken.mean() < 1200


def test_the_first_rows_stay_what_they_are():
    """Rows of a seed do not change between versions: checkpoints and documentation hold on to them."""
    batch = demo(seed=1).batch(0, 3)
    assert batch.column("card").to_pylist() == FIRST_CARDS
    assert batch.column("amount").to_pylist() == FIRST_AMOUNTS


FIRST_CARDS = ["card-036", "card-002", "card-001"]
FIRST_AMOUNTS = [803, 2508, 4340]


def message(call):
    """Return the message of the error that a call raises."""
    with pytest.raises(SashError) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"kind": "parcels"}, "kind must be one of payments, trips, sensors, got 'parcels'."),
        ({"rows": "many"}, "rows must be an integer from 1 to 9007199254740992, got 'many'."),
        ({"rows": 0}, "rows must be an integer from 1 to 9007199254740992, got 0."),
        ({"late": "1.5"}, "late must be a number from 0 to 1, got '1.5'."),
        ({"rate": "nan"}, "rate must be a number from 0.001 to 1e+06, got 'nan'."),
        ({"retrct": 0.1}, "unknown option retrct of the source demo; did you mean retract?"),
        ({"colour": "red"}, "unknown option colour of the source demo; expected one of delay, delay_max"),
        ({"delay_mean": "soon"}, message(lambda: nanoseconds("soon", "delay_mean"))),
        ({"start": "noon"}, "start must be a timestamp such as 2026-01-01T00:00:00Z, got 'noon'."),
        ({"distance": 5, "delay": "fixed"}, "delay cannot be used here: distance determines when each row arrives."),
        ({"distance": 5, "late": 1}, "late must be less than 1, got 1.0."),
        ({"kind": "sensors", "rate": 5}, "rate cannot be used here: each sensor sends 100 rows per second"),
        ({"kind": "trips", "distance": 5}, "distance cannot be used here: a trip arrives when it ends."),
        ({"outage_for": "1m"}, "outage_for cannot be used here: outages need outage_every."),
        ({"outage_every": "1m", "outage_for": "50s"}, "outage_for must be at most half of outage_every, 60 s, got 50"),
        ({"retract_after": "1m"}, "retract_after cannot be used here: retractions need retract."),
        ({"rate": 1e6, "delay_max": "1h"}, "rate must keep at most 4194304 events in transit, got 36000"),
    ],
)
def test_wrong_options_are_named(options, said):
    with pytest.raises(SashError) as raised:
        demo(**options)
    assert str(raised.value).startswith(said)
    assert raised.value.argument in options


@pytest.fixture
def events():
    return pa.Table.from_batches([demo(seed=5, retract=0.05).batch(0, 5_000)])


def shuffled(table, seed=0):
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def write(table, path, filetype):
    if filetype == "parquet":
        pq.write_table(table, path, row_group_size=700)
    elif filetype == "csv":
        pa.csv.write_csv(table, path)
    else:
        plain = table.to_pandas()
        for name in ("ts", "arrival"):
            plain[name] = plain[name].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        path.write_text(plain.to_json(orient="records", lines=True))


@pytest.mark.parametrize("filetype", ["parquet", "csv", "json"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_files_are_replayed_by_arrival(tmp_path, events, filetype, shuffle):
    """Rows come by arrival whatever order the files hold them in, and any range is that range of all."""
    rows = shuffled(events) if shuffle else events
    for part in range(3):
        write(rows.slice(part * 2_000, 2_000), tmp_path / f"part-{part}.{filetype}", filetype)
    (tmp_path / "_SUCCESS").touch()
    files = replay(path=str(tmp_path), arrival="arrival", schema=events.schema)
    assert files.total == 5_000
    for start, stop in [(0, 5_000), (1_990, 2_010), (4_321, 4_322), (700, 700)]:
        got = pa.Table.from_batches(files.batches(start, stop, files.places(start, stop)), events.schema)
        wanted = events.slice(start, stop - start)
        assert got["arrival"] == wanted["arrival"]
        # Rows that arrived in one microsecond come as the files have them.
        order = [("arrival", "ascending"), ("id", "ascending"), ("op", "ascending")]
        assert got.sort_by(order) == wanted.sort_by(order)


def test_files_without_an_arrival_come_as_they_are(tmp_path, events):
    rows = shuffled(events)
    write(rows, tmp_path / "rows.parquet", "parquet")
    files = replay(path=str(tmp_path / "*.parquet"))
    assert pa.Table.from_batches(files.batches(100, 300)) == rows.slice(100, 200)


def test_files_that_differ_in_types_go_together(tmp_path):
    """What one file holds as ints and another as floats is float, and a column that one lacks is null there."""
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["at", "x"], [1, 2]])
    (tmp_path / "b.csv").write_text("at,x,y\n0,1.5,z\n")
    files = replay(path=str(tmp_path), arrival="at")
    assert pa.Table.from_batches(files.batches(0, 2, files.places(0, 2))).to_pylist() == [
        {"at": 0, "x": 1.5, "y": "z"},
        {"at": 1, "x": 2.0, "y": None},
    ]


def test_rows_that_do_not_say_when_they_arrived_come_first(tmp_path):
    (tmp_path / "a.json").write_text("\n".join(json.dumps({"at": at}) for at in [3, None, 1]))
    files = replay(path=str(tmp_path), arrival="at")
    assert [row["at"] for row in pa.Table.from_batches(files.batches(0, 3, files.places(0, 3))).to_pylist()] == [
        None,
        1,
        3,
    ]


def test_replays_that_cannot_be(tmp_path, events):
    write(events, tmp_path / "rows.parquet", "parquet")
    (tmp_path / "broken.csv").write_text('a,b\n1\n2,3,4\n"')
    path = str(tmp_path / "rows.parquet")
    cases = [
        ({}, ArgumentError, "path must be a file, a directory or a pattern such as data/*.parquet, got None."),
        ({"path": str(tmp_path / "none*")}, ArgumentError, "path must be a file, a directory or a pattern, got '"),
        ({"path": str(tmp_path)}, ArgumentError, "files must be set to parquet, csv or json, because the files at"),
        ({"path": str(tmp_path / "broken.csv")}, ArgumentError, "path has an unreadable file, '"),
        ({"path": path, "arrival": "when"}, ArgumentError, "arrival must name columns of the files, ts,"),
        ({"path": path, "speed": 2}, ArgumentError, "speed needs the column of arrival times as the option arrival."),
        ({"path": path, "speed": 2, "arrival": "id"}, KindError, "arrival must be a column of timestamps for a speed"),
        ({"path": path, "speed": -1, "arrival": "arrival"}, ArgumentError, "speed must be a positive number"),
        ({"path": path, "files": "xml"}, ArgumentError, "files must be one of parquet, csv, json, got 'xml'."),
    ]
    for options, kind, said in cases:
        with pytest.raises(kind) as raised:
            replay(**options).batches
            list(replay(**options).batches(0, 10))
        assert str(raised.value).startswith(said), raised.value
