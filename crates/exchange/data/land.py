"""Makes land.txt from land-110m.json of the npm package world-atlas (2.0.2, ISC), which is Natural Earth's land at
1:110 million (public domain, naturalearthdata.com).

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python3 land.py package/land-110m.json > land.txt

One ring a line: x and y of the first point, then steps from point to point, in tenths of a degree; x is longitude
+ 180, y is 90 - latitude, as an SVG path wants them.
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


for geometry in topology["objects"]["land"]["geometries"]:
    for polygon in geometry["arcs"]:
        for ring in polygon:
            points = []
            for number in ring:
                points += arc(number)
            points = [p for n, p in enumerate(points) if n == 0 or p != points[n - 1]]
            steps = [points[0]] + [(b[0] - a[0], b[1] - a[1]) for a, b in zip(points, points[1:])]
            if len(steps) > 3:
                print(" ".join(f"{x} {y}" for x, y in steps[:-1]))
