"""Writes ../data/skyfield.json: what skyfield says about 50 real Starlink satellites over a day.

Run by hand when the oracle is to be renewed; the tests read the JSON and need no Python:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install skyfield
    /tmp/venv/bin/python crates/orbit/tests/oracle/skyfield_oracle.py

Skyfield (Rhodes, PyPI) is an independent implementation: its SGP4 is Vallado's C++, its way to the
ITRF goes through its own precession and nutation. Needs no download: the timescale is built in.
"""

import json
import math
import pathlib
from importlib.metadata import version

from skyfield.api import EarthSatellite, load, wgs84
from skyfield.framelib import itrs

ORACLE_VERSION = 1
HERE = pathlib.Path(__file__).resolve().parent
TLE_FILE = HERE.parents[3] / "scenarios" / "data" / "starlink-2022-09-14.tle"
SATELLITES = 50
HOURS = range(0, 25, 3)
# Name, latitude deg, longitude deg, height m: both hemispheres, near a pole, on the date line.
SITES = [
    ("Tokyo", 35.6895, 139.69171, 40.0),
    ("Quito", -0.22985, -78.52495, 2850.0),
    ("Longyearbyen", 78.22334, 15.64689, 10.0),
    ("Suva", -18.14161, 178.44149, 0.0),
    ("McMurdo", -77.846, 166.676, 100.0),
    ("Dead Sea", 31.5, 35.5, -430.0),
]


def main():
    timescale = load.timescale(builtin=True)
    lines = [line.rstrip() for line in TLE_FILE.read_text().splitlines()]
    objects = [lines[at : at + 3] for at in range(0, len(lines) - 2, 3)]
    chosen = [objects[at * len(objects) // SATELLITES] for at in range(SATELLITES)]
    sites = [wgs84.latlon(latitude, longitude, height) for _, latitude, longitude, height in SITES]
    instants = [timescale.utc(2022, 9, 14, hour, 7, 30) for hour in HOURS]

    satellites = []
    for index, (name, line1, line2) in enumerate(chosen):
        satellite = EarthSatellite(line1, line2, name, timescale)
        rows = []
        for at, instant in enumerate(instants):
            place = satellite.at(instant)
            position, velocity = place.frame_xyz_and_velocity(itrs)
            below = wgs84.geographic_position_of(place)
            site = (index + at) % len(sites)
            elevation, azimuth, distance = (satellite - sites[site]).at(instant).altaz()
            values = [*position.m, *velocity.m_per_s]
            if not all(math.isfinite(value) for value in values):
                raise SystemExit(f"{name}: skyfield has no position")
            rows.append(
                {
                    "position_itrf_m": [round(value, 4) for value in position.m],
                    "velocity_itrf_m_per_s": [round(value, 6) for value in velocity.m_per_s],
                    "latitude_deg": round(below.latitude.degrees, 10),
                    "longitude_deg": round(below.longitude.degrees, 10),
                    "height_m": round(below.elevation.m, 4),
                    "site": site,
                    "elevation_deg": round(elevation.degrees, 9),
                    "azimuth_deg": round(azimuth.degrees, 9),
                    "range_m": round(distance.m, 4),
                }
            )
        satellites.append({"name": name, "lines": [line1, line2], "rows": rows})

    result = {
        "about": f"written by skyfield_oracle.py version {ORACLE_VERSION} with "
        f"skyfield {version('skyfield')} and sgp4 {version('sgp4')}",
        "source": TLE_FILE.name,
        "instants": [
            {
                "utc": f"2022-09-{14 + hour // 24:02}T{hour % 24:02}:07:30Z",
                "dut1_s": float(instant.dut1),
            }
            for hour, instant in zip(HOURS, instants)
        ],
        "sites": [
            {
                "name": name,
                "latitude_deg": latitude,
                "longitude_deg": longitude,
                "height_m": height,
                "position_itrf_m": [round(value, 4) for value in site.itrs_xyz.m],
            }
            for (name, latitude, longitude, height), site in zip(SITES, sites)
        ],
        "satellites": satellites,
    }
    target = HERE.parent / "data" / "skyfield.json"
    target.write_text(json.dumps(result, indent=None, separators=(",", ":")) + "\n")
    print(f"{target}: {len(satellites)} satellites, {len(instants)} instants")


if __name__ == "__main__":
    main()
