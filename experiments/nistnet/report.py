#!/usr/bin/env python3
"""The tables and figures of README.md from raw data. `--check`: whether they are those in the page."""

import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ORBITS = ["LEO", "MEO", "GEO"]
SIZES = [1, 2, 5]
DROPS = [0, 0.1, 0.01, 0.001, 0.0001]
# Seconds in the paper's Tables 1 to 5: by drop rate, then size, then orbit.
PAPER = {
    0: [[1.59, 2.42, 2.46], [2.28, 3.20, 3.46], [3.32, 4.47, 5.50]],
    0.1: [[1.49, 2.21, 3.20], [2.41, 3.40, 3.55], [3.58, 4.56, 6.20]],
    0.01: [[1.58, 2.22, 2.59], [2.40, 3.20, 4.20], [3.43, 4.40, 5.53]],
    0.001: [[1.58, 2.40, 3.01], [2.34, 3.21, 4.01], [3.32, 4.41, 5.51]],
    0.0001: [[1.55, 2.21, 3.01], [2.40, 3.21, 3.28], [3.34, 4.44, 5.54]],
}
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def cells(document):
    found = {}
    for row in document["transfers"]:
        if "seconds" in row:
            found.setdefault((row["drop"], row["mb"], row["orbit"]), []).append(row["seconds"])
    return found


def tables(document):
    """Each cell: mean of our repeats with the half width of its 95 % interval, and the paper's."""
    found = cells(document)
    lines = []
    for number, drop in enumerate(DROPS, 1):
        lines += ["", f"Table {number}: drop rate {drop} %. Seconds: mean and 95 % interval here, then the paper's mean of three.", ""]
        lines += ["| file | LEO (300 ms) | MEO (400 ms) | GEO (500 ms) |", "|---|---|---|---|"]
        for size, paper in zip(SIZES, PAPER[drop]):
            texts = []
            for orbit, said in zip(ORBITS, paper):
                got = found.get((drop, size, orbit), [])
                if len(got) < 2:
                    texts.append(f"- / {said:.2f}")
                    continue
                mean = sum(got) / len(got)
                sd = math.sqrt(sum((x - mean) ** 2 for x in got) / (len(got) - 1))
                texts.append(f"{mean:.2f} ± {1.96 * sd / math.sqrt(len(got)):.2f} / {said:.2f}")
            lines.append(f"| {size} MB | " + " | ".join(texts) + " |")
    repeats = [len(v) for v in found.values()]
    fidelity = document["fidelity"]
    lines += ["", f"{min(repeats)} to {max(repeats)} transfers a cell, {sum(repeats)} in all, in {document['took_s']:.0f} s; "
              f"{document['at_once']} at once; {document['congestion']}; seed {document['seed']}; kernel {document['kernel']}. "
              f"Frames left {fidelity['lateness_p99_ns'] / 1e6:.2f} ms late at the 99th percentile, "
              f"{fidelity['lateness_max_ns'] / 1e6:.0f} ms at most; verdict: "
              + ("trustworthy." if document["verdict"]["trustworthy"] else "; ".join(document["verdict"]["reasons"]) + ".")]
    return "\n".join(lines) + "\n"


def figure(document, drop, number):
    """Throughput by orbit and file size, ours beside the paper's, as the paper's Figs 4 to 8 have it."""
    found = cells(document)
    width, height, left, base = 640, 320, 60, 270
    top = 1800.0
    bars, x = [], left + 10
    y = lambda v: base - v / top * 240
    for orbit_place, orbit in enumerate(ORBITS):
        for place, size in enumerate(SIZES):
            got = found.get((drop, size, orbit), [])
            mean = size * 1000 * len(got) / sum(got) if got else 0
            said = size * 1000 / PAPER[drop][place][orbit_place]
            for value, colour in ((mean, "#1b6ca8"), (said, "#c9c9c9")):
                bars.append(f'<rect x="{x}" y="{y(value):.1f}" width="22" height="{base - y(value):.1f}" fill="{colour}"/>')
                x += 24
            bars.append(f'<text x="{x - 44}" y="{base + 14}" font-size="10">{size} MB</text>')
            x += 8
        bars.append(f'<text x="{x - 120}" y="{base + 32}" font-size="12">{orbit}</text>')
        x += 18
    for tick in range(0, 1801, 300):
        bars.append(f'<text x="8" y="{y(tick) + 4:.1f}" font-size="10">{tick}</text>'
                    f'<line x1="{left - 20}" x2="{width - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#eee"/>')
    title = f"Fig {number}: drop rate {drop} %, kB/s (blue: box, grey: paper, file size by its mean time)"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
            f'<rect width="100%" height="100%" fill="white"/><text x="8" y="16" font-size="13">{title}</text>'
            + "".join(bars) + "</svg>\n")


def main():
    document = json.loads((HERE / "raw/reno.json").read_text())
    page = HERE / "README.md"
    text = page.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    new = head + BEGIN + "\n" + tables(document) + END + tail
    if "--check" in sys.argv:
        return 0 if new == text else 1
    page.write_text(new)
    for number, drop in enumerate(DROPS, 4):
        (HERE / f"fig{number}.svg").write_text(figure(document, drop, number))
    return 0


if __name__ == "__main__":
    sys.exit(main())
