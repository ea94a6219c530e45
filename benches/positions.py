"""Positions of 4,408 satellites over an hour: Constel's frame, sgp4 in numpy, skyfield. Started by benches/positions."""

import json
import math
import sys
import tempfile
import time
from pathlib import Path

import constel
import numpy
import pyarrow
from sgp4.api import WGS72, Satrec, SatrecArray, jday
from sgp4.exporter import export_tle
from skyfield.api import EarthSatellite, load
from skyfield.framelib import itrs
from skyfield.sgp4lib import TEME

# Starlink's first generation: altitude (km), inclination (deg), planes, satellites of a plane.
SHELLS = [(550, 53.0, 72, 22), (540, 53.2, 72, 22), (570, 70.0, 36, 20), (560, 97.6, 6, 58), (560, 97.6, 4, 43)]
START = "2026-11-21T00:00:00Z"
SECONDS, EVERY = 3600, 10
MU_KM3_PER_S2, R_KM = 398_600.8, 6378.135


def elements():
    """One element set for each satellite, of SGP4's own gravity model."""
    days = (numpy.datetime64(START[:10]) - numpy.datetime64("1949-12-31")) / numpy.timedelta64(1, "D")
    made = []
    for altitude, inclination, planes, slots in SHELLS:
        motion = math.sqrt(MU_KM3_PER_S2 / (R_KM + altitude) ** 3) * 60
        for plane in range(planes):
            for slot in range(slots):
                one = Satrec()
                anomaly = 2 * math.pi * (slot / slots + plane / (planes * slots)) % (2 * math.pi)
                # The two shells of one altitude and inclination are turned against each other.
                node = 2 * math.pi * (plane + 0.5 * len(made) / 4408) / planes
                orbit = (0.0, 1e-5, 0.0, math.radians(inclination), anomaly, motion, node % (2 * math.pi))
                one.sgp4init(WGS72, "i", len(made) + 1, float(days), 0.0, 0.0, 0.0, *orbit[1:])
                made.append(one)
    return made


def scenario(folder, satellites):
    lines = [line for one in satellites for line in export_tle(one)]
    (folder / "elements.tle").write_text("\n".join(lines) + "\n")
    shells = [
        {
            "name": f"s{number}",
            "altitude": f"{altitude} km",
            "inclination": f"{inclination} deg",
            "altitude_tolerance": "4 km",
            "inclination_tolerance": "0.09 deg",
            "planes": planes,
        }
        for number, (altitude, inclination, planes, _) in enumerate([*SHELLS[:3], (560, 97.6, 10, 0)])
    ]
    isl = {"pattern": "none"}
    gsl = {"min_elevation": "25 deg", "link": {"rate": "1 Gbit/s"}}
    sky = {"tle": {"file": "elements.tle", "shells": shells}, "isl": isl, "gsl": gsl}
    return constel.Scenario.from_dict(
        {"constel": 1, "name": "positions", "start": START, "duration": f"{SECONDS} s", "step": f"{EVERY} s", "constellations": {"all": sky}},
        folder,
    )


def timed(work):
    began = time.perf_counter()
    value = work()
    return value, round(time.perf_counter() - began, 3)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    satellites = elements()
    with tempfile.TemporaryDirectory() as folder:
        built, build_s = timed(lambda: scenario(Path(folder), satellites))
        times = load.timescale(builtin=True)
        instants = times.utc(2026, 11, 21, 0, 0, range(0, SECONDS, EVERY))
        rotation = numpy.einsum("ijt,jkt->ikt", itrs.rotation_at(instants), numpy.transpose(TEME.rotation_at(instants), (1, 0, 2)))
        for number in range(rounds):
            frame, frame_s = timed(built.positions)
            table, arrow_s = timed(lambda: pyarrow.table(frame))
            # From elements to metres in ITRF, as Constel's; the rotation is skyfield's, made before.
            array = SatrecArray(satellites)

            def in_numpy():
                day, rest = jday(2026, 11, 21, 0, 0, 0)
                fractions = rest + numpy.arange(0, SECONDS, EVERY) / 86_400
                _, places, _ = array.sgp4(numpy.full(len(fractions), day), fractions)
                return numpy.einsum("ikt,stk->sti", rotation, places) * 1e3

            fast, numpy_s = timed(in_numpy)

            def in_skyfield():
                every = [EarthSatellite.from_satrec(one, times) for one in satellites]
                return numpy.stack([one.at(instants).frame_xyz(itrs).m.T for one in every])

            slow, skyfield_s = timed(in_skyfield)
            mine = numpy.stack([table[name].to_numpy() for name in ("x_m", "y_m", "z_m")], axis=-1)
            mine = mine.reshape(len(instants), -1, 3).transpose(1, 0, 2)
            # The same satellites by their places at the first instant: Constel sorts them into planes.
            order = [int(numpy.argmin(((slow[:, 0] - place) ** 2).sum(axis=1))) for place in mine[::97, 0]]
            apart = numpy.sqrt(((mine[::97] - slow[order]) ** 2).sum(axis=-1))
            print(
                json.dumps(
                    {
                        "bench": "positions",
                        "round": number,
                        "satellites": len(mine),
                        "rows": len(frame),
                        "build_s": build_s,
                        "constel_s": frame_s,
                        "to_arrow_s": arrow_s,
                        "sgp4_numpy_s": numpy_s,
                        "skyfield_s": skyfield_s,
                        "apart_max_m": round(float(apart.max()), 3),
                        "numpy_apart_max_m": round(float(numpy.sqrt(((fast - slow) ** 2).sum(axis=-1)).max()), 3),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
