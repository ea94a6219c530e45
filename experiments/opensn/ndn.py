#!/usr/bin/env python3
"""Named Data Networking over Iridium, from an image, with `routing: {mode: none}` and no address on any link: ndn.yaml.

Makes the image of this host's Python, busybox and python-ndn (fetched by pip), imports it, runs the scenario and reads what the consumer
says of each Interest. Keeps raw/sn-ndn.json. Root, busybox-static, python3 and pip.
"""

import csv
import os
import pathlib
import shutil
import subprocess
import sys

import labs

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"


def image(root):
    """Python with its library and python-ndn, and what they are linked with."""
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "usr/bin", "usr/lib", "app", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox" if os.path.exists("/bin/busybox") else "/usr/bin/busybox", root / "bin/busybox")
    for name in ("sh", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    version = subprocess.run([PYTHON, "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], stdout=subprocess.PIPE, text=True).stdout.strip()
    shutil.copy(os.path.realpath(PYTHON), root / "usr/bin/python3")
    library = root / "usr/lib" / version
    shutil.copytree(f"/usr/lib/{version}", library, ignore=shutil.ignore_patterns("test", "config-*", "__pycache__", "dist-packages"))
    site = library / "dist-packages"
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--target", site, "python-ndn"], check=True)
    shutil.copy(HERE / "ndn/node.py", root / "app/node.py")
    programs = [root / "usr/bin/python3", *library.rglob("*.so")]
    linked = subprocess.run(["ldd", *programs], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for word in {word for word in linked.split() if word.startswith("/") and not word.endswith(":")}:
        to = root / word[1:]
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, to)


def rows(lab):
    with open(lab.results / "flows/consumer.out", encoding="utf-8") as file:
        of = list(csv.DictReader(file))
    got = sorted(float(r["rtt_ms"]) for r in of if r["rtt_ms"])
    first = [float(r["rtt_ms"]) for r in of if r["rtt_ms"] and r["tries"] == "1"]
    return {"asked": len(of), "satisfied": len(got), "at_once": len(first), "p50_ms": got[len(got) // 2] if got else None,
            "first_p50_ms": sorted(first)[len(first) // 2] if first else None}


def main():
    labs.WORK.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(labs.WORK)
    root = labs.WORK / "ndn-rootfs"
    image(root)
    subprocess.run([labs.CONSTEL, "image", "import", "--name", "ndn", root], check=True, stdout=subprocess.DEVNULL)
    with labs.Lab("sn-ndn", (HERE / "ndn.yaml").read_text()) as lab:
        summary = lab.summary(lambda _: {"interests": rows(lab)})
    print(rows(lab), len(summary["handovers"]), "handovers", summary["verdict"])
    subprocess.run([sys.executable, str(HERE / "report.py")], check=True)


main()
