"""Writes ../data/notations/: one set of messages in every notation of OMM, and what python-sgp4 makes of them.

Run by hand when the oracle is to be renewed; the tests read the files and need no Python:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install skyfield sgp4
    /tmp/venv/bin/python crates/orbit/tests/oracle/notations_oracle.py

The objects are made up, in the shapes that catalogues publish: low, sun-synchronous, navigation, geostationary, Molniya and
a transfer orbit. `positions.json` holds TEME states of python-sgp4 (Vallado's C++), read from the XML and CSV by its own
`omm` module, and `inertial.json` states in five frames by skyfield (its own precession and nutation).
"""

import csv
import io
import json
import pathlib
from importlib.metadata import version

import numpy as np
from sgp4 import omm
from sgp4.api import Satrec, jday
from skyfield.api import load
from skyfield.framelib import (
    ICRS_to_J2000,
    itrs,
    mean_equator_and_equinox_of_date,
    true_equator_and_equinox_of_date,
)
from skyfield.positionlib import ICRF
from skyfield.units import Distance, Velocity
from skyfield.constants import AU_KM, DAY_S

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent / "data" / "notations"

# Name, designator, number, mean motion, e, i, node, perigee, mean anomaly, B*.
OBJECTS = [
    ("ALPHA 1", "2026-001A", 799500001, 15.05, 0.0001, 53.0, 10.0, 80.0, 20.0, 1e-4),
    ("BRAVO SSO", "2026-002B", 100002, 14.57, 0.0012, 97.8, 300.25, 12.5, 347.5, 3.2e-5),
    ("CHARLIE NAV", "2026-003C", 70003, 2.00563, 0.008, 55.1, 129.4, 41.0, 319.2, 0.0),
    ("DELTA GEO", "2026-004D", 70004, 1.00271, 0.0003, 0.04, 85.2, 190.1, 210.7, 0.0),
    ("ECHO MOLNIYA", "2026-005E", 70005, 2.00601, 0.722, 63.4, 250.0, 281.3, 10.2, 1e-5),
    ("FOXTROT GTO", "2026-006F", 70006, 2.26, 0.73, 6.1, 44.0, 178.4, 182.0, 5e-5),
]
EPOCH = "2026-11-20T12:00:00.123456"
HOURS = [-30, 0, 1, 5, 24, 100]
DERIVED = {"MEAN_MOTION_DOT": "0.00001", "MEAN_MOTION_DDOT": "0"}
METADATA = {"CENTER_NAME": "EARTH", "REF_FRAME": "TEME", "TIME_SYSTEM": "UTC", "MEAN_ELEMENT_THEORY": "SGP4"}
NAMES = ["OBJECT_NAME", "OBJECT_ID"]
MEAN = ["EPOCH", "MEAN_MOTION", "ECCENTRICITY", "INCLINATION", "RA_OF_ASC_NODE", "ARG_OF_PERICENTER", "MEAN_ANOMALY"]
TLE = ["EPHEMERIS_TYPE", "CLASSIFICATION_TYPE", "NORAD_CAT_ID", "ELEMENT_SET_NO", "REV_AT_EPOCH", "BSTAR",
       "MEAN_MOTION_DOT", "MEAN_MOTION_DDOT"]


def fields(of):
    name, designator, number, motion, e, i, node, perigee, anomaly, bstar = of
    return {
        "OBJECT_NAME": name, "OBJECT_ID": designator, "EPOCH": EPOCH, "MEAN_MOTION": repr(motion),
        "ECCENTRICITY": repr(e), "INCLINATION": repr(i), "RA_OF_ASC_NODE": repr(node),
        "ARG_OF_PERICENTER": repr(perigee), "MEAN_ANOMALY": repr(anomaly), "EPHEMERIS_TYPE": "0",
        "CLASSIFICATION_TYPE": "U", "NORAD_CAT_ID": str(number), "ELEMENT_SET_NO": "999", "REV_AT_EPOCH": "1234",
        "BSTAR": repr(bstar), **DERIVED,
    }


def xml(records):
    def tags(keys, record):
        return "".join(f"<{key}>{record[key]}</{key}>" for key in keys)

    messages = "\n".join(
        '<omm id="CCSDS_OMM_VERS" version="2.0"><header><COMMENT>made up</COMMENT><CREATION_DATE/><ORIGINATOR/></header>'
        f"<body><segment><metadata>{tags(NAMES, r)}{tags(METADATA, METADATA)}</metadata>"
        f"<data><meanElements>{tags(MEAN, r)}</meanElements><tleParameters>{tags(TLE, r)}</tleParameters></data>"
        "</segment></body></omm>"
        for r in records
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<ndm xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n{messages}\n</ndm>\n'


def kvn(records):
    def message(record):
        lines = ["CCSDS_OMM_VERS = 2.0", "COMMENT made up", "CREATION_DATE = 2026-11-20T13:00:00", "ORIGINATOR = ME"]
        both = {**METADATA, **record}
        lines += [f"{key:<20} = {both[key]}" for key in [*NAMES, *METADATA, *MEAN, *TLE]]
        return "\n".join(lines)

    return "\n\n".join(message(r) for r in records) + "\n"


def table(records, quoting):
    out = io.StringIO()
    writer = csv.DictWriter(out, [*NAMES, *MEAN, *TLE], quoting=quoting)
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def numbers(record):
    text = {"OBJECT_NAME", "OBJECT_ID", "EPOCH", "CLASSIFICATION_TYPE"}
    return {key: value if key in text else json.loads(value) for key, value in record.items()}


def states(satellite, epoch):
    rows = []
    for hour in HOURS:
        jd, fraction = epoch
        error, position, velocity = satellite.sgp4(jd, fraction + hour / 24.0)
        assert error == 0, error
        rows.append({"hours": hour, "position_km": position, "velocity_km_per_s": velocity})
    return rows


def inertial():
    """A state in five frames at instants over thirty years, with UT1 taken as UTC."""
    rows = []
    for year, month, day, hour, tai in [(1996, 3, 1, 7, 30), (2006, 7, 9, 0, 33), (2016, 12, 31, 23, 36), (2026, 11, 21, 5.3, 37)]:
        # delta T such that UT1 is UTC: TT - UTC.
        timescale = load.timescale(delta_t=tai + 32.184, builtin=True)
        at = timescale.utc(year, month, day, hour)
        for position_km, velocity in [((6928.0, 100.0, 50.0), (-0.2, 4.6, 6.0)), ((42164.0, -3000.0, 120.0), (0.2, 3.0, 0.1))]:
            place = ICRF(
                Distance(km=position_km).au, Velocity(km_per_s=velocity).au_per_d, t=at, center=399
            )
            def turned(rotation):
                return [(rotation @ np.array(v) * scale).tolist() for v, scale in
                        [(place.position.au, AU_KM * 1e3), (place.velocity.au_per_d, AU_KM * 1e3 / DAY_S)]]
            xyz, rate = place.frame_xyz_and_velocity(itrs)
            rows.append({
                "utc": at.utc_strftime("%Y-%m-%dT%H:%M:%SZ"),
                "gcrf": turned(np.eye(3)),
                "eme2000": turned(ICRS_to_J2000),
                "mean_of_date": turned(mean_equator_and_equinox_of_date.rotation_at(at)),
                "true_of_date": turned(true_equator_and_equinox_of_date.rotation_at(at)),
                "itrf": [xyz.m.tolist(), rate.m_per_s.tolist()],
            })
    return rows


def main():
    FOLDER.mkdir(exist_ok=True)
    records = [fields(of) for of in OBJECTS]
    text = xml(records)
    expected = []
    for record in omm.parse_xml(io.StringIO(text)):
        satellite = Satrec()
        # python-sgp4 takes numbers up to 339999 only; the number does not move the object.
        omm.initialize(satellite, {**record, "NORAD_CAT_ID": str(int(record["NORAD_CAT_ID"]) % 100000)})
        epoch = jday(2026, 11, 20, 12, 0, 0.123456)
        expected.append({"name": record["OBJECT_NAME"], "states": states(satellite, epoch)})
    by_csv = []
    for record in omm.parse_csv(io.StringIO(table(records, csv.QUOTE_MINIMAL))):
        satellite = Satrec()
        # python-sgp4 takes numbers up to 339999 only; the number does not move the object.
        omm.initialize(satellite, {**record, "NORAD_CAT_ID": str(int(record["NORAD_CAT_ID"]) % 100000)})
        by_csv.append({"name": record["OBJECT_NAME"], "states": states(satellite, epoch)})
    assert by_csv == expected
    unmarked = json.dumps([numbers(r) for r in records], indent=1)
    files = {
        "messages.xml": text.encode(),
        "messages.kvn": kvn(records).encode(),
        "messages.csv": table(records, csv.QUOTE_MINIMAL).encode(),
        "quoted.csv": table(records, csv.QUOTE_ALL).replace("\r\n", "\n").encode(),
        "marked.csv": b"\xef\xbb\xbf" + table(records, csv.QUOTE_ALL).encode(),
        "messages.json": unmarked.encode(),
        "strings.json": json.dumps([{**METADATA, **r} for r in records], indent=1).encode(),
        "utf16.json": b"\xff\xfe" + unmarked.replace("\n", "\r\n").encode("utf-16-le"),
        "lower.xml": text.replace("EARTH", "Earth").replace(">UTC<", ">utc<").encode(),
        "spaced.csv": table([{**r, "EPOCH": "2026-11-20 12:00:00.123456"} for r in records], csv.QUOTE_ALL).encode(),
        "day.json": json.dumps([{**numbers(r), "EPOCH": "2026-324T12:00:00.123456Z"} for r in records]).encode(),
        "tai.kvn": kvn(records).replace("TIME_SYSTEM          = UTC", "TIME_SYSTEM          = TAI")
        .replace(EPOCH, "2026-11-20T12:00:37.123456").encode(),
    }
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)
    about = f"notations_oracle.py with sgp4 {version('sgp4')} and skyfield {version('skyfield')}"
    (FOLDER / "positions.json").write_text(json.dumps({"about": about, "objects": expected}, separators=(",", ":")) + "\n")
    (FOLDER / "inertial.json").write_text(json.dumps({"about": about, "rows": inertial()}, separators=(",", ":")) + "\n")
    print(FOLDER, len(files), "files")


if __name__ == "__main__":
    main()
