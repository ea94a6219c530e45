"""Raw data of the parts, with what the machine did beside."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RAW = Path(os.environ.get("RAW", HERE / "raw"))


def rows_of(name, afresh=False):
    path = RAW / f"{name}.json"
    return [] if afresh or not path.exists() else json.loads(path.read_text())["rows"]


def commit():
    """The commit of the tree, with `-dirty` where a crate or this folder is not as committed."""
    git = lambda *words: subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "../../crates", ".") else "")


def keep(name, rows, **about):
    """Writes the file. The load is the lowest and the highest of the times at which rows were kept."""
    path, load = RAW / f"{name}.json", os.getloadavg()[0]
    old = json.loads(path.read_text()).get("load", [load, load]) if path.exists() else [load, load]
    document = {"date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "commit": commit(), "kernel": platform.release(), "processors": os.cpu_count(),
                "load": [min(old[0], load), max(old[1], load)], **about, "rows": rows}
    RAW.mkdir(exist_ok=True)
    part = path.with_suffix(".new")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.rename(path)
