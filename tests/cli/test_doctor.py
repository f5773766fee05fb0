"""sash doctor, and the commands that need a clone of the repository; no JVM except for its version."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sash.cli import doctor, figures
from sash.errors import UnsupportedError
from sash.spark import jars

ROOT = Path(__file__).resolve().parent.parent.parent


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_everything_is_installed():
    """In an environment for development nothing required is missing, and the table says so."""
    result = run(doctor.doctor)
    assert result.exit_code == 0, result.output
    for name in ("Python", "sash core", "numpy", "pyspark", "Java", "memory", "disk", "terminal"):
        assert re.search(rf"^(ok|warn)\s+{name}\s", result.output, re.MULTILINE), name
    assert "Everything required is installed. Try sash demo." in result.output


def test_json_is_for_programs():
    result = run(doctor.doctor, "--json")
    report = json.loads(result.output)
    assert report["ok"] is True
    assert {check["state"] for check in report["checks"]} <= {"ok", "warn"}
    assert set(report["checks"][0]) == {"name", "state", "found", "advice"}


@pytest.mark.parametrize("name, state", [("pyspark", "fail"), ("matplotlib", "warn")])
def test_what_is_missing_is_reported_with_how_to_fix_it(monkeypatch, name, state):
    """A required package that is missing fails, an optional one warns; both say how to install it."""
    real = metadata.version

    def version(package):
        if package == name:
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(metadata, "version", version)
    result = run(doctor.doctor, "--json")
    (check,) = (check for check in json.loads(result.output)["checks"] if check["name"] == name)
    assert (check["state"], check["found"]) == (state, "not installed")
    assert check["advice"].startswith('pip install "sash[')
    assert result.exit_code == (1 if state == "fail" else 0)


def test_a_version_out_of_bounds_fails(monkeypatch):
    monkeypatch.setattr(doctor, "metadata_of", lambda _: ["pandas>=2.2,<3"])
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "3.0.1" if name == "pandas" else real(name))
    checks = {check.name: check for check in doctor.all_checks()}
    assert checks["pandas"] == doctor.Check("pandas", "fail", "3.0.1, needs >=2.2,<3", 'pip install "pandas>=2.2,<3"')


def test_no_java_is_reported(monkeypatch, tmp_path):
    """Without any Java the doctor fails with the sentence that a session would."""
    from sash.spark import java

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_bundled", lambda: None)
    checks = {check.name: check for check in doctor.all_checks()}
    assert checks["Java"].state == "fail" and "Spark needs Java 17 or newer" in checks["Java"].found
    assert checks["compiler"].state == "warn"


def test_a_check_that_breaks_is_a_failure_and_no_more(monkeypatch):
    monkeypatch.setattr(doctor, "_cores", lambda: 1 / 0)
    checks = {check.name: check for check in doctor.all_checks()}
    assert checks["cores"].state == "fail" and "ZeroDivisionError" in checks["cores"].found
    assert checks["Python"].state == "ok"


def test_the_kafka_connector_is_looked_for(monkeypatch, tmp_path):
    """One that Spark has fetched is found; without any, a sentence says what happens and what can be done."""
    monkeypatch.setattr(jars, "installed_connector", lambda: None)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    missing = doctor._kafka_connector()
    assert missing.state == "warn" and jars.kafka_connector() in missing.advice and "spark.jars" in missing.advice
    (tmp_path / ".ivy2.5.2" / "jars").mkdir(parents=True)
    name = jars.kafka_connector().replace(":", "_", 1).replace(":", "-")
    (tmp_path / ".ivy2.5.2" / "jars" / f"{name}.jar").touch()
    assert doctor._kafka_connector().state == "ok"


def test_bounds_are_those_of_the_project():
    """Every package that the doctor checks has bounds, in the extra that its advice names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"]} | project["optional-dependencies"]
    for name, extra in (doctor._NEEDED | doctor._OPTIONAL).items():
        assert doctor.bounds_of(name, extras[extra]), name


@pytest.mark.parametrize("command, folder", [(figures.figures, "experiments"), (figures.bench, "benchmarks")])
def test_figures_and_bench_need_a_clone(command, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(command)
    assert isinstance(result.exception, UnsupportedError)
    assert f"The folder {folder} was not found in" in str(result.exception)


@pytest.mark.parametrize("arguments, passed", [([], ["--quick"]), (["--full", "--fresh"], ["--fresh"])])
def test_figures_start_the_experiments(arguments, passed, tmp_path, monkeypatch):
    """The module of the working directory runs with the options of the command, and its exit code is the command's."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").touch()
    said = tmp_path / "said.json"
    (tmp_path / "experiments" / "__main__.py").write_text(
        f"import json, sys\njson.dump(sys.argv[1:], open({str(said)!r}, 'w'))\nsys.exit(3)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run(figures.figures, *arguments).exit_code == 3
    assert json.loads(said.read_text()) == passed


def test_experiments_take_those_options():
    """`--quick` and `--fresh` are options of the experiments of this repository."""
    said = subprocess.run([sys.executable, "-m", "experiments", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert "--quick" in said.stdout and "--fresh" in said.stdout
