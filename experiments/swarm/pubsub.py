#!/usr/bin/env python3
"""One node that publishes to all and hears all: pubsub.py cyclone|zenoh NUMBER COUNT FOLDER; one JSON document on stdout.

It waits until it has heard everyone, and publishes 50 samples in 5 s whose latency the others measure (one clock for all). Number 0 then
publishes bursts of ever more samples of 1,000 bytes as fast as it can; the largest that arrived whole is a burst's end.
"""

import json
import os
import sys
import threading
import time

kind, number, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
BURSTS = [10, 30, 100, 300, 1000, 3000]
heard, latencies, burst_seen = set(), [], {}
lock = threading.Lock()


def arrived(data):
    now = time.monotonic_ns()
    what, sender, value, sent_ns = data[:64].split(b"|")[:4]
    sender, value = int(sender), int(value)
    with lock:
        if sender == number:
            return
        if what == b"hello":
            heard.add(sender)
        elif what == b"probe":
            latencies.append((now - int(sent_ns)) / 1e3)
        else:
            seen = burst_seen.setdefault(value, [0, now, now])
            seen[0] += 1
            seen[2] = now


def text(what, value=0, size=64):
    return f"{what}|{number}|{value}|{time.monotonic_ns()}|".encode().ljust(size, b".")


def cyclone():
    os.environ["CYCLONEDDS_URI"] = "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='net0'/></Interfaces></General></Domain></CycloneDDS>"
    from dataclasses import dataclass

    from cyclonedds.core import Policy, Qos
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.idl import IdlStruct
    from cyclonedds.idl.types import sequence, uint8
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic

    @dataclass
    class Blob(IdlStruct, typename="Blob"):
        data: sequence[uint8]

    qos = Qos(Policy.Reliability.BestEffort, Policy.History.KeepAll)
    participant = DomainParticipant()
    topic = Topic(participant, "Blobs", Blob, qos=qos)
    writer, reader = DataWriter(participant, topic, qos=qos), DataReader(participant, topic, qos=qos)

    def listen():
        while True:
            for sample in reader.take(256):
                if isinstance(sample, Blob):
                    arrived(bytes(sample.data))
            time.sleep(0.0005)

    threading.Thread(target=listen, daemon=True).start()
    return lambda data: writer.write(Blob(list(data) if not isinstance(data, list) else data))


def zenoh():
    import zenoh

    config = zenoh.Config()
    config.insert_json5("scouting/multicast/interface", '"net0"')
    config.insert_json5("listen/endpoints", '["tcp/0.0.0.0:0#iface=net0"]')
    session = zenoh.open(config)
    subscriber = session.declare_subscriber("blobs", lambda sample: arrived(sample.payload.to_bytes()))
    publisher = session.declare_publisher("blobs")
    # A session that nobody holds any more closes.
    return lambda data, held=(session, subscriber): publisher.put(data)


def main():
    began = time.monotonic()
    publish = {"cyclone": cyclone, "zenoh": zenoh}[kind]()
    matched_s = None
    deadline = began + 60
    while time.monotonic() < deadline and not os.path.exists(f"{folder}/go"):
        publish(text("hello"))
        with lock:
            if len(heard) == count - 1 and matched_s is None:
                matched_s = time.monotonic() - began
                open(f"{folder}/heard-{number}", "w").close()
        if number == 0 and len([n for n in os.listdir(folder) if n.startswith("heard")]) == count:
            open(f"{folder}/go", "w").close()
        time.sleep(0.2)
    time.sleep(1 + 0.1 * number / count)
    for n in range(50):
        publish(text("probe", n))
        time.sleep(0.1)
    time.sleep(1)
    if number == 0:
        for size in BURSTS:
            data = [text("burst", size, 1000) for _ in range(size)]
            for each in data:
                publish(each)
            time.sleep(1.5)
    else:
        time.sleep(1.5 * len(BURSTS) + 2)
    burst = None
    if number:
        whole = [size for size in BURSTS if burst_seen.get(size, [0])[0] == size]
        most = max(whole, default=0)
        n, first, last = burst_seen.get(most, [0, 0, 1])
        burst = {"whole": most, "bps": n * 8000 / max(1e-9, (last - first) / 1e9) if n > 1 else 0.0}
    print(json.dumps({"matched_s": matched_s, "sent": 50, "latencies_us": latencies, "burst": burst}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
