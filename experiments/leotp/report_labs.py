"""The labs' tables for RESULTS.md: mean (least to most) over the runs of each figure."""
from vt import mean

SKY = ("new-york", "paris", "hong-kong", "shanghai")
# On a lab's link before the payload: Ethernet 14, IPv4 20, UDP 8 and LEOTP's header; or 14, 20 and TCP's 32.
BELOW_LEOTP, BELOW_TCP = 42, 66


class Tables:
    """`names`: what flows are called; `table(out, head, rows)` writes one, `pct` shows a share with its sign."""

    def __init__(self, out, load, table, name, pct, trust_all):
        self.out, self.load, self.write, self.name, self.pct, self.trust_all = out, load, table, name, pct, trust_all

    def head(self, title, text):
        self.out += [title, "", text, ""]

    def table(self, first, rows):
        self.write(self.out, first, rows)

    def flow(self, rows):
        return self.name(rows[0]["flow"])


def spread(rows, key, digits=2, scale=1.0):
    """Mean (least to most); one value alone as it is, '' of nothing."""
    v = [scale * r[key] for r in rows if r.get(key) is not None]
    if not v:
        return ""
    mid = f"{sum(v) / len(v):.{digits}f}"
    return mid if len(v) == 1 else f"{mid} ({min(v):.{digits}f} to {max(v):.{digits}f})"


def by(rows, *keys):
    """Rows of the same run together, in the order of their first."""
    out = {}
    for r in rows:
        # Of runs before there were three of each.
        if r["mbps"] is not None:
            out.setdefault(tuple(str(r.get(k)) for k in keys), []).append({**r, "owd_p99_ms": r.get("owd_p99_ms", r["owd_ms"][198] if r.get("owd_ms") else None)})
    return list(out.values())


HEAD = ["OWD mean ms", "p99 ms", "OWD of packets ms", "sent / delivered", "runs", "host kept up"]


def measured(t, rows):
    return [spread(rows, "owd_mean_ms", 1), spread(rows, "owd_p99_ms", 0), spread(rows, "packet_owd_mean_ms", 1) or "not measured", spread(rows, "sent_per_delivered", 3), len(rows), t.trust_all(rows)]


def against(t, rows, base, key):
    """How much more than the base's mean, in per cent."""
    if not base or rows[0].get(key) is None or base[0].get(key) is None:
        return ""
    return t.pct(mean(rows, key) / mean(base, key) - 1)


def fig2(t):
    if d := t.load("lab-fig2"):
        t.head("## Fig. 2 in a lab: throughput over hops", "20 Mbit/s, 10 ms round trip and 0.5 % loss a hop; Mbit/s of payload. Paper: at 10 hops BBR has lost 9 %, PCC 33 %; Cubic and Hybla are below 2 Mbit/s from 5 hops on.")
        hops = sorted({r["hops"] for r in d["rows"]})
        rows = []
        for group in by(d["rows"], "flow"):
            at = {n: [r for r in group if r["hops"] == n] for n in hops}
            lost = t.pct(mean(at[hops[-1]], "mbps") / mean(at[hops[0]], "mbps") - 1) if at[hops[0]] and at[hops[-1]] else ""
            rows.append([t.flow(group), *[spread(at[n], "mbps") for n in hops], lost, min(len(x) for x in at.values()), t.trust_all(group)])
        t.table(["at hops", *map(str, hops), f"from {hops[0]} to {hops[-1]}", "runs", "host kept up"], rows)


def fig4(t):
    if d := t.load("lab-fig4"):
        t.head("## Fig. 4 in a lab: split TCP", "10 hops of 20 Mbit/s, 10 ms round trip and 0.5 % loss each; propagation 50 ms. Paper: split, Cubic and Hybla get more than 14 Mbit/s instead of less than 2, BBR 13 % and PCC 30 % more, and each has more than 600 ms more of queue. "
               "Mbit/s are the mean from the sixth second on without the last second, which is not whole in every run.")
        rows = [{**r, "mbps": mean([{"mbps": x} for x in r["mbps_series"][5:-1]], "mbps")} for r in d["rows"]]
        t.table(["", "Mbit/s", *HEAD], [[t.flow(g), spread(g, "mbps"), *measured(t, g)] for g in by(rows, "flow")])


def fig5(t):
    if d := t.load("lab-fig5"):
        t.head("## Fig. 5 in a lab: queueing and congestion loss over propagation delay", "5 hops, the second 10 +- 1 Mbit/s (2 s), the others 20; queues of 128 KiB. Queueing: delay of packets beyond propagation, ms. Congestion loss: what the second link's queue had no room for, % of what came. "
               "Paper: Cubic and Hybla above 100 ms at all delays; BBR 32 ms at 20 ms, rising beyond them at 100 ms; losses grow with the distance.")
        far = sorted({r["propagation_ms"] for r in d["rows"]})
        rows = []
        for g in by(d["rows"], "flow"):
            at = {p: [r for r in g if r["propagation_ms"] == p] for p in far}
            rows.append([t.flow(g), *[spread(at[p], "queueing_ms", 1) for p in far], *[spread(at[p], "congestion_loss_ratio", 2, 100) for p in far], *[spread(at[p], "mbps") for p in far], min(len(x) for x in at.values()), t.trust_all(g)])
        t.table(["", *[f"queueing at {p} ms" for p in far], *[f"loss, %, at {p} ms" for p in far], *[f"Mbit/s at {p} ms" for p in far], "runs", "host kept up"], rows)


def fig12(t):
    for raw, where, how in (("lab-fig12", "in a lab", ""), ("guest/lab-fig12", "in a lab of virtual time", "In a guest whose clock waits (`run guest fig12`). ")):
        if not (d := t.load(raw)):
            continue
        t.head(f"## Figs 11 and 12 {where}", how + "5 hops of 20 Mbit/s and 20 ms hopRTT; 19.2 Mbit/s of beyond()'s payload fit (links count Ethernet headers). Paper: from 0 to 1 % loss BBR loses 12 %, PCC 23 %, LEOTP 1 %; loss-based TCP is below 5 Mbit/s from 0.1 % on. Sent / delivered (Fig. 11): LEOTP's slope is a fifth of BBR's.")
        groups = by(d["rows"], "flow", "loss")
        clean = {g[0]["flow"]: g for g in groups if g[0]["loss"] == 0}
        t.table(["", "loss", "Mbit/s", "against no loss", *HEAD], [[t.flow(g), f"{100 * g[0]['loss']:g} %", spread(g, "mbps"), against(t, g, clean.get(g[0]["flow"]), "mbps"), *measured(t, g)] for g in groups])
        late = {(g[0]["flow"], g[0]["loss"]): g for g in groups if g[0]["loss"] > 0 and any(r.get("recovered") for r in g)}
        if late:
            t.head(f"## Fig. 10 {where}: recovery of lost packets", "Recovery is the delay of lost packets beyond that of the median packet, in the runs above, from captures at both ends. Paper: 59 to 64 % less than BBR; most retransmitted packets take 160 ms over BBR, 90 over LEOTP.")
            t.table(["", "loss", "recovered packets", "recovery ms", "less than bbr's", "runs", "host kept up"],
                    [[t.flow(g), f"{100 * loss:g} %", spread(g, "recovered", 0), spread(g, "recovery_mean_ms", 1), against(t, g, late.get(("tcp-bbr", loss)), "recovery_mean_ms") if flow != "tcp-bbr" else "",
                      len(g), t.trust_all(g)] for (flow, loss), g in late.items() if flow == "tcp-bbr" or flow.startswith("leotp")])


def fig13(t):
    if d := t.load("lab-fig13"):
        t.head("## Fig. 13 in a lab: link switching", "Two paths of 80 and 90 ms round trip, 20 Mbit/s, that take turns; what is on the abandoned one is lost. Paper: at 1 s LEOTP has 34 % more than BBR and 15 % more than PCC.")
        groups = by(d["rows"], "flow", "interval_s")
        base = {g[0]["interval_s"]: g for g in groups if g[0]["flow"] == "tcp-bbr"}
        t.table(["", "turns every", "Mbit/s", "against bbr", *HEAD], [[t.flow(g), f"{g[0]['interval_s']} s", spread(g, "mbps"), against(t, g, base.get(g[0]["interval_s"]), "mbps"), *measured(t, g)] for g in groups])


def fig14(t):
    if d := t.load("lab-fig14"):
        t.head("## Fig. 14 in a lab", "Square wave 10 +- 1 Mbit/s (2 s) on the second of 10 hops, propagation 100 ms; 9.5 Mbit/s of payload fit. Paper: all TCP more than 100 ms of queue; LEOTP's BL_tar trades delay for throughput.")

        def how(r):
            if not r["flow"].startswith("leotp"):
                return ""
            return ("Midnodes" if r["midnodes_on"] else "endpoints only") + (f", BL_tar {r['bl_tar_segments']} segments" if r["bl_tar_segments"] else "")

        t.table(["", "", "Mbit/s", *HEAD], [[t.flow(g), how(g[0]), spread(g, "mbps"), *measured(t, g)] for g in by(d["rows"], "flow", "midnodes_on", "bl_tar_segments")])


def fig15(t):
    if d := t.load("lab-fig15"):
        t.head("## Fig. 15 in a lab: fairness", f"Three flows share 5 Mbit/s and 30 ms of round trip, each beginning {d['every_s']} s after the one before; {d['seconds']} s; Mbit/s of each over the last {d['seconds'] - 2 * d['every_s'] - 20} s, first flow first, mean of the runs. Paper: 200 s apart; "
               "with the same round trip (60 ms) both LEOTP and BBR converge to similar shares; with 90, 120 and 150 ms the BBR flow with the longer one gets more, LEOTP stays fair.")
        rows = []
        for g in by(d["rows"], "flow", "rtt_ms"):
            shares = [sum(r["shares_mbps"][i] for r in g) / len(g) for i in range(3)]
            rows.append([t.flow(g), ", ".join(map(str, g[0]["rtt_ms"])), ", ".join(f"{x:.2f}" for x in shares), spread(g, "mbps"), spread(g, "jain", 3), len(g), t.trust_all(g)])
        t.table(["", "round trips ms", "shares Mbit/s", "sum", "Jain", "runs", "host kept up"], rows)


def fits(t, rows, b, hops=19):
    """Bounds of the path to New York, its throughput and a packet's least delay: (name, Mbit/s, delay of packets ms).
    The uplink's losses, 1 %, cross it again; over TCP losses of every link do. LEOTP's headers are those that each
    variant has sent on average."""
    def of(payload, headers, kept):
        kbit = (payload + headers) * 8e-3
        return b["uplink_mbps"] * payload / (payload + headers) * kept, b["propagation_ms"] + (hops - 1) * kbit / 20 + kbit / b["uplink_mbps"]

    sent = {r["flow"]: r["header_bytes"] for r in rows if r["case"] == "A" and "wire" in r}
    out = [(f"what fits: {t.name(f)}, header {h:.1f} bytes", *of(1400, BELOW_LEOTP + h, 0.99)) for f, h in sent.items()]
    return out + [("what fits: TCP", *of(1448, BELOW_TCP, (1 - 0.01) ** 2 * (1 - 0.001) ** (hops - 2)))]


OVER_BBR = ["against bbr", "OWD against bbr", "OWD of packets against bbr"]


def over_bbr(t, g, base):
    return [against(t, g, base, k) for k in ("mbps", "owd_mean_ms", "packet_owd_mean_ms")]


def path(t):
    if d := t.load("lab-path-new-york"):
        groups = by(d["rows"], "flow", "case")
        base = next((g for g in groups if g[0]["flow"] == "tcp-bbr"), groups[0])
        b = base[0]
        t.head("## Fig. 17 and Table II in a lab, with the path alone",
               f"19 hops with the mean delay of those from Beijing to New York ({b['propagation_ms']:.1f} ms in all), 1 % loss on the first and last, 0.1 % between, an uplink of {b['uplink_mbps']:.2f} Mbit/s on average (the V). Cases: A every node a Midnode; B Midnodes without cache and repairs; C without congestion control; D no Midnodes. Paper: A against BBR +8 % throughput, -40 % OWD; 25 % coverage +6 %, -42 %; Mbit/s A 7.91, B 7.73, C 6.80, D 6.52.")
        limits = [[n, "", f"{m:.2f}", t.pct(m / mean(base, "mbps") - 1), "", t.pct(ms / mean(base, "packet_owd_mean_ms") - 1), "", "", f"{ms:.1f}", "", "", ""] for n, m, ms in fits(t, d["rows"], b)]
        t.table(["", "case", "Mbit/s", *OVER_BBR, *HEAD], limits + [[t.flow(g), g[0]["case"], spread(g, "mbps"), *over_bbr(t, g, base), *measured(t, g)] for g in groups])
        t.out += ["\"What fits\" is computed: the uplink's mean rate, less what it loses and carries again (TCP carries again over it what any hop loses) "
                  "and less headers (Ethernet's count); and the propagation delay with the time of one segment on each link, with no queue and no loss.", ""]


def fig19(t):
    if d := t.load("lab-fig19"):
        t.head("## Fig. 19: a Midnode's processor time", "One Midnode between two hops of 10 ms each way, beyond(): share of one processor, %, over the link's rate and the loss of each hop. Paper: low, grows slowly beyond 20 Mbit/s, and does not depend on loss.")
        losses = sorted({r["loss"] for r in d["rows"]})
        at = lambda mbps, loss: [r for r in d["rows"] if (r["rate_mbps"], r["loss"]) == (mbps, loss)]
        cell = lambda rs: f"{spread(rs, 'cpu_ratio', 1, 100)} % at {mean(rs, 'mbps'):.1f} Mbit/s"
        t.table(["link"] + [f"loss {100 * x:g} %" for x in losses], [[f"{m} Mbit/s"] + [cell(at(m, x)) for x in losses] for m in sorted({r["rate_mbps"] for r in d["rows"]})])
        t.out += [f"Runs of each: {len(at(5, 0.0))}. Host kept up: {t.trust_all(d['rows'])}", ""]


def sky(t):
    for to in SKY:
        if d := t.load(f"lab-satellites-{to}"):
            groups = by(d["rows"], "flow", "case")
            base = next((g for g in groups if g[0]["flow"] == "tcp-bbr"), None)
            figure = {"new-york": "Fig. 17 and Table II", "shanghai": "Fig. 16"}.get(to, "Fig. 18")
            hops = f", {sum(d['hops']) / len(d['hops']):.1f} hops" if d.get("hops") else ""
            cities = "five cities with an antenna to each satellite in view" if to == "shanghai" else "100 cities"
            without = " No lasers: up and down again over one satellite. Paper: LEOTP +4.8 % against BBR, +12.4 % against PCC, queueing 16 ms, BBR's 26, PCC's more than 400." if to == "shanghai" else ""
            t.head(f"## {figure} in labs over the full sky: Beijing to {to}", f"1,600 satellites and {cities}; {groups[0][0]['propagation_ms']:.1f} ms of light{hops}. Satellites on the path have network stacks, the others only forward; each run is a lab of its own under the same sky.{without}")
            t.table(["", "case", "Mbit/s", *OVER_BBR, "queueing ms", *HEAD], [[t.flow(g), g[0]["case"], spread(g, "mbps"), *over_bbr(t, g, base), spread(g, "queueing_ms", 1), *measured(t, g)] for g in groups])


def vivace(t):
    if d := t.load("lab-vivace"):
        t.head("## PCC Vivace over random losses in a lab", "One link of 100 Mbit/s, 30 ms round trip, a queue of 375 kB (its authors' setting). By their utility, x^0.9 - 900 x dRTT/dt - 11.35 x L, a rate of x Mbit/s grows as long as L is below 0.9 x^-0.1 / 11.35: "
               "5.0 % at 100 Mbit/s, 5.9 at 20, 7.9 at 1; the constant was chosen for 5 %.")
        losses = sorted({r["loss"] for r in d["rows"]})
        rows = []
        for g in by(d["rows"], "flow"):
            at = {x: [r for r in g if r["loss"] == x] for x in losses}
            rows.append([t.flow(g), *[spread(at[x], "mbps", 1) for x in losses], min(len(x) for x in at.values()), t.trust_all(g)])
        t.table(["Mbit/s at a loss of", *[f"{100 * x:g} %" for x in losses], "runs", "host kept up"], rows)


def drawn(t):
    against_bbr = "every one a lab of its own for each flow and repeat, {seconds} s, against the kernel's bbr."
    for raw, where, how in (("lab-drawn", "in labs", against_bbr), ("guest/lab-drawn", "in labs of virtual time", against_bbr + " Each lab is in a guest whose clock waits (`run guest drawn`).")):
        if d := t.load(raw):
            t.head(f"## beyond() on paths drawn by a seed, {where}", f"Those of `vt beyond-many` (seed {d['seed']}), {how.format(**d)}")
            drawn_paths(t, d["rows"])


def drawn_paths(t, measured_rows):
    rows, gains = [], []
    for g in by(measured_rows, "path"):
        of = {f: [r for r in g if r["flow"] == f] for f in ("leotp-beyond", "tcp-bbr")}
        if not all(of.values()):
            continue
        ours, bbr = of["leotp-beyond"], of["tcp-bbr"]
        gain, r = mean(ours, "mbps") / mean(bbr, "mbps") - 1, g[0]
        if all(x["verdict"]["trustworthy"] for x in g):
            gains.append(gain)
        rows.append((gain, [t.pct(gain), against(t, ours, bbr, "packet_owd_mean_ms"), f"{r['sky']}, {r['cities']}", f"{r['ground_mbps']}, {r['laser_mbps']}", f"{100 * r['ground_loss']:.2f} %, {100 * r['laser_loss']:.2f} %",
                            f"{r['hops_mean']:.1f}", f"{r['propagation_ms']:.0f}", *[f"{spread(x, 'mbps')}; {spread(x, 'packet_owd_mean_ms', 0)}" for x in (ours, bbr)], min(len(x) for x in of.values()), t.trust_all(g)]))
    gains.sort()
    t.out += [f"The host kept up on {len(gains)} of {len(rows)} paths: throughput of beyond() against bbr: least {t.pct(gains[0])}, median {t.pct(gains[len(gains) // 2])}, most {t.pct(gains[-1])}; worse by more than 2 %: {sum(x < -0.02 for x in gains)}.", ""]
    t.table(["gain", "OWD of packets", "path", "ground, lasers: Mbit/s", "loss: ground, lasers", "hops", "light, ms", "beyond(): Mbit/s; OWD of packets ms", "bbr", "runs", "host kept up"], [cells for _, cells in sorted(rows, key=lambda x: x[0])])


def write(out, load, table, name, pct, trust_all):
    t = Tables(out, load, table, name, pct, trust_all)
    out += ["Each run three times where it says so, mean (least to most). All transports are measured by constel-transfer: OWD is from a record's first departure until the receiver can read it, in order, so it holds "
            "the wait for what was lost before it. OWD of packets is from captures at both ends, first departure to first arrival in any order.", ""]
    for part in (fig2, fig4, fig5, fig12, fig13, fig14, fig15, path, fig19, sky, drawn, vivace):
        part(t)
