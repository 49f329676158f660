"""One profile: the text of a TOML file becomes a checked record in SI units whose figures know their source.

Each number is converted by the unit in its key and compared with what is possible; then the whole is validated as the
record that it becomes. Everything that is wrong with a file is reported together.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clusterplan.consistency import inconsistent
from clusterplan.errors import ClusterplanError, ProfileError, either
from clusterplan.errors import shown as shown
from clusterplan.fields import MOST, Field, fields_of, out_of_range
from clusterplan.files import printable, read_text
from clusterplan.hardware import Accelerator, Fabric, Stack, Storage, System
from clusterplan.site import Cooling, Operations, Prices, Site
from clusterplan.trace import GIVEN, KINDS, Figure, Origin
from clusterplan.units import Dimension, parse, to_si, unit_of
from clusterplan.workload import Format, Model

if TYPE_CHECKING:  # pydantic is imported when the first profile is validated
    from pydantic import TypeAdapter

Record = TypeVar("Record")

FOLDERS: Mapping[str, type] = {
    "accelerators": Accelerator,
    "systems": System,
    "fabrics": Fabric,
    "stacks": Stack,
    "storage": Storage,
    "models": Model,
    "sites": Site,
    "cooling": Cooling,
    "prices": Prices,
}
"""What the files of a folder become."""

PROBLEMS_SHOWN = 8
"""Problems of one file that an error message lists; ``check`` lists all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What is taken where a question leaves something open."""

    site: str
    cooling: str
    prices: str
    storage: str
    hardware: str = ""
    """System; empty if one must be given."""
    seq_len: int
    """Tokens of one sequence."""
    precision: Format
    tokens_per_parameter: float
    """Tokens of a run for each active parameter."""
    batch_tokens: float
    """Tokens of one optimizer step that are aimed at."""
    devices_low: int
    """Fewest devices of a search."""
    devices_high: int
    """Most devices of a search."""
    confidence: float
    """Probability with which a deadline is to be met."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Why each of these was chosen, by field."""
    operations: Operations


def folder_of(of: type | str) -> str:
    """Folder of a record; a folder is returned as it is."""
    if isinstance(of, str):
        if of not in FOLDERS:
            raise unknown(f"no folder of profiles named {shown(of)}", of, FOLDERS)
        return of
    return next(folder for folder, record in FOLDERS.items() if record is of)


@functools.cache
def _adapter(record: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(record)


def json_schema(record: type) -> dict[str, Any]:
    """JSON Schema of a record, in SI units."""
    schema = _adapter(record).json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        if part.get("type") == "object":
            part["additionalProperties"] = False
    return schema


def _contradictions(record: object) -> Iterator[tuple[str, str]]:
    """Fields that contradict other fields of a record or of the defaults, with what would be right."""
    if isinstance(record, Defaults) and record.devices_low > record.devices_high:
        yield "devices_low", f"must be at most devices_high = {record.devices_high}, not {record.devices_low}"
    yield from inconsistent(record)


# --- Reading a file ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a file a value stands, and how it is known."""

    table: str
    key: str
    kind: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.table} {self.key}".strip()

    def part(self, name: str) -> _Place:
        """Place of one part of a mapping."""
        return dataclasses.replace(self, key=f"{self.key}.{name}")


def _label(place: _Place, *parts: str) -> str:
    """Heading of a table that stands at a place, or of one of its parts."""
    return f"[{'.'.join((*place.table.strip('[]').split(), place.key, *parts))}]"


Location = tuple[str | int, ...]
"""Way to a value in a record: names of fields, numbers in lists, names in mappings."""


@dataclass
class _Reading:
    """A file on its way to a record: values in SI units, where each stands, and what is wrong."""

    record: type
    profile: str = ""
    prefix: str = ""
    """What stands before its keys where the record is a part of another."""
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Location, _Place] = field(default_factory=dict)
    tables: dict[Location, str] = field(default_factory=dict)
    """Nested tables, for messages about what they lack."""
    problems: list[str] = field(default_factory=list)

    def wrong(self, place: _Place | str, text: str) -> None:
        """Note a problem, in printable characters whatever the file has."""
        problem = f"{place}: {text}" if str(place) else text
        self.problems.append(problem if problem.isprintable() else ascii(problem)[1:-1])

    # --- tables ---

    def document(self, content: Mapping[str, Any]) -> None:
        """Take a whole profile: texts at the top, numbers in tables by kind, nested records with theirs."""
        plain = "source" in fields_of(self.record)  # a model: one source for the whole shape
        for key, value in content.items():
            if plain:
                self.entry(self.record, self.values, (), value, _Place("", key))
            elif key in KINDS:
                self.kind_tables(key, value, key)
            else:
                self.top(key, value)

    def kind_tables(self, kind: str, content: Any, label: str) -> None:
        """Take one table, or an array of tables, of figures that are known in the same way."""
        tables = content if isinstance(content, list) else [content]
        for number, table in enumerate(tables, 1):
            self.kind_table(table, kind, f"[{label}]" if len(tables) == 1 else f"[{label} {number}]")

    def kind_table(self, table: Any, kind: str, label: str) -> None:
        """Take one table with its source."""
        if not isinstance(table, dict):
            self.wrong(label, "must be a table with a source and figures")
            return
        source = self.source(table, label)
        for key, value in table.items():
            place = _Place(label, key, kind, source)
            entry = fields_of(self.record).get(key)
            if entry is not None and entry.nested:
                form = f"[[{key}]]" if entry.form == "list" else f"[{key}]"
                self.wrong(place, f"is a table of its own: write {form} with kind and source")
            elif key != "source":
                self.entry(self.record, self.values, (), value, place)

    def source(self, table: Mapping[str, Any], label: str) -> str:
        """Source of a table, which it must have."""
        source = table.get("source", "")
        if not isinstance(source, str):
            self.wrong(f"{label} source", f"must be a text, not {shown(source)}")
        elif not source.strip():
            self.wrong(label, "has no source; say who says so: title, date, column")
        return " ".join(str(source).split())  # a long one may take several lines

    def top(self, key: str, value: Any) -> None:
        """Take an entry that stands in no table of a kind; no number may."""
        place = _Place("", key)
        entry = fields_of(self.record).get(key)
        if entry is not None and entry.nested:
            self.nested(entry, value)
        elif not _holds_number(value):
            self.entry(self.record, self.values, (), value, place)
        elif name := self.field_of(self.record, place):
            if fields_of(self.record)[name].base in (int, float):
                self.wrong(place, f"is a number without a source; put it into {either(f'[{kind}]' for kind in KINDS)}")
                value = None
            self.values[name] = value

    def nested(self, entry: Field, content: Any) -> None:
        """Take a table, or an array of tables, with kind and source of its own."""
        is_list = entry.form == "list"
        if is_list and not isinstance(content, list):
            self.wrong(entry.name, f"must be an array of tables, each headed [[{entry.name}]]")
            content = []
        taken = []
        for number, table in enumerate(content if is_list else [content]):
            at: Location = (entry.name, number) if is_list else (entry.name,)
            label = self.tables[at] = f"[{entry.name} {number + 1}]" if is_list else f"[{entry.name}]"
            values: dict[str, Any] = {}
            taken.append(values)
            if not isinstance(table, dict):
                self.wrong(label, "must be a table with kind, source and figures")
                continue
            kind, source = table.get("kind"), self.source(table, label)
            if kind not in KINDS:
                given = "is missing" if kind is None else f"is {shown(kind)}"
                self.wrong(f"{label} kind", f"{given}; it must be {either(KINDS)}")
            for key, value in table.items():
                if key not in {"kind", "source"}:
                    self.entry(entry.base, values, at, value, _Place(label, key, str(kind), source))
        self.values[entry.name] = taken if is_list else taken[0]

    # --- entries ---

    def field_of(self, record: type, place: _Place) -> str:
        """Field that a key stands for; empty, and noted, if there is none."""
        try:
            name, _ = to_si(place.key, 1)
        except ClusterplanError as problem:
            self.wrong(place, problem.message)
            return ""
        if name in fields_of(record):
            return name
        known = [_spelled(known, name, place.key) for known in fields_of(record)]
        if not place.table:
            known += KINDS
        near = _nearest(place.key, known) or _nearest(name, fields_of(record))
        self.wrong(place, str(ProfileError("unknown key", nearest=near)))
        return ""

    def entry(self, record: type, values: dict[str, Any], at: Location, value: Any, place: _Place) -> None:
        """Take one key into the values of a record."""
        name = self.field_of(record, place)
        if not name:
            return
        entry, here = fields_of(record)[name], (*at, name)
        if entry.form == "mapping" and entry.nested and isinstance(value, dict):  # kinds of layers of a model
            parts = values.setdefault(name, {})
            for part, inner in value.items():
                self.part(entry.base, parts, (*here, part), inner, _label(place, part))
        elif entry.form == "mapping" and isinstance(value, dict) and here not in self.places:
            parts = values.setdefault(name, {})
            for part, inner in value.items():
                self.put(record, entry, parts, (*here, part), place.key, inner, place.part(part))
        elif entry.nested and entry.form == "one" and isinstance(value, dict):  # a part of a model
            self.part(entry.base, values, here, value, _label(place))
        else:
            self.put(record, entry, values, here, place.key, value, place)

    def part(self, record: type, values: dict[str, Any], here: Location, content: Any, label: str) -> None:
        """Take a table that is a part of a model."""
        name = str(here[-1])
        self.tables[here] = label
        values[name] = {} if isinstance(content, dict) else content
        for key, value in content.items() if isinstance(content, dict) else ():
            self.entry(record, values[name], here, value, _Place(label, key))

    def put(
        self, record: type, entry: Field, values: dict[str, Any], here: Location, key: str, value: Any, place: _Place
    ) -> None:
        """Note one value in SI units; None for one that is wrong."""
        if here in self.places:
            self.wrong(place, f"is given twice, here and as {self.places[here]}")
            return
        self.places[here] = place
        if entry.base in (int, float):
            for number in value if isinstance(value, list) and entry.form == "list" else [value]:
                if problem := _wrong_number(record, entry, key, number):
                    self.wrong(place, problem)
                    value = None
            if isinstance(value, int | float):
                value = to_si(key, value)[1]
        values[str(here[-1])] = value

    def inherit(self, relative: Accelerator) -> None:
        """Take from a measured relative what the file of a device leaves out."""
        for name in INHERITED:
            given = getattr(relative, name)
            if name in self.values:
                continue
            if not isinstance(given, Mapping):
                self.values[name] = _plain(given)
                self.assumed_as(relative, (name,), given)
                continue
            self.values[name] = {}
            for part, value in given.items():
                if name != "gemm_efficiency" or f"{part}_flop_per_s" in self.values:  # a format that it has
                    self.values[name][part] = float(value)
                    self.assumed_as(relative, (name, part), value)

    def assumed_as(self, relative: Accelerator, here: Location, value: float) -> None:
        """Note that a figure is a relative's."""
        if isinstance(value, Figure):
            source = f"assumed: as {relative.name}, its nearest measured relative: {value.origin.source}"
            self.places[here] = _Place("", value.origin.key, "assumed", source)

    # --- the record ---

    def finish(self) -> Any:
        """The record with its figures marked; None if something is wrong."""
        record = self.validated()
        if record is not None:
            for name, text in _contradictions(record):
                self.wrong(self.named(tuple(name.split("."))), text)
        return None if record is None or self.problems else self.marked(record, (), self.prefix)

    def validated(self) -> Any:
        """The record without origins; None, and the problems noted, if the values do not make one."""
        from pydantic import ValidationError

        try:
            # In JSON lists may become tuples and tables dataclasses, while texts still do not pass for numbers.
            return _adapter(self.record).validate_json(json.dumps(self.values, default=str), strict=True)
        except ValidationError as error:
            missing: dict[Location, list[str]] = {}
            for problem in error.errors(include_url=False):
                at = problem["loc"]
                if problem["type"] == "missing":
                    missing.setdefault(at[:-1], []).append(str(at[-1]))
                elif problem["input"] is not None:  # what is None was found wrong before
                    self.wrong(self.named(at), _said(problem["type"], problem))
            for at, names in missing.items():
                self.wrong(f"{self.tables.get(at, '')} missing".strip(), ", ".join(names))
        return None

    def named(self, at: Location) -> str:
        """What a message calls a location."""
        for length in range(len(at), 0, -1):
            if at[:length] in self.places:
                return str(self.places[at[:length]])
            if at[:length] in self.tables:
                return " ".join([self.tables[at[:length]], *map(str, at[length:])])
        return ".".join(map(str, at))

    def marked(self, record: Any, at: Location, prefix: str) -> Any:
        """The record with each number that the file gave as a :class:`Figure`."""
        changed: dict[str, Any] = {}
        for name, entry in fields_of(type(record)).items():
            value, here = getattr(record, name), (*at, name)
            if value is None:
                continue
            if entry.nested and entry.form == "list":
                changed[name] = tuple(
                    self.marked(part, (*here, number), f"{prefix}{name}.{part.name}.")
                    for number, part in enumerate(value)
                )
            elif entry.nested and entry.form == "mapping":
                changed[name] = {
                    part: self.marked(inner, (*here, part), f"{prefix}{name}.{part}.") for part, inner in value.items()
                }
            elif entry.nested:
                changed[name] = self.marked(value, here, f"{prefix}{name}.")
            elif entry.base is float and entry.form == "mapping":
                changed[name] = {part: self.figure(number, (*here, part), prefix) for part, number in value.items()}
            elif entry.base is float:
                changed[name] = self.figure(value, here, prefix)
        return dataclasses.replace(record, **changed)

    def figure(self, value: float, at: Location, prefix: str) -> float:
        """A number with the place where it was read, if it was."""
        place = self.places.get(at)
        if place is None or not place.kind:
            return value
        return Figure(value, Origin(self.profile, prefix + place.key, place.kind, place.source))


def parse_toml(text: str, where: str, error: type[ClusterplanError] = ProfileError) -> dict[str, Any]:
    """Content of a TOML document; what cannot be read is said in one line."""
    try:
        content = tomllib.loads(text)
        too_large = _holds_huge(content)
    except RecursionError:
        raise error("is nested too deeply", where=where) from None
    except ValueError as problem:  # also numbers with more digits than Python reads
        raise error(f"is not TOML: {' '.join(str(problem).split())[:200]}", where=where) from None
    if too_large:
        raise error(f"has a number larger than {MOST:g}", where=where)
    return content


def _holds_huge(value: Any) -> bool:
    """Whether there is a whole number that is too long to be written out."""
    if isinstance(value, list | dict):
        return any(map(_holds_huge, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and abs(value) > MOST


INHERITED = (
    "idle_w", "gemm_efficiency", "in_training_efficiency", "attention_efficiency", "attention_backward_ratio",
    "memory_efficiency", "k_ramp", "wave_hardness", "tile_m", "tile_n", "failures_per_device_s", "clock_exponent",
    "embodied_kg_co2e",
)  # fmt: skip
"""What no datasheet of a device says; a file that names a measured relative (``like``) may leave it out."""

Relative = Callable[[str], Accelerator]
"""Finds the device that another one is like."""


def read(record: type[Record], path: Path, relative: Relative | None = None) -> Record:
    """Record of one file.

    Parameters
    ----------
    record : type
        One of the records in :data:`FOLDERS`.
    path : Path
        TOML file, named after the profile.
    relative : callable
        Finds the device that another one is like; without it a device must have all of its constants.

    Raises
    ------
    ProfileError
        One line with everything that is wrong in the file.
    """
    found, problems = _read(record, path, relative)
    if problems:
        raise _problems_error(problems, path)
    result: Record = found
    return result


def _read(record: type, path: Path, relative: Relative | None = None) -> tuple[Any, list[str]]:
    content = parse_toml(read_text(path, ProfileError), printable(path))
    reading = _Reading(record, f"{folder_of(record)}/{path.stem}")
    reading.document(content)
    if isinstance(name := content.get("name"), str) and name != path.stem:
        reading.wrong("name", f"must be that of the file, {path.stem!r}, not {shown(name)}")
    reading.values.setdefault("name", path.stem)
    like = reading.values.get("like") if record is Accelerator else None
    if isinstance(like, str) and like and relative is not None:
        try:
            found = relative(like)
        except ProfileError as problem:
            reading.wrong("like", str(problem))
        else:
            if not found.is_measured:
                reading.wrong("like", f"{like} is not measured itself; name a device that is")
            reading.inherit(found)
    return reading.finish(), reading.problems


def dump_model(model: Model) -> str:
    """TOML text that :func:`read` turns into an equal model; what is as usual is left out.

    Examples
    --------
    >>> from clusterplan.workload import Attention
    >>> attention = Attention(heads=8, kv_heads=2, head_dim=64, window=128)
    >>> shape = dict(layers=2, hidden=512, vocab=1000, ffn=1408, gated_mlp=True, tied_embeddings=False)
    >>> print(dump_model(Model(name="small", source="made up", attention=attention, **shape)))
    name = "small"
    source = "made up"
    layers = 2
    hidden = 512
    vocab = 1000
    ffn = 1408
    gated_mlp = true
    tied_embeddings = false
    <BLANKLINE>
    [attention]
    heads = 8
    kv_heads = 2
    head_dim = 64
    window = 128
    <BLANKLINE>
    """
    import tomli_w

    return tomli_w.dumps(_unusual(model))


def _unusual(record: Any) -> dict[str, Any]:
    """Fields of a record that differ from their defaults."""
    content: dict[str, Any] = {}
    for entry in dataclasses.fields(record):
        value = getattr(record, entry.name)
        default = entry.default if entry.default_factory is dataclasses.MISSING else entry.default_factory()
        if value == default:
            continue
        if isinstance(value, Mapping):
            content[entry.name] = {name: _unusual(part) for name, part in value.items()}
        else:
            content[entry.name] = _unusual(value) if dataclasses.is_dataclass(value) else value
    return content


def read_defaults(path: Path) -> Defaults:
    """Defaults from a ``defaults.toml``."""
    found, problems = _read_defaults(path)
    if problems:
        raise _problems_error(problems, path)
    result: Defaults = found
    return result


def _read_defaults(path: Path) -> tuple[Any, list[str]]:
    content = parse_toml(read_text(path, ProfileError), printable(path))
    reading, operations = _Reading(Defaults, "defaults"), _Reading(Operations, "defaults")
    for label in ("names", "workload", "search"):
        reading.kind_tables("assumed", content.pop(label, {}), label)
    kinds = content.pop("operations", {})
    if isinstance(kinds, dict):
        for kind, table in kinds.items():
            if kind in KINDS:
                operations.kind_tables(kind, table, f"operations.{kind}")
            else:
                operations.wrong(f"[operations] {kind}", f"must be in a table [operations.KIND], KIND {either(KINDS)}")
    else:
        operations.wrong("operations", f"must be tables [operations.KIND], KIND {either(KINDS)}")
    for key in content:
        near = _nearest(key, ("names", "workload", "search", "operations"))
        reading.wrong(key, str(ProfileError("unknown table", nearest=near)))
    reading.values["operations"] = None  # read apart, so that its figures keep their own kinds
    reading.values["sources"] = {str(at[0]): place.source for at, place in reading.places.items()}
    found = operations.finish()
    if found is not None:
        reading.values["operations"] = {
            name: float(value) if isinstance(value, Figure) else value
            for name in fields_of(Operations)
            for value in [getattr(found, name)]
        }
    defaults = reading.finish()
    problems = reading.problems + operations.problems
    return None if problems else dataclasses.replace(defaults, operations=found), problems


def _problems_error(problems: list[str], path: Path) -> ProfileError:
    shown = problems[:PROBLEMS_SHOWN]
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more (clusterplan profiles check lists them)")
    return ProfileError("; ".join(shown), where=printable(path))


Doubt = Callable[[Any], Iterable[tuple[str, str]]]
"""Fields of a record that are likely wrong, with what would be right."""


def check(path: Path, relative: Relative | None = None, doubts: Doubt | None = None) -> list[str]:
    """Everything that is wrong with a profile, a line each with its file and line; empty if it can be used.

    What the profile describes is told by the folder that the file lies in, or else by the keys that it has.

    Parameters
    ----------
    path : Path
        TOML file.
    relative : callable
        Finds the device that another one is like.
    doubts : callable
        What is unlikely about a record in which nothing is wrong.
    """
    try:
        if path.name == "defaults.toml":
            record, problems = _read_defaults(path)
        else:
            of = FOLDERS.get(path.absolute().parent.name) or _likely_record(path)
            record, problems = _read(of, path, relative)
        if doubts is not None and record is not None:
            problems = [f"{_key_of(record, name)}: {text}" for name, text in doubts(record)]
        lines = _lines(read_text(path, ProfileError)) if problems else {}
    except ProfileError as problem:
        return [str(problem)]
    places = [_line(problem, lines) for problem in problems]
    return [f"{printable(path)}{line}: {problem}" for line, problem in zip(places, problems, strict=True)]


def _key_of(record: Any, name: str) -> str:
    """Key in the file of a field."""
    value = getattr(record, name, None)
    return value.origin.key if isinstance(value, Figure) else name


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]#]*?)\s*\]")
_KEY = re.compile(r"\s*(?:\"([^\"]*)\"|([\w.-]+))\s*=")
_PLACE = re.compile(r"(\[[^\]]*\])?\s*([\w.-]*): ")


def _lines(text: str) -> dict[tuple[str, str], int]:
    r"""Lines of a TOML text by label of the table and key; a header has no key, and a key alone no label.

    Examples
    --------
    >>> lines = _lines('name = "x"\n[[datasheet]]\ntdp_w = 700\n[[datasheet]]\nidle_w = 70')
    >>> lines["", "name"], lines["[datasheet 2]", ""], lines["[datasheet 1]", "tdp_w"], lines["", "idle_w"]
    (1, 4, 3, 5)
    """
    found: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    labels, inside = [""], False
    for number, line in enumerate(text.splitlines(), 1):
        begins_inside, inside = inside, inside ^ (line.count('"""') % 2 == 1) ^ (line.count("'''") % 2 == 1)
        if begins_inside:
            continue
        if header := _HEADER.match(line):
            name = header[2]
            counts[name] = counts.get(name, 0) + 1
            labels = [f"[{name}]", f"[{name} {counts[name]}]"]
            for label in labels:
                found.setdefault((label, ""), number)
        elif key := _KEY.match(line):
            for label in dict.fromkeys([*labels, ""]):
                found.setdefault((label, key[1] or key[2]), number)
    return found


def _line(problem: str, lines: Mapping[tuple[str, str], int]) -> str:
    """Line that a problem is about, as ``:12``; empty if it is about the whole file."""
    place = _PLACE.match(problem)
    if place is None:
        return ""
    label, key = place[1] or "", place[2]
    outer = label.strip("[]").split(".")[0].split(" ")[0]
    for at in ((label, key), (label, key.split(".")[0]), (label, ""), ("", outer), (f"[{outer}]", "")):
        if at in lines:
            return f":{lines[at]}"
    return ""


def _likely_record(path: Path) -> type:
    """Record that has most of the keys of a file."""
    content = parse_toml(read_text(path, ProfileError), printable(path))
    keys = set(content)
    for kind in KINDS:
        tables = content.get(kind, [])
        for table in tables if isinstance(tables, list) else [tables]:
            keys.update(table if isinstance(table, dict) else ())
    fields = set()
    for key in keys - {"name", "source", "vendor", *KINDS}:
        try:
            fields.add(to_si(key, 1)[0])
        except ClusterplanError:
            continue
    best = max(FOLDERS.values(), key=lambda record: len(fields & set(fields_of(record))))
    if not fields & set(fields_of(best)):
        raise ProfileError(
            f"has no key of any profile; put it into the folder of what it describes: {either(FOLDERS)}",
            where=printable(path),
        )
    return best


# --- Changing a record ------------------------------------------------------------------------------------------


def change(record: Record, key: str, text: str, *, where: str = "") -> Record:
    """Record with one value replaced by what a user gave.

    Parameters
    ----------
    record : record
        Record of a profile.
    key : str
        Key as in a profile, with its unit; parts of mappings and nested records after a point:
        ``memory_gib``, ``gemm_efficiency.bf16``, ``air.fan_pa``, ``tiers.leaf.latency_us``.
    text : str
        The value as TOML has it; texts may stand without quotes, quantities may have their unit.
    where : str
        Option that holds it, for messages.

    Returns
    -------
    record
        A new record, in which the value is a :class:`Figure` of kind assumed, given by the user.
    """
    profile = "defaults" if isinstance(record, Operations) else f"{folder_of(type(record))}/{record.name}"  # type: ignore[attr-defined]
    if isinstance(record, Prices):
        return _changed_price(record, key, text, profile, where)  # type: ignore[return-value]
    changed: Record = _changed(record, key, "", text, profile, where)
    for name, problem in inconsistent(changed):  # of a part with the whole
        raise ProfileError(f"{name}: {problem}", where=where)
    return changed


def _changed_price(prices: Prices, key: str, text: str, profile: str, where: str) -> Prices:
    """A price list with one figure of the user's, which has no range any more."""
    head, point, part = key.partition(".")
    if head in {"low", "high"}:
        raise ProfileError("ends of ranges stand in a price list; the figure itself can be set", where=where)
    changed: Prices = _changed(dataclasses.replace(prices, low={}, high={}), key, "", text, profile, where)
    name = f"{to_si(head, 1)[0]}{point}{part}"
    kept = [{key: value for key, value in ends.items() if key != name} for ends in (prices.low, prices.high)]
    return dataclasses.replace(changed, low=kept[0], high=kept[1])


def _changed(record: Any, key: str, prefix: str, text: str, profile: str, where: str) -> Any:
    head, _, rest = key.partition(".")
    entry = fields_of(type(record)).get(head)
    if entry is None or not entry.nested:
        return _changed_value(record, key, prefix, text, profile, where)
    value = getattr(record, head)
    if value is None:
        raise ProfileError(f"{profile} has no {prefix}{head}", where=where)
    if entry.form == "one":
        inner = _changed(value, rest, f"{prefix}{head}.", text, profile, where)
        return dataclasses.replace(record, **{head: inner})
    part, _, rest = rest.partition(".")
    names = list(value) if entry.form == "mapping" else [one.name for one in value]
    if part not in names:
        raise unknown(f"no part of {prefix}{head} is named {shown(part)}", part, names, where=where)
    if entry.form == "mapping":
        inner = _changed(value[part], rest, f"{prefix}{head}.{part}.", text, profile, where)
        return dataclasses.replace(record, **{head: {**value, part: inner}})
    at = names.index(part)
    inner = _changed(value[at], rest, f"{prefix}{head}.{part}.", text, profile, where)
    return dataclasses.replace(record, **{head: (*value[:at], inner, *value[at + 1 :])})


def _changed_value(record: Any, key: str, prefix: str, text: str, profile: str, where: str) -> Any:
    head, _, part = key.partition(".")
    reading = _Reading(type(record), profile, prefix)
    name = reading.field_of(type(record), _Place("", head))
    if name:
        entry = fields_of(type(record))[name]
        if (entry.form == "mapping") != bool(part):
            form = f"{prefix}{head}.NAME" if entry.form == "mapping" else f"{prefix}{head}"
            raise ProfileError(f"{prefix}{key} cannot be set; set {form}", where=where)
        value, head = _value(entry, head, text, where)
        others = {other: _plain(getattr(record, other)) for other in fields_of(type(record)) if other != name}
        reading.values = {other: found for other, found in others.items() if found is not None}
        place = _Place("", head, "assumed", GIVEN)
        reading.entry(type(record), reading.values, (), {part: value} if part else value, place)
        changed = reading.finish()
        if changed is not None:
            new = getattr(changed, name)
            return dataclasses.replace(record, **{name: {**getattr(record, name), **new} if part else new})
    raise ProfileError("; ".join(reading.problems), where=where)


_QUANTITIES: Mapping[str, Dimension] = {
    "bytes": "memory",
    "bytes/s": "bandwidth",
    "W": "power",
    "s": "time",
    "USD": "usd",
    "USD/kWh": "usd_per_kwh",
    "USD/device-h": "usd_per_device_hour",
}
"""How a quantity is written that a field of this unit takes."""


def _value(entry: Field, key: str, text: str, where: str) -> tuple[Any, str]:
    """What a user's text means for a field, and the key in whose unit it is."""
    if entry.base is str and not (entry.form == "list" and text.startswith("[")):
        return (text.split(",") if entry.form == "list" else text), key
    try:
        content = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        content = {}
    if set(content) == {"value"} and not _holds_huge(content):
        return content["value"], key
    dimension = "fraction" if entry.name.endswith("_fraction") else _QUANTITIES.get(unit_of(entry.name))
    if entry.base is float and dimension:
        return parse(text, dimension, where=where), entry.name
    return text, key


def _plain(value: Any) -> Any:
    """A value of a record as JSON has it."""
    if dataclasses.is_dataclass(value):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return float(value) if isinstance(value, Figure) else value


# --- Messages ---------------------------------------------------------------------------------------------------


def unknown(message: str, name: str, known: Iterable[str], *, where: str = "", listed_by: str = "") -> ProfileError:
    """Error for a name that is not known, with those that are near, or else with all, or what lists them."""
    names = sorted(known)
    near = _nearest(name, names)
    if not near and len(names) <= 20:
        message += f"; known: {', '.join(names) or 'none'}"
    elif not near and listed_by:
        message += f"; {listed_by} lists all {len(names)}"
    return ProfileError(message, where=where, nearest=near)


def _nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    from difflib import get_close_matches  # only a mistake pays for the import

    return tuple(get_close_matches(name[:100], list(known), n=3, cutoff=0.6))


def _spelled(name: str, wrong: str, key: str) -> str:
    """A field in the unit that a wrong key was written in: ``memory_gib`` for ``memry_gib``."""
    same = 0
    while wrong[: same + 1] == key[: same + 1] and same < len(key):
        same += 1
    stem = wrong.rfind("_", 0, same) + 1
    si, suffix = wrong[stem:], key[stem:]
    if wrong != key and name.endswith(f"_{si}"):
        return name.removesuffix(si) + suffix
    return name


def _wrong_number(record: type, entry: Field, key: str, value: Any) -> str:
    """What is wrong with a value that must be a number; empty if nothing is, or if it is said later."""
    if isinstance(value, dict | list):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be {'a whole number' if entry.base is int else 'a number'}, not {shown(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be finite, not {value}"
    if abs(value) > MOST:
        return f"must be at most {MOST:g}, not {shown(value)}"
    return out_of_range(record, entry.name, to_si(key, value)[1], key, value)


def _holds_number(value: Any) -> bool:
    if isinstance(value, list | dict):
        return any(map(_holds_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _said(kind: str, problem: Any) -> str:
    """One of pydantic's problems in the words of the other messages."""
    right = {
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "string_type": "a text",
        "bool_type": "true or false",
        "tuple_type": "a list",
        "dict_type": "a table such as { name = 1.5 }",
        "dataclass_type": "a table",
    }.get(kind)
    if kind == "literal_error":
        right = problem["ctx"]["expected"]
    return f"must be {right}, not {shown(problem['input'])}" if right else str(problem["msg"])
