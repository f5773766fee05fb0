"""Kafka to Kafka through a real broker: a pipeline that is killed half-way and resumed, and everything it wrote.

The run that is killed is a process of its own, as a user starts it. Those after it share one, because the connector
must be on Spark's class path from its start. All tests look at the same two runs.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow.dataset as ds
import pytest

from support import kafka_broker

PIPELINE = """
name = "payments"
mode = "available-now"
finish = true
checkpoint = "checkpoint"
[source]
format = "kafka"
topic = ["payments", "shops"]
servers = "{servers}"
schema = "card string, at timestamp, amount long, id long, op string"
watermark = "30 seconds"
[source.options]
maxOffsetsPerTrigger = 60
[[steps]]
where = "kafka_headers IS NULL"
[[steps]]
select = ["card", "at", "amount", "id", "op", "kafka_offset AS offset", "CAST(kafka_key AS STRING) = card AS own_key"]
[[steps]]
where = "own_key"
[quarantine]
path = "quarantine"
[rolling]
keys = ["card"]
time = "at"
id = "id"
retract = "op = 'delete'"
windows = ["5m"]
every = "1 minute"
emit = "update"
lateness = "1 day"
buckets = 2
[rolling.aggs]
n = "count()"
total = "sum(amount)"
furthest = "max(offset)"
[[output.steps]]
where = "card <> 'hidden'"
[[output.steps]]
select = ["*", "total_5m / n_5m AS mean_5m"]
[sink]
format = "kafka"
topic = "results"
servers = "{servers}"
[spark]
master = "local[2]"
conf = {{ "spark.jars" = "{jars}" }}
"""
ASKING = """
mode = "available-now"
finish = true
checkpoint = "asked-checkpoint"
[source]
format = "kafka"
topic = "moves"
servers = "{servers}"
schema = "card string, at timestamp, amount long"
watermark = "30 seconds"
[at]
format = "kafka"
topic = "asked"
servers = "{servers}"
schema = "card string, label_at timestamp, label long"
watermark = "30 seconds"
time = "label_at"
id = "label"
[[at.steps]]
select = ["card", "label_at", "label", "kafka_offset + 1 AS place", "kafka_partition"]
[quarantine]
path = "asked-quarantine"
[rolling]
keys = ["card"]
time = "at"
windows = ["5m"]
emit = "update"
buckets = 2
[rolling.aggs]
total = "sum(amount)"
[sink]
format = "kafka"
topic = "answers"
servers = "{servers}"
"""
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MALFORMED = [b"not JSON", b'{"card": "a", "at": "yesterday"}', b'{"card": "a"} {"card": "b"}', b"\xff", None]


def event(card, minutes, number, amount=1, op="insert"):
    """Return an event as the value of a record."""
    return {"card": card, "at": (START + minutes * MINUTE).isoformat(), "amount": amount, "id": number, "op": op}


def events():
    """Return events of ten minutes, out of order, and the retractions of all that one card paid."""
    chance = random.Random(5)
    paid = [
        event(chance.choice(["a", "b", "c", "hidden"]), chance.uniform(0, 10), number, chance.randint(1, 99))
        for number in range(300)
    ]
    paid.sort(key=lambda one: datetime.fromisoformat(one["at"]) + MINUTE * chance.choice([0, 0, 0, 1, 4]))
    gone = [event("gone", minute, 1_000 + minute) for minute in range(3)]
    back = [{**one, "op": "delete"} for one in gone]
    return [*gone, *paid, *back, event("a", 11, 2_000)]


def records():
    """Return the records to produce: the events over three partitions, malformed ones and one to skip among them."""
    for number, value in enumerate(events()):
        # Retractions come last in their partition, when the results that they delete have been written.
        place = ("shops", 0) if number % 10 == 5 and value["op"] == "insert" else ("payments", number % 2)
        yield *place, value["card"], json.dumps(value), None
        if number % 50 == 10:
            yield "payments", 1, "a", MALFORMED[number // 50 % len(MALFORMED)], None
    yield "payments", 0, "a", json.dumps(event("a", 5, 3_000, 10**6)), {"skip": b"1"}
    yield "payments", 0, "other", json.dumps(event("a", 5, 3_001, 10**6)), None
    yield "shops", 0, "a", b'{"card":"a","amount":1}', None


def started(place):
    command = [sys.executable, "-m", "sash", "run", "pipeline.toml", "--plain"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=place, start_new_session=True, **pipes)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    yield from kafka_broker.running(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="module")
def ended(broker, kafka_commands, tmp_path_factory):
    """Two runs of one pipeline: the first is killed after its second micro-batch, the second resumes and ends."""
    place = tmp_path_factory.mktemp("pipeline")
    text = PIPELINE.format(servers=broker.servers, jars=kafka_broker.connector_jars())
    (place / "pipeline.toml").write_text(text)
    broker.create("payments", partitions=2)
    broker.create("shops")
    broker.create("results", partitions=2, config={"cleanup.policy": "compact"})
    produced = kafka_broker.produce(broker, records())
    first, lines = started(place), []
    while sum(line.startswith("batch ") for line in lines) < 2:
        lines.append(first.stdout.readline())
        assert lines[-1], "the pipeline ended early:\n" + "".join(lines)
    os.killpg(first.pid, signal.SIGKILL)
    killed = "".join(lines) + first.communicate()[0]
    code, resumed = kafka_commands.run("run", "pipeline.toml", "--plain", directory=place)
    assert code == 0, resumed
    results = kafka_broker.consumed(broker, "results")
    return SimpleNamespace(place=place, produced=produced, killed=killed, resumed=resumed, results=results)


def recomputed(produced):
    """Return what every window holds, by card and boundary, from the produced records with plain loops."""
    rows, gone = {}, set()
    for record in produced:
        try:
            row = json.loads(record.value)
            row["at"] = datetime.fromisoformat(row["at"])
        except (TypeError, ValueError, KeyError):
            continue
        if row.get("op") == "delete":
            gone.add(row["id"])
        elif not record.headers and record.key == row["card"].encode() and row["card"] != "hidden":
            rows[row["id"]] = (row["card"], row["at"], row["amount"], record.offset)
    windows = defaultdict(list)
    for number, (card, at, amount, offset) in rows.items():
        if number not in gone:
            first = START + ((at - START) // MINUTE + 1) * MINUTE
            for step in range(5):
                windows[card, first + step * MINUTE].append((amount, offset))
    return {
        place: (len(held), sum(a for a, _ in held), max(o for _, o in held), sum(a for a, _ in held) / len(held))
        for place, held in windows.items()
    }


def identity(record):
    key = json.loads(record.key)
    assert list(key) == ["card", "window_end"]
    return key["card"], datetime.fromisoformat(key["window_end"])


def values_of(row):
    return tuple(row[name] for name in ("n_5m", "total_5m", "furthest_5m", "mean_5m"))


def test_the_compacted_topic_equals_a_recomputation(ended):
    """The last value of each key is the result of a window, computed again from the raw records, and no key is more."""
    last = {identity(record): record.value for record in ended.results}
    found = {place: json.loads(value) for place, value in last.items() if value is not None}
    assert {place: values_of(row) for place, row in found.items()} == recomputed(ended.produced)
    for (card, end), row in found.items():
        assert (row["card"], datetime.fromisoformat(row["window_end"])) == (card, end) and "deleted" not in row
    assert len(found) > 40


def test_a_batch_of_the_same_topics_has_the_same_results(ended, broker, kafka_commands):
    """A backfill into a topic of its own: every key once, with the values of the stream."""
    broker.create("backfill")
    options = ["--mode", "batch", "--set", "sink.topic=backfill", "--set", "quarantine.path=aside"]
    code, said = kafka_commands.run("run", "pipeline.toml", *options, directory=ended.place)
    assert code == 0 and "7 quarantined" in said, said
    written = kafka_broker.consumed(broker, "backfill")
    found = {identity(record): json.loads(record.value) for record in written}
    assert len(written) == len(found) and {row["revision"] for row in found.values()} == {1}
    assert {place: values_of(row) for place, row in found.items()} == recomputed(ended.produced)


def test_readers_that_know_revisions_need_no_order(ended):
    """The greatest revision of each key is its last value too, however often a record was written."""
    newest, last = {}, {}
    for record in random.Random(3).sample(ended.results, len(ended.results)):
        revision = int(record.headers["revision"])
        assert record.value is None or json.loads(record.value)["revision"] == revision
        if revision >= newest.get(record.key, (0, b""))[0]:
            newest[record.key] = revision, record.value
    for record in ended.results:
        last[record.key] = record.value
    assert {key: value for key, (_, value) in newest.items()} == last
    assert max(revision for revision, _ in newest.values()) > 1


def test_deleted_results_are_tombstones(ended):
    """A card whose payments were all retracted had results, and each of its keys ends with a null."""
    values = defaultdict(list)
    for record in ended.results:
        values[identity(record)].append(record.value)
    of_gone = [held for (card, _), held in values.items() if card == "gone"]
    assert all(held[-1] is None for held in of_gone) and any(held[0] is not None for held in of_gone)


def test_malformed_values_are_quarantined_with_their_offsets(ended):
    """Each is stored once, though the run was killed, with its text and where it is; so are rows without a time."""
    quarantined = ds.dataset(ended.place / "quarantine", partitioning="hive").to_table().to_pylist()
    found = Counter((row["reason"], row["topic"], row["partition"], row["offset"], row["row"]) for row in quarantined)
    texts = {None: "null", b"\xff": "\N{REPLACEMENT CHARACTER}"}
    expected = Counter(
        ("malformed", *record[:3], texts.get(record.value) or record.value.decode())
        for record in ended.produced
        if record.value in MALFORMED
    )
    (untimed,) = (row for row in found if row[0] == "null_time")
    place = next(record[:3] for record in ended.produced if record.value == b'{"card":"a","amount":1}')
    assert untimed[1:4] == place and json.loads(untimed[4])["card"] == "a"
    assert found == expected + Counter([untimed])
    assert {record.value for record in ended.produced} >= set(MALFORMED)


def test_the_run_shows_its_lag(ended):
    """Each line says how many records are not read yet, and the last one that none is left."""
    lags = [int(lag) for lag in re.findall(r"\| lag (\d+) records", ended.killed + ended.resumed)]
    assert len(ended.produced) > lags[0] > 200 and lags[-1] == 0 and lags == sorted(lags, reverse=True)
    assert "output.steps[0].where: a revision that no longer meets the condition is left out" in ended.resumed


def test_questions_come_from_a_topic(ended, broker, kafka_commands):
    """Their columns come back, of those that the source adds what a step names; malformed ones say where they are."""
    for topic in ("moves", "asked", "answers"):
        broker.create(topic)
    moves = [event("a", minute, minute, 10 * minute) for minute in range(4)]
    asked = [{"card": card, "label_at": (START + 2.5 * MINUTE).isoformat(), "label": n} for n, card in enumerate("ab")]
    kafka_broker.produce(broker, [("moves", 0, row["card"], json.dumps(row), None) for row in moves])
    values = [json.dumps(asked[0]), "no question", json.dumps(asked[1])]
    kafka_broker.produce(broker, [("asked", 0, None, value, None) for value in values])
    (ended.place / "asking.toml").write_text(ASKING.format(servers=broker.servers))
    code, said = kafka_commands.run("run", "asking.toml", "--plain", directory=ended.place)
    assert code == 0 and "4 rows in, 3 questions (0 late), 2 results out" in said and "1 quarantined" in said, said
    answers = {record.key: json.loads(record.value) for record in kafka_broker.consumed(broker, "answers")}
    at = "2026-01-01T00:02:30.000000Z"
    assert {tuple(json.loads(key).items()) for key in answers} == {
        (("card", card), ("label_at", at), ("label", n)) for n, card in enumerate("ab")
    }
    columns = ["card", "label_at", "label", "place", "kafka_partition", "total_5m", "revision"]
    assert all(list(row) == columns for row in answers.values())
    assert sorted((row["card"], row["place"], row["total_5m"]) for row in answers.values()) == [
        ("a", 1, 30),
        ("b", 3, None),
    ]
    (aside,) = ds.dataset(ended.place / "asked-quarantine", partitioning="hive").to_table().to_pylist()
    assert (aside["reason"], aside["topic"], aside["offset"], aside["row"]) == ("malformed", "asked", 1, "no question")
