"""Makes land.txt from land-110m.json of the npm package world-atlas (2.0.2, ISC), which is Natural Earth's land at
1:110 million (public domain, naturalearthdata.com).

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python3 land.py package/land-110m.json > land.txt

One ring a line: x and y of the first point, then steps from point to point, in tenths of a degree; x is longitude
+ 180, y is 90 - latitude, as an SVG path wants them. A ring across the date line stands there twice, once for each
edge of the map, which cuts off what is beyond; the ring round the south pole is closed along the lower edge.
"""

import json
import sys

topology = json.load(open(sys.argv[1]))
(kx, ky), (x0, y0) = topology["transform"]["scale"], topology["transform"]["translate"]


def arc(number):
    points, x, y = [], 0, 0
    for dx, dy in topology["arcs"][~number if number < 0 else number]:
        x, y = x + dx, y + dy
        points.append((round((x * kx + x0 + 180) * 10), round((90 - y * ky - y0) * 10)))
    return points[::-1] if number < 0 else points


ROUND = 3600


def unwound(ring):
    """The points of a ring without jumps at the date line; its first point is on the map."""
    points = [p for number in ring for p in arc(number)]
    points = [p for n, p in enumerate(points) if n == 0 or p != points[n - 1]]
    turn, result = 0, []
    for n, (x, y) in enumerate(points):
        if n and abs(x - points[n - 1][0]) > ROUND / 2:
            turn += ROUND if x < points[n - 1][0] else -ROUND
        result.append((x + turn, y))
    if turn:  # Round the pole.
        result += [(result[-1][0], 1800), (result[0][0], 1800)]
    elif result[-1] == result[0]:
        result.pop()
    return result


def shown(points):
    """The ring, moved by whole turns, as often as a part of it is on the map."""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    for move in (-ROUND, 0, ROUND):
        if low + move < ROUND and high + move > 0:
            moved = [(x + move, y) for x, y in points]
            first = next(n for n, (x, _) in enumerate(moved) if 0 <= x <= ROUND)
            yield moved[first:] + moved[:first]


for geometry in topology["objects"]["land"]["geometries"]:
    for polygon in geometry["arcs"]:
        for ring in polygon:
            points = unwound(ring)
            if len(points) < 3:
                continue
            for ring_shown in shown(points):
                pairs = zip(ring_shown, ring_shown[1:])
                steps = [ring_shown[0]] + [(b[0] - a[0], b[1] - a[1]) for a, b in pairs]
                print(" ".join(f"{x} {y}" for x, y in steps))
