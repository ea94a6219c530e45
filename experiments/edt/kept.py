"""Raw data of the parts, with what the machine did beside."""

import json
import os
import platform
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tree  # noqa: E402

RAW = Path(os.environ.get("RAW", HERE / "raw"))


def rows_of(name, afresh=False):
    path = RAW / f"{name}.json"
    return [] if afresh or not path.exists() else json.loads(path.read_text())["rows"]


def keep(name, rows, **about):
    """Writes the file. The load is the lowest and the highest of the times at which rows were kept."""
    path, load = RAW / f"{name}.json", os.getloadavg()[0]
    old = json.loads(path.read_text()).get("load", [load, load]) if path.exists() else [load, load]
    document = {"date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "commit": tree.commit("experiments/edt"), "kernel": platform.release(), "processors": os.cpu_count(),
                "load": [min(old[0], load), max(old[1], load)], **about, "rows": rows}
    RAW.mkdir(exist_ok=True)
    part = path.with_suffix(".new")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.rename(path)
