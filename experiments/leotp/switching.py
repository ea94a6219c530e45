"""Fig. 13 in a lab: two parallel paths of 80 and 90 ms round trip that take turns; what is on the abandoned one is lost.

One plane of 232 satellites, of which eight are linked: light takes 0.626 ms from one to the next, and each link has 4.374 ms
more, so that the first path's hops have 10 ms each, the ends' 5, and the second path's 14.4, 13.8 and 6.9. The path that has
no turn fails as a whole, and the routes lead over the other from the same step on."""
from lab import Lab, measure

SATELLITES, EXTRA_NS = 232, 4_374_000
# The sender, the node where the paths part, two and two Midnodes, the node where they meet, the receiver.
SENDER, PART, FIRST, SECOND, MEET, RECEIVER = 0, 1, (10, 19), (17, 32), 28, 29


def node(slot):
    return f"chain-p00-s{slot:03d}"


MIDS = [node(i) for i in (PART, *FIRST, *SECOND, MEET)]
SHARED = [(SENDER, PART), (MEET, RECEIVER)]
PATHS = [list(zip((PART, *middle), (*middle, MEET))) for middle in (FIRST, SECOND)]


def scenario(interval, seconds, name):
    link = lambda a, b: f"{{from: {node(a)}, to: {node(b)}}}"
    pairs = "\n".join(f"        - {link(a, b)}" for way in (SHARED, *PATHS) for a, b in way)
    failures = "\n".join(f"  - {{name: turn-{t}-{a}-{b}, at: {t} s, for: {interval} s, link: {link(a, b)}}}"
                         for t in range(0, seconds, interval) for a, b in PATHS[1 - t // interval % 2])
    return f"""constel: 1
name: {name}
description: Two paths that take turns every {interval} s
seed: 1
start: 2026-11-21T00:00:00Z
duration: {seconds} s
step: 1 s
constellations:
  chain:
    walker: {{pattern: delta, inclination: 53 deg, satellites: {SATELLITES}, planes: 1, phasing: 0, altitude: 550 km}}
    isl:
      pattern: list
      pairs:
{pairs}
      link: {{rate: 20 Mbit/s, queue: 128 KiB, extra_delay: {EXTRA_NS} ns}}
    serves_ground: false
failures:
{failures}
routing: {{mode: computed, destinations: all, families: [ipv4]}}
transport: {{congestion: [hybla, westwood, vegas]}}
"""


def turns(name, interval, flows, seconds, show):
    """A row for each flow, one lab for all."""
    rows = []
    with Lab(scenario(interval, 60 + len(flows) * (seconds + 10), name), name) as l:
        for f in flows:
            rows.append({"interval_s": interval, **measure(l, f, node(SENDER), node(RECEIVER), MIDS, seconds)})
            show("fig13", rows[-1])
    v = l.verdict()
    print("  verdict", v, flush=True)
    return [{**r, "verdict": v} for r in rows]


if __name__ == "__main__":
    print(scenario(2, 20, "turns"), end="")
