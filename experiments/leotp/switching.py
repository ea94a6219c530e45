"""Fig. 13 in a lab: two parallel paths of 80 and 90 ms round trip that take turns; what is on the abandoned one is lost.

Eight satellites of a plane of 232 are linked. Light takes 0.626 ms from one to the next, and each link has 4.374 ms more.
The first path's hops therefore have 10 ms each, the ends' 5, and the second path's 14.4, 13.8 and 6.9. The path that has
no turn fails as a whole, and the routes lead over the other from the same step on."""
import lab

SATELLITES, EXTRA_NS = 232, 4_374_000
# The sender, the node where the paths part, two and two Midnodes, the node where they meet, the receiver.
SENDER, PART, FIRST, SECOND, MEET, RECEIVER = 0, 1, (10, 19), (17, 32), 28, 29


def node(slot):
    return lab.node(slot, digits=3)


MIDS = [node(i) for i in (PART, *FIRST, *SECOND, MEET)]
SHARED = [(SENDER, PART), (MEET, RECEIVER)]
PATHS = [list(zip((PART, *middle), (*middle, MEET))) for middle in (FIRST, SECOND)]


def scenario(interval, seconds, name):
    failures = "".join(f"  - {{name: turn-{t}-{a}-{b}, at: {t} s, for: {interval} s, link: {{from: {node(a)}, to: {node(b)}}}}}\n"
                       for t in range(0, seconds, interval) for a, b in PATHS[1 - t // interval % 2])
    pairs = [(node(a), node(b)) for way in (SHARED, *PATHS) for a, b in way]
    return lab.plane_scenario(name, f"Two paths that take turns every {interval} s", seconds, SATELLITES, pairs,
                              f"rate: 20 Mbit/s, queue: 128 KiB, extra_delay: {EXTRA_NS} ns", f"failures:\n{failures}")


def measure(l, flow, seconds):
    return lab.measure(l, flow, node(SENDER), node(RECEIVER), MIDS, seconds)


if __name__ == "__main__":
    print(scenario(2, 20, "turns"), end="")
