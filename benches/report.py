#!/usr/bin/env python3
"""Writes the tables of the pages of benches from benches/raw/*.json, between `<!-- table NAME -->` and `<!-- end -->`.

    benches/report.py [--check]     --check: changes nothing, exit code 1 where a table is not that of its data

Without a raw file the page says how to make it. Tables are never typed by hand.
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = sorted(HERE.glob("*.md"))


def number(value, digits=None):
    """A number for readers: three figures, or a number of digits; thousands apart."""
    if value is None:
        return "-"
    if digits is None:
        size = abs(value)
        digits = 0 if size >= 100 or value == 0 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


def spread(row, factor=1.0, digits=None):
    """Median of the rounds (least to greatest)."""
    return "{} ({} to {})".format(*(number(row[k] * factor, digits) for k in ("median", "least", "greatest")))


def of_rounds(values):
    """The arguments of `spread`, from the rounds' values."""
    values = sorted(values)
    return {"median": values[len(values) // 2], "least": values[0], "greatest": values[-1]}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows])


def bits(bps):
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if bps >= factor:
            return f"{bps / factor:g} {unit}bit/s"
    return f"{bps:g} bit/s"


def bringup(data):
    rounds = data["rounds"]

    def of(*path):
        values = []
        for r in rounds:
            for key in path:
                r = r[key]
            values.append(r)
        return of_rounds(values)

    head = [f"{data['namespaces']:,} namespaces, {data['interfaces']:,} interfaces", "Constel", "`ip -batch`", "ratio"]
    rows = [
        ["up, s", spread(of("constel_up_s")), spread(of("plain_up_s")), number(data["up_ratio"])],
        ["down, s; `ip`'s never used", spread(of("constel_down_s")), spread(of("plain_down_s")), number(data["down_ratio"])],
        ["down, s; `ip`'s up and with addresses", "", spread(of("addressed_down_s")), number(data["addressed_down_ratio"])],
        ["first edges and routes, s", spread(of("edges_and_routes_s")), "", ""],
        ["memory a node, kB", spread(of("memory_per_node_bytes"), 1e-3), "", ""],
    ]
    for name in rounds[0]["steps_ms"]:
        rows.append([f"step, {name.replace('_', ' ')}: p50, ms", spread(of("steps_ms", name, "p50")), "", ""])
        rows.append([f"step, {name.replace('_', ' ')}: p99, ms", spread(of("steps_ms", name, "p99")), "", ""])
    return table(head, rows)


def containers(data):
    labs = data["labs"]

    def of(count, runtime, key, scale):
        return of_rounds(r[key] * scale for r in labs if r["nodes"] == count and r["runtime"] == runtime)

    head = ["nodes", "runtime", "up, s", "down, s", "kB a node", "first packets answered",
            "above netns: up, ms a node", "above netns: kB a node"]
    body = []
    for count, above in data["above_netns"].items():
        for runtime in ("netns", *above):
            cells = [spread(of(int(count), runtime, key, scale)) for key, scale in (("up_s", 1), ("down_s", 1), ("bytes_per_node", 1e-3))]
            answered = [r["first_packets"] for r in labs if r["nodes"] == int(count) and r["runtime"] == runtime]
            first = "" if None in answered else f"{number(min(answered) * 100, 0)} %"
            more = above.get(runtime)
            ends = [number(more["up_ms_per_node"]), number(more["bytes_per_node"] / 1e3, 0)] if more else ["", ""]
            body.append([f"{int(count):,}", f"`{runtime}`", *cells, first, *ends])
    return table(head, body)


def construction(rows):
    head = ["constellation", "nodes", "way", "up, s", "half up, s", "down, s"]
    body = []
    for r in rows:
        # Stages one after the other, each with as many steps as it says.
        stages = list(dict.fromkeys(p[1] for p in r["progress"] if p[1] not in ("taking down", "link plane")))
        totals = {stage: max(p[3] for p in r["progress"] if p[1] == stage) for stage in stages}
        done, half = dict.fromkeys(stages, 0), None
        begin = min((p[0] for p in r["progress"] if p[1] in done), default=0) if r["way"] != "mininet" else 0
        for t_s, stage, count, _ in r["progress"]:
            if stage in done:
                done[stage] = count
                if half is None and 2 * sum(done.values()) >= sum(totals.values()):
                    half = t_s - begin
        body.append([r["sky"], f"{r['nodes']:,}", f"`{r['way']}`", number(r["up_s"]), number(half), number(r["down_s"])])
    return table(head, body)


def information(data):
    ms = lambda key: number(data[key] / 1e6)
    return table(["nodes with information", "handovers", "seen by programs", "p50, ms", "p99, ms", "greatest, ms", "verdict of the run"], [[
        f"{data['nodes']:,}", data["handovers"], data["seen"], ms("p50_ns"), ms("p99_ns"), ms("greatest_ns"),
        "trustworthy" if data["trustworthy"] else "not trustworthy: " + "; ".join(data["reasons"])]])


def starrynet(rows):
    return table(["at once", "StarryNet's way, handover: s", "new disciplines, s"], [
        [f"{r['count']:,}", number(r["first_packet_s"]), number(r["changed_s"])] for r in rows
    ])


def over_delays(rows, key):
    values = [r["error"][key]["median"] / 1e3 for r in rows]
    return f"{number(min(values), 1)} to {number(max(values), 1)}"


def accuracy_threads(rows):
    rows = [r for r in rows if r["path"] == "relay"]
    counts = sorted({r["threads"] for r in rows})
    body = []
    for fps, length in sorted({(r["rate_fps"], r["length_bytes"]) for r in rows}):
        by = [[r for r in rows if (r["rate_fps"], r["length_bytes"], r["threads"]) == (fps, length, count)] for count in counts]
        columns = [over_delays(group, key) for key in ("p50_ns", "p99_ns", "p999_ns") for group in by]
        sums = [f"{sum(r['stalls'] for r in group)}" for group in by]
        lost = [f"{sum(r['lost'] for r in group)} / {sum(r['early'] for r in group)}" for group in by]
        body.append([f"{fps:,}, {length:,} bytes", *columns, *sums, *lost])
    several = [f"{count} thread{'s' * (count > 1)}" for count in counts]
    head = [f"{what}, {threads}" for what in ("p50, us", "p99", "p99.9", "stalls", "lost / early") for threads in several]
    return table(["frames/s", *head], body)


def accuracy(rows):
    cases = {}
    for r in rows:
        cases.setdefault((r["rate_fps"], r["length_bytes"]), []).append(r)
    body = []
    for (fps, length), group in sorted(cases.items()):
        relay = [r for r in group if r["path"] == "relay"]
        veth = [r for r in group if r["path"] == "veth"]

        def medians(key):
            return over_delays(relay, key)

        def rounds(key):
            found = [r["error"][key] for r in relay]
            return f"{number(min(f['least'] for f in found) / 1e3, 0)} to {number(max(f['greatest'] for f in found) / 1e3, 0)}"

        own = [r["unexplained_p99_ns"]["median"] / 1e3 for r in relay]
        bare = "; ".join(f"{number(r['error']['p50_ns']['median'] / 1e3, 1)} / {number(r['error']['p99_ns']['median'] / 1e3, 1)}" for r in veth)
        body.append([
            f"{fps:,}, {length:,} bytes", medians("p50_ns"), medians("p99_ns"), rounds("p99_ns"), medians("p999_ns"),
            f"{number(min(own), 1)} to {number(max(own), 1)}", sum(r["stalls"] for r in relay),
            f"{sum(r['lost'] for r in relay)} / {sum(r['early'] for r in relay)}", bare or "-",
        ])
    head = ["frames/s", "p50, us", "p99", "p99 of single rounds", "p99.9", "p99 unexplained", "stalls", "lost / early", "bare veth p50 / p99"]
    return table(head, body)


def rate(rows):
    by_rate = {}
    for r in rows:
        by_rate.setdefault(r["rate_bps"], {})[r["offered_ratio"]] = r
    offered = sorted({r["offered_ratio"] for r in rows})
    body = []
    for bps, cases in sorted(by_rate.items()):
        cells = [spread(cases[o]["worst_window_error_ratio"], 100, 2) if o in cases else "-" for o in offered]
        burst = max(c["burst_bytes_per_ms"]["median"] for c in cases.values())
        body.append([bits(bps), *cells, f"{number(burst, 0)} ({number(bps / 8000, 0)})"])
    return table(["rate", *(f"{o:g}x, %" for o in offered), "longest burst, bytes in 1 ms (at rate)"], body)


def isolation(rows):
    head = ["path", "p50, us", "p99, us", "p99.9, us", "late when it has left the relay, p99, us", "lost", "flood, frames/s",
            "lost by the relay, floods included", "stalls"]

    def late(row):
        return "-" if row["path"].startswith("veth") else spread(row["victim_lateness_p99_ns"], 1e-3, 1)
    return table(head, [
        [r["path"], spread(r["error"]["p50_ns"], 1e-3, 1), spread(r["error"]["p99_ns"], 1e-3, 1),
         number(r["error"]["p999_ns"]["median"] / 1e3, 0), late(r), r["lost"], number(r["flood_fps"]["median"], 0),
         number(r["unintended"], 0), r["stalls"]] for r in rows
    ])


def hostile(rows):
    cases = {}
    for r in rows:
        cases.setdefault(r["attack"], {})[r["into"]] = r
    head = ["attack", "stream p99, us: elsewhere", "here", "of the whole", "ping p99, us: elsewhere", "here", "of the whole", "lost", "stalls", "a second"]

    def columns(by, key, delays):
        # What the victim sees is the delay and what comes on top of it.
        veth, relay = (by[to][key]["median"] + delays * by[to]["delay_ns"] for to in ("veth", "relay"))
        return [*(spread(by[to][key], 1e-3, 0) for to in ("veth", "relay")), f"{100 * (relay / veth - 1):+.1f} %"]

    return table(head, [
        [name, *columns(by, "stream_p99_beyond_ns", 1), *columns(by, "ping_p99_beyond_ns", 2),
         by["relay"]["lost"], by["relay"].get("stalls", ""), number(by["relay"]["attacks_per_s"]["median"], 0)] for name, by in cases.items()
    ])


def overload(rows):
    head = ["hops, delay", "offered, frames/s", "arrive, frames/s", "late p50, us", "p99, us", "greatest, ms", "let go", "of it behind the first hop", "over a share"]
    return table(head, [
        [f"{r['hops']}, {r['delay_ns'] / 1e6:g} ms", number(r["offered_fps"], 0), number(r["arrived_fps"], 0),
         *(number(r["lateness"][q] / 1e3, 0) for q in ("p50_ns", "p99_ns")), number(r["lateness"]["max_ns"] / 1e6),
         number(r["lost_overload"], 0), number(r.get("lost_behind_first_hop"), 0), number(r["lost_share"], 0)] for r in rows
    ])


def update(rows):
    head = ["edges", "in memory", "new, ms", "changed, p50, ms", "greatest, ms"]
    return table(head, [
        [f"{r['edges']:,}", "scattered" if r["scattered"] else "in order", number(r["added_ns"] / 1e6),
         spread(r["changed_p50_ns"], 1e-6, 3), spread(r["changed_max_ns"], 1e-6, 3)] for r in rows
    ])


def handover(rows):
    head = ["at once", "relay p50 (greatest), ms", "table busy at most, ms", "deleting and making veth pairs, ms"]
    return table(head, [
        [f"{r['count']:,}", f"{number(r['relay_p50_ns'] / 1e6)} ({number(r['relay_max_ns'] / 1e6)})",
         number(r["table_busy_max_ns"] / 1e6), number(r["new_pairs_ns"] / 1e6 if r["new_pairs_ns"] else None)] for r in rows
    ])


def mininet(rows):
    return table(["at once", "Mininet, s"], [
        [f"{r['count']:,}", number(r.get("first_packet_s")) if "first_packet_s" in r else f"given up after {r['given_up_after_s']} s"] for r in rows
    ])


def throughput(rows):
    udp = [r for r in rows if r["what"] == "udp"]
    tcp = [r for r in rows if r["what"] == "tcp"]
    first = table(
        ["hops, path", "bytes", "arrive, frames/s", "lossless, frames/s", "lost at full speed, %", "CPU a frame, ns", "relay's thread, %"],
        [[f"{r['hops']}, {r['path']}", f"{r['length_bytes']:,}", number(r["delivered_fps"], 0), number(r["lossless_fps"], 0),
          number(r["loss_ratio"] * 100, 1), number(r["cpu_ns_per_frame"], 0), number(r["relay_cpu_percent"], 0)] for r in udp],
    )
    controls = list(dict.fromkeys(r["congestion_control"] for r in tcp))
    cases = {}
    for r in tcp:
        cases.setdefault((r["hops"], r["path"]), {})[r["congestion_control"]] = r
    second = table(
        ["hops, path", *(f"{c}, Gbit/s (sent again)" for c in controls)],
        [[f"{hops}, {path}", *(f"{number(by[c]['gbps'])} ({number(by[c]['retransmitted'], 0)})" if c in by else "-" for c in controls)]
         for (hops, path), by in cases.items()],
    )
    return f"UDP, one sender at full speed that knows of no loss:\n\n{first}\n\nTCP, one stream:\n\n{second}"


def forwarding(rows):
    cases = [r for r in rows if r["what"] == "forwarding"]
    return table(
        ["path, nodes", "bytes", "frames/s, tables", "frames/s, map", "CPU that the map saves, ns a frame and node"],
        [[f"{r['path']}, {r['nodes']}", f"{r['length_bytes']:,}",
          *(number(a["delivered_fps"]["median"] if isinstance(a["delivered_fps"], dict) else a["delivered_fps"], 0) for a in r["arms"][:2]),
          spread(r["saved_ns_per_frame_and_node"], 1, 0) if isinstance(r["saved_ns_per_frame_and_node"], dict) else number(r["saved_ns_per_frame_and_node"], 0)]
         for r in cases],
    )


def hops(rows):
    def late(figure):
        return spread(figure, 1e-3, 0) if figure else "-"

    return table(
        ["hops, by", "of 64 bytes arrive at full speed, frames/s", "of 1,400, frames/s", "lost of 300 Mbit/s, %", "CPU a frame, ns", "late p99, us", "TCP, Mbit/s", "late p99, us"],
        [[f"{r['hops']}, {r['by']}", spread(r["small_fps"], 1, 0), spread(r["full_fps"], 1, 0), spread(r["steady_loss_ratio"], 100, 3),
          spread(r["steady_cpu_ns_per_frame"], 1, 0), late(r["steady_late_p99_ns"]), spread(r["tcp_bps"], 1e-6, 0),
          late(r["tcp_late_p99_ns"])] for r in rows],
    )


def steps(rows):
    def of(row, part):
        times = row[part]
        return f"{number(times['p50'], 1)} / {number(times['p99'], 1)}"

    head = ["", "nodes", "links", "routes", "whole step", "processors' time", "routes from scratch, one thread", "changed: edges", "routes"]
    return table(head, [
        [Path(r["scenario"]).stem, f"{r['nodes']:,}", of(r, "edges_ms"), of(r, "routes_ms"), of(r, "whole_ms"), number(r["processor_ms"]),
         number(r["routes_from_scratch_ms"]["p50"]), f"{r['changed_edges']:,.0f}", f"{r['changed_routes']:,.0f}"] for r in rows
    ])


def gen2(rows):
    def of(row, part):
        return f"{number(row['steps'][part]['p50'] / 1e6)} / {number(row['steps'][part]['p99'] / 1e6)}"

    def verdict(row):
        return "trustworthy" if row["trustworthy"] else "not trustworthy: " + "; ".join(row["reasons"])

    names = {"gen2-forward": "all forward", "gen2-far": "all forward, TCP farther", "gen2-tenth": "a tenth with stacks"}
    head = ["", "up, s", "down, s", "its process, MiB", "the machine, MiB", "links, ms", "routes, ms", "kernels, ms", "whole step, ms", "TCP, Mbit/s (hops)", "frames late, p99, ms", "verdict"]
    return table(head, [
        [names[r["what"]], number(r["up_s"]), number(r["down_s"]), number(r["process_mib"]), number(r["memory_mib"]), of(r, "compute_ns"), of(r, "routes_ns"), of(r, "kernel_ns"), of(r, "whole_ns"),
         f"{number(r['tcp_bps'] / 1e6)} ({r['tcp_hops']})", number(r["lateness_p99_ns"] / 1e6), verdict(r)] for r in rows
    ])


def arms(rows, key):
    """Rows by what is compared, and of each arm the median of its rounds (least to greatest) of a figure."""
    for what in dict.fromkeys(row[key] for row in rows):
        arm = [row for row in rows if row[key] == what]

        def each(of, factor=1.0, digits=None):
            return spread(of_rounds((of(row) if callable(of) else row[of]) for row in arm), factor, digits)

        yield what, arm, each, f"{sum(row['trustworthy'] for row in arm)} of {len(arm)}"


def shell1(rows):
    head = ["satellites", "up, s", "down, s", "the machine, MiB", "its process, MiB", "processors busy, idle sky", "links", "carried, Mbit/s", "lost, %",
            "processor, s a Gbit and link", "frames late, p99, us", "trustworthy"]
    return table(head, [
        [what, each("up_s"), each("down_s"), each("memory_mib"), each("process_mib"), each("idle_processors"), arm[0]["links"], each("throughput_bps", 1e-6), each("loss_ratio", 100, 3),
         each(lambda row: row["flow_processors"] / (row["throughput_bps"] / 1e9 * row["links"])), each("lateness_p99_ns", 1e-3, 0), trusted]
        for what, arm, each, trusted in arms(rows, "by")
    ])


def twenty_hops(rows):
    head = ["flow", "links", "carried, Mbit/s", "lost of UDP, %; sent again by TCP", "frames late, p99, us", "lost by the emulator", "relay's processor, %", "trustworthy"]
    body = []
    for what, arm, each, trusted in arms(rows, "what"):
        again = each("loss_ratio", 100, 3) if arm[0]["loss_ratio"] is not None else each("retransmits", digits=0)
        body.append([what, arm[0]["links"], each("throughput_bps", 1e-6), again, each("lateness_p99_ns", 1e-3, 0), sum(row["lost_by_emulator"] for row in arm),
                     each("relay_cpu_ratio", 100, 0), trusted])
    return table(head, body)


def idle_hops(rows):
    return table(
        ["hops, by", "p50, us", "p99, us", "lost", "early"],
        [[f"{r['hops']}, {r['by']}", spread(r["beyond"]["p50_ns"], 1e-3, 1), spread(r["beyond"]["p99_ns"], 1e-3, 1), r["lost"], r["early"]] for r in rows],
    )


def tcp(rows):
    controls = list(dict.fromkeys(r["congestion_control"] for r in rows))
    cases = {}
    for r in rows:
        cases.setdefault((r["rtt_ms"], r["loss_ratio"]), {})[r["congestion_control"]] = r
    return table(
        ["RTT, loss", *(f"{c}, Mbit/s" for c in controls), "Mathis"],
        [[f"{rtt} ms, {loss * 100:g} %", *(number(by[c]["goodput_bps"] / 1e6, 2) if c in by else "-" for c in controls),
          number(next(iter(by.values()))["mathis_bps"] / 1e6, 2)] for (rtt, loss), by in cases.items()],
    )


def tcp_qemu(rows):
    cells = {}
    for r in rows:
        cells.setdefault((r["congestion_control"], r["loss_ratio"]), {})[r["by"]] = r
    return table(
        ["control, loss", "the kernel's module, Mbit/s", "Constel's, Mbit/s", "segments sent again, each"],
        [[f"{control}, {loss * 100:g} %", *(number(by[who]["goodput_bps"] / 1e6, 2) for who in ("kernel", "constel")),
          ", ".join(number(by[who]["retransmitted"], 0) for who in ("kernel", "constel"))] for (control, loss), by in cells.items()],
    )


def square(rows):
    return table(
        ["control", "Mbit/s (fits)", "segments sent again", "queueing p50 / p99, ms", "relay's lateness p99, us"],
        [[r["congestion_control"], f"{number(r['goodput_bps'] / 1e6, 2)} ({number(r['fits_bps'] / 1e6, 2)})", number(r["retransmitted"], 0),
          f"{number(r['queueing_delay']['p50_ns'] / 1e6, 0)} / {number(r['queueing_delay']['p99_ns'] / 1e6, 0)}",
          number(r["lateness"]["p99_ns"] / 1e3, 0)] for r in rows],
    )


def delays(rows):
    ways = list(dict.fromkeys(r["by"] for r in rows))
    counts = list(dict.fromkeys(r["links"] for r in rows))
    by = {(r["by"], r["links"]): r for r in rows}
    return table(
        ["links", *(f"{w}, ms, p50 (greatest)" for w in ways)],
        [[f"{c:,}", *(f"{number(by[w, c]['p50_ms'])} ({number(by[w, c]['max_ms'])})" if (w, c) in by else "not tried" for w in ways)] for c in counts],
    )


def ports(rows):
    return table(
        ["driver, edges", "configure, ms", "added p50 / p99, us", "frames/s", "update, ms", "switch, us", "half replaced, ms (switch, us)"],
        [[f"{r['driver']}, {r['edges']:,}", number(r["configure_ms"]), f"{number(r['added_p50_us'])} / {number(r['added_p99_us'])}",
          number(r["frames_per_s"], 0), number(r["update_ms"]), number(r["update_switch_us"]),
          f"{number(r['replace_ms'])} ({number(r['replace_switch_us'])})" if r["replace_ms"] is not None else "-"] for r in rows],
    )


def idle(row):
    return table(
        ["scenario", "relay's thread", "whole process", "resident"],
        [[f"`{row['scenario']}`", f"{number(row['relay_cpu_percent'], 2)} % of a processor",
          f"{number(row['process_cpu_percent'], 2)} %", f"{number(row['memory']['Rss'] / 1e6, 0)} MB"]],
    )


def rules(rows):
    step = lambda row, key: number(1e3 * row[key] / row["steps"])
    return table(
        ["satellites", "stations", "steps", "rows a step", "`nearest` in Python, ms a step", "a rule without work, ms a step", "of it listing what can be used, ms a step", "file of choices, kB"],
        [[number(r["satellites"], 0), r["stations"], r["steps"], number(r["rows"] / r["steps"], 0), step(r, "rule_s"), step(r, "empty_rule_s"), step(r, "listed_s"),
          number(r["bytes"] / 1e3)] for r in rows],
    )


def install(row):
    bare = table(
        ["in a bare Debian root", "installed in, s", "first ping after, s", "memory"],
        [[{"deb": "package of Debian", "wheel": "wheel, without an index", "mininet": "Mininet from Debian, `mn --test pingall`"}.get(r["what"], "package of Debian, one processor"),
          number(r["install_s"], 1), number(r.get("first_ping_s", r.get("pingall_s")), 1), f"{r['memory_mb']} MB" if "memory_mb" in r else "-"] for r in row["bare"]],
    )
    each = table(
        ["CPython", "`pip install` of the wheel, s", "`constel doctor`", "first tutorial, s"],
        [[r["python"], number(r["install_s"], 1), "passes" if r["doctor_exit"] == 0 else f"exit {r['doctor_exit']}", number(r["first_tutorial_s"], 1)] for r in row["pythons"]],
    )
    built = f", built in {number(row['wheel_build_s'], 0)} s once the program was" if row["wheel_build_s"] else ""
    return f"The wheel has {number(row['wheel_bytes'] / 1e6, 1)} MB{built}, the package {number(row['deb_bytes'] / 1e6, 1)} MB.\n\n{bare}\n\n{each}"


def samples(rows):
    def of(kind, key, scale=1.0, places=2):
        values = [r[key] * scale for r in rows if r["kind"] == kind and r.get(key) is not None]
        if not values:
            return "-"
        least, greatest = number(min(values), places), number(max(values), places)
        return least if least == greatest else f"{least} to {greatest}"

    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    return table(
        ["samples", "interfaces", "instants", "rows of edges", "processor, s", "lateness, 99 %, us", "interfaces, MB", "as Parquet, MB", "edges, MB", "as Parquet, MB",
         "frames in no row of edges", "polars reads what pandas reads"],
        [[kind, of(kind, "interfaces", places=0), of(kind, "instants", places=0), of(kind, "edge_rows", places=0), of(kind, "processor_s"),
          of(kind, "lateness_p99_ns", 1e-3, 0), of(kind, "interfaces_bytes", 1e-6), of(kind, "interfaces_parquet_bytes", 1e-6), of(kind, "edges_bytes", 1e-6),
          of(kind, "edges_parquet_bytes", 1e-6),
          "-" if not any("offered_by_last_rows" in r for r in rows if r["kind"] == kind) else
          number(max(r["offered"] - r["offered_by_last_rows"] for r in rows if r["kind"] == kind), 0),
          "-" if kind == "none" else "yes" if all(v for r in rows if r["kind"] == kind for k, v in r.items() if k.endswith("_polars_is_pandas")) else "**no**"]
         for kind in kinds],
    )


def web(data):
    def of(some, key):
        values = sorted(w[key] for w in data["windows"] if bool(w["clients"]) == some)
        return {"median": statistics.median(values), "least": values[0], "greatest": values[-1]}

    rows = []
    for key, words in (("late_p99_us", "frames late, 99th percentile, us"), ("frames", "frames in a window")):
        none, some = of(False, key), of(True, key)
        # Each window with clients against those without before and after it, by logarithms: a mean of ratios of what scatters is above one.
        all_ = [math.log(w[key]) for w in data["windows"]]
        pairs = [all_[i] - (all_[i - 1] + all_[i + 1]) / 2 for i in range(1, len(all_) - 1, 2)]
        half = 200 * statistics.stdev(pairs) / len(pairs) ** 0.5
        rows.append([words, spread(none), spread(some), f"{100 * math.expm1(statistics.mean(pairs)):+.1f} % ± {half:.1f}"])
    got = data["got"]
    counted = sum(bool(w["clients"]) for w in data["windows"])
    each = lambda name, scale=1.0, places=0: number(got[name] * scale / data["clients"] / counted, places)
    if "web_cpu_s" in got:
        rows.append(["processor in a window, s: the server, all clients", "", f"{number(got['web_cpu_s'] / counted, 2)}, {number(got['clients_cpu_s'] / counted, 2)}", ""])
    rows.append(["a client in a window: steps, samples of loads, answers, MB", "", f"{each('steps')}, {each('loads')}, {each('answers')}, {each('bytes', 1e-6, 2)}", ""])
    head = [f"`scenarios/{data['scenario']}`, {len(data['windows'])} windows of {data['window_s']} s", "nobody looks", f"{data['clients']} clients", "more, geometric mean and twice its standard error"]
    verdict = "trustworthy" if data["trustworthy"] else "not trustworthy: " + "; ".join(data["reasons"])
    return f"{table(head, rows)}\n\nFrames of the whole lab left late by {number(data['lateness_p99_ns'] / 1e3, 0)} us at the 99th percentile; {verdict}."


def page(rows):
    return table(
        ["satellites", "links", "draw calls", "first picture, s", "script a frame, ms: median", "95 %", "bytes of the first step", "of one after", "frames a second"],
        [[number(r["satellites"], 0), number(r["links"], 0), r["draw_calls"], number(r["first_picture_ms"] / 1e3), number(r["script_ms_median"]),
          number(r["script_ms_p95"]), number(r["step_bytes_first"], 0), number(r["step_bytes_median"], 0), number(r["frames_per_s"])] for r in rows],
    )


def endings(data):
    rows = data["rows"]
    moments = list(dict.fromkeys(r["moment"] for r in rows))
    routings = list(dict.fromkeys(r["routing"] for r in rows))
    cells = {(r["routing"], r["ending"], r["moment"]): r for r in rows}

    def cell(r):
        code = "-" if r["code"] is None else f"killed by {-r['code']}" if r["code"] < 0 else str(r["code"])
        by = "" if r["by"] == "itself" else ", after `clean`"
        kept = [name for name in ("summary", "series", "events") if r[name]]
        left = f", **left: {len(r['left'])}**" if r["left"] else ""
        return f"{number(r['as_before_s'], 2)} s{by}; {code}; {', '.join(kept) or 'nothing'}{left}"

    head = ["ending", "routing", *moments]
    return table(head, [
        [ending, routing, *(cell(cells[routing, ending, moment]) for moment in moments)]
        for ending in dict.fromkeys(r["ending"] for r in rows) for routing in routings
    ])


def hour(row):
    least, most = row["settled_kib"]
    return table(
        ["lab time", "steps", "events", "resident at its start", "second half, least to most", "its slope"],
        [[f"{number(row['minutes'], 0)} min", f"{row['steps']:,}", f"{row['events']:,}", f"{number(row['first_kib'] / 1024, 1)} MiB",
          f"{number(least / 1024, 1)} to {number(most / 1024, 1)} MiB", f"{number(row['slope_kib_per_hour'], 0)} KiB/h"]],
    )


def versions(data):
    def cell(rounds):
        middle = number(statistics.median(rounds), 2)
        return middle if len(rounds) == 1 else f"{middle} ({number(min(rounds), 2)} to {number(max(rounds), 2)})"

    head = ["", *(f"{commit}" for commit in data["commits"])]
    return table(head, [[f"{r['figure']}, {r['unit']}", *(cell(rounds) for rounds in r["rounds"])] for r in data["figures"]])


def positions(rows):
    def seconds(key):
        return spread(of_rounds(r[key] for r in rows))

    head = ["elements to ITRF", "s", "from skyfield's at most, m"]
    return table(head, [
        ["Constel, as a frame", seconds("constel_s"), number(max(r["apart_max_m"] for r in rows))],
        ["sgp4 in numpy, rotated by skyfield's matrices", seconds("sgp4_numpy_s"), number(max(r["numpy_apart_max_m"] for r in rows))],
        ["skyfield", seconds("skyfield_s"), "-"],
    ])


TABLES = {
    "bringup": bringup, "containers": containers, "engines": containers, "construction": construction, "information": information,
    "starrynet": starrynet, "accuracy": accuracy, "accuracy-threads": accuracy_threads, "rate": rate, "isolation": isolation, "isolation-threads": isolation, "hostile": hostile,
    "overload": overload, "update": update, "steps": steps, "gen2": gen2, "handover": handover,
    "mininet": mininet, "throughput": throughput, "forwarding": forwarding, "hops": hops, "twenty-hops": twenty_hops, "shell1": shell1, "idle-hops": idle_hops, "tcp": tcp, "square": square,
    "delays": delays, "delays-qemu": delays, "tcp-qemu": tcp_qemu, "ports": ports, "idle": idle, "hour": hour, "endings": endings, "versions": versions,
    "positions": positions, "web": web, "page": page, "rules": rules, "samples": samples, "install": install,
}


def others(data):
    """Load of other programs on the machine, and on its host, before the run, if it is enough to affect figures."""
    if "busy_before" in data:
        said = []
        if data["busy_before"] >= 0.1:
            said.append(f"{100 * data['busy_before']:.0f} % of the processors were others'")
        if data.get("uneven_before", 0) >= 0.02:
            said.append(f"a processor was slower than half its speed for {100 * data['uneven_before']:.0f} % of the time")
        return f", **{' and '.join(said)} before it began: not a quiet machine**" if said else ""
    return "" if data["load_before"] < 0.5 else f", **load {data['load_before']:.1f} before it began: not a quiet machine**"


def section(name):
    raw = HERE / f"raw/{name}.json"
    if not raw.exists():
        return f"No raw data of this version yet: `benches/run {name}` measures it and writes the table."
    data = json.loads(raw.read_text())
    about = f"`{data['command']}`, {data['date'][:10]}, {data['commit']}, Linux {data['kernel']}, {data['processors']}{others(data)}:"
    return f"{about}\n\n{TABLES[name](data['rows'])}"


def main():
    texts = {page: page.read_text() for page in PAGES}
    named = [name for text in texts.values() for name in re.findall(r"<!-- table (\S+) -->", text)]
    unknown = set(named) ^ set(TABLES) | {name for name in named if named.count(name) > 1}
    if unknown:
        sys.exit(f"report: not on exactly one page, or no table: {', '.join(sorted(unknown))}")
    for page, text in texts.items():
        new = re.sub(
            r"<!-- table (\S+) -->\n.*?<!-- end -->",
            lambda m: f"<!-- table {m.group(1)} -->\n{section(m.group(1))}\n<!-- end -->",
            text, flags=re.S,
        )
        if "--check" in sys.argv and new != text:
            sys.exit(f"report: benches/{page.name} does not have the tables of benches/raw; run benches/report.py")
        if new != text:
            page.write_text(new)


if __name__ == "__main__":
    main()
