#!/usr/bin/env python3
"""Writes the tables of README.md from speed.json, between `<!-- table NAME -->` and `<!-- end -->`."""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = {"leotp faithful": "LEOTP as printed", "leotp beyond": "LEOTP beyond", "quinn": "quinn", "tcp bbr": "TCP bbr", "tcp cubic": "TCP cubic"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def speeds(rows):
    by = {row["what"]: row for row in rows}
    columns = ["sender", "midnode", "receiver", "machine"]
    if not any("midnode_cpu_s_per_gbit" in row for row in rows):
        columns.remove("midnode")

    def cell(row, who):
        value = row.get(f"{who}_cpu_s_per_gbit")
        return "the kernel" if value is None else f"{value:.3f}"

    return table(
        ["", "Gbit/s", *(f"{'router' if c == 'midnode' else c}, s/Gbit" for c in columns)],
        [[name, f"{by[what]['gbps']:.2f}", *(cell(by[what], c) for c in columns)] for what, name in NAMES.items() if what in by],
    )


def memory(builds):
    return table(
        ["a Midnode, VmHWM", "idle", "after 5 s of 20 Mbit/s, cache of 1 MiB"],
        [[name, f"{row['idle_mib']:.2f} MiB", f"{row['busy_mib']:.2f} MiB"] for name, row in builds.items()],
    )


def thousand(row):
    return table(
        ["flows answered", "together", "median, 1st percentile of a flow", "Midnode's processor", "its memory"],
        [[f"{row['answered']:,} of {row['flows']:,}", f"{row['mbps_total']:.0f} Mbit/s",
          f"{row['mbps_p50'] * 1000:.0f}, {row['mbps_p1'] * 1000:.0f} kbit/s", f"{row['midnode_cpu_share']:.0%} of one",
          f"{row['midnode_peak_rss_mib']:.1f} MiB"]],
    )


TABLES = {"loopback": speeds, "path": speeds, "lab": speeds, "memory": memory, "thousand": thousand}


def main():
    data = json.loads((HERE / "speed.json").read_text())
    page = (HERE / "README.md").read_text()
    new = re.sub(
        r"<!-- table (\w+) -->\n.*?<!-- end -->",
        lambda m: f"<!-- table {m.group(1)} -->\n{TABLES[m.group(1)](data[m.group(1)])}\n<!-- end -->",
        page, flags=re.S,
    )
    if "--check" in sys.argv:
        sys.exit(0 if new == page else "report: benches/leotp/README.md is not that of speed.json")
    (HERE / "README.md").write_text(new)


if __name__ == "__main__":
    main()
