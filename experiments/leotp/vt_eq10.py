"""Equation 10 in virtual time: which constants give the paper's ablation order (Table II)?

The path has 19 hops of 5 ms hopRTT (47.5 ms one way), and 1 % loss on the first and last hop, 0.1 % between.
It has an uplink that falls from 10 to 6 Mbit/s and rises again every 15 s, everything else 20 Mbit/s."""
import sys
from vt import chain, hop, mean, run_all


def uplink(end):
    return [(t / 2, 6 + 4 * abs(2 * ((t / 2) % 15) / 15 - 1)) for t in range(int(end * 2))]


def path(protocol, params, which, seed, t0=15, t1=45):
    hops = [hop(delay_ms=2.5, loss=0.01 if i in (0, 18) else 0.001, queue=200_000) for i in range(19)]
    kw = {"A": {}, "B": {"mid_params": {"cache_bytes": 0, "shr": False}}, "C": {"mid_params": {"hop_by_hop": False}},
          "D": {"mids": "none"}}[which]
    return chain(hops, protocol, params, seed=seed, t0=t0, t1=t1, waves={0: uplink(t1)}, **kw)


VARIANTS = {
    "as printed, M 6 segments": ("default", {}),
    "as printed, M 2": ("default", {"queue_threshold_segments": 2.0}),
    "as printed, M 12": ("default", {"queue_threshold_segments": 12.0}),
    "as printed, M 2, average over 2 packets": ("default", {"queue_threshold_segments": 2.0, "hop_rtt_gain": 0.5}),
    "as printed, M 6, average over 2 packets": ("default", {"hop_rtt_gain": 0.5}),
    "over hopRTTmin, M 6": ("default", {"rate_over_min_rtt": True}),
    "over hopRTTmin, M 2": ("default", {"rate_over_min_rtt": True, "queue_threshold_segments": 2.0}),
    "authors_constants()": ("authors-constants", {}),
    "authors_constants(), but over hopRTT": ("authors-constants", {"rate_over_min_rtt": False}),
    "beyond()": ("beyond", {}),
}


def table(seeds=(7, 8)):
    r = run_all({(v, w): [path(p, par, w, s) for s in seeds] for v, (p, par) in VARIANTS.items() for w in "ABCD"})
    rows = []
    for v in VARIANTS:
        row = {"variant": v}
        for w in "ABCD":
            row[w] = (mean(r[v, w], "mbps"), mean(r[v, w], "owd_mean_ms"))
        a, b, c, d = (row[w] for w in "ABCD")
        row["order"] = a[0] > c[0] and b[0] > d[0] and a[0] >= b[0] and c[0] >= d[0] and a[1] < b[1] and c[1] < d[1]
        rows.append(row)
    return rows


if __name__ == "__main__":
    for r in table():
        print(f'{r["variant"]:<42}', "  ".join(f'{w} {r[w][0]:.2f} Mbit/s {r[w][1]:5.1f} ms' for w in "ABCD"),
              "  order as in Table II" if r["order"] else "  other order", flush=True)
