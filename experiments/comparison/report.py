#!/usr/bin/env python3
"""Writes the tables of README.md from raw/table.json, between `<!-- table NAME -->` and `<!-- end -->`.

    experiments/comparison/report.py [--check]     --check: changes nothing, exit code 1 where a table is not that of its data
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
sys.path.insert(0, str(HERE.parents[1] / "benches"))
from report import number, table  # noqa: E402

FIGURES = {
    "throughput_mbps": "throughput, Mbit/s",
    "owd_mean_ms": "one-way delay, mean, ms",
    "owd_p95_ms": "one-way delay, 95th percentile, ms",
    "owd_p99_ms": "one-way delay, 99th percentile, ms",
    "sent_mbytes": "sent, MB",
}


def figures(data):
    variants = [runs["variant"] for runs in data["runs"]]
    means = {(row["variant"], row["name"]): row for row in data["rows"]}

    def cell(variant, figure):
        row = means.get((variant, figure))
        return "-" if row is None else f"{number(row['mean'])} ± {number(row['ci95'])}"

    rows = [[title, *(cell(variant, figure) for variant in variants)] for figure, title in FIGURES.items()]
    return table(["mean ± half of the 95 % interval", *variants], rows)


def runs(data):
    rows = [[r["variant"], r["runs"], r["trustworthy"], r["failed"], r["failed_flows"]] for r in data["runs"]]
    return table(["", "runs", "trustworthy", "failed", "failed flows"], rows)


def main():
    page = PAGE.read_text()
    raw = HERE / "raw/table.json"
    if not raw.exists():
        return 0
    data = json.loads(raw.read_text())
    written = page
    for name, make in {"figures": figures, "runs": runs}.items():
        between = rf"(<!-- table {name} -->\n).*?(<!-- end -->)"
        written = re.sub(between, lambda m: f"{m[1]}{make(data)}\n{m[2]}", written, flags=re.S)
    if "--check" in sys.argv:
        return int(written != page)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
