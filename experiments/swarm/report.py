#!/usr/bin/env python3
"""Writes the tables of the pages from raw/*.json, between `<!-- table NAME -->` and `<!-- end -->`, and the plots beside it.

    experiments/swarm/report.py [--check]     --check: changes nothing, exit code 1 where a table or plot is not that of its data

Without a raw file the page says which part makes it. Tables are never typed by hand.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = sorted(HERE.glob("*.md"))
sys.path.insert(0, str(HERE.parents[1] / "benches"))
from report import bits, number, table  # noqa: E402
sys.path.insert(0, str(HERE))
import plots  # noqa: E402


def trusted(row):
    verdict = row.get("verdict") or row
    if "trustworthy" not in verdict:
        return ""
    return "yes" if verdict["trustworthy"] else "no"


def tcp(data):
    rows = [[r["with"], r["n"], r["connections"], number(r["got_bytes"] * 8 / r["seconds"] / 1e6), number(r["median_bps"] / 1e6),
             number(r["least_bps"] / 1e6), number(r["skew_ms"]), number(r.get("full_skew_ms")), number(100 * r["busy_share"]), trusted(r)] for r in data["rows"]]
    return table(["with", "n", "connections", "all, Mbit/s", "median connection, Mbit/s", "least", "skew of starts, ms", "of the load, ms", "processors busy, %",
                  "trustworthy"], rows)


def udp(data):
    rates = sorted({r["rate_bps"] for r in data["rows"]})
    groups = {}
    for row in data["rows"]:
        groups.setdefault((row["with"], row["n"]), {})[row["rate_bps"]] = row
    offered = lambda r: 100 * r["sent"] * 1460 * 8 / r["seconds"] / (r["connections"] * r["rate_bps"])
    cell = lambda r: f"{number(offered(r))} / {number(100 * (1 - r['got'] / r['sent']))}" if r else "-"
    first = table(["with", "n", *map(bits, rates), "trustworthy"], [[name, n, *(cell(own.get(rate)) for rate in rates), trusted(next(iter(own.values())))] for (name, n), own in groups.items()])
    rows = []
    for (name, n), own in groups.items():
        # Hosts count from the beginning of the lab.
        before = 0
        for rate in rates:
            if row := own.get(rate):
                hosts, before = row["rcvbuf_errors"] - before, row["rcvbuf_errors"]
                lost = row["sent"] - row["got"]
                if lost:
                    rows.append([name, n, bits(rate), number(lost, 0), number(hosts, 0), number(lost - hosts, 0), number(100 * row["busy_share"])])
    second = table(["with", "n", "rate", "datagrams lost", "by receivers' sockets", "on the way", "processors busy, %"], rows)
    ours = {n: [reason for reason in next(iter(own.values())).get("reasons", []) if "itself lost" in reason] for (_, n), own in groups.items() if trusted(next(iter(own.values())))}
    second += "\n\nFrames that the emulator lost, by the verdicts: " + "; ".join(f"n = {n}, " + (", ".join(said) if said else "none") for n, said in ours.items()) + "."
    return f"Losses in % of the offered load / of the frames sent:\n\n{first}\n\nRuns with losses, by cause:\n\n{second}"


def multicast(data):
    rows = [[r["with"], r["n"], number(r["sent"], 0), number(r["got"], 0), number(r["sent"] * (r["n"] - 1), 0), number(r.get("sent_on_air"), 0),
             number(r["airtime_ns"] / r["sent_on_air"] / 1e3) if r.get("sent_on_air") else "-", number(r.get("collisions"), 0), trusted(r)] for r in data["rows"]]
    return table(["with", "n", "sent", "received", "of", "frames on air", "airtime each, us", "collisions", "trustworthy"], rows)


def outage_s(row, change_s=60):
    """The time without answers after the change: the unanswered share, second by second, up to the first second without loss."""
    lost = 0.0
    for share in row["answered_by_second"][change_s:]:
        if share == 1.0:
            break
        lost += 1 - (share or 0.0)
    return lost


def manet(data):
    rows = [[r["protocol"], r["shape"], r["n"], number(r["first_answer_s"]), number(outage_s(r)), number(100 * r["loss_ratio"]),
             number(r["bytes_per_node_s"], 0), trusted(r)] for r in data["rows"]]
    return table(["protocol", "shape", "n", "first answer after, s", "outage after the change, s", "probes lost in all, %",
                  "bytes a node and second, probes included", "trustworthy"], rows)


manet_guest = manet


def motion_outage(row):
    """After the minute the columns' first links break by motion: whole seconds from then in which no probe was answered."""
    later = row.get("answered_by_second", [])[60:]
    silent = [k for k, part in enumerate(later) if part == 0]
    if not silent:
        return "-"
    run = next((n for n, part in enumerate(later[silent[0]:]) if part), None)
    return f"more than {len([part for part in later[silent[0]:] if part is not None])}" if run is None else str(run)


def formation(data):
    rows = [[r["protocol"], r["with"], number(r["all_found_s"]), f"{r['pairs_found']} of {r['pairs']}", len(r["way"]) - 1 if r.get("way") else "-",
             number(r.get("outage_s")), motion_outage(r), f"{r['pairs_whole_at_the_end']} of {r['pairs_left']}" if "pairs_left" in r else "-",
             number(r["bytes_per_node_s"], 0), trusted(r) if "verdict" in r else ""] for r in data["rows"]]
    return table(["protocol", "with", "all pairs answered after, s", "pairs", "hops from corner to corner", "outage after the death, s", "silent seconds after links broke by motion",
                  "pairs without loss at the end", "bytes a node and second, probes included", "trustworthy"], rows)


def drivers(data):
    rows = []
    for r in data["rows"]:
        rtt, rates = r["flows"]["fig8"].get("rtt") or {}, [r["flows"][name].get("throughput_bps") for name in ("fig9", "slower")]
        rows.append([r["driver"], r["n"], *(number(rtt[q] / 1e6, 3) if q in rtt else "-" for q in ("min_ns", "p50_ns", "p99_ns", "max_ns")), *(number(rate / 1e6) if rate else "-" for rate in rates), trusted(r)])
    return table(["driver", "n", "ping over 20 ms, least, ms", "p50", "p99", "greatest", "TCP over 100 Mbit/s and 5 ms, Mbit/s", "over 10 Mbit/s", "trustworthy"], rows)


def matrix(data):
    data["rows"].sort(key=lambda r: r["n"])
    rows = [[r["n"], number(r["edges"], 0), number(r["up_s"]), number(r["memory_bytes"] / 1e6), r["pairs"], *(number(r["error_us"][q]) for q in ("p50", "p99", "max")),
             trusted(r)] for r in data["rows"]]
    text = table(["n", "edges", "up, s", "memory, MB", "pairs pinged", "error p50, us", "p99", "greatest", "trustworthy"], rows)
    for r in data["rows"]:
        if change := r.get("change"):
            text += f"\n\nn = {r['n']}: `constel network set` changed all {change['edges']:,} delays in {number(change['command_s'])} s, in one instant of the link plane; {change['pairs']} "
            text += f"pairs were right by {number(change['error_us']['p50'])} us then (99th percentile {number(change['error_us']['p99'])}). `--reset` took {number(change['reset_s'])} s."
        if rtt := r.get("fig8_rtt_ms"):
            text += f"\n\nFig. 8, ping over 20 ms for a minute: {number(rtt['p50'], 3)} ms (least {number(rtt['min'], 3)}, 99th percentile {number(rtt['p99'], 3)}, greatest {number(rtt['max'], 3)})."
        if rates := r.get("fig9_mbps"):
            text += f" Fig. 9, TCP over 100 Mbit/s and 5 ms for a minute: {number(sum(rates) / len(rates))} Mbit/s, tens of seconds from {number(min(rates))} to {number(max(rates))}."
    return text


def dds(data):
    rows = [[r["kind"], r["with"], r["n"], number(r["matched_s"]), f"{number(r['samples'], 0)} of {number(r['expected'], 0)}", number(r["p50_us"]), number(r["p99_us"]),
             number(r["largest_burst"], 0), trusted(r)] for r in data["rows"]]
    return table(["software", "with", "n", "all heard all after, s", "samples", "latency p50, us", "p99", "largest burst whole at all", "trustworthy"], rows)


def consistency(data):
    rows = []
    for key in sorted({(not r["reliable"], r["loss_percent"]) for r in data["rows"]}):
        own = [r for r in data["rows"] if (not r["reliable"], r["loss_percent"]) == key and r["complete"]]
        cell = lambda part, whole: interval([100 * r[part] / r[whole] for r in own if r[whole]])
        found = sum(r["discovered_after_cycles"] is not None for r in own)
        rows.append(["reliable" if not key[0] else "best effort", key[1], len(own), cell("agree", "complete"), f"{found} of {len(own)}",
                     cell("agree_after_discovery", "after_discovery"), sum(r["trustworthy"] for r in own)])
    return table(["DDS", "loss, %", "seeds", "plans agree, %", "swarms in which all found all", "plans agree from then on, %", "trustworthy"], rows)


def interval(values):
    """Mean and half of the 95 % interval, as text."""
    if len(values) < 2:
        return "-"
    middle, half = mean(values)
    return f"{middle:.1f} ± {half:.1f}"


def shown(row):
    """The row of a table of the channel."""
    share = [100 * a / max(1, sum(row["airtimes_ns"])) for a in row["airtimes_ns"]] if "airtimes_ns" in row else []
    sent = row.get("sent_on_air")
    return [row["access"], {"all": "each other", "middle": "the middle one only"}[row["hears"]], " / ".join(f"{x:.1f}" for x in share) or "-",
            number(sent, 0), number(100 * row["airtime_ns"] / row["seconds"] / 1e9) if sent else "-", number(row["got"], 0),
            number(row.get("collisions"), 0), number(row["got_bytes"] * 8 / row["seconds"] / 1e6), trusted(row)]


def medium(data):
    return table(["access", "the two senders hear", "airtime of each node, %", "frames on air", "air in use, %", "datagrams received by all", "frames lost to collisions",
                  "received by all, Mbit/s", "trustworthy"], [shown(r) for r in data["rows"]])


def profile(data):
    total = lambda row, way: number(row[way] / 1e3, 0)
    rows = [[r["node"], total(r, "tx"), total(r, "rx"), number(r["tx"] * 8 / data["seconds"] / 1e3), number(r["rx"] * 8 / data["seconds"] / 1e3)] for r in data["rows"]]
    gap = data["gap_ms"]
    said = f"{data['looks']:,} samples in {number(data['seconds'])} s, {number(gap['p50'])} ms apart (99th percentile {number(gap['p99'])}, longest {number(gap['max'])} ms); "
    said += f"the run is {'trustworthy' if data['verdict']['trustworthy'] else 'not trustworthy'}. Plans, of cycles in which all planned: {'; '.join(data['agree'])}."
    return table(["craft", "sent, kB", "received, kB", "sent, kbit/s", "received, kbit/s"], rows) + "\n\n" + said


def curves_of(rows, key, x, y):
    """Curves by the value of `key`, in the order in which they come."""
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append((x(row), y(row)))
    return {name: sorted(points) for name, points in found.items()}


def drawn(raw):
    """Part, file name and picture of every plot whose data there are; `raw` gives a document or None."""
    n = lambda r: r["n"]
    if data := raw("tcp"):
        yield "tcp", "fig8.svg", plots.lines("TCP, everybody to everybody: the median connection", "nodes", "bit/s", curves_of(data["rows"], lambda r: r["with"], n, lambda r: r["median_bps"]), log_y=True)
        yield "tcp", "fig9.svg", plots.lines("TCP, everybody to everybody: all together", "nodes", "bit/s", curves_of(data["rows"], lambda r: r["with"], n, lambda r: r["got_bytes"] * 8 / r["seconds"]))
    if data := raw("udp"):
        arrived = lambda r: 100 * r["got"] * 1460 * 8 / r["seconds"] / (r["connections"] * r["rate_bps"])
        yield "udp", "udp.svg", plots.lines("UDP: what arrived of what was to be sent", "bit/s of each connection", "%", curves_of([r for r in data["rows"] if r["n"] in (2, 8, 16, 32)], lambda r: f"{r['with']}, n = {r['n']}",
                                     lambda r: r["rate_bps"], arrived), log_x=True)
    if data := raw("consistency"):
        found = {}
        for what, part, whole in (("plans agree", "agree", "complete"), ("from discovery on", "agree_after_discovery", "after_discovery")):
            for reliable in (True, False):
                for loss in sorted({r["loss_percent"] for r in data["rows"]}):
                    own = [100 * r[part] / r[whole] for r in data["rows"] if r["reliable"] == reliable and r["loss_percent"] == loss and r[whole]]
                    if len(own) > 1:
                        name = f"{'' if part == 'agree' else '~'}{'reliable' if reliable else 'best effort'}: {what}"
                        found.setdefault(name, []).append((loss, *mean(own)))
        yield "consistency", "fig10.svg", plots.lines("Plans that agree, by loss (n = 4)", "loss, %", "%", found)
    if data := raw("medium"):
        for file, laws, x in (("aloha.svg", ("ALOHA", "slotted ALOHA"), "frames offered in the time of one"), ("csma.svg", ("CSMA of 32 slots", "CSMA of 128 slots"), "senders that always have something to send")):
            found = {}
            for law in laws:
                own = [c for c in data["curves"] if c["law"] == law]
                found |= {f"~{law}, closed form": [(c["x"], c["said"]) for c in own], f"{law}, seen": [(c["x"], c["seen"]) for c in own]}
            yield "medium", file, plots.lines("The channel in virtual time", x, "of the time, frames heard", found)
    for part, where in (("manet", ""), ("manet_guest", " in QEMU")):
        data = raw(part) or {"rows": []}
        for shape in ("chain", "grid"):
            own = [r for r in data["rows"] if r["shape"] == shape]
            if own:
                series = lambda key, scale: {r["protocol"]: [(s, v if v is None else v * scale(r)) for s, v in enumerate(r[key])] for r in own}
                yield part, f"{part.replace('_', '-')}-{shape}-bytes.svg", plots.lines(f"{shape}{where}: bytes of a node and second, probes included", "lab time, s", "bytes/s", series("bytes_by_second", lambda r: 1 / r["n"]))
                yield part, f"{part.replace('_', '-')}-{shape}-answers.svg", plots.lines(f"{shape}{where}: probes answered, those sent in a second", "lab time, s", "%", series("answered_by_second", lambda r: 100))
    if data := raw("formation"):
        own = [r for r in data["rows"] if r["with"] == "constel"]
        series = lambda key, scale: {r["protocol"]: [(s, v if v is None else v * scale(r)) for s, v in enumerate(r[key])] for r in own}
        if own:
            yield "formation", "formation-bytes.svg", plots.lines("25 craft: bytes of a node and second, probes included", "lab time, s", "bytes/s", series("bytes_by_second", lambda r: 1 / r["n"]))
            yield "formation", "formation-answers.svg", plots.lines("25 craft: probes from corner to corner answered, those sent in a second", "lab time, s", "%", series("answered_by_second", lambda r: 100))
    if data := raw("matrix"):
        rows = sorted(data["rows"], key=lambda r: r["n"])
        if len(rows) > 1:
            yield "matrix", "fig1.svg", plots.lines("A mesh with a matrix of delays", "edges", "s; MB of the engine", {"up, s": [(r["edges"], r["up_s"]) for r in rows], "memory, MB": [(r["edges"], r["memory_bytes"] / 1e6) for r in rows]}, log_x=True, log_y=True)
        for r in rows:
            if "fig9_mbps" in r:
                yield "matrix", "fig9-becker.svg", plots.lines("100 Mbit/s and 5 ms, one TCP flow", "s", "Mbit/s", {"relay": [(10 * k + 5, v) for k, v in enumerate(r["fig9_mbps"])]})
    if data := raw("dds"):
        yield "dds", "dds.svg", plots.lines("Latency of a published sample, median", "nodes", "us", curves_of(data["rows"], lambda r: f"{r['kind']}, {r['with']}", n, lambda r: r["p50_us"]), log_y=True)


def mean(values):
    """Mean and half of the 95 % interval."""
    middle = sum(values) / len(values)
    sd = (sum((v - middle) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return middle, 1.96 * sd / len(values) ** 0.5


def main():
    pages = {page: page.read_text() for page in PAGES}

    def made(match):
        name = match[1]
        raw = HERE / f"raw/{name}.json"
        if not raw.exists():
            text = f"No data yet: `experiments/swarm/run {name}` makes them."
        else:
            data = json.loads(raw.read_text())
            loads = [load for row in data["rows"] for load in (row.get("load_before"), row.get("load_after")) if load is not None] or [data["load"]]
            text = globals()[name](data) + f"\n\n{data['date']}, {data['cores']} processors, kernel {data['kernel']}, load {min(loads):.1f} to {max(loads):.1f}."
            # Fig. 6 is drawn by `constel results plot`, which the part has called.
            own = ["fig6.svg"] * (name == "profile") + [file for part, file, _ in pictures if part == name]
            text += "".join(f"\n\n![{file.removesuffix('.svg')}]({file})" for file in own)
        return f"<!-- table {name} -->\n{text}\n<!-- end -->"

    raw = lambda name: json.loads((HERE / f"raw/{name}.json").read_text()) if (HERE / f"raw/{name}.json").exists() else None
    pictures = list(drawn(raw))
    written = {page: re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", made, text, flags=re.S) for page, text in pages.items()}
    if "--check" in sys.argv:
        same = all((HERE / name).exists() and (HERE / name).read_text() == picture for _, name, picture in pictures)
        return int(written != pages or not same)
    for _, name, picture in pictures:
        (HERE / name).write_text(picture)
    for page, text in written.items():
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
