#!/usr/bin/env python3
"""An example of a setup program in Python: waits for the topology, follows its changes, needs nothing but the standard library.

It watches the folder with inotify, because files are replaced whole: a watch on a file would stay with the old one. Run it in
any node with `information`: constel exec LAB NODE -- python3 follow.py
"""

import ctypes
import json
import os
import struct

TOLD = "/run/constel"
MOVED_TO = 0x80  # IN_MOVED_TO


def names(folder):
    """The name of each file that takes its place in the folder, as it does."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    if watch < 0 or libc.inotify_add_watch(watch, folder.encode(), MOVED_TO) < 0:
        raise OSError(ctypes.get_errno(), f"cannot watch {folder}")
    yield ""  # What is there already.
    while True:
        events = os.read(watch, 65536)
        while events:
            _, _, _, length = struct.unpack_from("iIII", events)
            yield events[16 : 16 + length].rstrip(b"\0").decode()
            events = events[16 + length :]


def main():
    node = json.load(open(f"{TOLD}/node.json"))
    known = None
    for name in names(TOLD):
        if name not in ("", "peers.json") or not os.path.exists(f"{TOLD}/peers.json"):
            continue
        told = json.load(open(f"{TOLD}/peers.json"))
        peers = {(peer["port"], peer["node"]) for peer in told["peers"]}
        if known is None:
            print(f"{node['name']} ({node['class']}) has {len(peers)} links", flush=True)
        else:
            came, went = peers - known, known - peers
            t_s = told["t_ns"] / 1e9
            for what, links in (("came", came), ("went", went)):
                for port, far in sorted(links):
                    # Here a program would write a configuration and have it read anew.
                    print(f"t = {t_s:.1f} s: {far} {what} at {port}", flush=True)
        known = peers


if __name__ == "__main__":
    main()
