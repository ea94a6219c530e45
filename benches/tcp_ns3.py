#!/usr/bin/env python3
"""The cases of `relay_bench --only tcp` in ns-3 (PyPI `ns3`, used for nothing else), side by side.

    python3 -m venv /tmp/ns3 && /tmp/ns3/bin/pip install ns3
    relay_bench --only tcp --json > tcp.json
    /tmp/ns3/bin/python benches/tcp_ns3.py tcp.json [--json]

Same rate, delays, queue (drop-tail, one bandwidth-delay product), loss (independent, on the way
there only), segment size and times; receive and send buffers do not limit. ns-3's congestion
controls are its own models, not Linux's code: reno is TcpLinuxReno, cubic TcpCubic, bbr TcpBbr.
"""
import json
import multiprocessing
import sys

RATE_BPS = 20_000_000
MSS_BYTES = 1448
MODELS = {"reno": "ns3::TcpLinuxReno", "cubic": "ns3::TcpCubic", "bbr": "ns3::TcpBbr"}


def simulate(case):
    control, rtt_ms, loss, seconds = case
    from ns import ns

    def default(name, value):
        ns.Config.SetDefault(name, value)

    default("ns3::TcpL4Protocol::SocketType", ns.StringValue(MODELS[control]))
    default("ns3::TcpSocket::SegmentSize", ns.UintegerValue(MSS_BYTES))
    default("ns3::TcpSocket::SndBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(16 << 20))
    default("ns3::TcpSocket::InitialCwnd", ns.UintegerValue(10))
    default("ns3::TcpSocketBase::Sack", ns.BooleanValue(True))
    default("ns3::TcpSocketState::EnablePacing", ns.BooleanValue(control == "bbr"))
    ns.RngSeedManager.SetSeed(1)

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


def main():
    files = [a for a in sys.argv[1:] if a != "--json"]
    if len(files) != 1:
        sys.exit(__doc__)
    with open(files[0]) as file:
        ours = [row for row in json.load(file) if row["what"] == "tcp_truth"]
    cases = [(row["congestion_control"], row["rtt_ms"], row["loss_ratio"], row["seconds"]) for row in ours]
    # A simulator keeps its state for the life of a process.
    with multiprocessing.Pool(2, maxtasksperchild=1) as pool:
        theirs = pool.map(simulate, cases, chunksize=1)
    rows = [{**row, "ns3_bps": bps} for row, bps in zip(ours, theirs)]
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'':>6} {'rtt ms':>7} {'loss %':>7} | {'relay':>7} {'ns-3':>7} {'Mathis':>7}   Mbit/s | relay/ns-3")
    for row in rows:
        mbps = [row[key] / 1e6 for key in ("goodput_bps", "ns3_bps", "mathis_bps")]
        print(f"{row['congestion_control']:>6} {row['rtt_ms']:>7} {row['loss_ratio'] * 100:>7.1f} | "
              f"{mbps[0]:>7.2f} {mbps[1]:>7.2f} {mbps[2]:>7.2f}          | "
              f"{row['goodput_bps'] / max(row['ns3_bps'], 1):>6.2f}")


if __name__ == "__main__":
    main()
