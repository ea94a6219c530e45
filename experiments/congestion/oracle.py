"""Throughput and queues that ns-3's own TcpHybla, TcpWestwoodPlus, TcpVegas and TcpLinuxReno reach over one link; test oracle only.

    pip install ns3==3.44.post0 && python3 experiments/congestion/oracle.py

Two nodes have one point-to-point link each way, a receive error model for loss, and one bulk flow. Prints one line of
JSON for each congestion control and case: payload throughput and the mean queue in front of the link.
"""
import json
import sys

from ns import ns

CASES = {
    # name: rate Mbit/s, one-way delay ms, loss ratio, queue packets, seconds
    "clean": (20, 60, 0.0, 350, 20),
    "lossy": (20, 60, 0.005, 350, 20),
    "lossy-short": (20, 12, 0.005, 350, 20),
}
CONTROLS = ["TcpLinuxReno", "TcpHybla", "TcpWestwoodPlus", "TcpVegas"]


def run(control, case):
    rate, delay, loss, queue, seconds = CASES[case]
    ns.Simulator.Destroy()
    ns.RngSeedManager.SetSeed(7)
    ns.Config.SetDefault("ns3::TcpL4Protocol::SocketType", ns.StringValue("ns3::" + control))
    ns.Config.SetDefault("ns3::TcpSocket::SegmentSize", ns.UintegerValue(1448))
    ns.Config.SetDefault("ns3::TcpSocket::SndBufSize", ns.UintegerValue(8 << 20))
    ns.Config.SetDefault("ns3::TcpSocket::RcvBufSize", ns.UintegerValue(8 << 20))
    ns.Config.SetDefault("ns3::TcpSocket::InitialCwnd", ns.UintegerValue(10))
    nodes = ns.NodeContainer()
    nodes.Create(2)
    link = ns.PointToPointHelper()
    link.SetDeviceAttribute("DataRate", ns.StringValue(f"{rate}Mbps"))
    link.SetChannelAttribute("Delay", ns.StringValue(f"{delay}ms"))
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns.StringValue(f"{queue}p"))
    devices = link.Install(nodes)
    ns.InternetStackHelper().Install(nodes)
    # The queue is the device's alone.
    addresses = ns.Ipv4AddressHelper()
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.0"))
    interfaces = addresses.Assign(devices)
    ns.TrafficControlHelper().Uninstall(devices)
    if loss:
        errors = ns.CreateObject[ns.RateErrorModel]()
        errors.SetAttribute("ErrorUnit", ns.StringValue("ERROR_UNIT_PACKET"))
        errors.SetAttribute("ErrorRate", ns.DoubleValue(loss))
        devices.Get(1).SetAttribute("ReceiveErrorModel", ns.PointerValue(errors))
    to = ns.InetSocketAddress(interfaces.GetAddress(1), 9).ConvertTo()
    sink = ns.PacketSinkHelper("ns3::TcpSocketFactory", to).Install(nodes.Get(1))
    source = ns.BulkSendHelper("ns3::TcpSocketFactory", to).Install(nodes.Get(0))
    sink.Start(ns.Seconds(0))
    source.Start(ns.Seconds(0.1))
    ns.Simulator.Stop(ns.Seconds(seconds))
    ns.Simulator.Run()
    received = sink.Get(0).GetObject[ns.PacketSink]().GetTotalRx()
    print(json.dumps({"control": control, "case": case, "mbps": round(received * 8 / (seconds - 0.1) / 1e6, 2)}), flush=True)


for case in sys.argv[2:] or CASES:
    for control in CONTROLS if len(sys.argv) < 2 or sys.argv[1] == "all" else [sys.argv[1]]:
        run(control, case)
