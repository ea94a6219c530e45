"""Known facts: periods, Iridium's ranges, satellites in view by latitude, handover intervals, London-New York.

Every figure stands next to one that was not computed by Constel: a closed form, or the literature.
"""

import csv
import io
import json
import math
import sys

import common

MU, EARTH, C = 3.986004418e14, 6378137.0, 299792458.0

IRIDIUM = """constel: 1
name: iridium
seed: 1
start: 2026-11-21T00:00:00Z
duration: 2 h
step: 10 s
constellations:
  iridium:
    walker: {pattern: star, inclination: 86.4 deg, satellites: 66, planes: 6, phasing: 2, altitude: 780 km}
    isl: {pattern: plus-grid, polar_cutoff: 60 deg, max_range: 6000 km, link: {rate: 1 Mbit/s}}
    gsl: {min_elevation: 8.2 deg, link: {rate: 1 Mbit/s}}
"""

facts = []


def fact(what, ours, known, source, holds):
    facts.append({"what": what, "constel": ours, "known": known, "source": source, "holds": bool(holds)})
    print(f"| {what} | {ours} | {known} | {source} | {'yes' if holds else 'NO'} |", flush=True)


def nodal_period_s(file, satellite):
    """Mean time between northward crossings of the equator."""
    text = common.run("plan", file, "--export", "csv", "--to", "4h", "--every", "10s")[3].decode()
    last, crossings = None, []
    for n, row in enumerate(r for r in csv.DictReader(io.StringIO(text)) if r["sat_id"] == satellite):
        z = float(row["z_m"])
        if last is not None and last < 0 <= z:
            crossings.append((n - 1 + last / (last - z)) * 10)
        last = z
    return (crossings[-1] - crossings[0]) / (len(crossings) - 1)


def periods(iridium, shell1):
    for name, file, satellite, altitude_m, inclination, known, source in [
        ("Iridium", iridium, "iridium-p00-s00", 780e3, 86.4, 100.4, "Iridium NEXT's orbital period as published, minutes"),
        ("Shell I", shell1, "shell1-p00-s00", 550e3, 53.0, 95.6, "Starlink at 550 km, minutes (two-body 95.65)"),
    ]:
        minutes = nodal_period_s(file, satellite) / 60
        r = EARTH + altitude_m
        n = math.sqrt(MU / r**3)
        j2 = 1.5 * 1.08262668e-3 * (EARTH / r) ** 2 * n
        nodal = 2 * math.pi / (n + j2 * (4 * math.cos(math.radians(inclination)) ** 2 - 1)) / 60
        fact(f"{name}: nodal period", f"{minutes:.3f} min", f"{nodal:.3f} min", "closed form with J2", abs(minutes - nodal) < 0.002)
        fact(f"{name}: period", f"{minutes:.1f} min", f"{known} min", source, abs(minutes - known) < 0.25)


def iridium_ranges(iridium):
    text = common.run("plan", iridium, "--contacts", "--csv", "--to", "2h")[3].decode()
    intra, inter = [], []
    for row in csv.DictReader(io.StringIO(text)):
        if row["kind"] == "isl":
            same = row["a_node"].rsplit("-", 1)[0] == row["b_node"].rsplit("-", 1)[0]
            (intra if same else inter).append((float(row["range_min_m"]) / 1e3, float(row["range_max_m"]) / 1e3))
    chord = 2 * (EARTH + 780e3) * math.sin(math.pi / 11) / 1e3
    low, high = min(r[0] for r in intra), max(r[1] for r in intra)
    fact("Iridium: range within a plane", f"{low:.1f} .. {high:.1f} km", f"{chord:.1f} km", "2 r sin(pi/11)",
         abs(low - chord) < 1 and abs(high - chord) < 1)
    # Neighbours in co-rotating planes 30 degrees apart, out of phase by half a slot at most, up to 60 degrees north.
    low, high = min(r[0] for r in inter), max(r[1] for r in inter)
    r, i, step = (EARTH + 780e3) / 1e3, math.radians(86.4), math.radians(30)
    lead = 2 * 2 * math.pi / 66

    def apart(u):
        def at(node, u):
            x, y, z = math.cos(u), math.sin(u) * math.cos(i), math.sin(u) * math.sin(i)
            return (x * math.cos(node) - y * math.sin(node), x * math.sin(node) + y * math.cos(node), z)
        p, q = at(0, u), at(step, u + lead)
        return r * math.dist(p, q), max(abs(math.asin(p[2])), abs(math.asin(q[2])))

    allowed = [d for d, lat in (apart(k * math.pi / 5000) for k in range(10000)) if lat <= math.radians(60)]
    fact("Iridium: range across planes below 60 deg", f"{low:.0f} .. {high:.0f} km", f"{min(allowed):.0f} .. {max(allowed):.0f} km",
         "hand-worked for 30 deg and F=2", abs(low - min(allowed)) < 30 and abs(high - max(allowed)) < 30)


# Planes as Iridium's fly, and what is known of them: from one to the next, and across the seam (satobs.org/seesat,
# October 1999, message 0202, from the catalogue: 31.58 and 22.10 degrees).
AS_FLOWN = IRIDIUM.replace("altitude: 780 km", "altitude: 780 km, plane_spacing: 31.6 deg").replace(
    "polar_cutoff: 60 deg", "seam: true")
SPACING_DEG, SEAM_DEG = 31.58, 22.10


def iridium_seam():
    """Angles between planes from positions, and how long a link across the seam can last."""
    file = common.scenario("iridium-as-flown", AS_FLOWN)
    text = common.run("plan", file, "--export", "csv", "--to", "20s", "--every", "10s")[3].decode()
    rows = {}
    for row in csv.DictReader(io.StringIO(text)):
        rows.setdefault(row["sat_id"], []).append([float(row[k]) for k in ("x_m", "y_m", "z_m")])

    def node_deg(satellite):
        """Longitude of the plane's ascending node, from two positions; the Earth's turn taken out."""
        (x, y, z), (x2, y2, z2) = rows[satellite][:2]
        turn = 7.292115e-5 * 10
        x2, y2 = x2 * math.cos(turn) - y2 * math.sin(turn), x2 * math.sin(turn) + y2 * math.cos(turn)
        return math.degrees(math.atan2(y * z2 - z * y2, -(z * x2 - x * z2))) % 360

    nodes = [node_deg(f"iridium-p{p:02}-s00") for p in range(6)]
    steps = [(b - a) % 360 for a, b in zip(nodes, nodes[1:])]
    seam = (nodes[0] + 180 - nodes[5]) % 360
    fact("Iridium as flown: between planes", f"{steps[0]:.2f} deg", f"{SPACING_DEG} deg", "seesat, from the catalogue",
         all(abs(s - SPACING_DEG) < 0.05 for s in steps))
    fact("Iridium as flown: across the seam", f"{seam:.2f} deg", f"{SEAM_DEG} deg", "seesat, from the catalogue",
         abs(seam - SEAM_DEG) < 0.15)
    text = common.run("plan", file, "--contacts", "--csv", "--to", "2h")[3].decode()
    across = [r for r in csv.DictReader(io.StringIO(text)) if r["kind"] == "isl"
              and {r["a_node"][8:11], r["b_node"][8:11]} == {"p00", "p05"}]
    whole = [r for r in across if float(r["from_s"]) > 0 and float(r["to_s"]) < 7200]
    longest = max(float(r["to_s"]) - float(r["from_s"]) for r in whole)
    # Both orbits' motions add up but for the angle between the planes; samples are 10 s apart.
    r = EARTH + 780e3
    meeting = 4 * math.asin(6000e3 / r / 2) / (2 * math.sqrt(MU / r**3) * math.cos(math.radians(SEAM_DEG / 2)))
    fact("Iridium as flown: longest link across the seam", f"{longest:.0f} s", f"<= {meeting:.0f} s",
         "satellites that meet head on, within 6,000 km", meeting / 2 < longest <= meeting + 10)


def expected_in_view(latitude_deg, mask_deg=25.0, altitude_m=550e3, inclination_deg=53.0, satellites=1584):
    """Mean number of satellites above the mask: the density of a shell of circular orbits (even in argument of
    latitude, even in longitude) integrated over where a site on the WGS84 ellipsoid sees them."""
    r, lat, e2 = EARTH + altitude_m, math.radians(latitude_deg), 6.69437999014e-3
    normal = EARTH / math.sqrt(1 - e2 * math.sin(lat) ** 2)
    site = (normal * math.cos(lat), 0.0, normal * (1 - e2) * math.sin(lat))
    up = (math.cos(lat), 0.0, math.sin(lat))
    sin_mask, rows, total = math.sin(math.radians(mask_deg)), 4000, 0.0
    for k in range(rows):
        u = (k + 0.5) * math.pi / rows - math.pi / 2
        z = r * math.sin(math.radians(inclination_deg)) * math.sin(u)
        ring = math.sqrt(r * r - z * z)

        def above(longitude):
            away = (ring * math.cos(longitude) - site[0], ring * math.sin(longitude), z - site[2])
            return away[0] * up[0] + away[2] * up[2] >= sin_mask * math.hypot(*away)

        if not above(0.0):
            continue
        low, high = 0.0, math.pi
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) else (low, middle)
        total += low / math.pi
    return satellites * total / rows


def in_view():
    latitudes = range(0, 66, 5)
    ground = "  stations:\n" + "\n".join(
        f"    l{lat}-{lon}: {{latitude: {lat} deg, longitude: {lon} deg}}" for lat in latitudes for lon in range(-180, 180, 45))
    file = common.shell1("latitudes", ground)
    coverage = json.loads(common.run("plan", file, "--coverage", "--json", "--to", "6h", "--every", "30s")[3])
    rows = []
    for lat in latitudes:
        means = [s["in_view_mean"] for s in coverage["stations"] if s["station"].startswith(f"l{lat}-")]
        ours, known = sum(means) / len(means), expected_in_view(lat)
        rows.append({"latitude_deg": lat, "constel": ours, "integral": known})
        fact(f"satellites in view at {lat} deg", f"{ours:.2f}", f"{known:.2f}", "density of the shell, integrated over what an ellipsoid's site sees",
             abs(ours - known) <= 0.01 * known + 0.03)
    return rows


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def handovers():
    file = common.shell1("handovers", common.cities(100))
    text = common.run("plan", file, "--contacts", "--csv", "--to", "2h")[3].decode()
    lengths = [float(r["to_s"]) - float(r["from_s"]) for r in csv.DictReader(io.StringIO(text))
               if r["kind"] == "gsl" and float(r["from_s"]) > 0 and float(r["to_s"]) < 7200]
    q = {str(p): quantile(lengths, p) for p in (0.05, 0.25, 0.5, 0.75, 0.95)}
    r, e = EARTH + 550e3, math.radians(25)
    cap = math.acos(EARTH / r * math.cos(e)) - e
    # Seen from the turning ground, at most; a satellite overhead.
    longest = 2 * cap / (math.sqrt(MU / r**3) - 7.2921159e-5 * math.cos(math.radians(53)))
    fact("longest contact of a city", f"{max(lengths):.0f} s", f"<= {longest:.0f} s", "2 cap / angular rate, satellite overhead", max(lengths) <= longest + 1)
    print(f"handover intervals of 100 cities, nearest satellite, 2 h: {len(lengths)} contacts, "
          + ", ".join(f"p{int(float(p) * 100)} {v:.0f} s" for p, v in q.items()))
    return {"contacts": len(lengths), "quantiles_s": q}


def great_circle_m(a, b):
    """Length of the arc between two places (latitude, longitude in degrees) on a sphere of the Earth's mean radius."""
    (y1, x1), (y2, x2) = [[math.radians(v) for v in place] for place in (a, b)]
    return 6371e3 * math.acos(math.sin(y1) * math.sin(y2) + math.cos(y1) * math.cos(y2) * math.cos(x1 - x2))


# Handley's figures for London-New York, ms: over Starlink's first plan, along the great circle in fibre (README.md says
# where they are from).
HANDLEY_RTT_MS, HANDLEY_FIBRE_MS = 50, 55


def london_new_york():
    places = {"london": (51.5074, -0.1278), "new-york": (40.7128, -74.006)}
    arc = great_circle_m(*places.values())
    fibre, vacuum = 2e3 * arc / (C / 1.468), 2e3 * arc / C
    ground = "  stations:\n" + "\n".join(
        f"    {name}: {{{{latitude: {y} deg, longitude: {x} deg, antennas: {{antennas}}}}}}" for name, (y, x) in places.items())
    shell1 = common.SHELL1.replace("{ground}", ground)
    # The first phase of the plan of then: 32 planes of 50 at 1,150 km. Lasers (+Grid), phase factor and mask are this
    # file's choice; a path takes the best of all satellites in view, as his routes do.
    handley = shell1.replace("satellites: 1584, planes: 72, phasing: 65, altitude: 550 km",
                             "satellites: 1600, planes: 32, phasing: 5, altitude: 1150 km").replace("25 deg", "40 deg")
    result = {"great_circle_fibre_ms": fibre, "great_circle_vacuum_ms": vacuum}
    for name, text, antennas in [("Shell I, nearest satellite", shell1, 1), ("Shell I, any satellite in view", shell1, 32),
                                 ("1,600 at 1,150 km, any satellite in view", handley, 32)]:
        file = common.scenario(f"lon-nyc-{antennas}-{text is handley}", text.format(antennas=antennas))
        out = common.run("plan", file, "--pairs", "london:new-york", "--json", "--to", "3h")[3]
        pair = json.loads(out)["pairs"][0]
        rtt = [2e-6 * d for d in pair["delay_ns"] if d is not None]
        least, median, most = min(rtt), quantile(rtt, 0.5), max(rtt)
        result[name] = {"rtt_min_ms": least, "rtt_median_ms": median, "rtt_max_ms": most,
                        "path_changes": pair["summary"]["changes"], "samples": len(rtt)}
        shown = f"{least:.1f} .. {median:.1f} .. {most:.1f} ms"
        what = f"London-New York RTT, {name} (least .. median .. most)"
        if text is handley:
            fact(what, shown, f"{HANDLEY_RTT_MS} ms", "Handley, HotNets 2018", abs(median - HANDLEY_RTT_MS) < 2)
        else:
            fact(what, shown, f"{vacuum:.1f} .. {fibre:.1f} ms",
                 "light along the great circle, in vacuum and in fibre", vacuum < least and most < fibre)
    fact("London-New York RTT, fibre along the great circle", f"{fibre:.1f} ms", f"{HANDLEY_FIBRE_MS} ms",
         "Handley, HotNets 2018", abs(fibre - HANDLEY_FIBRE_MS) < 1)
    return result


# Round-trip times of Hypatia's satgenpy over Kuiper's first shell, ns, at 0, 10, .. 50 s: the files its own tests compare
# with, satgenpy/tests/data_to_match/kuiper_630/networkx_rtt_{1173_to_1241,1229_to_1241,1173_to_1229}.txt in
# github.com/snkas/hypatia (Kassing et al., "Exploring the Internet from space with Hypatia", IMC 2020).
SATGENPY_NS = {
    ("manila", "dalian"): [29423137.758, 29153930.223, 25318683.622, 41135644.700, 41136549.425, 41185798.655],
    ("st-petersburg", "dalian"): [63203866.535, 61936110.488, 61360059.877, 60875903.432, 60433252.903, 60035873.656],
    ("manila", "st-petersburg"): [76846048.722, 75621876.793, 75116941.751, 74649114.968, 74221889.014, 73839022.112],
}

KUIPER = """constel: 1
name: kuiper
seed: 1
start: 2000-01-01T00:00:00Z
duration: 200 s
step: 10 s
constellations:
  k:
    walker: {{pattern: delta, inclination: 51.9 deg, satellites: 1156, planes: 34, phasing: 17, altitude: {altitude_m} m}}
    isl:
      pattern: {{list: [{pairs}]}}
      link: {{rate: 1 Gbit/s}}
    gsl: {{min_elevation: 20 deg, link: {{rate: 1 Gbit/s}}}}
ground:
  stations:
{stations}
"""


def hypatia():
    """The network of satgenpy's test: 34 planes of 34 at 14.8 revolutions a day, odd planes half a slot ahead.
    Lasers link the same numbers of adjacent planes, and every satellite within 1,260 km of a city is in use."""
    planes = slots = 34
    # A Walker pattern with F = 17 has the same places; the numbers of its slots go on where satgenpy's begin anew.
    name = lambda plane, slot: f"k-p{plane % planes:02}-s{(slot - plane % planes // 2) % slots:02}"
    pairs = [(name(o, n), name(o, n + 1)) for o in range(planes) for n in range(slots)]
    pairs += [(name(o, n), name(o + 1, n)) for o in range(planes) for n in range(slots)]
    r = EARTH + 630e3
    for _ in range(20):
        # The mean anomaly's rate with J2 is 14.8 revolutions a day.
        j2 = 0.75 * 1.08262668e-3 * (EARTH / r) ** 2 * (3 * math.cos(math.radians(51.9)) ** 2 - 1)
        r = (MU / (14.8 * 2 * math.pi / 86400 / (1 + j2)) ** 2) ** (1 / 3)
    # satgenpy limits the range, to the slope to 630 km at 30 degrees on flat ground; here an obstacle all round each
    # city stands as high as a satellite at that range.
    limit = 630e3 / math.sin(math.radians(30))
    stations = []
    for station, latitude, longitude in [("manila", 14.6042, 120.9822), ("dalian", 38.913811, 121.602322),
                                         ("st-petersburg", 59.929858, 30.326228)]:
        ground = EARTH * (1 - math.sin(math.radians(latitude)) ** 2 / 298.257)
        high = math.degrees(math.asin((r * r - ground**2 - limit**2) / (2 * ground * limit)))
        stations.append(f"    {station}: {{latitude: {latitude} deg, longitude: {longitude} deg, antennas: 32, "
                        f"obstacles: [{{from: 0 deg, to: 359.999 deg, elevation: {high:.3f} deg}}]}}")
    file = common.scenario("kuiper", KUIPER.format(
        altitude_m=round(r - EARTH), stations="\n".join(stations),
        pairs=", ".join(f"{{from: {a}, to: {b}}}" for a, b in pairs)))
    rows = []
    for (a, b), known in SATGENPY_NS.items():
        text = common.run("plan", file, "--pairs", f"{a}:{b}", "--csv", "--to", "60s", "--every", "10s")[3].decode()
        ours = [2 * int(row["delay_ns"]) for row in csv.DictReader(io.StringIO(text))]
        worst = max(abs(x - y) for x, y in zip(ours, known))
        rows.append({"pair": [a, b], "constel_rtt_ns": ours, "satgenpy_rtt_ns": known, "largest_difference_ns": worst})
        show = lambda values: " ".join(f"{v / 1e6:.2f}" for v in values)
        fact(f"Kuiper-630, {a}-{b}: RTT at 0, 10 .. 50 s, ms", show(ours), show(known), "satgenpy's own test data",
             worst <= 0.1e6)
    return rows


def main():
    iridium = common.scenario("iridium", IRIDIUM)
    shell1 = common.shell1("periods", "  stations:\n    equator: {latitude: 0 deg, longitude: 0 deg}")
    print("| what | Constel | known | from | holds |\n|---|---|---|---|---|")
    periods(iridium, shell1)
    iridium_ranges(iridium)
    iridium_seam()
    data = {"host": common.host(), "in_view": in_view(), "handovers": handovers(), "london_new_york": london_new_york(),
            "satgenpy": hypatia(), "facts": facts}
    common.save("known-facts", data)
    return 0 if all(f["holds"] for f in facts) else 1


if __name__ == "__main__":
    sys.exit(main())
