"""The figures in labs: kernel TCP and LEOTP processes over Constel links. `run lab` runs all, `run lab fig12` one; each run three times (`rounds.py`).

Raw data: raw/lab-*.json, with each run's verdict; figures of runs that the host could not keep up with are kept and marked."""
import contextlib, os, sys
import gateways as tcp_gateways
import video as over_gateways
import drawn, fairness, sat, sky, switching
from lab import SMALL, Lab, chain_scenario, measure, node
from rounds import RAW, Run, study, tag, wanted

NAME = os.environ.get("LAB", "study")
OURS = [("leotp", "faithful", SMALL), ("leotp", "authors-constants", SMALL), ("leotp", "beyond", SMALL)]
TCP = [("tcp", c) for c in ("bbr", "cubic", "hybla", "westwood", "vegas")]
FLOWS = [*TCP, ("vivace", ""), ("split", "cubic"), ("split", "bbr"), *OURS]


def seconds_or(seconds):
    """How long each run takes: SECONDS, or what its figure has."""
    return int(os.environ.get("SECONDS", seconds))


def chain(hops, seconds, *link):
    """The function that makes a lab of `hops`."""
    return lambda: Lab(chain_scenario(hops, seconds, *link), NAME)


def over_chain(length, flow, seconds, warm=5.0, during=None, before=None, **columns):
    """A run from the first node of a chain to the last, all between being helpers. `before(lab)` sets links."""
    def of(l):
        if before:
            before(l)
        return measure(l, flow, node(0), node(length), [node(i) for i in range(1, length)], seconds, warm, during)

    return Run(of, flow=tag(flow), **columns)


def square(a, b):
    """10 +- 1 Mbit/s with a period of 2 s from one node to another, for `measure`'s `during`."""
    state = {}

    def wave(l, t):
        up = int(t) % 2 == 0
        if state.get("up") != up:
            state["up"] = up
            l.set_link(a, b, rate_bps=11_000_000 if up else 9_000_000)

    return wave


def fig2():
    """Throughput over the number of hops of 20 Mbit/s, 10 ms round trip and 0.5 % loss each, in one lab of ten."""
    flows = wanted([*TCP[:3], ("vivace", ""), ("leotp", "authors-constants", SMALL), ("leotp", "beyond", SMALL)])
    runs = [over_chain(n, f, seconds_or(12), 4.0, hops=n) for n in (1, 2, 5, 10) for f in flows]
    study("fig2", [(chain(10, 900, 5, 20, 0.005), runs)], seconds=seconds_or(12))


def fig4():
    """Split TCP: 10 hops of 20 Mbit/s, 10 ms round trip and 0.5 % loss each, end to end and split at every node."""
    flows = wanted([*TCP[:3], ("vivace", ""), *[("split", c) for c in ("bbr", "cubic", "hybla")], ("leotp", "beyond", SMALL)])
    study("fig4", [(chain(10, 600, 5, 20, 0.005), [over_chain(10, f, seconds_or(12)) for f in flows])], propagation_ms=50, seconds=seconds_or(12))


def fig5():
    """Queueing delay and congestion loss over propagation delay: 5 hops, the second 10 +- 1 Mbit/s (2 s), the others 20."""
    flows = wanted([*TCP[:3], ("leotp", "authors-constants", SMALL), ("leotp", "beyond", SMALL)])

    def run(flow, propagation_ms):
        def of(l):
            for i in range(5):
                l.set_link(node(i), node(i + 1), delay_ns=propagation_ms * 200_000)
            before = l.counters(node(1), node(2))
            wave = square(node(1), node(2))
            r = measure(l, flow, node(0), node(5), [node(i) for i in range(1, 5)], seconds_or(15), during=wave)
            after = l.counters(node(1), node(2))
            offered, full = (after[k] - before[k] for k in ("offered", "dropped_queue"))
            # In order, LEOTP's as TCP's records are read; packets' own delay is the queue's.
            owd_ms = r.get("packet_owd_mean_ms", r["owd_mean_ms"])
            return {**r, "queueing_ms": owd_ms - propagation_ms, "congestion_loss_ratio": full / max(1, offered)}

        return Run(of, flow=tag(flow), propagation_ms=propagation_ms)

    runs = [run(f, p) for p in (20, 60, 100) for f in flows]
    study("fig5", [(chain(5, 600, 4), runs)], seconds=seconds_or(15))


def fig12():
    """Throughput, sender's traffic (Fig. 11) and recovery of lost packets (Fig. 10) over loss per hop, 5 hops of 20 Mbit/s and 20 ms hopRTT. Without
    loss and with it in one lab, so that what the loss takes is seen in each."""
    losses = [float(x) for x in os.environ.get("LOSS", "0,0.001,0.01").split(",")]

    def lossy(loss):
        return lambda l: [l.set_link(node(i), node(i + 1), loss={"bernoulli": {"loss_ratio": loss}}) for i in range(5)]

    runs = [over_chain(5, f, seconds_or(13), before=lossy(x), loss=x) for f in wanted(FLOWS) for x in losses]
    study("fig12", [(chain(5, 1200, 10), runs)], seconds=seconds_or(13))


def fig13():
    """Link switching: two paths that take turns (`switching.py`)."""
    flows, seconds = wanted([*TCP, ("vivace", ""), *OURS]), seconds_or(20)

    def group(interval):
        text = switching.scenario(interval, 60 + len(flows) * (seconds + 10), NAME)
        return lambda: Lab(text, NAME), [Run(lambda l, f=f: switching.measure(l, f, seconds), flow=tag(f), interval_s=interval) for f in flows]

    study("fig13", [group(1), group(4)], seconds=seconds)


def fig14():
    """A square wave of 10 +- 1 Mbit/s, 2 s, on the second of 10 hops of 20 ms hopRTT."""
    def run(flow, everywhere=True):
        mids = [node(i) for i in range(1, 10)] if everywhere else []
        columns = {"flow": tag(flow), "midnodes_on": bool(mids) and flow[0] == "leotp", "bl_tar_segments": None}
        if (target := dict(flow[2] if len(flow) > 2 else {}).get("target_buffer_bytes")) is not None:
            columns["bl_tar_segments"] = target // 1400
        return Run(lambda l: measure(l, flow, node(0), node(10), mids, seconds_or(15), during=square(node(1), node(2))), **columns)

    others = [("leotp", "beyond", {**SMALL, "target_buffer_bytes": n * 1400}) for n in (2, 32)]
    runs = [run(f) for f in wanted([*FLOWS, *others])] + [run(f, False) for f in wanted(OURS[2:])]
    study("fig14", [(chain(10, 600, 10), runs)], propagation_ms=100, seconds=seconds_or(15))


def fig15():
    """Flows that share a link (`fairness.py`)."""
    fairness.study(NAME)


def fig19(warm=3.0):
    """A Midnode's processor time over bandwidth and loss: one between two hops of 10 ms each way."""
    seconds = seconds_or(10)

    def run(mbps, loss):
        def of(l):
            for a, b in ((0, 1), (1, 2)):
                l.set_link(node(a), node(b), rate_bps=mbps * 1_000_000, loss={"bernoulli": {"loss_ratio": loss}})
            r = measure(l, OURS[2], node(0), node(2), [node(1)], seconds, warm)
            mid = r.get("midnodes", {}).get(node(1), {})
            # The Midnode lives half a second longer than the transfer.
            return {"mbps": r["mbps"], "cpu_ratio": mid.get("cpu_s", 0) / (seconds + 0.5), "peak_rss_bytes": mid.get("peak_rss_bytes")}

        return Run(of, flow=tag(OURS[2]), rate_mbps=mbps, loss=loss)

    study("fig19", [(chain(2, 600, 5, 100), [run(mbps, loss) for mbps in (5, 10, 20, 50, 100) for loss in (0.0, 0.005, 0.01)])], seconds=seconds)


class NewYork:
    """The path from Beijing to New York alone: 19 hops of its mean delay, ground links of 1 % loss at both ends, lasers of
    0.1 % between, the uplink's V; no change of path at handovers."""

    def __init__(self, seconds):
        self.hops, self.seconds = 19, seconds
        line = sat.timeline(sat.scenario(seconds + 10), "beijing", "new-york", 3)
        self.delay = sum(sum(x[2]) for x in line) / len(line) / self.hops
        self.rates = sat.uplink("beijing", seconds + 10)

    @contextlib.contextmanager
    def opened(self, lab):
        with lab as l:
            for a, b in ((0, 1), (self.hops - 1, self.hops)):
                l.set_link(node(a), node(b), loss={"bernoulli": {"loss_ratio": 0.01}})
            yield l

    def run(self, case, flow):
        """A run; `case`: which nodes are Midnodes."""
        every = {"A": 1, "B": 1, "C": 1, "25 %": 4}
        mids = [node(i) for i in range(1, self.hops) if case in every and i % every[case] == every[case] // 2]

        def of(l):
            state = {}

            def up(l, t):
                i = int(t)
                if state.get("i") != i:
                    state["i"] = i
                    l.set_link(node(0), node(1), rate_bps=int(self.rates[i] * 1e6))

            r = measure(l, flow, node(0), node(self.hops), mids, self.seconds, during=up)
            r.update(to="new-york", propagation_ms=self.delay * self.hops, midnode_count=len(mids))
            r["uplink_mbps"] = sum(self.rates[5 : self.seconds]) / (self.seconds - 5)
            return r

        return Run(of, flow=tag(flow), case=case)


def path():
    """Fig. 17 and Table II with the path alone."""
    way = NewYork(seconds_or(25))
    text = chain_scenario(way.hops, 1200, way.delay, 20, 0.001)
    runs = [way.run(*c) for c in sky.chosen([*sky.CASES, ("A", ("split", "bbr"))])]
    study("path-new-york", [(lambda: way.opened(Lab(text, NAME)), runs)], uplink_mbps=way.rates, seconds=way.seconds)


def satellites():
    """Figs 16 to 18 and Table II over 1,600 satellites and 100 cities (`sky.py`)."""
    sky.study(NAME, seconds_or(25))


def drawn_paths():
    """beyond() and bbr on the paths drawn by a seed (`drawn.py`)."""
    drawn.study(NAME, seconds_or(20))


def vivace():
    """PCC Vivace and bbr over random losses on one link of 100 Mbit/s and 30 ms round trip, for which its authors chose to bear 5 % of loss."""
    def lossy(loss):
        return lambda l: l.set_link(node(0), node(1), loss={"bernoulli": {"loss_ratio": loss}})

    runs = [over_chain(1, f, seconds_or(20), 10.0, before=lossy(x), loss=x) for f in wanted([("vivace", ""), TCP[0]]) for x in (0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08)]
    study("vivace", [(chain(1, 1200, 15, 100, 0, "375 kB"), runs)], seconds=seconds_or(20))


def gateways():
    """TCP over gateways (`gateways.py`): short and long downloads, page loads, 1,000 connections."""
    tcp_gateways.gateways(RAW, NAME)


def video():
    """Segments of video over gateways and TCP (`video.py`)."""
    over_gateways.video(RAW, NAME)


ALL = {f.__name__: f for f in (fig2, fig4, fig5, fig12, fig13, fig14, fig15, fig19, path, satellites, drawn_paths, vivace, gateways, video)}
# Figures that another one's run has as well.
WITH = {"drawn": "drawn_paths", "fig10": "fig12", "fig11": "fig12", "fig16": "satellites", "fig17": "path", "fig18": "satellites", "table2": "path"}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[WITH.get(name, name)]()
