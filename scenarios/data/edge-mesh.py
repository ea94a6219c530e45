#!/usr/bin/env python3
"""Writes a square of one-way delays between N places: `edge-mesh.py 64 > edge-mesh-64.csv`.

Places lie by seed on a plane of 3,000 km x 2,000 km, eight clusters of them, as data centres and what is at their edge do.
Delay: straight way at two thirds of the speed of light, times 1.4 for the ways that fibre goes, plus 0.2 to 2 ms that each
place has of its own, on its way out and in.
"""

import math
import random
import sys

count, random = int(sys.argv[1]), random.Random(1)
centres = [(random.uniform(0, 3000), random.uniform(0, 2000)) for _ in range(8)]
places = []
for n in range(count):
    x, y = centres[n % 8]
    places.append((random.gauss(x, 60), random.gauss(y, 60), random.uniform(0.2, 2.0)))
digits = len(str(count - 1))
names = [f"edge-{n:0{digits}}" for n in range(count)]
print("delay_ms", *names, sep=",")
for name, (x, y, own) in zip(names, places):
    def delay_ms(other):
        u, v, far = other
        return 1.4 * math.hypot(x - u, y - v) / 199.862 + own + far
    row = ["" if other == (x, y, own) else f"{delay_ms(other):.3f}" for other in places]
    print(name, *row, sep=",")
