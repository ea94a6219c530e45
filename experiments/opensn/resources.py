#!/usr/bin/env python3
"""Figures 15 and 16: resources of OneWeb with OSPF by BIRD in every satellite while it is built, converges and runs. The
nodes have 1 processor and 3 GiB, 2 and 3, or 2 and 16. oneweb.yaml, 40 s of it. Keeps raw/sn-oneweb-CASE.json.
"""

import os
import pathlib
import subprocess
import sys

import labs

HERE = pathlib.Path(__file__).resolve().parent
CASES = {"a": (1, 3), "b": (2, 3), "c": (2, 16)}


def main():
    text = (HERE / "oneweb.yaml").read_text().replace("../../", f"{labs.ROOT}/")
    text = text.replace("duration: 120 s", "duration: 40 s").replace("for: 116 s", "for: 36 s")
    everything = os.sched_getaffinity(0)
    for case, (processors, gib) in CASES.items():
        # Everything that it starts inherits it.
        os.sched_setaffinity(0, sorted(everything)[:processors])
        try:
            with labs.Lab(f"sn-oneweb-{case}", f"{text}limits: {{memory: {gib} GiB}}\n") as lab:
                lab.summary(lambda _: {"processors_given": processors, "memory_given_gib": gib, **lab.phases()})
        finally:
            os.sched_setaffinity(0, everything)
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)


main()
