#!/usr/bin/env python3
"""The least that flight software does: says once a second that it lives, and counts whom it hears.

Stands in for cFS or F' in aliveness tests: docs/flight-software.md puts a real one into its place.

A row of CSV a second on stdout: second of the program's life, how many other craft were heard in it or in the second before.
Craft have no common clock: a beat that comes at about the end of a second is sometimes in it and sometimes in the next.

    heartbeat.py CRAFT [--interface NAME] [--port N] [--for S]
"""

import argparse
import socket
import struct
import time

GROUP = "239.20.0.1"


def own_address(interface):
    """The interface's IPv4 address (SIOCGIFADDR)."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", interface.encode()))
    return socket.inet_ntoa(answer[20:24])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("craft", type=int)
    parser.add_argument("--interface", default="net0")
    parser.add_argument("--port", type=int, default=5012)
    parser.add_argument("--for", dest="seconds", type=int, default=3600)
    args = parser.parse_args()
    own = own_address(args.interface)
    radio = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    radio.bind(("", args.port))
    radio.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    radio.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    group = socket.inet_aton(GROUP) + socket.inet_aton(own)
    radio.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
    print("second,heard", flush=True)
    began = time.monotonic()
    last_heard = {}
    for second in range(args.seconds):
        radio.sendto(struct.pack("!HI", args.craft, second), (GROUP, args.port))
        while (left := began + second + 1 - time.monotonic()) > 0:
            radio.settimeout(left)
            try:
                packet = radio.recv(2048)
            except TimeoutError:
                break
            if len(packet) == 6:
                last_heard[struct.unpack("!HI", packet)[0]] = second
        heard = sum(seen >= second - 1 for craft, seen in last_heard.items() if craft != args.craft)
        print(f"{second},{heard}", flush=True)


if __name__ == "__main__":
    main()
