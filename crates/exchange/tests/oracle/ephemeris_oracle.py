"""Writes ../data/ephemeris/: the orbits of two objects in every format, frame and time scale that is read, and where they are.

Run by hand when the oracle is to be renewed; the tests read the files and need no Python:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install skyfield sgp4
    /tmp/venv/bin/python crates/exchange/tests/oracle/ephemeris_oracle.py

The orbits are Keplerian in GCRF, one low and one geostationary, so that what is measured is frames, scales and formats. Frames
are skyfield's own (its precession, nutation and sidereal time), with UT1 taken as UTC and no polar motion, as Constel does.
The files have the shapes of public ones: NASA's ISS message (EME2000), operators' ICRF and GCRF, the IGS's SP3-c and SP3-d,
STK's `.e`.
"""

import datetime
import json
import math
import pathlib
from importlib.metadata import version

import numpy as np
from skyfield.api import load
from skyfield.constants import AU_KM, DAY_S
from skyfield.framelib import (
    ICRS_to_J2000,
    itrs,
    mean_equator_and_equinox_of_date,
    true_equator_and_equinox_of_date,
)
from skyfield.positionlib import ICRF
from skyfield.sgp4lib import TEME
from skyfield.units import Distance, Velocity

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "data" / "ephemeris"
MU = 398600.4418
START = datetime.datetime(2026, 11, 21)
TAI_MINUS_UTC = 37
# What a clock of each scale shows at UTC, seconds more.
AHEAD = {"UTC": 0.0, "TAI": 37.0, "GPS": 18.0, "TT": 69.184}
TIMESCALE = load.timescale(delta_t=TAI_MINUS_UTC + 32.184, builtin=True)
# Semi-major axis km, inclination, node deg, step s, states.
ORBITS = {"LOW": (6928.137, 53.0, 40.0, 60, 31), "GEO": (42164.2, 0.07, 95.0, 300, 31)}
FRAMES = {
    "GCRF": lambda at: np.eye(3),
    "EME2000": lambda at: ICRS_to_J2000,
    "MOD": mean_equator_and_equinox_of_date.rotation_at,
    "TOD": true_equator_and_equinox_of_date.rotation_at,
    "TEME": TEME.rotation_at,
}


def gcrf(orbit, seconds):
    axis, inclination, node, _, _ = ORBITS[orbit]
    n = math.sqrt(MU / axis**3)
    i, o, u = math.radians(inclination), math.radians(node), n * seconds + 0.3
    p = np.array([math.cos(o), math.sin(o), 0.0])
    q = np.array([-math.sin(o) * math.cos(i), math.cos(o) * math.cos(i), math.sin(i)])
    return axis * (p * math.cos(u) + q * math.sin(u)), axis * n * (q * math.cos(u) - p * math.sin(u))


def place(orbit, seconds):
    at = TIMESCALE.utc(2026, 11, 21, 0, 0, seconds)
    position, velocity = gcrf(orbit, seconds)
    return at, ICRF(Distance(km=position).au, Velocity(km_per_s=velocity).au_per_d, t=at, center=399)


def state(orbit, seconds, frame):
    """Position in km and velocity in km/s."""
    at, own = place(orbit, seconds)
    if frame == "ITRF":
        xyz, rate = own.frame_xyz_and_velocity(itrs)
        return xyz.km, rate.km_per_s
    rotation = FRAMES[frame](at)
    return rotation @ own.position.au * AU_KM, rotation @ own.velocity.au_per_d * AU_KM / DAY_S


def clock(seconds, scale, form="%Y-%m-%dT%H:%M:%S.%f"):
    return (START + datetime.timedelta(seconds=seconds + AHEAD[scale])).strftime(form)


def times(orbit):
    step, count = ORBITS[orbit][3:]
    return [step * n for n in range(count)]


def oem(frame, scale, label=None):
    out = ["CCSDS_OEM_VERS = 2.0", "CREATION_DATE = 2026-11-20T00:00:00", "ORIGINATOR = ME"]
    for orbit in ORBITS:
        seconds = times(orbit)
        out += ["", "META_START", f"OBJECT_NAME          = {orbit}", "OBJECT_ID            = 2026-001A",
                "CENTER_NAME          = EARTH", f"REF_FRAME            = {label or frame}", f"TIME_SYSTEM          = {scale}",
                f"START_TIME           = {clock(seconds[0], scale)}", f"STOP_TIME            = {clock(seconds[-1], scale)}",
                "META_STOP", "COMMENT made up"]
        for s in seconds:
            position, velocity = state(orbit, s, frame)
            numbers = " ".join(f"{x:.9f}" for x in position) + " " + " ".join(f"{x:.12f}" for x in velocity)
            out.append(f"{clock(s, scale)} {numbers}")
    return "\n".join(out) + "\n"


def oem_xml(frame, scale):
    segments = ""
    for orbit in ORBITS:
        seconds = times(orbit)
        segments += (
            f"<segment><metadata><OBJECT_NAME>{orbit}</OBJECT_NAME><OBJECT_ID>2026-001A</OBJECT_ID>"
            f"<CENTER_NAME>Earth</CENTER_NAME><REF_FRAME>{frame}</REF_FRAME><TIME_SYSTEM>{scale}</TIME_SYSTEM>"
            f"<START_TIME>{clock(seconds[0], scale)}</START_TIME><STOP_TIME>{clock(seconds[-1], scale)}</STOP_TIME></metadata>\n<data>\n"
        )
        for s in seconds:
            position, velocity = state(orbit, s, frame)
            tags = "".join(f'<{k} units="km">{x:.9f}</{k}>' for k, x in zip("XYZ", position))
            tags += "".join(f'<{k}_DOT units="km/s">{x:.12f}</{k}_DOT>' for k, x in zip("XYZ", velocity))
            segments += f"<stateVector><EPOCH>{clock(s, scale, '%Y-%jT%H:%M:%S.%f')}Z</EPOCH>{tags}</stateVector>\n"
        segments += "</data></segment>\n"
    return ('<?xml version="1.0" encoding="UTF-8"?>\n<ndm>\n<oem id="CCSDS_OEM_VERS" version="2.0"><header>'
            "<CREATION_DATE>2026-11-20T00:00:00</CREATION_DATE><ORIGINATOR>ME</ORIGINATOR></header>\n<body>\n"
            f"{segments}</body>\n</oem>\n</ndm>\n")


def sp3(velocities, version_letter, scale):
    step, count = 300, 31
    kind = "V" if velocities else "P"
    day = f"{START:%Y %m %d}"
    out = [f"#{version_letter}{kind}{day}  0  0  0.00000000 {count:7d} ORBIT IGS20 FIT ME  ",
           f"## 2445 518400.00000000 {step:14.8f} 61365 0.0000000000000",
           "+    2   G01G02" + "  0" * 15, "++         2  2" + "  0" * 15,
           f"%c M  cc {scale:<3} ccc cccc cccc cccc cccc ccccc ccccc ccccc ccccc",
           "%c cc cc ccc ccc cccc cccc cccc cccc ccccc ccccc ccccc ccccc",
           "%f  1.2500000  1.025000000  0.00000000000  0.000000000000000", "%i    0    0    0    0      0      0      0      0         0",
           "/* made up"]
    for n in range(count):
        s = n * step - AHEAD[scale]
        when = START + datetime.timedelta(seconds=n * step)
        out.append(f"*  {when:%Y} {when.month:2d} {when.day:2d} {when.hour:2d} {when.minute:2d} {when.second + 0.0:11.8f}")
        for name, orbit in [("G01", "GEO"), ("G02", "GEO")]:
            # The second has no orbit for a while.
            position, velocity = state(orbit, s, "ITRF")
            if name == "G02" and 12 <= n < 16:
                position, velocity = np.zeros(3), np.zeros(3)
            out.append(f"P{name}" + "".join(f"{x:14.6f}" for x in position) + f"{999999.999999:14.6f}")
            if velocities:
                out.append(f"V{name}" + "".join(f"{x * 1e4:14.6f}" for x in velocity) + f"{999999.999999:14.6f}")
    return "\n".join(out) + "\nEOF\n"


def stk(orbit, frame, label, kilometres=False):
    scale = 1.0 if kilometres else 1e3
    seconds = times(orbit)
    out = ["stk.v.11.0", "", "# WrittenBy ME", "BEGIN Ephemeris", "", f"NumberOfEphemerisPoints {len(seconds)}",
           "ScenarioEpoch            21 Nov 2026 00:00:00.000000000", "InterpolationMethod      Lagrange",
           "InterpolationSamplesM1   7", "CentralBody              Earth", f"CoordinateSystem         {label}"]
    if kilometres:
        out.append("DistanceUnit             Kilometers")
    out += ["", "EphemerisTimePosVel", ""]
    for s in seconds:
        position, velocity = state(orbit, s, frame)
        out.append(f" {s:.14e} " + " ".join(f"{x * scale:.14e}" for x in [*position, *velocity]))
    return "\n".join(out) + "\n\nEND Ephemeris\n"


def main():
    FOLDER.mkdir(exist_ok=True)
    files = {
        "icrf-utc.oem": oem("GCRF", "UTC", "ICRF"), "gcrf-tt.oem": oem("GCRF", "TT"), "eme2000-utc.oem": oem("EME2000", "UTC"),
        "eme2000-tai.oem": oem("EME2000", "TAI"), "tod-gps.oem": oem("TOD", "GPS"), "mod-utc.oem": oem("MOD", "UTC"),
        "teme-utc.oem": oem("TEME", "UTC"), "itrf-gps.oem": oem("ITRF", "GPS", "ITRF2014"), "gcrf-utc.xml": oem_xml("GCRF", "UTC"),
        "igs.sp3": sp3(False, "c", "GPS"), "moving.sp3": sp3(True, "d", "UTC"),
        "low-icrf.e": stk("LOW", "GCRF", "ICRF"), "low-j2000.e": stk("LOW", "EME2000", "J2000", True),
        "geo-fixed.e": stk("GEO", "ITRF", "Fixed"), "low-tod.e": stk("LOW", "TOD", "TrueOfDate"),
    }
    for name, text in files.items():
        (FOLDER / name).write_text(text)
    expected = {
        orbit: [
            {"utc": clock(s, "UTC") + "Z", "itrf_m": [x * 1e3 for x in state(orbit, s, "ITRF")[0]]}
            for s in [step * 0.37 * n for n in range(1, 80) for step in [ORBITS[orbit][3]]]
        ]
        for orbit in ORBITS
    }
    about = f"ephemeris_oracle.py with skyfield {version('skyfield')}"
    (FOLDER / "expected.json").write_text(json.dumps({"about": about, "orbits": expected}, separators=(",", ":")) + "\n")
    print(FOLDER, len(files), "files")


if __name__ == "__main__":
    main()
