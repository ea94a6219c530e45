"""Opens the CZML export with Cesium itself and compares the positions it shows with those computed at the instant.

Needs node and npm: the package @cesium/engine goes to a folder in /tmp (NODE_FOLDER for another one).
"""

import csv
import os
import pathlib
import shutil
import subprocess
import sys

import common

FOLDER = pathlib.Path(os.environ.get("NODE_FOLDER", "/tmp/constel-cesium"))
SCENARIO = common.ROOT / "scenarios/iridium.yaml"


def main():
    if not (FOLDER / "node_modules/@cesium/engine").is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), "@cesium/engine@26.3.0"], check=True)
    # Where node looks for packages of a file: beside it.
    program = shutil.copy(common.HERE / "cesium.mjs", FOLDER)
    czml, truth = common.RAW / "iridium.czml", common.RAW / "positions.csv"
    czml.unlink(missing_ok=True)
    common.run("plan", str(SCENARIO), "--export", "czml", "--to", "1h", "--every", "60s", "--out", str(czml))
    with open(truth, "w") as out:
        # On a sample and between samples.
        for at in (0, 30, 1230, 2575, 3570):
            text = common.run("plan", str(SCENARIO), "--export", "csv", "--from", f"{at}s", "--to", f"{at + 1}s", "--every", "1s")[3]
            for row in csv.DictReader(text.decode().splitlines()):
                print(row["t_utc"], row["sat_id"], row["x_m"], row["y_m"], row["z_m"], sep=",", file=out)
    return subprocess.run(["node", program, str(czml), str(truth)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
