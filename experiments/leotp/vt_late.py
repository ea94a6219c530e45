"""Hosts that are late, in virtual time: two links on which all packets arrive later for a part of the time, each way."""
from vt import chain, hop, run_all

# Name: (period, duration, lateness) in ms.
LATE = {"never": None, "1 ms, always": (1000, 1000, 1), "1 ms, 0.6 of 1 s": (1000, 600, 1), "1.5 ms, 60 of 100 ms": (100, 60, 1.5), "3 ms, 3 of 20 ms": (20, 3, 3),
        "5 ms, 5 of 50 ms": (50, 5, 5), "4 ms, 4 of 200 ms": (200, 4, 4), "3 ms, 60 of 100 ms": (100, 60, 3)}


def spec(late, delay_ms, mbps):
    h = hop(mbps, delay_ms, 0.0, 1 << 20)
    if late:
        h["late_ms"] = list(late)
    return chain([h, dict(h)], "beyond", t0=1.5, t1=3.5)


def table():
    """Part of the links' rate that beyond() delivers as payload."""
    specs = {(name, d, m): spec(late, d, m) for name, late in LATE.items() for d in (0.3, 1.5, 5) for m in (200, 1000)}
    return [{"late": name, "delay_ms": d, "rate_mbps": m, "mbps": r["mbps"], "part": r["mbps"] / m} for (name, d, m), [r] in run_all(specs).items()]
