#!/usr/bin/env python3
"""Writes the tables and pictures of README.md from raw/*.json.

    experiments/edt/report.py [--check]     --check: changes nothing, exit code 1 where a table or a picture is not that of its data
"""

import json
import re
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE.parent / "swarm"))
import plots  # noqa: E402

PAGE = HERE / "README.md"


def raw(name):
    path = HERE / f"raw/{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---:|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)])


def of(data, way, links, key, single=None, beside=None):
    """Values of all rounds."""
    return [row[key] for row in data["rows"] if row["what"] == "path" and row["way"] == way and row["links"] == links
            and (single is None or row["single_frames"] == single) and (beside is None or row["beside"] == beside)]


def middle(values, digits=0):
    return f"{statistics.median(values):,.{digits}f}" if values else ""


def counts(data):
    return sorted({row["links"] for row in data["rows"] if row["what"] == "complete"})


def latency(data):
    """Least and median round trips in us; the least over all rounds, because a busy host only adds."""
    ways = [("bare", None), ("netem", None), ("netem, matched", None), ("edt", None), ("relay", None)]
    cell = lambda way, links: " / ".join([f"{min(of(data, way, links, 'rtt_min_us')):,.0f}", middle(of(data, way, links, "rtt_p50_us"))]) if of(data, way, links, "rtt_min_us") else ""
    return table(["links", *(f"{way}, us" for way, _ in ways)], [[f"{links:,}", *(cell(way, links) for way, _ in ways)] for links in counts(data)])


def throughput(data):
    """Mbit/s for a second of the guest's processor."""
    ways = [("bare", False), ("netem", False), ("netem, matched", False), ("bare", True), ("netem", True), ("edt", True), ("relay", True)]
    head = ["links", *(f"{way}, {'frames' if single else 'super-frames'}" for way, single in ways)]
    return table(head, [[f"{links:,}", *(middle(of(data, way, links, "mbps_of_processor", single)) for way, single in ways)] for links in counts(data)])


def configuration(data):
    rows = [row for row in data["rows"] if row["what"] == "configure"]
    netem = {row["links"]: row["processor_us_a_link"] for row in rows if row["way"] == "netem"}
    drivers = {(row["way"], row["links"]): row["ms"] for row in rows if row["way"] != "netem"}
    wanted = [n for n in counts(data) if n >= 1000]
    return table(["links", "one more link of netem, us", "all links of edt in one update, ms", "all of relay, ms"],
                 [[f"{n:,}", f"{netem[n]:,.0f}" if n in netem else "", *(f"{drivers[way, n]:,.1f}" if (way, n) in drivers else "" for way in ("edt", "relay"))] for n in wanted])


def accuracy(data):
    rows = []
    for row in data["rows"]:
        if flows := row.get("flows"):
            rtt = {key: value / 1e6 for key, value in flows["fig8"]["rtt"].items()}
            pings, received, second = flows["fig8"]["sent_packets"], flows["fig9"]["throughput_bps"] / 1e6, None
        else:
            times = row["rtt_ms"]
            rtt = {"min_ns": min(times), "p50_ns": statistics.median(times), "max_ns": max(times)}
            pings, received = len(times), row.get("received_mbps")
            second = statistics.median(row["mbps"]) if row["mbps"] else None
        rows.append([row["way"], str(pings), *(f"{rtt[key]:.3f}" for key in ("min_ns", "p50_ns", "max_ns")), *(f"{rate:.2f}" if rate else "" for rate in (received, second))])
    return table(["emulator", "pings", "round trip, least, ms", "p50", "greatest", "TCP received, Mbit/s", "median second at the sender, Mbit/s"], rows)


TABLES = {"latency": ("filters", latency), "throughput": ("filters", throughput), "configuration": ("filters", configuration), "accuracy": ("accuracy", accuracy)}


def drawn():
    """(name, picture)."""
    data = raw("filters")
    if not data or len(counts(data)) < 3:
        return
    ways = ("bare", "netem", "netem, matched", "edt", "relay")
    yield "latency.svg", plots.lines("Round trip over many links of one interface (Figs 2 and 5)", "links", "us, median", {
        way: [(n, statistics.median(of(data, way, n, "rtt_p50_us"))) for n in counts(data) if of(data, way, n, "rtt_p50_us")] for way in ways}, log_y=True)
    yield "throughput.svg", plots.lines("TCP over many links of one interface (Figs 3 and 6)", "links", "Mbit/s of a processor", {
        f"{way}, {'frames' if single else 'super-frames'}": [(n, statistics.median(of(data, way, n, "mbps_of_processor", single))) for n in counts(data) if of(data, way, n, "mbps_of_processor", single)]
        for way, single in (("bare", False), ("netem", False), ("netem, matched", False), ("bare", True), ("netem", True), ("edt", True), ("relay", True))}, log_y=True)


def made(match):
    part, name = match[1].split()
    data = raw(part)
    if data is None:
        text = f"No data yet: `experiments/edt/run {part}` makes them."
    else:
        text = TABLES[name][1](data) + f"\n\n{data['date']}, {data['commit']}, {data['processors']} processors, kernel {data['kernel']}, load {data['load'][0]:.1f} to {data['load'][1]:.1f}."
    return f"<!-- table {match[1]} -->\n{text}\n<!-- end -->"


def main():
    text, pictures = PAGE.read_text(), dict(drawn())
    new = re.sub(r"<!-- table (\w+ \w+) -->\n.*?<!-- end -->", made, text, flags=re.S)
    if "--check" in sys.argv:
        same = all((HERE / name).exists() and (HERE / name).read_text() == picture for name, picture in pictures.items())
        return 0 if new == text and same else "report: README.md is not that of the raw data; run experiments/edt/report.py"
    for name, picture in pictures.items():
        (HERE / name).write_text(picture)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
