"""How right predictions are: errors of time and memory, verdicts and order, for all measured runs and by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterplan.ranking import Ranking, ranking
from clusterplan.validate import Errors, Judged, errors, source_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """How often the verdict on memory was right."""

    out_of_memory: int
    """Runs known to have ended for want of memory."""
    called: int
    """Those of which it was said, as not fitting or as borderline."""
    ran: int
    """Runs known to have fitted."""
    false_alarms: int
    """Those of which it was said that they do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How right the predictions of a group of rows are."""

    rows: int
    used: int
    """Rows that have a prediction."""
    skipped: Mapping[str, int]
    """Rows that have none, by the reason."""
    time: Errors | None
    memory: Errors | None
    verdicts: Verdicts
    ranking: Ranking | None


def time_errors(rows: Iterable[Judged]) -> Errors | None:
    """Errors of step times."""
    timed = [(r, r.error_fraction) for r in rows if r.error_fraction is not None]
    return errors((error for _, error in timed), (is_inside(r) for r, _ in timed))


def is_inside(row: Judged) -> bool:
    """Whether the measured time lies in the stated interval."""
    return bool(row.low_s and row.high_s and row.measured_step_s and row.low_s <= row.measured_step_s <= row.high_s)


def memory_errors(rows: Iterable[Judged]) -> Errors | None:
    """Errors of peak memory."""
    return errors(r.memory_error_fraction for r in rows if r.memory_error_fraction is not None)


DECISIVE = ("framework", "recompute", "sharding", "vpp", "schedule")
"""What decides over memory: where a row leaves one of these blank, a verdict on it is a guess."""


def verdicts(rows: Iterable[Judged]) -> Verdicts:
    """Verdicts on rows whose end is known and that state what decides over memory."""
    known = [
        r
        for r in rows
        if r.verdict is not None and r.ran is not None and not any(i.startswith(DECISIVE) for i in r.inferred)
    ]
    failed = [r for r in known if not r.ran]
    ran = [r for r in known if r.ran]
    return Verdicts(
        out_of_memory=len(failed),
        called=sum(r.verdict != "fits" for r in failed),
        ran=len(ran),
        false_alarms=sum(r.verdict == "does_not_fit" for r in ran),
    )


def accuracy(rows: Sequence[Judged]) -> Accuracy:
    """All that can be said of a group of rows."""
    reasons = Counter(row.skipped for row in rows if row.skipped)
    return Accuracy(
        rows=len(rows),
        used=sum(not row.skipped for row in rows),
        skipped=dict(sorted(reasons.items(), key=lambda one: (-one[1], one[0]))),
        time=time_errors(rows),
        memory=memory_errors(rows),
        verdicts=verdicts(rows),
        ranking=ranking(rows),
    )


SCALES = (64, 512, 4096)
"""Most devices of a class of size."""


def scale(row: Judged) -> str:
    """Class of size, by the devices of the run."""
    if not row.accelerators:
        return "not stated"
    least = 1
    for most in SCALES:
        if row.accelerators <= most:
            return f"{least:,} to {most:,} devices"
        least = most + 1
    return f"{least:,} devices and more"


SPLITS: Mapping[str, Callable[[Judged], str]] = {
    "source": lambda row: source_name(row.source),
    "accelerator": lambda row: row.accelerator or "not stated",
    "family": lambda row: row.family or "not stated",
    "scale": scale,
    "stack": lambda row: f"{row.stack} (assumed)" if row.stack_assumed else row.stack or "skipped",
    "stated": lambda row: "skipped" if row.skipped else "some settings inferred" if row.inferred else "all stated",
}
"""Ways to group the rows."""


def groups(rows: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    """Rows by a property, names sorted."""
    found: dict[str, list[Judged]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return dict(sorted(found.items(), key=_order))


def _order(one: tuple[str, object]) -> tuple[int, str]:
    """By name; classes of size by their least."""
    first = one[0].split(" ")[0].replace(",", "")
    return (int(first) if first.isdecimal() else 0, one[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How right predictions are on a set of rows, as a whole and in groups."""

    overall: Accuracy
    by: Mapping[str, Mapping[str, Accuracy]]
    """By each of :data:`SPLITS`, then by group."""


def summary(rows: Sequence[Judged]) -> Summary:
    """Accuracy over all rows and by each way to group them."""
    return Summary(
        overall=accuracy(rows),
        by={
            name: {group: accuracy(members) for group, members in groups(rows, key).items()}
            for name, key in SPLITS.items()
        },
    )
