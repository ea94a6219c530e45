"""Virtual time: descriptions of paths, and runs of target/release/examples/vnet."""
import concurrent.futures, json, os, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.environ.get("EXAMPLES", os.path.join(ROOT, "target/release/examples"))
JOBS = int(os.environ.get("JOBS", "2"))


# Enough for many round trips of every path here, and quick to allocate for dozens of Midnodes.
CACHE = {"cache_bytes": 8 << 20}


def hop(mbps=20, delay_ms=10, loss=0.0, queue=100_000, back=None):
    h = {"mbps": mbps, "delay_ms": delay_ms, "loss": loss, "queue_bytes": queue}
    if back:
        h["back_mbps"] = back
    return h


def chain(hops, protocol="default", params=None, mids=None, mid_params=None, seed=7, t0=6, t1=26, waves=None):
    """A fixed chain. `mids`: None (all), "none", or a fraction such as 4 for every 4th.
    `waves`: {hop: [(t_s, mbps), ...]} rates that change."""
    n = len(hops)
    path = list(range(n + 1))
    times = sorted({0.0} | {t for w in (waves or {}).values() for t, _ in w})
    timeline = []
    for t in times:
        hs = [dict(h) for h in hops]
        for i, w in (waves or {}).items():
            hs[i]["mbps"] = [m for at, m in w if at <= t][-1]
            hs[i].setdefault("back_mbps", hops[i]["mbps"])
        timeline.append({"at_s": t, "path": path, "hops": hs})
    d = {"seed": seed, "protocol": protocol, "params": {**CACHE, **(params or {})}, "mid_params": mid_params or {},
         "nodes": n + 1, "timeline": timeline, "from_s": t0, "to_s": t1}
    if mids == "none":
        d["mids"] = []
    elif mids:
        d["mids"] = [i for i in range(1, n) if i % mids == mids // 2]
    return d


def square(mean, amplitude, period, end):
    """A square wave from t = 0: high first."""
    w, t, up = [], 0.0, True
    while t < end:
        w.append((t, mean + amplitude if up else mean - amplitude))
        t, up = t + period / 2, not up
    return w


def run(spec, example="vnet"):
    r = subprocess.run([os.path.join(EXAMPLES, example)], input=json.dumps(spec), capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr)
    return json.loads(r.stdout)


def run_all(specs, example="vnet"):
    """Runs {key: description or list of descriptions}; lists are runs with other seeds."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        flat = {(k, i): pool.submit(run, s, example) for k, v in specs.items() for i, s in enumerate(v if isinstance(v, list) else [v])}
        out = {}
        for (k, _), f in flat.items():
            out.setdefault(k, []).append(f.result())
    return out


def mean(rs, key):
    return sum(r[key] for r in rs) / len(rs)
