#!/usr/bin/env python3
"""Writes the tables and figures of the pages from raw data. `--check`: exit code 1 if a page has others."""

import collections
import json
import math
import random
import sys

import call_report
from spaces import HERE, in_time, quantile

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


def good(document):
    """Transfers of slices that were in time; without such slices, of all."""
    runs = {n for n, run in enumerate(document["runs"]) if in_time(run)}
    return [row for row in document["transfers"] if row["run"] in runs] if runs else document["transfers"]


def cells(document):
    found = {}
    for row in good(document):
        if "seconds" in row:
            found.setdefault((row["drop"], row["mb"], row["orbit"]), []).append(row["seconds"])
    return found


def tables(document, model):
    """Each cell: ours, the model's mean, and the paper's."""
    found = cells(document)
    computed = {(row["drop"], row["mb"], row["orbit"]): row["mean"] for row in model}
    lines = []
    for number, drop in enumerate(DROPS, 1):
        lines += ["", f"Table {number}: drop rate {drop} %. Seconds: median here; mean here and its 95 % interval; mean of the model; the paper's mean of three.", ""]
        lines += ["| file | LEO (300 ms) | MEO (400 ms) | GEO (500 ms) |", "|---|---|---|---|"]
        for size, paper in zip(SIZES, PAPER[drop]):
            texts = []
            for orbit, said in zip(ORBITS, paper):
                got = found.get((drop, size, orbit), [])
                virtual = computed[drop, size, orbit]
                if len(got) < 2:
                    texts.append(f"-; -; {virtual:.2f}; {said:.2f}")
                    continue
                mean = sum(got) / len(got)
                sd = math.sqrt(sum((x - mean) ** 2 for x in got) / (len(got) - 1))
                texts.append(f"{quantile(got, 0.5):.2f}; {mean:.2f} ± {1.96 * sd / math.sqrt(len(got)):.2f}; {virtual:.2f}; {said:.2f}")
            lines.append(f"| {size} MB | " + " | ".join(texts) + " |")
    lines += ["", what_ran(document)]
    return "\n".join(lines) + "\n"


def modelled(document, model):
    found = cells(document)
    lines = ["| drop | link | file | here: median, mean, 95 % | model: median, mean, 95 % | paper | mean of three as low, by the model |",
             "|---|---|---|---|---|---|---|"]
    for row in model:
        key = row["drop"], row["mb"], row["orbit"]
        if row["drop"] not in (0.1, 0.01):
            continue
        own = found[key]
        said = PAPER[row["drop"]][SIZES.index(row["mb"])][ORBITS.index(row["orbit"])]
        lines.append(f"| {row['drop']} % | {row['orbit']} | {row['mb']} MB | {quantile(own, 0.5):.2f}, {sum(own) / len(own):.2f}, {quantile(own, 0.95):.2f} | "
                     f"{row['median']:.2f}, {row['mean']:.2f}, {row['p95']:.2f} | {said:.2f} | {100 * row['as_low']:.1f} % |")
    return "\n".join([*lines, "", f"{model[-1]['runs']} transfers a cell by the model."]) + "\n"


def what_ran(document):
    kept = good(document)
    repeats = list(collections.Counter((row["drop"], row["mb"], row["orbit"]) for row in kept).values())
    runs = document["runs"]
    trusted = [run for run in runs if in_time(run)]
    failed = sum("error" in row for row in kept)
    said = (f"{min(repeats)} to {max(repeats)} transfers a cell, {len(kept)} in all and {failed} that did not come to their end; {document['congestion']}; "
            f"{document['server']}; kernel {document['kernel']}. {len(runs)} slices of together {sum(run['took_s'] for run in runs):.0f} s, "
            f"{max(run['at_once'] for run in runs)} at once. ")
    of = trusted or runs
    late = [run["fidelity"]["lateness_p99_ns"] / 1e6 for run in of]
    worst = max(run["fidelity"]["lateness_max_ns"] / 1e6 for run in of)
    said += f"Frames left {min(late):.2f} to {max(late):.2f} ms late at the 99th percentile of a slice, {worst:.0f} ms at most; "
    strict = sum(run["verdict"]["trustworthy"] for run in runs)
    said += f"by the box's own bound of 1 ms {strict} of them are trustworthy. "
    if not trusted:
        return said + "None was within 10 ms."
    return said + f"{len(trusted)} were within 10 ms, and only those count."


def agreement(document):
    """How many of the paper's cells lie where means of three of ours do."""
    draw = random.Random(1)
    rows = []
    for drop in DROPS:
        inside, bias = 0, []
        for size, paper in zip(SIZES, PAPER[drop]):
            for orbit, said in zip(ORBITS, paper):
                got = cells(document).get((drop, size, orbit), [])
                if len(got) < 3:
                    continue
                threes = sorted(sum(draw.choices(got, k=3)) / 3 for _ in range(2000))
                inside += threes[50] <= said <= threes[-51]
                bias.append(said / (sum(got) / len(got)) - 1)
        if bias:
            rows.append(f"| {drop} % | {inside} of {len(bias)} | {100 * sum(bias) / len(bias):+.0f} % | {100 * min(bias):+.0f} to {100 * max(bias):+.0f} % |")
    return "\n".join(["| drop | paper's cells within 95 % of our means of three | paper against our mean, mean of cells | range |",
                      "|---|---|---|---|", *rows]) + "\n"


def bits(document):
    found = cells(document)
    lines = ["| bit error rate | file | LEO | MEO | GEO |", "|---|---|---|---|---|"]
    for drop in sorted({row["drop"] for row in document["transfers"]}, reverse=True):
        for size in sorted({row["mb"] for row in document["transfers"]}):
            texts = []
            for orbit in ORBITS:
                got = found.get((drop, size, orbit), [])
                all_ = [row for row in good(document) if (row["drop"], row["mb"], row["orbit"]) == (drop, size, orbit)]
                text = f"{sum(got) / len(got):.1f} s, " if got else ""
                texts.append(f"{text}{len(got)} of {len(all_)}")
            lines.append(f"| {drop / 100:.0e} | {size} MB | " + " | ".join(texts) + " |")
    return "\n".join([*lines, "", f"Mean of those that came to their end within {document['limit_s']} s, and how many did. " + what_ran(document)]) + "\n"


def acks(document, reno):
    """Drops of acknowledgements alone beside drops both ways, and none."""
    lost, both = cells(document), cells(reno)
    mean = lambda values: f"{sum(values) / len(values):.2f}" if values else "-"
    lines = ["| file | link | acknowledgements alone | both ways | none | paper, 0.1 % |", "|---|---|---|---|---|---|"]
    for place, size in enumerate(SIZES):
        for orbit_place, orbit in enumerate(ORBITS):
            lines.append(f"| {size} MB | {orbit} | {mean(lost.get((0.1, size, orbit)))} | {mean(both.get((0.1, size, orbit)))} | "
                         f"{mean(both.get((0, size, orbit)))} | {PAPER[0.1][place][orbit_place]:.2f} |")
    return "\n".join([*lines, "", "Seconds, means; drop rate 0.1 %. " + what_ran(document)]) + "\n"


def transports(documents):
    names = list(documents)
    lines = ["| drop | link | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for drop in DROPS:
        for orbit in ORBITS:
            texts = []
            for name in names:
                got = cells(documents[name]).get((drop, 5, orbit), [])
                if len(got) < 2:
                    texts.append("-")
                    continue
                mean = sum(got) / len(got)
                sd = math.sqrt(sum((x - mean) ** 2 for x in got) / (len(got) - 1))
                texts.append(f"{mean:.2f} ± {1.96 * sd / math.sqrt(len(got)):.2f}")
            if any(text != "-" for text in texts):
                lines.append(f"| {drop} % | {orbit} | " + " | ".join(texts) + " |")
    lines += [""] + [f"- {name}: " + what_ran(document) for name, document in documents.items()]
    return "\n".join(lines) + "\n"


def accuracy(documents):
    lines = ["| between the veths | load | what | came | early | p50 | p99 | 99.9 % | most |", "|---|---|---|---|---|---|---|---|---|"]
    for document in documents:
        load = "200 Mbit/s" if document["load"] else "none"
        for name in ("bridge", "box"):
            rows = [(f"one way, {row['delay_ms']} ms", row, row["sent"]) for row in document[name]["one_way"]]
            ping = document[name]["ping"]
            rows.append((f"ping, {ping['rtt_ms']} ms", ping, 500))
            for what, row, sent in rows:
                error = row["error_us"]
                lines.append(f"| {name} | {load} | {what} | {row['came']} of {sent} | {row.get('early', '-')} | "
                             + " | ".join(f"{error[key]:.0f}" for key in ("p50", "p99", "p999", "max")) + " |")
    return "\n".join([*lines, "", "Microseconds beyond the requested delay. Kernel " + documents[0]["kernel"] + "."]) + "\n"


def throughput(document):
    middle = lambda values: sorted(values)[len(values) // 2]
    lines = ["| | 64 bytes, frames/s | 1,400 bytes, frames/s | TCP, Gbit/s |", "|---|---|---|---|"]
    for name in document["rounds"][0]:
        rows = [row[name] for row in document["rounds"]]
        udp = [f"{middle([row[key]['received_pps'] for row in rows]):,} of {middle([row[key]['offered_pps'] for row in rows]):,}"
               for key in ("udp 64", "udp 1400")]
        lines.append(f"| {name} | {udp[0]} | {udp[1]} | {middle([row['tcp']['bps'] for row in rows]) / 1e9:.2f} |")
    return "\n".join([*lines, "", f"Medians of {len(document['rounds'])} rounds of {document['seconds']} s each; frames that arrived of those that "
                      f"one sender sent. Kernel {document['kernel']}."]) + "\n"


def guest(document):
    names = {"bridge": "bridge", "netem": "bridge and netem", "box": "box", "pass": "box that passes all"}
    lines = ["| between emulated cards | what | came | p50 | p99 | most |", "|---|---|---|---|---|---|"]
    for row in sorted(document["accuracy"], key=lambda row: (row["what"], row["ms"], row["with"])):
        error = row["error_us"]
        lines.append(f"| {names[row['with']]} | {row['what']}, {row['ms']} ms | {row['came']} of {row['sent']} | "
                     + " | ".join(f"{error[key]:.0f}" for key in ("p50", "p99", "max")) + " |")
    lines += ["", "Microseconds beyond the requested delay.", "", "| | 64 bytes, frames/s | 1,400 bytes, frames/s | TCP, Mbit/s |", "|---|---|---|---|"]
    for row in document["throughput"]:
        udp = [f"{row[key]['received_pps']:,} of {row[key]['offered_pps']:,}" for key in ("udp_64", "udp_1400")]
        delay = ", 10 ms" if row["with"] in ("netem", "box") else ""
        lines.append(f"| {names[row['with']]}{delay} | {udp[0]} | {udp[1]} | {row['tcp_bps'] / 1e6:.3g} |")
    return "\n".join([*lines, "", f"{document['seconds']} s each. Linux {document['kernel']} in QEMU without hardware virtualisation."]) + "\n"


def session(document):
    return (f"A session that counted to 150 in 15 s said {document['session_said']} numbers and ended with {document['session_status']}, across "
            f"a box that came up, dropped everything between the two machines ({document['to_the_other_machine_received']} of 5 pings came) "
            f"and was killed by SIGKILL. A new session while it ran: {'came through' if document['new_session_through_the_box'] else 'did not'}. "
            f"Links, addresses, routes, queueing disciplines and offloads ({document['compared']} listings): "
            f"{'as before' if document['host_as_before_after_kill_9'] else 'changed'}.\n")


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


def blocks():
    """The contents of each place of the page, from the present data."""
    raw = lambda name: json.loads((HERE / f"raw/{name}.json").read_text()) if (HERE / f"raw/{name}.json").exists() else None
    reno = raw("reno")
    model = raw("model")
    yield "tables", tables(reno, model)
    yield "model", modelled(reno, model)
    yield "agreement", agreement(reno)
    if document := raw("acks"):
        yield "acks", acks(document, reno)
    if document := raw("bits"):
        yield "bits", bits(document)
    named = {name: raw(name) for name in ("reno", "cubic", "bbr", "hybla", "leotp")}
    yield "transports", transports({name: document for name, document in named.items() if document})
    if found := [document for document in (raw("accuracy"), raw("accuracy-load")) if document]:
        yield "accuracy", accuracy(found)
    if document := raw("throughput"):
        yield "throughput", throughput(document)
    if document := raw("guest"):
        yield "guest", guest(document)
    if document := raw("ssh"):
        yield "session", session(document)
    if document := raw("call"):
        yield "call", call_report.table(document)


def main():
    texts = {page: page.read_text() for page in sorted(HERE.glob("*.md"))}
    new = dict(texts)
    for name, block in blocks():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        [page] = [page for page, text in new.items() if begin in text]
        head, rest = new[page].split(begin)
        _, tail = rest.split(end)
        new[page] = head + begin + "\n" + block + end + tail
    if "--check" in sys.argv:
        return 0 if new == texts else 1
    for page, text in new.items():
        page.write_text(text)
    document = json.loads((HERE / "raw/reno.json").read_text())
    for number, drop in enumerate(DROPS, 4):
        (HERE / f"fig{number}.svg").write_text(figure(document, drop, number))
    call = HERE / "raw/call.json"
    if call.exists():
        (HERE / "call.svg").write_text(call_report.figure(json.loads(call.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
