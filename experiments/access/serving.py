"""Known serving satellites of Victoria's dish among those in view: `serving.py MEASURED > raw/serving.md`.

Needs skyfield (`pip install skyfield`). MEASURED is a folder with `victoria-2025-05-29`.
"""

import csv
import math
import sys
from datetime import datetime
from pathlib import Path

from skyfield.api import EarthSatellite, load, wgs84

DISH = wgs84.latlon(48.51, -124.29)
MASK_DEG = 25.0
GEO_RADIUS_KM = 42_164.0
EARTH_RADIUS_KM = 6_378.137


def arc_distance_deg(elevation_deg, azimuth_deg):
    """The least angle from the geostationary arc as the dish sees it, on a sphere."""
    latitude = math.radians(DISH.latitude.degrees)
    look = [math.radians(angle) for angle in (elevation_deg, azimuth_deg)]
    ray = (math.cos(look[0]) * math.sin(look[1]), math.cos(look[0]) * math.cos(look[1]), math.sin(look[0]))
    least = 180.0
    for tenth in range(-800, 801):
        east = math.radians(tenth / 10)
        # The satellite relative to the dish: east, and in the plane of the meridian out and up along the axis.
        x = GEO_RADIUS_KM * math.sin(east)
        out = GEO_RADIUS_KM * math.cos(east) - EARTH_RADIUS_KM * math.cos(latitude)
        up_axis = -EARTH_RADIUS_KM * math.sin(latitude)
        north = -out * math.sin(latitude) + up_axis * math.cos(latitude)
        up = out * math.cos(latitude) + up_axis * math.sin(latitude)
        length = math.sqrt(x * x + north * north + up * up)
        if up > 0:
            cosine = (ray[0] * x + ray[1] * north + ray[2] * up) / length
            least = min(least, math.degrees(math.acos(max(-1.0, min(1.0, cosine)))))
    return least


def main():
    folder = Path(sys.argv[1]) / "victoria-2025-05-29"
    scale = load.timescale(builtin=True)
    lines = (folder / "starlink.tle").read_text().splitlines()
    fleet = [
        EarthSatellite(lines[at + 1], lines[at + 2], lines[at].strip(), scale) for at in range(0, len(lines), 3)
    ]
    first = {}
    for row in csv.DictReader((folder / "serving.csv").open()):
        first.setdefault(row["satellite"], row["utc"])
    print("| from, UTC | satellite | launched | elevation | azimuth | from the GSO arc | place by elevation | in view | highest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, utc in first.items():
        when = scale.from_datetime(datetime.fromisoformat(utc))
        seen = []
        for satellite in fleet:
            elevation, azimuth, _ = (satellite - DISH).at(when).altaz()
            if elevation.degrees > MASK_DEG:
                seen.append((elevation.degrees, azimuth.degrees, satellite))
        seen.sort(key=lambda row: -row[0])
        place = next(at for at, row in enumerate(seen, 1) if row[2].name == name)
        elevation, azimuth, satellite = seen[place - 1]
        print(
            f"| {utc[11:19]} | {name} | 20{satellite.model.intldesg[:2]} | {elevation:.1f} deg | {azimuth:.1f} deg "
            f"| {arc_distance_deg(elevation, azimuth):.1f} deg | {place} | {len(seen)} | {seen[0][0]:.1f} deg |"
        )


main()
