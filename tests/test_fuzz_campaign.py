"""A short run of the fuzz campaign, and a control: an oracle that is wrong on purpose must be found out."""

import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.fuzz.cases import KINDS, case_of, run_seed

TESTS = Path(__file__).parent
SEEDS = {
    "windows": range(1000, 1008), "tables": range(1000, 1015), "streams": range(1000, 1007),
    "questions": range(1000, 1040), "queries": range(1000, 1007),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_short_run_finds_no_difference(kind):
    reports = [run_seed(kind, seed) for seed in SEEDS[kind]]
    assert sum(report.steps for report in reports) > 100
    assert [report for report in reports if report.difference] == []


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_wrong_oracle_is_found_and_made_small(kind):
    report = next(r for r in (run_seed(kind, seed, wrong=True) for seed in SEEDS[kind]) if r.difference)
    assert len(report.reproduction.splitlines()) < 30
    assert run_seed(kind, report.seed, wrong=True) == report


def test_the_same_seed_is_the_same_case():
    for kind, module in KINDS.items():
        assert run_seed(kind, 7) == run_seed(kind, 7)
        assert module.steps(case_of(kind, 7)) == run_seed(kind, 7).steps


def test_the_command_runs_cases_and_reports_progress():
    command = [sys.executable, "-m", "campaigns.fuzz", "--cases", "3", "--seed", "1000", "--only", "tables"]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differences" in done.stdout
