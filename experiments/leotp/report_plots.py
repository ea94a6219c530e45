"""plots/*.svg, of virtual time and of labs; needs matplotlib."""
import os, sys
from report_labs import SKY
from vt import mean

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plots")
# Of virtual time and of labs: figure, across, value, what the axes are, and by how much the first is multiplied.
OVER_HOPS = ("fig2", "hops", "mbps", "hops", "Mbit/s", 1)
OVER_DISTANCE = ("fig5", "propagation_ms", "queueing_ms", "propagation delay, ms", "queueing delay, ms", 1)
OVER_LOSS = ("fig12", "loss", "mbps", "loss per hop, %", "Mbit/s", 100)


class Plots:
    """`load`: raw data by its name; `name`: what protocols are called."""

    def __init__(self, load, name):
        import matplotlib
        matplotlib.use("svg")
        matplotlib.rcParams["svg.hashsalt"] = "constel"
        import matplotlib.pyplot as plt
        os.makedirs(FOLDER, exist_ok=True)
        self.plt, self.load, self.name = plt, load, name

    def draw(self, file, x, y, lines, mark="o", joined=2):
        """`lines`: [(label, x values, y values)], joined if each has that many points; without any there is no plot."""
        if not lines:
            return
        fig, ax = self.plt.subplots(figsize=(5, 3.5))
        for label, xs, ys in lines:
            ax.plot(xs, ys, marker=mark, ms=4, ls="-" if len(xs) >= joined else "", label=label)
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7)
        fig.tight_layout()
        fig.savefig(os.path.join(FOLDER, file), metadata={"Date": None})
        self.plt.close(fig)

    def over(self, rows, of, figure, file):
        """Plots of OVER_HOPS and similar figures."""
        _, across, value, x, y, scale = figure
        self.draw(file, x, y, over(rows, of, across, value, scale))

    def cdf(self, file, rows, label, x="one-way delay, ms", key="owd_ms"):
        """Distributions; of a run's repeats the first has one."""
        of = [(label(r), r[key]) for r in rows if r.get(key)]
        self.draw(file, x, "share of packets", [(text, v, [i / (len(v) - 1) for i in range(len(v))]) for text, v in of], mark="")


def over(rows, of, across, value, scale=1):
    """A line of means for each that `of` names, in the order of `across`."""
    groups = {}
    for r in rows:
        if r.get(value) is not None:
            groups.setdefault(of(r), {}).setdefault(r[across], []).append(r)
    return [(label, [scale * x for x in sorted(at)], [mean(at[x], value) for x in sorted(at)]) for label, at in groups.items()]


def vt(p):
    """Plots of virtual time."""
    protocol = lambda r: p.name(r["protocol"])
    for figure in (OVER_HOPS, OVER_DISTANCE, OVER_LOSS, ("fig13", "interval_s", "mbps", "seconds between switches", "Mbit/s", 1)):
        if d := p.load(f"vt-{figure[0]}"):
            p.over(d["rows"], protocol, figure, f"{figure[0]}.svg")
    if d := p.load("vt-fig12"):
        some = [r for r in d["rows"] if r["protocol"] in ("default", "authors-constants", "beyond", "bbr", "endpoints only")]
        p.draw("fig11.svg", "loss per hop, %", "MB sent for 100 MB", over(some, protocol, "loss", "mb_sent_for_100_mb", 100))
        p.cdf("fig10.svg", [r for r in some if r["loss"] == 0.005], protocol, "one-way delay of lost packets at 0.5 % loss, ms", "lost_owd_ms")
    if d := p.load("vt-fig3"):
        p.cdf("fig3.svg", d["rows"], lambda r: r["what"])
    if d := p.load("vt-fig15"):
        for r in d["rows"]:
            if r["protocol"] in ("default", "bbr"):
                same = "same" if len(set(r["rtt_ms"])) == 1 else "different"
                series = [(f"flow {i + 1}, {rtt} ms", [10 * k for k in range(len(s))], s) for i, (s, rtt) in enumerate(zip(r["mbps_per_10_s"], r["rtt_ms"]))]
                p.draw(f"fig15-{same}-rtt-{r['protocol']}.svg", "s", "Mbit/s", series)
    if d := p.load("vt-fig14"):
        p.draw("fig14.svg", "mean one-way delay, ms", "Mbit/s", scattered(d["rows"], protocol), joined=3)
    if d := p.load("vt-satellites"):
        ny = [r for r in d["rows"] if r["to"] == "new-york" and (r["case"] in ("A", "D") or r["protocol"] in ("bbr", "cubic"))]
        p.cdf("fig17-vt.svg", ny, lambda r: f"{protocol(r)} {r['case']}")
        p.cdf("fig16-vt.svg", [r for r in d["rows"] if r["to"] == "shanghai" and r["case"] in ("A", "end to end")], protocol)
        some = [r for r in d["rows"] if r["case"] in ("A", "25% of the satellites", "end to end") and r["to"] != "shanghai"]
        for key, file, what in (("owd_mean_ms", "fig18-delay-vt.svg", "mean one-way delay, ms"), ("mbps", "fig18-throughput-vt.svg", "Mbit/s")):
            p.draw(file, "mean hops (Hong Kong, Paris, New York)", what, over(some, lambda r: f"{protocol(r)} {r['case']}", "hops", key))


def scattered(rows, of):
    """Delay and rate of each run."""
    groups = {}
    for r in rows:
        groups.setdefault(of(r), []).append(r)
    return [(label, [r["owd_mean_ms"] for r in g], [r["mbps"] for r in g]) for label, g in groups.items()]


def labs(p):
    """Plots of labs, means of the runs."""
    flow = lambda r: p.name(r["flow"])
    for figure in (OVER_HOPS, OVER_DISTANCE, OVER_LOSS, ("vivace", "loss", "mbps", "loss, %", "Mbit/s", 100)):
        if d := p.load(f"lab-{figure[0]}"):
            p.over(d["rows"], flow, figure, f"{figure[0]}-lab.svg")
    if d := p.load("lab-fig12"):
        some = [r for r in d["rows"] if r["flow"] == "tcp-bbr" or r["flow"].startswith("leotp")]
        p.draw("fig11-lab.svg", "loss per hop, %", "sent / delivered", over(some, flow, "loss", "sent_per_delivered", 100))
        p.cdf("fig10-lab.svg", [r for r in some if r["loss"] == 0.01], flow, "one-way delay of lost packets at 1 % loss, ms", "recovered_owd_ms")
    if d := p.load("lab-fig14"):
        p.draw("fig14-lab.svg", "mean one-way delay, ms", "Mbit/s", scattered(d["rows"], flow), joined=sys.maxsize)
    if d := p.load("lab-fig15"):
        for (protocol, rtt), g in {(r["flow"], tuple(r["rtt_ms"])): r for r in reversed(d["rows"])}.items():
            if protocol in ("leotp-beyond", "tcp-bbr") and len(set(rtt)) > 1:
                series = [(f"flow {i + 1}, {ms} ms", [10 * k for k in range(len(s))], s) for i, ms in enumerate(rtt) if (s := g.get(f"mbps_per_10_s_of_{i + 1}"))]
                p.draw(f"fig15-different-rtt-{protocol}-lab.svg", "s", "Mbit/s", series)
    case = lambda r: f"{flow(r)} {r['case']}"
    if d := p.load("lab-satellites-new-york"):
        shown = [r for r in d["rows"] if r["case"] in ("A", "25 %") or r["flow"] in ("tcp-bbr", "vivace", "tcp-cubic")]
        p.cdf("fig17-lab.svg", shown, case)
    if d := p.load("lab-satellites-shanghai"):
        p.cdf("fig16-lab.svg", d["rows"], case)
    cities = [{**r, "hops": sum(d["hops"]) / len(d["hops"])} for to in SKY if to != "shanghai" and (d := p.load(f"lab-satellites-{to}")) and d.get("hops") for r in d["rows"] if r["case"] in ("A", "25 %", "end to end")]
    for key, file, what in (("packet_owd_mean_ms", "fig18-delay-lab.svg", "one-way delay of packets, ms"), ("mbps", "fig18-throughput-lab.svg", "Mbit/s")):
        p.draw(file, "mean hops (Hong Kong, Paris, New York)", what, over(cities, case, "hops", key))


def plots(load, name):
    """Writes all of which there is raw data."""
    p = Plots(load, name)
    vt(p)
    labs(p)
