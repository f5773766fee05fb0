"""sash demo --kafka: a broker of its own, from one topic to another, verified, and verified again."""

import re
import sys

import pytest
from typer.testing import CliRunner

from sash.cli.app import app
from sash.demo import broker as brokers
from sash.demo.run import Folder, Settings
from sash.errors import UnsupportedError
from support import kafka_broker

ROWS = 3_000


def again(out, *options):
    return CliRunner().invoke(app, ["demo", "--out", str(out), *options])


@pytest.fixture(scope="module")
def ended(kafka_commands, tmp_path_factory):
    """A demo that ran to its end, and what it printed."""
    out = tmp_path_factory.mktemp("demo") / "out"
    options = ["--kafka", "--jars", kafka_broker.connector_jars(), "--rows", str(ROWS), "--plain", "--out", str(out)]
    code, said = kafka_commands.run("demo", *options)
    assert code == 0, said
    return out, said


def test_every_result_in_the_topic_is_verified(ended):
    """The latest value of each key equals a recomputation, the late rows are as many, and a report is written."""
    out, said = ended
    assert re.search(r"Verified: [\d,]+ results of [\d,]+ cards", said) and "lag 0 records" in said
    assert "every result verified" in (out / "report.html").read_text()
    assert not (out / "results").exists() and f"Written: {out / 'kafka'}" in said


def test_a_finished_demo_is_verified_again_on_its_broker(ended):
    """The broker starts with the topics that it had, and no Spark."""
    result = again(ended[0])
    assert result.exit_code == 0, result.output
    assert "has a finished demo of 3,000 payments, seed 7: verifying it again" in result.output
    assert "Starting a Kafka broker" in result.output and "Verified: " in result.output


def test_the_demo_of_a_folder_stays_what_it_is(tmp_path):
    """A folder without Kafka is not resumed with it, and jars are of no use without it."""
    Folder(tmp_path).save(Settings.of(3_000, 7))
    result = again(tmp_path, "--kafka")
    assert result.exit_code == 2 and "--kafka must be omitted to resume the demo in" in result.output
    result = again(tmp_path, "--jars", "a.jar")
    assert result.exit_code == 2 and "--jars must be omitted without --kafka, got 'a.jar'." in result.output


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(UnsupportedError, match=r'confluent-kafka, which is not installed: pip install "sash\[kafka\]"'):
        brokers.require_client()
