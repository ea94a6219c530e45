"""The effect of each part of beyond(), in virtual time: with one part as printed, or one constant another, over four paths."""
from labs import NewYork
from vt import chain, hop, mean, run_all, square

VARIANTS = {
    "beyond()": {},
    "queues not drained": {"drain_queue": False},
    "queue from the average, not the least wait": {"standing_queue": False},
    "rate over hopRTT, not hopRTTmin": {"rate_over_min_rtt": False},
    "lost Interests left to holes": {"interest_holes": False},
    "repairs not repeated": {"shr_repeats": 0},
    "timing in every packet": {"timing_every": 1},
    "steps of a segment": {"increase_segments": 1.0},
    "k 0.8": {"decrease": 0.8},
    "k 0.85": {"decrease": 0.85},
    "k 0.95": {"decrease": 0.95},
    "M 1": {"queue_threshold_segments": 1.0},
    "M 2.5": {"queue_threshold_segments": 2.5},
    "M 4": {"queue_threshold_segments": 4.0},
    "BL_tar 5": {"target_buffer_bytes": 5 * 1400},
    "BL_tar 16": {"target_buffer_bytes": 16 * 1400},
}


def paths():
    """Name: descriptions of the runs with parameters `p`."""
    way = NewYork(25)
    uplink = list(enumerate(way.rates))
    to_new_york = [hop(20, way.delay, 0.01 if i in (0, way.hops - 1) else 0.001) for i in range(way.hops)]
    square_wave = {"waves": {1: square(10, 1, 2, 50)}, "t0": 10, "t1": 50}
    return {
        "the lab's path to New York": lambda p: [chain(to_new_york, "beyond", p, seed=x, t0=5, t1=25, waves={0: uplink}) for x in (7, 8, 9)],
        "Fig. 12, no loss": lambda p: [chain([hop(20, 10)] * 5, "beyond", p, seed=x, t0=6, t1=36) for x in (1, 2, 3)],
        "Fig. 12, 1 % a hop": lambda p: [chain([hop(20, 10, 0.01)] * 5, "beyond", p, seed=x, t0=6, t1=36) for x in (1, 2, 3)],
        "Fig. 14": lambda p: [chain([hop(20, 10, 0, 200_000) for _ in range(10)], "beyond", p, seed=x, **square_wave) for x in (1, 2)],
    }


def table():
    ways = paths()
    runs = run_all({(v, n): of(p) for v, p in VARIANTS.items() for n, of in ways.items()})
    return [{"variant": v, "path": n, "mbps": mean(r, "mbps"), "owd_mean_ms": mean(r, "owd_mean_ms"), "owd_p99_ms": sum(x["owd_ms"][198] for x in r) / len(r)}
            for (v, n), r in runs.items()]
