#!/usr/bin/env python3
"""One craft of a swarm: senses, shares what it saw by DDS, plans by itself.

Each cycle it computes a number for every target (its reward), publishes the numbers, and a moment later makes a plan
from what it has heard. Each target goes to the craft with the greatest reward of those known. There is no leader and
no agreement: plans are alike where everyone heard the same. The cycles go by the clock, so all craft plan at the same moments.

Rewards follow from seed, cycle and craft, so that a run is repeated exactly but for what the network does.

A row of CSV for each cycle on stdout: cycle, craft, how many craft's rewards were there, the plan. agree.py compares them.

    agent.py CRAFT OF [--cycle S] [--targets N] [--seed N] [--best-effort] [--interface NAME]

Needs the package cyclonedds (pip install cyclonedds).
"""

import argparse
import os
import random
import time
from dataclasses import dataclass

# The time between what is sent and what is planned of it, of a cycle.
LISTEN = 0.8


def rewards(seed, cycle, craft, targets):
    """The reward of a craft for each target."""
    draw = random.Random(f"{seed}/{cycle}/{craft}")
    return [draw.random() for _ in range(targets)]


def plan(known, targets):
    """The craft that observes each target, of those whose rewards are known; `known` has a list of rewards by craft."""
    best = lambda target: max(known, key=lambda craft: (known[craft][target], craft))
    return [best(target) for target in range(targets)]


def configure(interface):
    """One interface, so that discovery goes over the radio and nowhere else; and soon again, where it was lost there."""
    os.environ.setdefault(
        "CYCLONEDDS_URI",
        f"<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='{interface}'/></Interfaces>"
        "</General><Discovery><SPDPInterval>2s</SPDPInterval></Discovery></Domain></CycloneDDS>",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("craft", type=int)
    parser.add_argument("of", type=int)
    parser.add_argument("--cycle", type=float, default=2.0, help="seconds")
    parser.add_argument("--targets", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--best-effort", action="store_true")
    parser.add_argument("--interface", default="net0")
    args = parser.parse_args()
    configure(args.interface)

    from cyclonedds.core import Policy, Qos
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.idl import IdlStruct
    from cyclonedds.idl.types import float64, int32, sequence
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic
    from cyclonedds.util import duration

    @dataclass
    class Reward(IdlStruct, typename="Reward"):
        cycle: int32
        craft: int32
        gains: sequence[float64]

    reliability = (
        Policy.Reliability.BestEffort
        if args.best_effort
        else Policy.Reliability.Reliable(duration(seconds=1))
    )
    qos = Qos(reliability, Policy.History.KeepLast(64))
    participant = DomainParticipant()
    topic = Topic(participant, "Rewards", Reward, qos=qos)
    writer, reader = DataWriter(participant, topic, qos=qos), DataReader(participant, topic, qos=qos)

    print("cycle,craft,known,plan", flush=True)
    while True:
        cycle = int(time.time() / args.cycle) + 1
        time.sleep(max(0.0, cycle * args.cycle - time.time()))
        own = rewards(args.seed, cycle, args.craft, args.targets)
        writer.write(Reward(cycle, args.craft, own))
        known = {args.craft: own}
        end = (cycle + LISTEN) * args.cycle
        while time.time() < end:
            for heard in reader.take(64):
                # A sample may be no more than the news that its writer is gone.
                if isinstance(heard, Reward) and heard.cycle == cycle:
                    known[heard.craft] = list(heard.gains)
            time.sleep(0.02)
        chosen = "".join(f"{craft:x}" for craft in plan(known, args.targets))
        print(f"{cycle},{args.craft},{len(known)},{chosen}", flush=True)


if __name__ == "__main__":
    main()
