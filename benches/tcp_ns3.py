#!/usr/bin/env python3
"""The cases of `relay_bench --only tcp` in ns-3 (PyPI `ns3`, used for nothing else), side by side.

    python3 -m venv /tmp/ns3 && /tmp/ns3/bin/pip install ns3
    relay_bench --only tcp --json > tcp.json
    /tmp/ns3/bin/python benches/tcp_ns3.py tcp.json [--keep ns3.json] [--json] [--acknowledge 1]

Both have the same rate, delays, queue (drop-tail, one bandwidth-delay product), loss (independent,
forward only), segment size and times; receive and send buffers do not limit. ns-3's congestion
controls are its own models, not Linux's code. reno is TcpLinuxReno, cubic TcpCubic, bbr TcpBbr,
hybla TcpHybla,
westwood TcpWestwoodPlus, vegas TcpVegas (`relay_bench --only tcp --controls hybla,westwood,vegas`: Constel's BPF programs).
ns-3 gets Linux's defaults: an acknowledgement for every other segment or
after 40 ms, a retransmission timer of 200 ms at least. If results wander (reno and cubic with
loss), ns-3 runs with RUNS seeds, and its mean counts. It all happens in simulated time: what ns-3
finds follows from the case and the seed alone, however busy the machine; with `--keep` it is
written down as it comes, and not simulated again.

`bound` has the cases in which both must agree, and how closely. Exit code 1 when a bound is broken.
"""
import argparse
import json
import multiprocessing
import os
import statistics
import sys

RATE_BPS = 20_000_000
MSS_BYTES = 1448
MODELS = {"reno": "ns3::TcpLinuxReno", "cubic": "ns3::TcpCubic", "bbr": "ns3::TcpBbr",
          "hybla": "ns3::TcpHybla", "westwood": "ns3::TcpWestwoodPlus", "vegas": "ns3::TcpVegas"}
RUNS = 3


def simulate(case):
    control, rtt_ms, loss, seconds, run, acknowledge = case
    from ns import ns

    def default(name, value):
        ns.Config.SetDefault(name, value)

    default("ns3::TcpL4Protocol::SocketType", ns.StringValue(MODELS[control]))
    default("ns3::TcpSocket::SegmentSize", ns.UintegerValue(MSS_BYTES))
    default("ns3::TcpSocket::SndBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocket::InitialCwnd", ns.UintegerValue(10))
    default("ns3::TcpSocket::DelAckCount", ns.UintegerValue(acknowledge))
    default("ns3::TcpSocket::DelAckTimeout", ns.StringValue("40ms"))
    default("ns3::TcpSocketBase::MinRto", ns.StringValue("200ms"))
    default("ns3::TcpSocketBase::Sack", ns.BooleanValue(True))
    default("ns3::TcpSocketState::EnablePacing", ns.BooleanValue(control == "bbr"))
    # The paper's and ours; ns-3's own default is 50 ms.
    default("ns3::TcpHybla::RRTT", ns.StringValue("25ms"))
    ns.RngSeedManager.SetSeed(1)
    ns.RngSeedManager.SetRun(run)

    nodes = ns.NodeContainer()
    nodes.Create(2)
    link = ns.PointToPointHelper()
    queue_bytes = max(RATE_BPS * rtt_ms // 8000, 30_000)
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{RATE_BPS}bps"))
    link.SetChannelAttribute("Delay", ns.StringValue(f"{rtt_ms / 2}ms"))
    link.SetQueue("ns3::DropTailQueue", "MaxSize",
                  ns.QueueSizeValue(ns.QueueSize(f"{queue_bytes}B")))
    devices = link.Install(nodes)
    if loss > 0:
        errors = ns.CreateObject[ns.RateErrorModel]()
        errors.SetAttribute("ErrorUnit", ns.StringValue("ERROR_UNIT_PACKET"))
        errors.SetAttribute("ErrorRate", ns.DoubleValue(loss))
        devices.Get(1).SetAttribute("ReceiveErrorModel", ns.PointerValue(errors))
    ns.InternetStackHelper().Install(nodes)
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
    interfaces = addresses.Assign(devices)
    # The device's own queue is the only one.
    traffic = ns.TrafficControlHelper()
    traffic.Uninstall(devices)
    goal = ns.InetSocketAddress(interfaces.GetAddress(1), 9001).ConvertTo()
    sender = ns.BulkSendHelper("ns3::TcpSocketFactory", goal).Install(nodes.Get(0))
    anyone = ns.InetSocketAddress(ns.Ipv4Address.GetAny(), 9001).ConvertTo()
    receiver = ns.PacketSinkHelper("ns3::TcpSocketFactory", anyone).Install(nodes.Get(1))
    sender.Start(ns.Seconds(0))
    receiver.Start(ns.Seconds(0))
    sink = receiver.Get(0).GetObject[ns.PacketSink]()
    ns.Simulator.Stop(ns.Seconds(seconds))
    ns.Simulator.Run()
    before = sink.GetTotalRx()
    ns.Simulator.Stop(ns.Seconds(seconds))
    ns.Simulator.Run()
    return (sink.GetTotalRx() - before) * 8 / seconds


# Put beside each other, without a bound: they differ by more than that (benches/README.md).
NOT_JUDGED = ("westwood", "vegas")

# Reno and cubic under loss together, relay/ns-3, geometric mean of the cases that are judged.
LOSSY_MEAN = (0.7, 1.4)


def bound(control, loss, losses):
    """Least and greatest relay/ns-3 that is agreement, or None and the reason.

    A control that fills the link fills it in both: everything without loss, and BBR, which does not mind it. Reno and cubic
    go by each loss: with n of them in a measurement the rate varies by 1/(2 sqrt(n)) or so, 11 % at 20, on both sides.
    Besides, ns-3 has no RACK, no tail loss probes and no HyStart++. The bounds are a factor of 2 for each case, and LOSSY_MEAN for all.
    One rule for every delay, 300 ms included, where it was written down before any case of it was simulated.
    """
    if control in NOT_JUDGED:
        return None, "another model"
    if loss == 0:
        return (0.93, 1.07), ""
    if control == "bbr":
        return (0.85, 1.15), ""
    if losses < 20:
        return None, f"{losses:.0f} losses"
    return (0.5, 2.0), ""


def judge(row):
    mean = sum(row["ns3_bps"]) / len(row["ns3_bps"])
    losses = mean * row["seconds"] / 8 / MSS_BYTES * row["loss_ratio"]
    row["ratio"] = row["goodput_bps"] / max(mean, 1)
    row["bound"], row["why_none"] = bound(row["congestion_control"], row["loss_ratio"], losses)
    row["holds"] = row["bound"] and row["bound"][0] <= row["ratio"] <= row["bound"][1]


def lossy_mean(rows):
    """Relay/ns-3 of the judged cases under loss, but for BBR; None without such cases."""
    ratios = [row["ratio"] for row in rows
              if row["bound"] and row["loss_ratio"] > 0 and row["congestion_control"] != "bbr"]
    return statistics.geometric_mean(ratios) if ratios else None


def show(rows):
    print(f"{'':>6} {'rtt ms':>7} {'loss %':>7} | {'relay':>7} {'ns-3':>7} {'least':>7} {'most':>7} {'Mathis':>7}"
          " Mbit/s | relay/ns-3")
    for row in rows:
        ns3 = row["ns3_bps"]
        mbps = [bps / 1e6 for bps in
                (row["goodput_bps"], sum(ns3) / len(ns3), min(ns3), max(ns3), row["mathis_bps"])]
        verdict = "{} to {}: {}".format(*row["bound"], "holds" if row["holds"] else "BROKEN") if row["bound"] \
            else f"not judged: {row['why_none']}"
        print(f"{row['congestion_control']:>6} {row['rtt_ms']:>7} {row['loss_ratio'] * 100:>7.1f} | "
              + " ".join(f"{value:>7.2f}" for value in mbps) + f"        | {row['ratio']:>6.2f}  {verdict}")


def kept(path):
    """Earlier results of ns-3, by case."""
    if path is None or not os.path.exists(path):
        return {}
    with open(path) as file:
        return {tuple(case): bps for case, bps in map(json.loads, file)}


def find(cases, path):
    """Results of ns-3 for these cases."""
    found = kept(path)
    missing = [case for case in cases if case not in found]
    if missing:
        # Loading it takes longer than most cases; the children that simulate have it from their parent.
        from ns import ns  # noqa: F401
    # A simulator keeps its state for the life of a process.
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        for case, bps in zip(missing, pool.imap(simulate, missing)):
            found[case] = bps
            if path is not None:
                with open(path, "a") as file:
                    print(json.dumps([case, bps]), file=file)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", help="what relay_bench --only tcp --json printed")
    parser.add_argument("--keep", help="file for what ns-3 finds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--acknowledge", type=int, default=2, help="ns-3 acknowledges one of this many segments; Linux one of two")
    arguments = parser.parse_args()
    with open(arguments.measured) as file:
        rows = [row for row in json.load(file) if row["what"] == "tcp_truth"]

    def cases(row):
        case = (row["congestion_control"], row["rtt_ms"], row["loss_ratio"], row["seconds"])
        wanders = row["loss_ratio"] > 0 and row["congestion_control"] != "bbr"
        return [(*case, run, arguments.acknowledge) for run in range(1, RUNS + 1 if wanders else 2)]

    found = find([case for row in rows for case in cases(row)], arguments.keep)
    for row in rows:
        row["ns3_bps"] = [found[case] for case in cases(row)]
        judge(row)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        show(rows)
    mean = lossy_mean(rows)
    if mean is not None:
        print(f"under loss, all judged cases but BBR: {mean:.2f}, {LOSSY_MEAN[0]} to {LOSSY_MEAN[1]}", file=sys.stderr)
    sound = mean is None or LOSSY_MEAN[0] <= mean <= LOSSY_MEAN[1]
    if not sound or any(row["holds"] is False for row in rows):
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
