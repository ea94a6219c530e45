#!/usr/bin/env python3
"""The paper's Fig. 8 at its size, from images as in its Fig. 9: figure8.yaml, the video's result, the resources (Figs 15, 16).

Shell I (72 x 22) is AS 1, user, router and station are AS 2, content provider, router and station AS 3. Keeps raw/sn-figure8.json.
Root, busybox-static, bird2, nginx-light and ffmpeg; 5 minutes.
"""

import csv
import os
import pathlib
import re
import subprocess
import sys

import labs

HERE = pathlib.Path(__file__).resolve().parent


def outages(results):
    """Probes from user to provider: when the first was answered, and every gap of a second or more after that."""
    with open(results / "flows/delay.out", encoding="utf-8") as file:
        answered = sorted(float(r["sent_s"]) for r in csv.DictReader(file) if r["fate"] == "ok")
    gaps = [{"from_s": a, "seconds": b - a} for a, b in zip(answered, answered[1:]) if b - a >= 1]
    return (answered[0] if answered else None), gaps


def played(results):
    """Frames that ffmpeg has shown, and how long it took."""
    text = (results / "flows/video.err").read_text()
    frames = re.findall(r"frame= *(\d+)", text)
    return int(frames[-1]) if frames else 0


def main():
    make = [labs.ROOT / "scenarios/images/make", "bird", "frr", "nginx-video", "ffmpeg-client"]
    subprocess.run(make, check=True, env={**os.environ, "CONSTEL": str(labs.CONSTEL)})
    text = (HERE / "figure8.yaml").read_text().replace("../../", f"{labs.ROOT}/")
    with labs.Lab("sn-figure8", text) as lab:
        def more(_):
            first_s, gaps = outages(lab.results)
            return {"first_answer_s": first_s, "gaps": gaps, "frames": played(lab.results), **lab.phases(first_s)}

        lab.summary(more)
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)


main()
