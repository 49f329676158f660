"""Every example file runs as its second line says."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clusterplan.cli import app

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.toml"))


def command(path):
    """The command in the file's second line."""
    line = path.read_text(encoding="utf-8").splitlines()[1]
    words = shlex.split(line.lstrip("# "))
    assert words[0] == "clusterplan"
    return words[1:]


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, monkeypatch):
    monkeypatch.chdir(path.parent.parent)
    words = command(path)
    assert words[-1] == f"examples/{path.name}"
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["feasible"]
    assert document["plan"]["memory"]["verdict"] == "fits"
