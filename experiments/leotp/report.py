"""From raw/*.json: RESULTS.md (tables, the paper's values beside ours) and plots/*.svg (needs matplotlib).

    report.py [--check]     --check: changes nothing, exit code 1 if RESULTS.md is not that of the raw data
"""
import json, os, sys
import report_labs, report_more, report_plots

HERE = os.path.dirname(os.path.abspath(__file__))
RAW = os.environ.get("RAW", os.path.join(HERE, "raw"))
NAMES = {"default": "LEOTP as printed", "faithful": "LEOTP as printed", "authors-constants": "LEOTP, authors' constants", "beyond": "LEOTP beyond()",
         "leotp-faithful": "LEOTP as printed", "leotp-authors-constants": "LEOTP, authors' constants", "leotp-beyond": "LEOTP beyond()",
         "tcp-bbr": "TCP bbr (kernel)", "tcp-cubic": "TCP cubic (kernel)", "tcp-hybla": "TCP hybla (ours, BPF)", "tcp-westwood": "TCP westwood (ours, BPF)",
         "tcp-vegas": "TCP vegas (ours, BPF)", "vivace": "PCC Vivace (ours)", "split-cubic": "split TCP, cubic", "split-bbr": "split TCP, bbr", "split-hybla": "split TCP, hybla", "bbr": "bbr-like", "cubic": "cubic-like", "reno": "reno-like"}


def read(name):
    try:
        return json.load(open(os.path.join(RAW, name + ".json")))
    except OSError:
        return None


def name(x):
    return NAMES.get(x, x)


def table(out, head, rows):
    out.append("| " + " | ".join(head) + " |")
    out.append("|" + "---|" * len(head))
    for r in rows:
        out.append("| " + " | ".join(f"{x:.2f}" if isinstance(x, float) else str(x) for x in r) + " |")
    out.append("")


def pct(x, digits=1):
    return "" if x is None else f"{100 * x:+.{digits}f} %"


def protocols(rows, k="protocol"):
    return list(dict.fromkeys(r[k] for r in rows))


def grid(out, d, across, value, digits=2, k="protocol", scale=1.0, unit=""):
    """Protocols down, one parameter across."""
    xs = list(dict.fromkeys(r[across] for r in d["rows"]))
    rows = []
    for p in protocols(d["rows"], k):
        cells = []
        for x in xs:
            r = next((r for r in d["rows"] if r[k] == p and r[across] == x), None)
            cells.append("" if r is None or r.get(value) is None else f"{scale * r[value]:.{digits}f}")
        rows.append([name(p)] + cells)
    table(out, [unit or value] + [f"{100 * x:g} %" if across == "loss" else str(x) for x in xs], rows)


def vt(out, load):
    if d := load("vt-fig2"):
        out += ["## Fig. 2: throughput over hops", "", "20 Mbit/s, 10 ms RTT, 0.5 % loss a hop; Mbit/s of payload. Paper: at 10 hops BBR has lost 9 %, PCC 33 %, Cubic and Hybla are below 2 Mbit/s from 5 hops on.", ""]
        grid(out, d, "hops", "mbps", unit="Mbit/s at hops")
    if d := load("vt-fig3"):
        out += ["## Fig. 3: one-way delay, theory and measurement", "", f"10 hops of 10 ms, 0.5 % loss. Equations 2 and 3: mean {d['equation_2_ms']:.1f} and {d['equation_3_ms']:.1f} ms. Paper: p99 300 ms and 120 ms, largest 700 ms and 160 ms.", ""]
        table(out, ["", "mean ms", "p99 ms", "largest ms"], [[r["what"], r["owd_mean_ms"], r["owd_p99_ms"], r["owd_max_ms"]] for r in d["rows"]])
    if d := load("vt-fig5"):
        out += ["## Fig. 5: queueing over propagation delay", "", "5 hops, the second 10 +- 1 Mbit/s (2 s); mean queueing, ms. Paper: Cubic and Hybla above 100 ms at all delays; BBR 32 ms at 20 ms, rising beyond them at 100 ms.", ""]
        grid(out, d, "propagation_ms", "queueing_ms", 1, unit="ms at propagation of ms")
    if d := load("vt-fig12"):
        out += ["## Fig. 10: recovery of lost packets", "", "5 hops of 20 ms hopRTT at full rate; mean delay of lost packets beyond the median packet's, and how much less that is than without Midnodes and than bbr-like's. Paper: 59 to 64 % less.", ""]
        late = {(r["protocol"], r["loss"]): r["lost_owd_mean_ms"] - r["owd_ms"][100] for r in d["rows"] if r["loss"] > 0}
        table(out, ["", "loss", "recovery ms", "less than bbr-like", "less than LEOTP without Midnodes"],
              [[name(p), f"{100 * l:g} %", v, pct(1 - v / late["bbr", l], 0), pct(1 - v / late["endpoints only", l], 0)]
               for (p, l), v in late.items() if p in ("default", "authors-constants", "beyond", "endpoints only", "bbr")])
    if d := load("vt-fig12"):
        out += ["## Figs 11 and 12: throughput and sender's traffic over loss", "", "5 hops of 20 Mbit/s and 20 ms hopRTT; 19.3 Mbit/s of LEOTP's payload fit, 19.4 of beyond()'s. Paper: from 0 to 1 % loss BBR loses 12 %, PCC 23 %, LEOTP 1 %.", ""]
        grid(out, d, "loss", "mbps", unit="Mbit/s at loss")
        grid(out, d, "loss", "throughput_lost", 2, scale=100, unit="throughput lost, %")
        out += ["Traffic the sender sends for 100 MB, MB (Fig. 11). Paper: LEOTP's slope is about 20 % of BBR's.", ""]
        grid(out, d, "loss", "mb_sent_for_100_mb", 2, unit="MB at loss")
    if d := load("vt-fig13"):
        out += ["## Fig. 13: link switching", "", "Two paths, 80 and 90 ms RTT, 20 Mbit/s; what is on the abandoned one is lost; Mbit/s over the seconds between switches. Paper: at 1 s LEOTP has 34 % more than BBR and 15 % more than PCC.", ""]
        grid(out, d, "interval_s", "mbps", unit="Mbit/s at s")
    if d := load("vt-fig14"):
        out += ["## Fig. 14: square wave", "", "Second of 10 hops 10 +- 1 Mbit/s (2 s), propagation 100 ms; at most 9.63 Mbit/s of payload fit, 9.69 of beyond()'s. Paper: all TCP more than 100 ms of queue; LEOTP end to end below 8 Mbit/s at near-optimal delay; LEOTP trades delay for throughput by BL_tar.", ""]
        table(out, ["", "BL_tar", "Mbit/s", "mean OWD ms", "p99 ms"], [[name(r["protocol"].split(",")[0]) + r["protocol"][len(r["protocol"].split(",")[0]):], r["bl_tar_segments"] or "", r["mbps"], r["owd_mean_ms"], r["owd_p99_ms"]] for r in d["rows"]])
    if d := load("vt-fig15"):
        out += ["## Fig. 15: fairness", "", "Three flows share 5 Mbit/s and 30 ms of round trip, each beginning 200 s after the one before; 600 s; Mbit/s of each over the last 150 s, first flow first. Paper: with the same round trip (60 ms) both LEOTP and BBR converge to similar shares; with 90, 120 and 150 ms the BBR flow with the longer one gets more, LEOTP stays fair.", ""]
        table(out, ["", "round trips ms", "shares Mbit/s", "sum", "Jain"], [[name(r["protocol"]), ", ".join(map(str, r["rtt_ms"])), ", ".join(f"{x:.2f}" for x in r["shares_mbps"]), r["mbps"], f"{r['jain']:.3f}"] for r in d["rows"]])
    if d := load("vt-satellites"):
        out += ["## Figs 16 to 18, Table II and partial coverage, in virtual time over the real paths", "",
                "The least-delay path from Beijing over 1,600 satellites second by second, cities free to use any satellite above 25 degrees (as in the paper's route computation), GSL 1 % and ISL 0.1 % loss, uplink a V of 10 to 6 Mbit/s over each stretch with the same first satellite with a random +-0.5, all else 20 Mbit/s. To Shanghai without ISLs, to the others with. Paper: hops 5.15, 9.53 and 18.88; Shanghai: LEOTP +4.8 % throughput against BBR, queueing 16 ms against 26; Mbit/s and OWD ms: Hong Kong A 7.82 49.17, B 7.78 51.39, C 7.38 40.15, D 7.24 42.05; Paris A 7.70 76.57, B 7.67 80.74, C 7.23 66.40, D 7.03 70.38; New York A 7.91 118.64, B 7.73 126.10, C 6.80 103.63, D 6.52 112.20; against BBR on New York +8.0 % throughput, about 100 ms of queue for BBR and 20 for LEOTP (-40 % OWD); with 25 % coverage +6 % and -42 %.", ""]
        for to in protocols(d["rows"], "to"):
            rs = [r for r in d["rows"] if r["to"] == to]
            out += [f"Beijing to {to}: {rs[0]['hops']} hops, propagation {rs[0]['propagation_ms']} ms, uplink {rs[0]['uplink_mbps']} Mbit/s on average.", ""]
            table(out, ["", "case", "Mbit/s", "mean OWD ms", "p99 ms", "queueing ms", "throughput against bbr-like", "OWD against bbr-like"],
                  [[name(r["protocol"]), r["case"], r["mbps"], r["owd_mean_ms"], r["owd_p99_ms"], r["queueing_ms"], pct(r["throughput_against_bbr"]), pct(r["owd_against_bbr"])] for r in rs])
    if d := load("vt-eq10"):
        out += ["## Equation 10", "", "The ablation's order over 19 hops of 5 ms hopRTT (see README); Mbit/s and mean OWD ms.", ""]
        table(out, ["constants", "A", "B", "C", "D", "order of Table II"], [[r["variant"]] + [f"{r[w][0]:.2f}, {r[w][1]:.1f}" for w in "ABCD"] + ["yes" if r["order"] else "no"] for r in d["rows"]])
    if d := load("vt-parts"):
        out += ["## What each part of beyond() does", "", "beyond() with one part as printed or one constant another; Mbit/s, mean and p99 OWD ms. On these paths its constants were chosen.", ""]
        at = {(r["variant"], r["path"]): r for r in d["rows"]}
        ways, of = protocols(d["rows"], "path"), lambda r: f"{r['mbps']:.2f}, {r['owd_mean_ms']:.1f}, {r['owd_p99_ms']:.0f}"
        table(out, ["", *ways], [[v, *[of(at[v, w]) for w in ways]] for v in protocols(d["rows"], "variant")])
    if d := load("vt-late"):
        out += ["## Hosts that are late", "", "Two links, beyond(); in part of the time all packets arrive later, each way; payload as % of the links' rate.", ""]
        at = {(r["late"], r["delay_ms"], r["rate_mbps"]): r["part"] for r in d["rows"]}
        columns = list(dict.fromkeys((r["delay_ms"], r["rate_mbps"]) for r in d["rows"]))
        table(out, ["late by", *[f"{m} Mbit/s, {ms} ms" for ms, m in columns]], [[l, *[f"{100 * at[(l, *c)]:.0f}" for c in columns]] for l in protocols(d["rows"], "late")])
    if d := load("vt-heldout"):
        out += ["## Held-out paths", "", "Chosen after the constants, three seeds: Mbit/s, mean and p99 OWD ms.", ""]
        ps = [k for k in d["rows"][0] if k != "path"]
        table(out, ["path"] + [name(p) for p in ps], [[r["path"]] + [f"{r[p]['mbps']:.2f}, {r[p]['owd_mean_ms']:.1f}, {r[p]['owd_p99_ms']:.0f}" for p in ps] for r in d["rows"]])


def trust_all(rows):
    """Trust of several runs: yes, or how many are not trustworthy, and why."""
    no = [r["verdict"] for r in rows if not r["verdict"]["trustworthy"]]
    return "yes" if not no else f"NO in {len(no)} of {len(rows)}: {'; '.join(no[0]['reasons'])}"


def main():
    out = ["<!-- Written by report.py from raw/*.json. Do not edit. -->", "", "# LEOTP: results", "", "README.md says how they were made and why they differ from the paper's.", ""]
    used = []

    def load(file):
        """Reads a raw file and notes its place, so that its section names it."""
        if data := read(file):
            used.append((len(out), file))
        return data

    out += ["# In labs", ""]
    report_labs.write(out, load, table, name, pct, trust_all)
    report_more.gateways(out, load, table, trust_all)
    report_more.video(out, load, table, trust_all)
    out += ["# In virtual time", ""]
    vt(out, load)
    report_more.receivers(out, load, table)
    report_more.beyond_many(out, load, table, pct)
    end = len(out)
    for place, file in reversed(used):
        # A file without a heading of its own continues the section before it.
        title = next((n for n in [*range(place, end), *range(place - 1, 0, -1)] if out[n].startswith("## ")))
        out[title + 1 : title + 1] = ["", f"Raw data: [{file}](raw/{file}.json)."]
        end = place
    text = "\n".join(out)
    page = os.path.join(HERE, "RESULTS.md")
    if "--check" in sys.argv:
        with open(page) as f:
            sys.exit(0 if f.read() == text else "report: RESULTS.md is not that of the raw data; run experiments/leotp/run report")
    with open(page, "w") as f:
        f.write(text)
    try:
        report_plots.plots(read, name)
    except ImportError:
        print("no matplotlib: no plots", file=sys.stderr)


if __name__ == "__main__":
    main()
