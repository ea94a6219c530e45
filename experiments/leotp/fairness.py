"""Fig. 15 in a lab: three flows share a link of 5 Mbit/s and 30 ms round trip, each beginning EVERY_S after the one before. All dumbbells, of each
protocol with the same round trips and with different ones, are in one lab and run at the same time: they share no link."""
import os, signal, time
from lab import LEOTP, PORT, SMALL, TRANSFER, Lab, last_json, node, plane_scenario, sets
from rounds import Run, study as rounds_of, tag, wanted

EVERY_S, SECONDS = 60, 200
RTTS = [(60, 60, 60), (90, 120, 150)]
FLOWS = [("tcp", "bbr"), ("tcp", "cubic"), ("leotp", "faithful", SMALL), ("leotp", "authors-constants", SMALL), ("leotp", "beyond", SMALL)]
# Of each dumbbell: three senders, two nodes with the link between them, three receivers.
NODES, NEAR, FAR = 8, 3, 4
LINK_MBPS, LINK_RTT_MS = 5, 30


class Dumbbell:
    def __init__(self, number, flow, rtt_ms):
        self.nodes = [node(NODES * number + i) for i in range(NODES)]
        self.flow, self.rtt_ms = flow, rtt_ms
        self.senders, self.receivers = self.nodes[:NEAR], self.nodes[FAR + 1:]
        self.mids = [self.nodes[NEAR], self.nodes[FAR]] if flow[0] == "leotp" else []

    def pairs(self):
        near, far = self.nodes[NEAR], self.nodes[FAR]
        return [*[(s, near) for s in self.senders], (near, far), *[(far, r) for r in self.receivers]]

    def set_links(self, lab):
        lab.set_link(self.nodes[NEAR], self.nodes[FAR], rate_bps=LINK_MBPS * 1_000_000, delay_ns=LINK_RTT_MS * 500_000)
        for rtt, sender, receiver in zip(self.rtt_ms, self.senders, self.receivers):
            # What is left of the round trip, on four ways.
            for a, b in ((sender, self.nodes[NEAR]), (self.nodes[FAR], receiver)):
                lab.set_link(a, b, delay_ns=(rtt - LINK_RTT_MS) * 250_000)

    def serve(self, lab):
        kind, how = self.flow[:2]
        self.more = ["--variant", how, *sets(self.flow[2])] if kind == "leotp" else []
        started = [lab.start(m, [LEOTP, "mid", "--json", *self.more], f"mid-{m}.json") for m in self.mids]
        for s in self.senders:
            how_to = self.more or ["--congestion", how]
            started.append(lab.start(s, [TRANSFER, "serve", kind, "--listen", f"{lab.address(s)}:{PORT}", *how_to], f"server-{s}.json"))
        return started

    def fetch(self, lab, number):
        at = f"{lab.address(self.senders[number])}:{PORT}"
        seconds = SECONDS - number * EVERY_S
        return lab.start(self.receivers[number], [TRANSFER, "fetch", self.flow[0], at, "--time", str(seconds), *self.more], f"client-{self.receivers[number]}.json")

    def row(self, lab):
        row = {"flow": tag(self.flow), "rtt_ms": list(self.rtt_ms)}
        series = []
        for number, receiver in enumerate(self.receivers):
            try:
                got = last_json(os.path.join(lab.dir, f"client-{receiver}.json"))["intervals"]
            except (OSError, IndexError, ValueError) as e:
                return {**row, "error": f"no report of {receiver}: {e}"}
            # Of a tenth of a second each.
            per_s = [sum(i["bytes"] for i in got[k:k + 10]) * 8e-6 for k in range(0, len(got), 10)]
            series.append(([0.0] * (number * EVERY_S) + per_s)[:SECONDS])
        # While all three run, without the first 20 s, in which they find their shares.
        last = [sum(s[2 * EVERY_S + 20:]) / (SECONDS - 2 * EVERY_S - 20) for s in series]
        jain = sum(last) ** 2 / len(last) / max(1e-9, sum(x * x for x in last))
        ten = {f"mbps_per_10_s_of_{n + 1}": [round(sum(s[a:a + 10]) / 10, 3) for a in range(0, SECONDS, 10)] for n, s in enumerate(series)}
        return {**row, "shares_mbps": [round(x, 3) for x in last], "mbps": sum(last), "jain": jain, **ten}


def together(lab, dumbbells):
    """All of them at the same time: the row of each."""
    started = []
    for d in dumbbells:
        d.set_links(lab)
        started += d.serve(lab)
    time.sleep(1)
    began, clients = time.monotonic(), []
    for number in range(3):
        time.sleep(max(0, began + number * EVERY_S - time.monotonic()))
        clients += [d.fetch(lab, number) for d in dumbbells]
    for client in clients:
        client.wait(SECONDS + 30)
    for p in started:
        p.send_signal(signal.SIGINT)
    for p in started:
        p.wait(10)
    return [d.row(lab) for d in dumbbells]


class All(Run):
    """All dumbbells as one run: each has a row, and it has as many results as the one with the fewest."""

    def __init__(self, dumbbells):
        super().__init__(lambda lab: together(lab, dumbbells))
        self.each = [Run(None, flow=tag(d.flow), rtt_ms=list(d.rtt_ms)) for d in dumbbells]

    def parts(self):
        return self.each

    def has(self, rows):
        return min(run.has(rows) for run in self.each)


def study(name):
    """Three rounds; `name`: the lab's."""
    dumbbells = [Dumbbell(i, *d) for i, d in enumerate((flow, rtt) for flow in wanted(FLOWS) for rtt in RTTS)]
    pairs = [pair for d in dumbbells for pair in d.pairs()]
    text = plane_scenario(name, "Three flows over one link, for each protocol", SECONDS + 60, NODES * len(dumbbells) + 1, pairs, "rate: 20 Mbit/s, queue: 128 KiB")
    rounds_of("fig15", [(lambda: Lab(text, name), [All(dumbbells)])], every_s=EVERY_S, seconds=SECONDS)
