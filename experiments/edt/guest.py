"""Carries out scripts in a guest of the kernel of virtual time whose clock is the host's, or on the host.

The processor time that each script of the guest took is measured outside.
The kernel (User Mode Linux, `make virtual`) has netem, fq and BPF, which other kernels may lack, and its code runs at native speed. System calls and page
faults of programs cost more than on the host, and BPF programs are interpreted.
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.02
# Scripts come as files of a folder that the guest shares with the host.
JOB = """cd '{folder}'
n=0
while [ ! -e end ]; do
  [ -e $n.sh ] || {{ sleep {poll}; continue; }}
  sh ./$n.sh > $n.out 2> $n.err
  echo $? > $n.part
  mv $n.part $n.code
  n=$((n + 1))
done
"""


class Ended(Exception):
    """The guest or a script of it ended with an error."""


def processor_s(process):
    """The processor time of a process, of its children, and of those that have ended, in seconds."""
    of, ticks = {}, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        fields = text.rsplit(")", 1)[1].split()
        of[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    parents = {process}
    for _ in range(8):
        parents |= {own for own, (parent, _) in of.items() if parent in parents}
    ticks = sum(used for own, (_, used) in of.items() if own in parents)
    return ticks / os.sysconf("SC_CLK_TCK")


class Guest:
    """A guest that runs while the `with` block does."""

    def __init__(self, memory_mb=4096):
        self.memory_mb, self.number = memory_mb, 0

    def __enter__(self):
        self.held = tempfile.TemporaryDirectory(prefix="edt-guest-")
        self.folder = Path(self.held.name).resolve()
        (self.folder / "job").write_text(JOB.format(folder=self.folder, poll=POLL_S))
        self.process = subprocess.Popen([ROOT / "tools/virtual/boot", self.folder / "job", str(self.memory_mb), self.folder],
                                        env=dict(os.environ, BOOT_TIME="host"), start_new_session=True, stdout=subprocess.DEVNULL)
        return self

    def ask(self, script, limit_s=3600):
        """(output, processor time of the guest in s, time in s) of a script."""
        at = self.folder / str(self.number)
        before, began = processor_s(self.process.pid), time.monotonic()
        part = at.with_suffix(".new")
        part.write_text(script)
        part.rename(at.with_suffix(".sh"))
        while not at.with_suffix(".code").exists():
            if self.process.poll() is not None or time.monotonic() > began + limit_s:
                raise Ended(f"no end of: {script[:300]}\n{self.told(at)}")
            time.sleep(POLL_S)
        took, used = time.monotonic() - began, processor_s(self.process.pid) - before
        self.number += 1
        if at.with_suffix(".code").read_text().strip() != "0":
            raise Ended(f"failed: {script[:300]}\n{self.told(at)}")
        return at.with_suffix(".out").read_text(), used, took

    def told(self, at):
        return "".join(file.read_text()[-1500:] for file in (at.with_suffix(".out"), at.with_suffix(".err")) if file.exists())

    def __exit__(self, *_):
        (self.folder / "end").touch()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.held.cleanup()


class Host:
    """This machine's own kernel, which may lack netem. Processor time is not measured: that of packets belongs to no process."""

    def __enter__(self):
        return self

    def ask(self, script, limit_s=3600):
        began = time.monotonic()
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=limit_s)
        if done.returncode:
            raise Ended(f"failed: {script[:300]}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout, None, time.monotonic() - began

    def __exit__(self, *_):
        for space in ("near", "far", "bare-near", "bare-far"):
            subprocess.run(["ip", "netns", "del", f"edt-{space}"], stderr=subprocess.DEVNULL)
