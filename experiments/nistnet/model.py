#!/usr/bin/env python3
"""Why lossy transfers take what they take: Reno by rounds, with every frame lost by itself.

experiments/nistnet/model.py [--runs 4000]     writes raw/model.json

A round is a round trip. Slow start doubles the window from 10 frames, and congestion avoidance adds a frame a round. A round
with a loss halves it and takes one round more for the retransmission. If fewer than three frames follow the lost one, it also
takes a timeout of a round trip and 200 ms. The window is at most what the receiver's buffer of 1.4 MB allows: 640 frames, from the
transfers without loss. Only frames of data are lost.
"""

import argparse
import json
import random

from report import ORBITS, PAPER, SIZES
from spaces import HERE, quantile

PAYLOAD, FIRST, MOST = 1448, 10, 640
ROUND_TRIPS_MS = {"LEO": 300, "MEO": 400, "GEO": 500}


def transfer(draw, loss, rtt_s, frames):
    """Seconds from the first frame's arrival to the last one's."""
    window, threshold, left, rounds, waits = FIRST, float("inf"), frames, -1, 0.0
    while left > 0:
        rounds += 1
        sent = min(int(window), left)
        lost = [n for n in range(sent) if draw() < loss] if loss else []
        left -= sent - len(lost)
        if lost:
            threshold = window = max(window / 2, 2)
            if sent - lost[-1] <= 3:
                waits += rtt_s + 0.2
                window = 1
        elif window < threshold:
            window = min(2 * window, threshold, MOST)
        else:
            window = min(window + 1, MOST)
    return rounds * rtt_s + waits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    args = parser.parse_args()
    rows = []
    for percent, tables in PAPER.items():
        for mb, row in zip(SIZES, tables):
            for orbit, paper_s in zip(ORBITS, row):
                rtt_ms = ROUND_TRIPS_MS[orbit]
                rng = random.Random(f"{percent} {rtt_ms} {mb}")
                frames = -(-mb * 1_000_000 // PAYLOAD)
                # Without loss all are the same.
                runs = [transfer(rng.random, percent / 100, rtt_ms / 1e3, frames) for _ in range(args.runs if percent else 3)]
                threes = [sum(runs[n:n + 3]) / 3 for n in range(0, len(runs) - 2, 3)]
                rows.append(dict(drop=percent, orbit=orbit, mb=mb, runs=len(runs), median=round(quantile(runs, 0.5), 3),
                                 mean=round(sum(runs) / len(runs), 3), p95=round(quantile(runs, 0.95), 3),
                                 as_low=round(sum(three <= paper_s for three in threes) / len(threes), 4)))
    (HERE / "raw/model.json").write_text(json.dumps(rows, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
