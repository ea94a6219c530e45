"""Writes ../data/sun.json: where skyfield sees the Sun, and which satellites it finds in sunlight.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install skyfield skyfield-data
    /tmp/venv/bin/python crates/orbit/tests/oracle/sun_oracle.py

The Sun comes from JPL's DE421 (in the package skyfield-data). skyfield's `is_sunlit` is true if the line to the
centre of the Sun misses a sphere of the Earth's polar to equatorial radius. It therefore changes within our
penumbra.
"""

import json
import pathlib
from importlib.metadata import version

import numpy
from skyfield.api import EarthSatellite, Loader
from skyfield.framelib import itrs
from skyfield_data import get_skyfield_data_path

HERE = pathlib.Path(__file__).resolve().parent
TLE_FILE = HERE.parents[3] / "scenarios" / "data" / "starlink-2022-09-14.tle"


def main():
    load = Loader(get_skyfield_data_path(), expire=False)
    timescale = load.timescale(builtin=True)
    planets = load("de421.bsp")
    earth, sun = planets["earth"], planets["sun"]
    suns = []
    for year, month, day, hour in [(1990, 1, 4, 3), (2000, 6, 21, 12), (2010, 10, 2, 7), (2022, 9, 14, 12),
                                   (2026, 11, 21, 0), (2026, 3, 20, 15), (2035, 7, 4, 20), (2048, 12, 31, 23)]:
        t = timescale.utc(year, month, day, hour)
        place = earth.at(t).observe(sun).apparent().frame_xyz(itrs).m
        suns.append({"utc": f"{year}-{month:02}-{day:02}T{hour:02}:00:00Z", "sun_itrf_m": [round(x) for x in place]})
    lines = [line.rstrip() for line in TLE_FILE.read_text().splitlines()]
    objects = [lines[at:at + 3] for at in range(0, len(lines) - 2, 3)]
    # Seconds of 100 minutes from 2022-09-14T12:00:00Z in which each of eight satellites sees the Sun's centre.
    seconds = numpy.arange(0, 6000)
    t = timescale.utc(2022, 9, 14, 12, 0, seconds)
    passes = []
    for name, line1, line2 in objects[:: len(objects) // 8][:8]:
        lit = EarthSatellite(line1, line2, name, timescale).at(t).is_sunlit(planets)
        changes = [int(s) for s in numpy.nonzero(lit[1:] != lit[:-1])[0] + 1]
        passes.append({"line1": line1, "line2": line2, "lit_at_0": bool(lit[0]), "changes_s": changes})
    out = {"skyfield": version("skyfield"), "start": "2022-09-14T12:00:00Z", "seconds": 6000, "suns": suns, "passes": passes}
    (HERE.parent / "data" / "sun.json").write_text(json.dumps(out, indent=1) + "\n")


main()
