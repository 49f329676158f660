"""How many layouts a second the search looks at, on one core.

    python benchmarks/search_speed.py

*Considered* layouts are legal and were tested against memory. *Evaluated* ones were carried to energy, carbon and cost.
Rates are given for the whole question and for the parts of the search that do either. Times are those of the processor,
so that other work on the machine matters less. It prints rates and never fails by the clock.
"""

from __future__ import annotations

import os
import time

from clusterplan import search, shapes
from clusterplan.catalog import Catalog
from clusterplan.premises import objective_of
from clusterplan.scan import Fastest, Tally, evaluated, scan
from clusterplan.scenario import Resolved, Scenario, override, resolve

ROUNDS = 5
QUESTIONS = {
    "gpt-1t (dense)": {"model": "gpt-1t", "hardware": "dgx-h100", "tokens": "20T", "deadline": "120d"},
    "kimi-k2 (mixture of experts)": {"model": "kimi-k2", "hardware": "dgx-h100", "tokens": "15.5T", "deadline": "120d"},
}


def resolved(question: dict[str, str]) -> Resolved:
    asked = override(Scenario(), {**question, "devices": "1024:131072"})
    return resolve(asked, Catalog(), lambda model: shapes.parameters(model).active)


def whole(question: Resolved) -> tuple[float, int]:
    begin = time.process_time()
    answer = search.size(question)
    return time.process_time() - begin, answer.considered


def parts(question: Resolved) -> tuple[float, int, float, int]:
    """Time and number of layouts of the scan, then of the evaluation of what the scan left."""
    scan_s = evaluate_s = 0.0
    tally = Tally()
    for bench in search.benches(question, 0, objective_of(question)):
        begin = time.process_time()
        left = scan(bench, Fastest.on(bench), tally, None)
        middle = time.process_time()
        evaluated(bench, left, tally)
        scan_s += middle - begin
        evaluate_s += time.process_time() - middle
    return scan_s, tally.considered, evaluate_s, tally.evaluated


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # threads of libraries stay on that core too
    for name, asked in QUESTIONS.items():
        question = resolved(asked)
        whole(question)  # fills caches
        seconds, considered = min(whole(question) for _ in range(ROUNDS))
        rounds = [parts(question) for _ in range(ROUNDS)]
        scan_s, scanned, _, _ = min(rounds, key=lambda r: r[0])
        _, _, evaluate_s, count = min(rounds, key=lambda r: r[2])
        print(f"{name}, 1,024 to 131,072 devices, best of {ROUNDS}")
        print(
            f"  whole question  {seconds:6.3f} s  {considered:>10,} considered  {considered / seconds:>12,.0f} a second"
        )
        print(f"  scan            {scan_s:6.3f} s  {scanned:>10,} considered  {scanned / scan_s:>12,.0f} a second")
        print(f"  evaluation      {evaluate_s:6.3f} s  {count:>10,} evaluated   {count / evaluate_s:>12,.0f} a second")


if __name__ == "__main__":
    main()
