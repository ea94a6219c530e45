"""Paths that no constant was chosen on: `beyond()` and the others in virtual time, three seeds each."""
from vt import chain, hop, mean, run_all, square
import random


def paths():
    r = random.Random(20261121)
    mixed = [round(r.uniform(1.5, 15), 1) for _ in range(12)]
    walk, m = [], 12.0
    for t in range(80):
        m = min(20, max(4, m + r.uniform(-2, 2)))
        walk.append((t / 2, round(m, 2)))
    return {
        "3 hops of 30 ms, 5 Mbit/s, 2 % loss": ([hop(5, 30, 0.02)] * 3, {}),
        "7 hops of 7 ms, 50 Mbit/s, 0.3 % loss": ([hop(50, 7, 0.003, 250_000)] * 7, {}),
        "12 hops of 1.5 to 15 ms, 20 Mbit/s, 0.5 % loss": ([hop(20, d, 0.005) for d in mixed], {}),
        "6 hops of 4 ms, hop 4 wanders between 4 and 20 Mbit/s, 0.2 % loss": ([hop(20, 4, 0.002)] * 6, {3: walk}),
        "8 hops of 12 ms, last hop 8 +- 3 Mbit/s every 3 s": ([hop(20, 12)] * 8, {7: square(8, 3, 6, 40)}),
        "2 hops of 80 ms, 10 Mbit/s, 0.1 % loss": ([hop(10, 80, 0.001, 250_000)] * 2, {}),
    }


def table(seeds=(101, 102, 103), protocols=("default", "authors-constants", "beyond", "bbr"), t1=36):
    ps = paths()
    r = run_all({(k, p): [chain(h, p, seed=s, t0=6, t1=t1, waves=w) for s in seeds] for k, (h, w) in ps.items() for p in protocols})
    return [{"path": k, **{p: {"mbps": mean(r[k, p], "mbps"), "owd_mean_ms": mean(r[k, p], "owd_mean_ms"),
             "owd_p99_ms": sum(x["owd_ms"][198] for x in r[k, p]) / len(seeds)} for p in protocols}} for k in ps]


if __name__ == "__main__":
    for row in table():
        print(row["path"])
        for p, v in row.items():
            if p != "path":
                print(f'  {p:<10} {v["mbps"]:6.2f} Mbit/s  OWD mean {v["owd_mean_ms"]:6.1f}  p99 {v["owd_p99_ms"]:6.1f} ms', flush=True)
