"""Another kernel in QEMU without hardware virtualisation, by tools/kernels, for the studies here that need one. Rates of an emulated machine
are only about itself. Delays, repair, and comparisons within one guest are valid."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "tools/kernels"


def program(name):
    return shutil.which(name) or sys.exit(f"{name} is not installed here")


def boot(work, series, limit_s, job, files, devices=(), memory_mb=2048):
    """The console of a guest that runs the job. `files` are those it has, by their paths there; `devices` are words for QEMU."""
    work.mkdir(parents=True, exist_ok=True)
    subprocess.run([KERNELS / "fetch", series], check=True)
    script = work / "job"
    script.write_text(job)
    pairs = [f"{here}:{there}" for there, here in files.items()]
    more = dict(os.environ, KERNELS_QEMU=" ".join(devices), KERNELS_MEMORY_MB=str(memory_mb))
    done = subprocess.run([KERNELS / "boot", series, str(limit_s), script, *pairs], capture_output=True, text=True, env=more)
    console = work / f"console-{series}"
    console.write_text(done.stdout + done.stderr)
    if done.returncode:
        sys.exit(f"the guest ended with {done.returncode}: see {console}")
    return done.stdout


def boot_and_keep(work, series, limit_s, job, files, kept, **more):
    """As `boot`, and what the guest has in the folder `kept` at its end is then in `work`/kept here. Its console."""
    disk, here = work / "disk", work / "kept"
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(here, ignore_errors=True)
    with open(disk, "wb") as file:
        file.truncate(256 << 20)
    console = boot(work, series, limit_s, job + f"\ntar c -C {kept} . > /dev/vda && sync\n", files,
                   devices=["-drive", f"file={disk},format=raw,if=virtio"], **more)
    with tarfile.open(disk) as archive:
        archive.extractall(here, filter="data")
    disk.unlink()
    return console, here


def sections(console):
    """The text after each `=== NAME` of a console."""
    told, name = {}, None
    for line in console.splitlines():
        if line.startswith("=== "):
            name = line[4:]
            told[name] = ""
        elif name:
            told[name] += line + "\n"
    return told
