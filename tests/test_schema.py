"""The JSON Schema of profile files: every built-in profile keeps to it, and what is wrong in a file does not."""

import re
import tomllib

import pytest

from clusterplan.catalog import built_in_directory
from clusterplan.fields import fields_of
from clusterplan.reading import FOLDERS
from clusterplan.schema import keys_of, profile_schema
from clusterplan.units import to_si

FILES = [path for path in sorted(built_in_directory().glob("*/*.toml")) if path.parent.name in FOLDERS]
TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}
UNDERSTOOD = {
    "$schema", "title", "type", "enum", "anyOf", "properties", "patternProperties", "additionalProperties", "required",
    "items", "minItems", "minLength", "minimum", "maximum",
}  # fmt: skip


def mistakes(value, schema, at=""):
    """What a value has against a schema; the part of JSON Schema that is used here, all of it."""
    assert set(schema) <= UNDERSTOOD
    if "anyOf" in schema:
        tried = [list(mistakes(value, one, at)) for one in schema["anyOf"]]
        if all(tried):  # those of the alternative that is of the right type
            yield from min(tried, key=lambda found: found[0].startswith(f"{at}: "))
        return
    if "enum" in schema:
        if value not in schema["enum"]:
            yield f"{at}: {value!r}"
        return
    is_bool = isinstance(value, bool) and schema["type"] != "boolean"
    if is_bool or not isinstance(value, TYPES[schema["type"]]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from (f"{at}: no {name}" for name in schema.get("required", ()) if name not in value)
        for key, inner in value.items():
            known = [schema["properties"][key]] if key in schema.get("properties", {}) else []
            known += [one for text, one in schema.get("patternProperties", {}).items() if re.search(text, key)]
            if not known and isinstance(other := schema.get("additionalProperties"), dict):
                known = [other]
            if not known:
                yield f"{at}.{key}: unknown"
            for one in known:
                yield from mistakes(inner, one, f"{at}.{key}")
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{at}: too few"
        for number, inner in enumerate(value):
            yield from mistakes(inner, schema["items"], f"{at}[{number}]")
    elif isinstance(value, int | float):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{at}: {value} is out of range"
    elif isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield f"{at}: empty"


SCHEMAS = {folder: profile_schema(folder) for folder in FOLDERS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_built_in_profile_keeps_to_it(path):
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    assert list(mistakes(content, SCHEMAS[path.parent.name])) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_keys_stand_for_their_field_alone(folder):
    for name, entry in fields_of(FOLDERS[folder]).items():
        if entry.base in (int, float):
            keys = keys_of(name)
            assert name in keys
            assert {to_si(key, 1)[0] for key in keys} == {name}


@pytest.mark.parametrize(
    ("line", "wrong", "at"),
    [
        ("tdp_w = 700", "tdp_watts = 700", ".datasheet[0].tdp_watts: unknown"),
        ("tdp_w = 700", "tdp_w = -1", ".datasheet[0].tdp_w: -1 is out of range"),
        ("tdp_w = 700", "tdp_w = '700'", "is no number"),
        ("compute_units = 132", "compute_units = 13.2", "is no integer"),
        ("bf16 = 0.817", "bf16 = 81.7", "gemm_efficiency.bf16: 81.7 is out of range"),
        ('vendor = "NVIDIA"', "", ": no vendor"),
        ('vendor = "NVIDIA"', 'vendor = "NVIDIA"\ntdp_w = 700', ".tdp_w: unknown"),
    ],
)
def test_mistakes_are_seen(line, wrong, at):
    text = (built_in_directory() / "accelerators" / "h100-sxm-80gb.toml").read_text(encoding="utf-8")
    assert line in text
    found = list(mistakes(tomllib.loads(text.replace(line, wrong, 1)), SCHEMAS["accelerators"]))
    assert any(at in one for one in found), found


def test_a_source_is_needed():
    found = mistakes({"datasheet": {"tdp_w": 1}}, SCHEMAS["accelerators"])
    assert ".datasheet: no source" in list(found)
