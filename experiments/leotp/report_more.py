"""Results beyond the paper's figures, for RESULTS.md: TCP over gateways, many receivers, paths drawn by a seed."""
from statistics import median

KINDS = {"cubic": "TCP cubic, end to end", "bbr": "TCP bbr, end to end", "split-cubic": "split TCP, cubic", "split-bbr": "split TCP, bbr", "gateways": "LEOTP between gateways"}


def ms(values):
    """Mean, median, and least to most, in ms; '' of nothing."""
    v = [1e3 * x for x in values]
    return f"{sum(v) / len(v):.0f}, {median(v):.0f} ({min(v):.0f} to {max(v):.0f})" if v else ""


def gateways(out, load, table, trust_all):
    if d := load("lab-gateways"):
        out += ["## TCP over gateways in a lab", "", "Iridium, Beijing to New York over 20 Mbit/s; ground links lose 1 %, lasers 0.1 %. An unmodified curl at a host behind New York, a "
                "Python server at one behind Beijing; every connection is new but a page's 7th and 8th object's. Times in ms: mean, median (least to most) over all repeats. "
                f"Page: {d['page'].split(',')[0].lower()}: a document and 8 objects, 95 kB, six connections at once; source in `page.json`. Failed: downloads whose bytes were not all and right.", ""]
        for lossy in (True, False):
            rows = []
            for kind, words in KINDS.items():
                rs = [r for r in d["rows"] if r["kind"] == kind and r["lossy"] == lossy]
                if rs:
                    all_of = lambda key: [x for r in rs for x in r[key]]
                    rates = [r["long_mbps"] for r in rs]
                    failed = sum(r[k] for r in rs for k in ("short_10000_failed", "short_100000_failed", "page_failed"))
                    rows.append([words, ms(all_of("short_10000_s")), ms(all_of("short_100000_s")), ms(all_of("page_s")),
                                 f"{sum(rates) / len(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})", failed, len(rs), trust_all(rs)])
            if rows:
                out += [] if lossy else ["The same without losses:", ""]
                table(out, ["over", "10 kB", "100 kB", "page", f"{d['long_s']} s long, Mbit/s", "failed", "repeats", "host kept up"], rows)
    if d := load("lab-gateways-many"):
        r = d["rows"][0]
        ends = {k: r[k] for k in ("right", "short", "wrong", *sorted(k for k in r if k[0].isupper())) if k in r}
        out += [f"{r['connections']} connections at once over the gateways, {r['size'] // 1000} kB each, with {r['midnodes_killed']} Midnodes killed (`kill -9`) after a second: "
                f"{', '.join(f'{v} {k}' for k, v in ends.items())}, in {r['seconds']:.1f} s. Of the host: {r['verdict']['reasons'][0]}.", ""]


def video(out, load, table, trust_all):
    if d := load("lab-video"):
        out += ["## Video over gateways in a lab", "", f"The same path with the same losses: {d['of']} segments of HLS of {d['segment_s']} s and {d['rate_mbps']} Mbit/s, fetched one after the other over one connection; "
                f"the picture begins with {d['begin_s']} s, and a player holds {d['ahead_s']} s at most. After {d['patience_s']} s nobody waits for the rest. Mean (least to most) of the repeats; nothing is decoded.", ""]
        rows = []
        for kind, words in KINDS.items():
            rs = [r for r in d["rows"] if r["kind"] == kind]
            some = lambda key: "%.1f (%.1f to %.1f)" % (sum(v) / len(v), min(v), max(v)) if (v := [r[key] for r in rs if r[key] is not None]) else "never"
            rows.append([words, some("start_s"), some("stalls"), some("stalled_s"), some("segments"), len(rs), trust_all(rs)])
        table(out, ["over", "picture after, s", "stalls", "stood still, s", f"segments of {d['of']}", "repeats", "host kept up"], rows)


def receivers(out, load, table):
    if d := load("vt-receivers"):
        p = d["path"]
        out += ["## Many receivers in virtual time", "", f"An object of {p['object_bytes'] // 1_000_000} MB for 1 to 32 Consumers behind the last {p['spread']} of {p['hops']} Midnodes in turn, "
                f"{p['mbps']} Mbit/s, {p['delay_ms']} ms and {100 * p['loss']:.1f} % loss a hop, beyond(). Bytes saved: against as many times what one Consumer costs each link. First link: the one at the Producer.", ""]
        rows = [r for r in d["rows"] if r["consumers"] > 1]
        counts = sorted({r["consumers"] for r in rows})
        for apart in dict.fromkeys(r["apart"] for r in rows):
            out += [f"Started {apart}: saved on the first link, and on all links of the chain together, %; mean time of a Consumer, s.", ""]
            of = {(r["cache"], r["consumers"]): r for r in rows if r["apart"] == apart}
            cell = lambda r: f"{100 * r['saved'][0]:.1f}, {100 * r['saved_in_all']:.1f}; {r['took_mean_s']:.1f}"
            table(out, ["cache of each node", *[f"{n} Consumers" for n in counts]], [[c, *[cell(of[c, n]) for n in counts]] for c in dict.fromkeys(r["cache"] for r in rows)])
        out += ["Link by link, 32 Consumers, 64 MiB in memory: saved, %.", ""]
        picked = [r for r in rows if r["consumers"] == 32 and r["cache"] == "64 MiB in memory"]
        table(out, ["started", *[f"link {i + 1} ({n} behind)" for i, n in enumerate(picked[0]["consumers_behind"])]],
              [[r["apart"], *[f"{100 * x:.1f}" for x in r["saved"]]] for r in picked])
        disk = [r for r in rows if "disk" in r["cache"]]
        out += ["Served from memory and read back from disk, MB, all Midnodes together (1 MiB in memory, 64 MiB on disk):", ""]
        table(out, ["started", *[f"{n} Consumers" for n in counts]],
              [[a, *[f"{(r['hit_bytes'] - r['disk_hit_bytes']) / 1e6:.1f}, {r['disk_hit_bytes'] / 1e6:.1f}" for r in disk if r["apart"] == a]] for a in dict.fromkeys(r["apart"] for r in disk)])


def beyond_many(out, load, table, pct):
    if d := load("vt-beyond-many"):
        rows = sorted(d["rows"], key=lambda r: r["gain"])
        gains = [r["gain"] for r in rows]
        at = lambda q: pct(gains[round(q * (len(gains) - 1))])
        out += ["## beyond() on paths drawn by a seed", "", f"{len(rows)} paths in virtual time, seed {d['seed']}, two seeds of losses each, none used for any constant. Throughput of beyond() against bbr-like: least "
                f"{at(0)}, first quarter {at(0.25)}, median {at(0.5)}, third quarter {at(0.75)}, most {at(1)}; worse by more than 2 %: {sum(g < -0.02 for g in gains)}. OWD of packets: median "
                f"{pct(sorted(r['owd_gain'] for r in rows)[len(rows) // 2])}, most {pct(max(r['owd_gain'] for r in rows))}, longer than bbr-like's on {sum(r['owd_gain'] > 0 for r in rows)}.", ""]
        cell = lambda v: f"{v['mbps']:.2f}, {v['owd_mean_ms']:.0f}"
        table(out, ["gain", "path", "ground, lasers: Mbit/s", "loss: ground, lasers", "queue, KiB", "hops", "light, ms", "changes of path", "beyond()", "bbr-like"],
              [[pct(r["gain"]), f"{r['sky']}, {r['from'][0]} to {r['to'][0]}, {r['start'][11:16]}", f"{r['ground_mbps']}, {r['laser_mbps']}", f"{100 * r['ground_loss']:.2f} %, {100 * r['laser_loss']:.2f} %",
                r["queue_bytes"] // 1024, f"{min(r['hops'])} to {max(r['hops'])}", f"{r['propagation_ms']:.0f}", r["path_changes"],
                *[cell(r[p]) for p in ("beyond", "bbr")]] for r in rows])
