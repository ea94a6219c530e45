"""Figs 16 to 18 and Table II in labs of 1,700 nodes: Beijing to other cities over the 1,600 satellites and 100 cities of section V.C. Satellites that are on
the path at some time have kernels of their own, all others only forward. Each run is a lab of its own under the same sky.

TO="paris new-york" leads there only; CASES=A,D and ONLY=tcp-bbr take some runs."""
import os, random, time
import sat
from lab import SMALL, Lab, measure
from rounds import Run, study as rounds_of, tag, wanted

# Midnodes of Table II's cases B and C.
NO_REPAIRS, NO_CONTROL = {"cache_bytes": 0, "shr": False}, {"hop_by_hop": False}
BBR, VIVACE = ("tcp", "bbr"), ("vivace", "")
OTHERS = [("tcp", c) for c in ("cubic", "hybla", "westwood", "vegas")]


def ablation(variant):
    """Table II's cases."""
    return [("A", ("leotp", variant, SMALL)), ("B", ("leotp", variant, SMALL, NO_REPAIRS)), ("C", ("leotp", variant, SMALL, NO_CONTROL)), ("D", ("leotp", variant, SMALL))]


# Of Fig. 17 and Table II.
CASES = [("end to end", BBR), *ablation("beyond"), ("25 %", ("leotp", "beyond", SMALL)), *ablation("authors-constants"), ("A", ("leotp", "faithful", SMALL)),
         ("end to end", VIVACE), *[("end to end", t) for t in OTHERS]]
# Of Figs 16 and 18.
FARTHER = [c for c in CASES if c[0] in ("end to end", "A", "25 %")]
# One satellite is all of the path there.
SHORT = [c for c in FARTHER if c[0] != "25 %"]
BEGIN_S, WARM_S = 6, 5
# So much earlier and later contacts of a run are looked for.
BEFORE_S = 120


def chosen(cases):
    """Those of ONLY=, as `wanted`, and of CASES=A,D."""
    only = os.environ.get("CASES")
    return [(case, flow) for case, flow in cases if flow in wanted([flow]) and (not only or case in only.split(","))]


class Way:
    """From `a` to `b` in a sky, for a number of seconds from lab time `BEGIN_S` on. `rates`: Mbit/s of the uplink in each second of lab time, by whatever
    satellite; without, it is the scenario's."""

    def __init__(self, name, text, ends, seconds, rates=None):
        self.name, self.ends, self.seconds = name, ends, seconds
        if rates:
            text += sat.recording(ends[0], rates)
        self.line = sat.timeline(text, *ends, seconds + BEGIN_S + 2)
        used = [x for x in self.line if x[1] and x[0] >= BEGIN_S - 1]
        self.on_path = sorted({n for x in used for n in x[1][1:-1]})
        self.text = text + sat.stacks(self.on_path)
        measured = [sum(x[2]) for x in used if BEGIN_S + WARM_S <= x[0] < BEGIN_S + seconds]
        self.propagation_ms = sum(measured) / len(measured)
        self.hops = [len(x[1]) - 1 for x in used]

    def run(self, case, flow, **columns):
        """A lab of its own, and the run in it."""
        mids = [] if case in ("D", "end to end") or flow[0] != "leotp" else self.on_path
        if case == "25 %":
            mids = sorted(random.Random(1).sample(mids, max(1, len(mids) // 4)))

        def of(lab):
            # Every run sees the same sky: it starts at the same lab time.
            while (lab.ask({"verb": "state"}).get("t_ns") or 0) < BEGIN_S * 1_000_000_000:
                time.sleep(0.02)
            r = measure(lab, flow, *self.ends, mids, self.seconds, WARM_S)
            r.update(midnode_count=len(mids), propagation_ms=self.propagation_ms)
            return {**r, "queueing_ms": r.get("packet_owd_mean_ms", r["owd_mean_ms"]) - self.propagation_ms}

        return lambda: Lab(self.text, self.name), [Run(of, flow=tag(flow), case=case, **columns)]


def study(name, seconds):
    """To each city; without lasers to Shanghai (Fig. 16)."""
    for to in os.environ.get("TO", "new-york paris hong-kong shanghai").split():
        lasting = seconds + BEGIN_S + 2
        if to == "shanghai":
            # One satellite sees both, which need not be the nearest of either: five cities, with an antenna to each in view.
            text = sat.free_choice(seconds + 20, isl=False)
            rates = sat.v_curve(sat.free_timeline(to, lasting, False, BEFORE_S), BEFORE_S, lasting)
        else:
            text, rates = sat.scenario(seconds + 20, name=name), sat.uplink("beijing", lasting)
        way = Way(name, text, ("beijing", to), seconds, rates)
        groups = [way.run(*c) for c in chosen({"new-york": CASES, "shanghai": SHORT}.get(to, FARTHER))]
        rounds_of(f"satellites-{to}", groups, hops=way.hops, uplink_mbps=[round(x, 3) for x in rates], seconds=seconds)
