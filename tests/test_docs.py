"""Documents: every command in them runs, what is pasted is what comes, tables made from the code are up to date.

After a change that is meant, ``CLUSTERPLAN_REWRITE_GOLDEN=1 pytest tests/test_docs.py -k golden`` writes pasted outputs
and tables anew; read the difference.
"""

import inspect
import os
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clusterplan import choose, scan, search, shapes, space
from clusterplan.catalog import Catalog
from clusterplan.cli import app
from clusterplan.estimate import estimate
from clusterplan.explain import explain
from clusterplan.layout import BATCH_TOLERANCE
from clusterplan.plan import Answer
from clusterplan.report import comparison, model_document
from clusterplan.scenario import Scenario, override, resolve
from clusterplan.workload import Model

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOMENCLATURE = ROOT / "docs" / "nomenclature.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SEARCH = ROOT / "docs" / "search.md"
LEFT_OUT = "[...]"


def keeps_golden(path: Path, text: str) -> None:
    """The file has this text; it is written first if that was asked for."""
    if os.environ.get("CLUSTERPLAN_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


# --- Commands ---------------------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(clusterplan [^`]+)`")
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]+\b|…|\.\.\.")


@dataclass
class Example:
    """A command and what is pasted below it."""

    command: str
    pasted: str


def examples(block: str) -> list[Example]:
    found: list[Example] = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Example(line[2:], ""))
        elif found and not found[-1].pasted and found[-1].command.endswith("\\\n"):
            found[-1].command += line
        else:
            assert found, f"an output without a command: {line!r}"
            found[-1].pasted += line
    return found


@lru_cache
def output_of(command: str) -> str:
    """What a command prints. The program runs in this process, what follows a pipe in a shell."""
    before, _, after = command.partition(" | ")
    name, *arguments = shlex.split(before)
    assert name == "clusterplan", f"not a command of this program: {command}"
    result = CliRunner().invoke(app, arguments, prog_name="clusterplan")
    assert result.exit_code == 0, f"$ {command}{result.output}{result.exception!r}"
    if not after:
        return result.stdout
    done = subprocess.run(after, shell=True, input=result.stdout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"$ {command}{done.stderr}"
    return done.stdout


def paragraphs(text: str) -> list[str]:
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text.strip("\n"))]


def name_of(paragraph: str) -> str:
    """First word of a part of a report."""
    found = re.search(r"[A-Za-z][\w-]*", paragraph)
    return found.group() if found else ""


def refreshed(pasted: str, real: str) -> str:
    """The real output, without the parts for which the pasted one has ``[...]``."""
    parts, whole = paragraphs(pasted), paragraphs(real)
    if LEFT_OUT not in parts:
        return real
    texts, next_one = [], 0
    for number, part in enumerate(parts):
        if part == LEFT_OUT:
            texts.append(part)
            continue
        here = next((n for n in range(next_one, len(whole)) if name_of(whole[n]) == name_of(part)), None)
        assert here is not None, f"no such part from here on: {name_of(part)}"
        is_marked = number > 0 and parts[number - 1] == LEFT_OUT
        assert is_marked == (here > next_one), f"{LEFT_OUT} before {name_of(part)} stands for {here - next_one} parts"
        texts.append(whole[here])
        next_one = here + 1
    assert (parts[-1] == LEFT_OUT) == (next_one < len(whole)), f"{LEFT_OUT} at the end"
    return "\n\n".join(texts) + "\n"


def test_what_is_left_out_is_marked():
    real = "Plan\n  1\n\nStep\n  2\n\nCost\n  3\n"
    assert refreshed("Plan\n 0\n\n[...]\n", real) == "Plan\n  1\n\n[...]\n"
    assert refreshed("[...]\n\nCost\n", real) == "[...]\n\nCost\n  3\n"
    assert refreshed("old\n", real) == real
    with pytest.raises(AssertionError, match="before Cost stands for 1 parts"):
        refreshed("Plan\n\nCost\n\n[...]\n", real)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_golden_commands_run_and_print_what_is_pasted(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output_of.cache_clear()  # another directory, other files

    def fresh(block: re.Match[str]) -> str:
        lines = []
        for example in examples(block[1]):
            real = output_of(example.command)
            is_shown = example.pasted.strip() or document.name == "README.md"
            lines += [f"$ {example.command}", refreshed(example.pasted, real) if is_shown else ""]
        return f"```console\n{''.join(lines)}```"

    text = document.read_text(encoding="utf-8")
    keeps_golden(document, BLOCK.sub(fresh, text))
    for command in INLINE.findall(BLOCK.sub("", text)):
        if not PLACEHOLDER.search(command):
            output_of(command)


def test_pasted_reports_fit_a_terminal():
    lines = [line for block in BLOCK.findall((ROOT / "README.md").read_text()) for line in block.splitlines()]
    assert all(len(line) <= 80 for line in lines if not line.startswith("$ "))


def test_the_set_up_of_the_readme_is_one_line_for_a_plan_and_one_for_the_tests():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    plan, tests = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0].splitlines()
    assert " && .venv/bin/clusterplan size gpt-1t " in plan
    assert tests.endswith(" && .venv/bin/pytest")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_golden_accuracy_in_the_readme_is_that_of_the_validation():
    table = re.search(
        r"^\| +\| +\|\n\|[- |]+\|\n(?:\|.*\n)+", (ROOT / "docs" / "validation.md").read_text(), re.MULTILINE
    )
    assert table is not None
    readme = ROOT / "README.md"
    before, begin, rest = readme.read_text(encoding="utf-8").partition("<!-- made from docs/validation.md -->\n")
    assert begin
    keeps_golden(readme, f"{before}{begin}{table[0]}<!-- end -->{rest.partition('<!-- end -->')[2]}")


# --- Nomenclature -----------------------------------------------------------------------------------------------------


def resolved(**given: str):
    return resolve(override(Scenario(), given), Catalog(), lambda model: shapes.parameters(model).active)


@pytest.fixture(scope="module")
def estimated() -> Answer:
    return estimate(
        resolved(model="gpt-1t", hardware="dgx-a100", tokens="1T", devices="512", tp="8", pp="64", deadline="9000d")
    )


def keys(value: object) -> set[str]:
    """Names of all members of a JSON value; names that users or profiles give are left out."""
    if isinstance(value, list):
        return {key for one in value for key in keys(one)}
    if not isinstance(value, dict):
        return set()
    free = ("rejected", "set", "winners")
    return set(value) | {key for name, one in value.items() if name not in free for key in keys(one)}


def explained(text: str) -> set[str]:
    """Names that the nomenclature has in code quotes, alone or at the end of a way into the document."""
    return {name.rsplit(".", 1)[-1] for name in re.findall(r"`([\w.]+)`", text)}


def test_every_name_of_the_json_documents_is_explained(estimated):
    document = estimated.document()
    both = resolved(
        model="llama-3.1-8b", hardware="dgx-h100,dgx-a100", tokens="15T", deadline="90d", devices="256:300", pp="1"
    )
    columns = [answer.document() for answer in search.compare(both)]
    assert document["plan"]
    assert columns[0]["alternatives"]
    assert columns[1]["blocking"]
    tied = search.size(resolved(model="mixtral-8x22b", hardware="dgx-h100", tokens="100B", devices="64"))
    searched = tied.document()["search"]
    assert searched["least"]
    model = Catalog().load(Model, "gpt-1t")
    shape = set(Model.__dataclass_fields__)
    known = explained(NOMENCLATURE.read_text(encoding="utf-8"))
    assert keys([document, *columns, comparison(columns), searched]) - known == set()
    assert keys({k: v for k, v in model_document(model, 2048).items() if k not in shape}) - known == set()


def field_table(answer: Answer) -> str:
    """Numbers of a plan with unit and meaning, as the records say it."""
    assert answer.plan is not None
    rows = ["| field | unit | meaning |", "|---|---|---|"]
    for path in paths(answer.document()["plan"]):
        told = explain(answer, path)
        meaning = re.sub(r"\s*\[[^]]*\]$", "", str(told["meaning"])).replace("``", "`")
        if meaning and "Index into" not in meaning:  # the document has the name, and the text is above the table
            rows.append(f"| `{path}` | {told.get('unit') or ''} | {meaning[0].upper()}{meaning[1:].rstrip('.')} |")
    return "\n".join(rows) + "\n"


def paths(value: object, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [p for key, inner in value.items() for p in paths(inner, f"{path}.{key}" if path else key)]
    return [] if isinstance(value, list) else [path]


def test_golden_table_of_fields(estimated):
    begin, end = "<!-- made by tests/test_docs.py -->\n", "<!-- end -->"
    text = NOMENCLATURE.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    assert rest
    keeps_golden(NOMENCLATURE, f"{before}{begin}{field_table(estimated)}{end}{rest.partition(end)[2]}")


# --- Architecture and search ------------------------------------------------------------------------------------------


def test_the_architecture_has_the_layers_of_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    block = re.search(r"^```layers\n(.*?)^```$", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert [re.split(r" {2,}", line)[0] for line in block[1].splitlines()] == contract["layers"]


def test_the_architecture_names_every_formula_module():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "src/clusterplan/formulas").glob("*.py")} - {"__init__"}
    assert {name for name in modules if f"`{name}`" not in text} == set()


def test_the_manual_of_the_search_states_its_constants():
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| ([^|]+) \|", SEARCH.read_text(encoding="utf-8"), re.MULTILINE)
    modules = {"space": space, "scan": scan, "choose": choose}
    stated = {(module, name): [float(n) for n in re.findall(r"\d+(?:\.\d+)?", value)] for module, name, value in rows}
    real = {
        (module, name): numbers(getattr(modules[module], name))
        for module in modules
        for name in re.findall(r"^([A-Z_]+)(?:: .*)? = ", inspect.getsource(modules[module]), re.MULTILINE)
    }
    unstated = {("scan", "PAIRS_AT_ONCE"), ("scan", "LAYOUTS_AT_ONCE")}  # sizes of batches, which change no result
    assert stated == {key: value for key, value in real.items() if value and key not in unstated}


def numbers(value: object) -> list[float]:
    """Numbers of a constant; none of one that is no number."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [float(one) for one in values if isinstance(one, int | float)]


def test_the_manual_of_the_search_states_the_tolerance_of_the_batch():
    assert f"within {BATCH_TOLERANCE * 100:.0f} %" in SEARCH.read_text(encoding="utf-8")
