"""The figures in labs: kernel TCP and LEOTP processes over Constel links. `run lab` runs all, `run lab fig12` one.

Raw data: raw/lab-*.json, with each run's verdict; figures of runs that the host could not keep up with are kept and
marked."""
import contextlib, json, os, random, sys, time
import gateways as tcp_gateways
import video as over_gateways
import sat, switching
from lab import Lab, chain_scenario, measure, node, rows_of

HERE = os.path.dirname(os.path.abspath(__file__))
RAW = os.environ.get("RAW", os.path.join(HERE, "raw"))
SECONDS = int(os.environ.get("SECONDS", "15"))
NAME = os.environ.get("LAB", "study")
# A cache for a path of 20 Mbit/s; that of 64 MiB is for more.
SMALL = {"cache_bytes": 4 << 20}
OURS = [("leotp", "faithful"), ("leotp", "published"), ("leotp", "beyond")]
TCP = [("tcp", c) for c in ("bbr", "cubic", "hybla", "westwood", "vegas")]
FLOWS = [*TCP, ("vivace", ""), ("split", "cubic"), ("split", "bbr"), *OURS]
# Midnodes of Table II's cases B and C.
NO_REPAIRS, NO_CONTROL = {"cache_bytes": 0, "shr": False}, {"hop_by_hop": False}
# Of Fig. 17 and Table II.
CASES = [("end to end", ("tcp", "bbr")), ("A", ("leotp", "beyond", SMALL)),
         ("B", ("leotp", "beyond", SMALL, NO_REPAIRS)), ("C", ("leotp", "beyond", SMALL, NO_CONTROL)),
         ("D", ("leotp", "beyond", SMALL)), ("25 %", ("leotp", "beyond", SMALL)), ("A", ("leotp", "published", SMALL)),
         ("B", ("leotp", "published", SMALL, NO_REPAIRS)), ("C", ("leotp", "published", SMALL, NO_CONTROL)), ("D", ("leotp", "published", SMALL)),
         ("A", ("leotp", "faithful", SMALL)), ("end to end", ("vivace", "")), *[("end to end", t) for t in TCP[1:]]]


def wanted(flows):
    """Those of ONLY=tcp-bbr,leotp-beyond: a part of a figure, whose rows replace those of the same name in raw/."""
    only = [x for x in os.environ.get("ONLY", "").split(",") if x]
    return [f for f in flows if not only or "-".join(x for x in f[:2] if x) in only]


def chosen(cases):
    """Those of ONLY=, as `wanted`, and of CASES=A,D."""
    only = os.environ.get("CASES")
    return [(case, flow) for case, flow in cases if flow in wanted([flow]) and (not only or case in only.split(","))]


def save(name, rows, replace=True, **extra):
    """Writes rows to raw/, in the place of earlier ones of the same case if `replace`, else behind all of them."""
    os.makedirs(RAW, exist_ok=True)
    key = lambda r: [r.get(k) for k in ("flow", "loss", "case", "bl_tar_segments", "midnodes_on", "rate_mbps", "interval_s")]
    path, new = os.path.join(RAW, f"lab-{name}.json"), [key(r) for r in rows]
    rows = sorted([r for r in rows_of(path) if not replace or key(r) not in new] + rows, key=lambda r: r.get("loss", 0))
    with open(path, "w") as f:
        json.dump({"figure": name, "seconds": SECONDS, **extra, "rows": rows}, f, indent=1)
        f.write("\n")


def show(name, r):
    print(name, {k: round(v, 3) if isinstance(v, float) else v for k, v in r.items() if not isinstance(v, (list, dict))}, flush=True)


def in_turn(figure, lab, runs):
    """One lab, in which `runs` follow each other: the row of each, with the lab's verdict."""
    rows = []
    with lab as l:
        for run in runs:
            rows.append(run(l))
            show(figure, rows[-1])
    v = l.verdict()
    print("  verdict", v, flush=True)
    return [{**r, "verdict": v} for r in rows]


def over_chain(hops, flow, seconds, **columns):
    """A run from the first node of a chain to the last, all between being helpers."""
    return lambda l: {**columns, **measure(l, flow, node(0), node(hops), [node(i) for i in range(1, hops)], seconds)}


def fig4(seconds=int(os.environ.get("SECONDS", "12"))):
    """Split TCP: 10 hops of 20 Mbit/s, 10 ms round trip and 0.5 % loss each, end to end and split at every node."""
    flows = wanted([*TCP[:3], ("vivace", ""), *[("split", c) for c in ("bbr", "cubic", "hybla")], ("leotp", "beyond", SMALL)])
    rows = in_turn("fig4", Lab(chain_scenario(10, 600, 5, 20, 0.005), NAME), [over_chain(10, f, seconds) for f in flows])
    save("fig4", rows, propagation_ms=50)


def fig12(losses=tuple(float(x) for x in os.environ.get("LOSS", "0,0.001,0.01").split(","))):
    """Throughput (and Fig. 11) over loss per hop, 5 hops of 20 Mbit/s and 20 ms hopRTT."""
    rows = []
    for loss in losses:
        rows += in_turn("fig12", Lab(chain_scenario(5, 600, 10, 20, loss), NAME), [over_chain(5, f, SECONDS, loss=loss) for f in wanted(FLOWS)])
    save("fig12", rows)


def fig13(seconds=int(os.environ.get("SECONDS", "20"))):
    """Link switching: two paths that take turns (`switching.py`)."""
    rows, flows = [], wanted([*TCP, ("vivace", ""), *OURS])
    for interval in (1, 4):
        text = switching.scenario(interval, 60 + len(flows) * (seconds + 10), NAME)
        rows += in_turn("fig13", Lab(text, NAME), [lambda l, f=f: {"interval_s": interval, **switching.measure(l, f, seconds)} for f in flows])
    save("fig13", rows)


def fig14():
    """A square wave of 10 +- 1 Mbit/s, 2 s, on the second of 10 hops of 20 ms hopRTT."""
    state = {}

    def wave(l, t):
        up = int(t) % 2 == 0
        if state.get("up") != up:
            state["up"] = up
            l.set_link(node(1), node(2), rate_bps=11_000_000 if up else 9_000_000)

    def run(l, f):
        mids = [] if len(f) > 3 else [node(i) for i in range(1, 10)]
        r = measure(l, f[:3], node(0), node(10), mids, SECONDS, during=wave)
        return {**r, "bl_tar_segments": f[2]["target_buffer_bytes"] // 1400 if len(f) == 3 else None, "midnodes_on": bool(mids) and f[0] == "leotp"}

    others = [("leotp", "beyond", {"target_buffer_bytes": n * 1400}) for n in (2, 32)]
    flows = wanted([*FLOWS, *others, ("leotp", "beyond", {}, "ends")])
    rows = in_turn("fig14", Lab(chain_scenario(10, 600, 10, 20, 0), NAME), [lambda l, f=f: run(l, f) for f in flows])
    save("fig14", rows, propagation_ms=100)


def fig19(seconds=int(os.environ.get("SECONDS", "10")), warm=3.0):
    """A Midnode's processor time over bandwidth and loss: one between two hops of 10 ms each way."""
    def run(l, mbps, loss):
        for a, b in ((0, 1), (1, 2)):
            l.set_link(node(a), node(b), rate_bps=mbps * 1_000_000, loss={"bernoulli": {"loss_ratio": loss}})
        r = measure(l, ("leotp", "beyond", SMALL), node(0), node(2), [node(1)], seconds, warm)
        mid = r.get("midnodes", {}).get(node(1), {})
        # The Midnode lives half a second longer than the transfer.
        return {"flow": r["flow"], "rate_mbps": mbps, "loss": loss, "mbps": r["mbps"], "cpu_ratio": mid.get("cpu_s", 0) / (seconds + 0.5),
                "peak_rss_bytes": mid.get("peak_rss_bytes")}

    cases = [(mbps, loss) for mbps in (5, 10, 20, 50, 100) for loss in (0.0, 0.005, 0.01)]
    save("fig19", in_turn("fig19", Lab(chain_scenario(2, 600, 5, 100, 0), NAME), [lambda l, c=c: run(l, *c) for c in cases]))


def satellites(to=os.environ.get("TO", "new-york"), cases=CASES, seconds=int(os.environ.get("SECONDS", "25"))):
    """Fig. 17 and Table II: Beijing to New York over 1,600 satellites and 100 cities; each case a lab of its own, which takes
    about a minute. ONLY=tcp-bbr,leotp-beyond CASES="end to end,A" runs the first two; TO=paris or hong-kong leads elsewhere (Fig. 18)."""
    text = sat.scenario(seconds + 35, name=NAME)
    line = sat.timeline(text, "beijing", to, seconds + 30)
    rates = sat.uplink("beijing", seconds + 30)
    # Every run sees the same sky: it starts at the same lab time.
    begin = 6
    window = [x for x in line if begin <= x[0] <= begin + seconds]
    measured = [sum(x[2]) for x in line if begin + 5 <= x[0] < begin + seconds]
    propagation_ms = sum(measured) / len(measured)

    def run(l, case, flow):
        while (l.ask({"verb": "state"}).get("t_ns") or 0) < begin * 1_000_000_000:
            time.sleep(0.02)
        state = {}

        def up(l, t):
            i = min(len(line) - 1, begin + int(t))
            if state.get("i") != i:
                # Around a handover the lab's clock decides which satellite it is.
                for sat_now in dict.fromkeys(line[min(max(j, 0), len(line) - 1)][1][1] for j in (i, i + 1, i - 1)):
                    try:
                        l.set_link("beijing", sat_now, rate_bps=int(rates[i] * 1e6))
                        state["i"] = i
                        break
                    except ValueError:
                        pass

        mids = [] if case in ("D", "end to end") else sorted({n for x in window for n in x[1][1:-1]})
        if case == "25 %":
            mids = sorted(random.Random(1).sample(mids, len(mids) // 4))
        r = measure(l, flow, "beijing", to, mids, seconds, during=up)
        return {**r, "case": case, "to": to, "midnode_count": len(mids) if flow[0] == "leotp" else 0, "propagation_ms": propagation_ms,
                "queueing_ms": r.get("packet_owd_mean_ms", r["owd_mean_ms"]) - propagation_ms}

    rows = []
    for case, flow in chosen(cases):
        rows += in_turn("satellites", Lab(text, NAME), [lambda l: run(l, case, flow)])
        save(f"satellites-{to}", rows, hops=[len(x[1]) - 1 for x in line], uplink_mbps=rates)


class NewYork:
    """The path from Beijing to New York alone: 19 hops of its mean delay, ground links of 1 % loss at both ends, lasers of
    0.1 % between, the uplink's V; no change of path at handovers."""

    def __init__(self, seconds):
        self.hops, self.seconds = 19, seconds
        line = sat.timeline(sat.scenario(seconds + 10), "beijing", "new-york", 3)
        self.delay = sum(sum(x[2]) for x in line) / len(line) / self.hops
        self.rates = sat.uplink("beijing", seconds + 10)

    @contextlib.contextmanager
    def lab(self):
        with Lab(chain_scenario(self.hops, 1200, self.delay, 20, 0.001), NAME) as l:
            for a, b in ((0, 1), (self.hops - 1, self.hops)):
                l.set_link(node(a), node(b), loss={"bernoulli": {"loss_ratio": 0.01}})
            yield l

    def run(self, case, flow):
        """A run, which gives a row; `case`: which nodes are Midnodes."""
        every = {"A": 1, "B": 1, "C": 1, "25 %": 4}
        mids = [node(i) for i in range(1, self.hops) if case in every and i % every[case] == every[case] // 2]
        state = {}

        def up(l, t):
            i = int(t)
            if state.get("i") != i:
                state["i"] = i
                l.set_link(node(0), node(1), rate_bps=int(self.rates[i] * 1e6))

        def run(l):
            state.clear()
            r = measure(l, flow, node(0), node(self.hops), mids, self.seconds, during=up)
            r.update(case=case, to="new-york", propagation_ms=self.delay * self.hops, midnode_count=len(mids))
            r["uplink_mbps"] = sum(self.rates[5 : self.seconds]) / (self.seconds - 5)
            return r

        return run


def path(seconds=int(os.environ.get("SECONDS", "25"))):
    """Fig. 17 and Table II with the path alone."""
    way = NewYork(seconds)
    rows = in_turn("path", way.lab(), [way.run(*c) for c in chosen([*CASES, ("A", ("split", "bbr"))])])
    save("path-new-york", rows, uplink_mbps=way.rates)


def repeated(name, lab, runs, rounds=int(os.environ.get("ROUNDS", "4")), **more):
    """Again and again the same runs, in turn, so that each has the same minutes as the others; each round in a new `lab()`."""
    for _ in range(rounds):
        rows = in_turn(name, lab(), [lambda l, run=run: {**run(l), "when": time.strftime("%Y-%m-%d %H:%M")} for run in runs])
        save(name, [{k: x for k, x in r.items() if not isinstance(x, list)} for r in rows], replace=False, **more)


def repeats(seconds=int(os.environ.get("SECONDS", "25"))):
    """The path to New York: bbr and LEOTP."""
    way = NewYork(seconds)
    cases = [c for c in CASES if (c[0] == "A" or c[1] == ("tcp", "bbr")) and c[1] in wanted([c[1]])]
    repeated("path-repeats", way.lab, [way.run(*c) for c in cases], seconds=seconds)


def losses(seconds=SECONDS):
    """The hops of Fig. 12 without loss and with 1 %, in one lab and one after the other."""
    def run(l, flow, loss):
        for i in range(5):
            l.set_link(node(i), node(i + 1), loss={"bernoulli": {"loss_ratio": loss}})
        return over_chain(5, flow, seconds, loss=loss)(l)

    runs = [lambda l, f=f, x=x: run(l, f, x) for f in wanted([TCP[0], *OURS]) for x in (0, 0.01)]
    repeated("fig12-repeats", lambda: Lab(chain_scenario(5, 1200, 10, 20, 0), NAME), runs, seconds=seconds)


def gateways():
    """TCP over gateways (`gateways.py`): short and long downloads, page loads, 1,000 connections."""
    tcp_gateways.gateways(RAW, NAME)


def video():
    """Segments of video over gateways and TCP (`video.py`)."""
    over_gateways.video(RAW, NAME)


ALL = {"fig4": fig4, "fig12": fig12, "losses": losses, "fig13": fig13, "fig14": fig14, "fig19": fig19, "path": path, "repeats": repeats, "satellites": satellites, "gateways": gateways, "video": video}
# Figures that another one's run has as well.
WITH = {"fig10": "fig12", "fig11": "fig12", "fig17": "path", "table2": "path"}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[WITH.get(name, name)]()
