"""The figures in virtual time: every mechanism exactly, no host in between. `run vt` runs all, `run vt fig12` one.

Baselines here are "like" the kernel's: same laws, our code (crates/leotp-core/tests/vnet/baseline.rs); the labs have the
kernel's own. Raw data: raw/vt-*.json."""
import json, os, random, sys, time
import sat
from lab import LEOTP_WIRE, commit
from lab import rows_of as earlier_rows
from vt import chain, hop, mean, run, run_all, square

HERE = os.path.dirname(os.path.abspath(__file__))
RAW = os.environ.get("RAW", os.path.join(HERE, "raw"))
OURS = ("default", "authors-constants", "beyond")
KEEP = ("mbps", "header_bytes", "owd_mean_ms", "lost_owd_mean_ms", "lost", "sent_per_delivered", "max_queue_ms", "full_drops")


def save(name, rows, **extra):
    os.makedirs(RAW, exist_ok=True)
    with open(os.path.join(RAW, f"vt-{name}.json"), "w") as f:
        json.dump({"figure": name, "commit": commit(), "wire": LEOTP_WIRE, **extra, "rows": rows}, f, indent=1)
        f.write("\n")
    for r in rows:
        print(name, {k: round(v, 3) if isinstance(v, float) else v for k, v in r.items() if not isinstance(v, list)}, flush=True)


def rows_of(specs):
    """One row per key: means over the seeds, quantiles of the first."""
    out = []
    for k, rs in run_all(specs).items():
        row = dict(k)
        row.update({x: mean(rs, x) for x in KEEP})
        row["owd_p99_ms"] = sum(r["owd_ms"][198] for r in rs if r["owd_ms"]) / len(rs)
        row["owd_ms"] = [round(x, 2) for x in rs[0]["owd_ms"]]
        row["lost_owd_ms"] = [round(x, 2) for x in rs[0]["lost_owd_ms"]]
        row["seeds"] = len(rs)
        if rs[0]["consumer"]:
            row["timeouts"] = mean([r["consumer"] for r in rs], "timeouts")
            row["duplicate_bytes"] = mean([r["consumer"] for r in rs], "duplicate_bytes")
        out.append(row)
    return out


def key(**k):
    return tuple(k.items())


def fig2(seeds=(1, 2)):
    """Throughput over the number of hops of 10 ms RTT and 0.5 % loss."""
    s = {}
    for n in (1, 2, 3, 5, 8, 10):
        for p in ("bbr", "cubic", "reno", "authors-constants"):
            s[key(hops=n, protocol=p)] = [chain([hop(20, 5, 0.005)] * n, p, seed=x, t0=5, t1=25) for x in seeds]
    save("fig2", rows_of(s))


def fig3():
    """One-way delay with repair end to end and hop by hop: 10 hops of 10 ms, 0.5 % loss each; 100,000 packets in theory,
    and LEOTP at 5 Mbit/s (no queue) with and without Midnodes."""
    r, n, d, p = random.Random(1), 10, 10.0, 0.005
    ete, hbh = [], []
    for _ in range(100_000):
        t = n * d
        while r.random() < 1 - (1 - p) ** n:
            t += 2 * n * d
        ete.append(t)
        t = 0.0
        for _ in range(n):
            t += d
            while r.random() < p:
                t += 2 * d
        hbh.append(t)
    rows = []
    for name, v in (("theory, end to end", ete), ("theory, hop by hop", hbh)):
        v.sort()
        rows.append({"what": name, "owd_mean_ms": sum(v) / len(v), "owd_p99_ms": v[99_000], "owd_max_ms": v[-1], "owd_ms": [v[i * (len(v) - 1) // 200] for i in range(201)]})
    slow = {"max_rate_bps": 5_000_000}
    s = {key(what="LEOTP, endpoints only"): [chain([hop(20, d, p)] * n, "authors-constants", slow, "none", seed=1, t0=5, t1=65)],
         key(what="LEOTP, every node a Midnode"): [chain([hop(20, d, p)] * n, "authors-constants", slow, seed=1, t0=5, t1=65)],
         key(what="LEOTP beyond(), every node a Midnode"): [chain([hop(20, d, p)] * n, "beyond", slow, seed=1, t0=5, t1=65)]}
    more = rows_of(s)
    for m in more:
        m["owd_max_ms"] = m["owd_ms"][-1]
    save("fig3", rows + more, equation_2_ms=n * d * (1 + n * p) / (1 - n * p), equation_3_ms=n * d * (1 + p) / (1 - p))


def fig5(seeds=(1, 2)):
    """Queueing delay over propagation delay under a square wave of 10 +- 1 Mbit/s, 2 s."""
    s = {}
    for prop in (20, 40, 60, 80, 100):
        hops = [hop(20, prop / 5, 0, 131_072) for _ in range(5)]
        for p in ("bbr", "cubic", "authors-constants", "beyond"):
            s[key(propagation_ms=prop, protocol=p)] = [chain(hops, p, seed=x, t0=10, t1=40, waves={1: square(10, 1, 2, 40)}) for x in seeds]
    rows = rows_of(s)
    for r in rows:
        r["queueing_ms"] = r["owd_mean_ms"] - r["propagation_ms"]
    save("fig5", rows)


def fig12(seeds=(1, 2, 3)):
    """Throughput, sender's traffic (Fig. 11) and delay of lost packets (Fig. 10) over loss per hop, 5 hops."""
    s = {}
    for loss in (0, 0.001, 0.0025, 0.005, 0.01):
        hops = [hop(20, 10, loss)] * 5
        for p in OURS + ("bbr", "cubic", "reno"):
            s[key(loss=loss, protocol=p)] = [chain(hops, p, seed=x, t0=6, t1=36) for x in seeds]
        s[key(loss=loss, protocol="endpoints only")] = [chain(hops, "authors-constants", mids="none", seed=x, t0=6, t1=36) for x in seeds]
        s[key(loss=loss, protocol="default, lost bytes not carried")] = [chain(hops, "default", {"lost_is_carried": False}, seed=x, t0=6, t1=36) for x in seeds]
    rows = rows_of(s)
    for r in rows:
        clean = next(x for x in rows if x["loss"] == 0 and x["protocol"] == r["protocol"])
        r["throughput_lost"] = 1 - r["mbps"] / clean["mbps"]
        r["mb_sent_for_100_mb"] = 100 * r["sent_per_delivered"]
    save("fig12", rows)


def fig13(seeds=(1, 2)):
    """Two parallel paths of 80 and 90 ms RTT that take turns; what is on the abandoned one is lost."""
    s = {}
    for interval in (1, 2, 4, 8):
        for p in OURS + ("bbr", "cubic"):
            specs = []
            for x in seeds:
                c = chain([hop(20, 5)], p, seed=x, t0=8, t1=40)
                stretches = []
                for i in range(40 // interval + 1):
                    mid, d = ([2, 3], 10) if i % 2 == 0 else ([4, 5], 35 / 3)
                    # near - x - y - far: three hops; two more of 5 ms one way at the ends.
                    stretches.append({"at_s": i * interval, "path": [0, 1, *mid, 6, 7],
                                      "hops": [hop(20, 5), hop(20, d), hop(20, d), hop(20, d), hop(20, 5)]})
                c.update(nodes=8, timeline=stretches, cut=True)
                specs.append(c)
            s[key(interval_s=interval, protocol=p)] = specs
    save("fig13", rows_of(s))


def fig14(seeds=(1, 2)):
    """Throughput and delay under a square wave of 10 +- 1 Mbit/s on the second of 10 hops, over BL_tar."""
    hops, s = [hop(20, 10, 0, 200_000) for _ in range(10)], {}
    wave = {"waves": {1: square(10, 1, 2, 50)}, "t0": 10, "t1": 50}
    for p in OURS:
        for bl in (2, 5, 8, 16, 32):
            s[key(protocol=p, bl_tar_segments=bl)] = [chain(hops, p, {"target_buffer_bytes": bl * 1400}, seed=x, **wave) for x in seeds]
        s[key(protocol=p + ", endpoints only", bl_tar_segments=0)] = [chain(hops, p, mids="none", seed=x, **wave) for x in seeds]
    for p in ("bbr", "cubic"):
        s[key(protocol=p, bl_tar_segments=0)] = [chain(hops, p, seed=x, **wave) for x in seeds]
    save("fig14", rows_of(s))


def fig15(every=200, seconds=600):
    """Three flows that begin one after the other share 5 Mbit/s: the same round trip, and different ones."""
    rows = []
    for rtt in ((60, 60, 60), (90, 120, 150)):
        for p in OURS + ("bbr", "cubic"):
            series = run({"seed": 1, "protocol": p, "bottleneck_mbps": 5, "bottleneck_rtt_ms": 30, "rtt_ms": rtt, "every_s": every, "seconds": seconds},
                         "fairness")["mbps"]
            # While all three run, without the first 50 s, in which they find their shares.
            last = [sum(s[2 * every + 50:]) / (seconds - 2 * every - 50) for s in series]
            jain = sum(last) ** 2 / len(last) / sum(x * x for x in last)
            ten = [[round(sum(s[a:a + 10]) / 10, 3) for a in range(0, seconds, 10)] for s in series]
            rows.append({"rtt_ms": rtt, "protocol": p, "shares_mbps": [round(x, 3) for x in last], "mbps": sum(last), "jain": jain, "mbps_per_10_s": ten})
    save("fig15", rows)


def satellites(seeds=(7, 8, 9), seconds=90, before=120):
    """Figs 16 to 18, Table II and partial coverage on the real paths of the constellation; Shanghai without ISLs. TO= those
    destinations only, whose rows replace the old."""
    s = {}
    for to in os.environ.get("TO", "shanghai hong-kong paris new-york").split():
        whole = sat.free_timeline(to, seconds, to != "shanghai", before)
        line = whole[before:before + seconds]
        hops = sum(len(x[1]) - 1 for x in line if x[1]) / max(1, sum(1 for x in line if x[1]))
        prop = sum(sum(x[2]) for x in line if x[2]) / max(1, sum(1 for x in line if x[2]))
        up = sat.v_curve(whole, before, seconds)
        base = {"to": to, "hops": round(hops, 2), "propagation_ms": round(prop, 2), "uplink_mbps": round(sum(up[5:]) / len(up[5:]), 3)}
        for p in OURS:
            t = {"A": {}, "B": {"mid_params": {"cache_bytes": 0, "shr": False, "interest_holes": False}},
                 "C": {"mid_params": {"hop_by_hop": False}}, "D": {"mids": "none"}}
            for w, kw in t.items():
                s[key(**base, protocol=p, case=w)] = [sat.virtual(line, up, p, seed=x, **kw) for x in seeds]
            for share in (0.25,):
                s[key(**base, protocol=p, case=f"{share:.0%} of the satellites")] = [sat.virtual(line, up, p, mids=share, seed=x) for x in seeds]
        for p in ("bbr", "cubic"):
            s[key(**base, protocol=p, case="end to end")] = [sat.virtual(line, up, p, seed=x) for x in seeds]
    rows = rows_of(s)
    for r in rows:
        b = next(x for x in rows if x["to"] == r["to"] and x["protocol"] == "bbr")
        r["throughput_against_bbr"] = r["mbps"] / b["mbps"] - 1
        r["owd_against_bbr"] = r["owd_mean_ms"] / b["owd_mean_ms"] - 1
        r["queueing_ms"] = r["owd_mean_ms"] - r["propagation_ms"]
    old, new = earlier_rows(os.path.join(RAW, "vt-satellites.json")), {r["to"] for r in rows}
    for r in rows:
        r["wire"] = LEOTP_WIRE
    save("satellites", [r for r in old if r["to"] not in new] + rows)


def eq10():
    import vt_eq10
    save("eq10", vt_eq10.table())


def heldout():
    import vt_heldout
    save("heldout", vt_heldout.table())


def parts():
    import vt_parts
    save("parts", vt_parts.table())


def late():
    import vt_late
    save("late", vt_late.table())


def receivers():
    import vt_receivers
    save("receivers", vt_receivers.table(), path=vt_receivers.PATH)


def beyond_many():
    import vt_many
    save("beyond-many", vt_many.table(), seed=vt_many.SEED)


ALL = {f.__name__: f for f in (fig2, fig3, fig5, fig12, fig13, fig14, fig15, satellites, eq10, heldout, parts, late, receivers, beyond_many)}
# Figures that another one's run has as well.
WITH = {"beyond-many": "beyond_many", "fig10": "fig12", "fig11": "fig12", "fig16": "satellites", "fig17": "satellites", "fig18": "satellites", "table2": "satellites"}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        t = time.monotonic()
        ALL[WITH.get(name, name)]()
        print(f"{name}: {time.monotonic() - t:.0f} s", flush=True)
