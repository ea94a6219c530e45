#!/usr/bin/env python3
"""Ranges of formations of 10 km, worked out apart from Constel: `formation-reference.py > formation-reference.csv`.

Own conversion (rotation matrices; speeds by differences), own forces (zonal terms to J6 and C22, S22 turning with the
Earth, which Constel leaves out) and own integration (classical Runge-Kutta, steps of 1 s). Standard library only.
"""

import math

MU, RE = 3.986004418e14, 6378137.0
J = {2: 1.08262668e-3, 3: -2.5326565e-6, 4: -1.6196216e-6, 5: -2.2729608e-7, 6: 5.4068124e-7}
DESIGN = {n: J[n] for n in (2, 3, 4)}  # what "as much energy as the chief" counts
C22, S22 = 1.57446037e-6, -9.0380381e-7
GMST0, EARTH_RATE = math.radians(60.0), 7.2921159e-5  # 2026-11-21T00:00Z: within a degree, which C22 does not notice

A, INC, RAAN, U = RE + 500e3, math.radians(97.4), math.radians(30.0), math.radians(40.0)
N = math.sqrt(MU / A**3)
END_S, EVERY_S = 11400, 600  # two orbits are 11,354 s


def legendre(s, top):
    """P and P' up to degree `top`."""
    p, d = [1.0, s], [0.0, 1.0]
    for n in range(2, top + 1):
        p.append(((2 * n - 1) * s * p[n - 1] - (n - 1) * p[n - 2]) / n)
        d.append(d[n - 2] + (2 * n - 1) * p[n - 1])
    return p, d


def acceleration(t, x, y, z):
    r = math.sqrt(x * x + y * y + z * z)
    s = z / r
    p, d = legendre(s, 6)
    radial, axial = -1.0, 0.0
    for n, jn in J.items():
        q = jn * (RE / r) ** n
        radial += q * ((n + 1) * p[n] + s * d[n])
        axial -= q * d[n]
    g = MU / r**2
    ax, ay, az = g * radial * x / r, g * radial * y / r, g * (radial * s + axial)
    c, w = math.cos(GMST0 + EARTH_RATE * t), math.sin(GMST0 + EARTH_RATE * t)
    ex, ey = c * x + w * y, c * y - w * x
    f = C22 * (ex * ex - ey * ey) + 2 * S22 * ex * ey
    k = 3 * MU * RE**2
    gx = k * ((2 * C22 * ex + 2 * S22 * ey) / r**5 - 5 * f * ex / r**7)
    gy = k * ((2 * S22 * ex - 2 * C22 * ey) / r**5 - 5 * f * ey / r**7)
    return ax + c * gx - w * gy, ay + w * gx + c * gy, az - k * 5 * f * z / r**7


def energy(state):
    x, y, z, u, v, w = state
    r = math.sqrt(x * x + y * y + z * z)
    p, _ = legendre(z / r, 4)
    potential = MU / r * (1 - sum(jn * (RE / r) ** n * p[n] for n, jn in DESIGN.items()))
    return 0.5 * (u * u + v * v + w * w) - potential


def turned(x, y, z):
    """From the orbit's plane, first axis to the node, to inertial."""
    y, z = y * math.cos(INC) - z * math.sin(INC), y * math.sin(INC) + z * math.cos(INC)
    return x * math.cos(RAAN) - y * math.sin(RAAN), x * math.sin(RAAN) + y * math.cos(RAAN), z


def beside(radial, along, cross, radial_speed, along_speed, cross_speed):
    def place(t):
        r = A + radial + radial_speed * t
        u = U + N * t + (along + along_speed * t) / A
        w = (cross + cross_speed * t) / A
        return turned(r * math.cos(w) * math.cos(u), r * math.cos(w) * math.sin(u), r * math.sin(w))

    h = 1e-2
    speed = [(b - a) / (2 * h) for a, b in zip(place(-h), place(h))]
    return [*place(0.0), *speed]


def with_energy(state, wanted):
    low, high = 0.9, 1.1
    for _ in range(200):
        middle = 0.5 * (low + high)
        if energy(state[:3] + [s * middle for s in state[3:]]) < wanted:
            low = middle
        else:
            high = middle
    return state[:3] + [s * middle for s in state[3:]]


def still(radial=0.0, along=0.0, cross=0.0, radial_speed=0.0, cross_speed=0.0):
    state = beside(radial, along, cross, radial_speed, -2 * N * radial, cross_speed)
    return with_energy(state, energy(beside(0, 0, 0, 0, 0, 0)))


def step(t, s, h):
    def rate(t, s):
        return [*s[3:], *acceleration(t, *s[:3])]

    a = rate(t, s)
    b = rate(t + h / 2, [x + h / 2 * k for x, k in zip(s, a)])
    c = rate(t + h / 2, [x + h / 2 * k for x, k in zip(s, b)])
    d = rate(t + h, [x + h * k for x, k in zip(s, c)])
    return [x + h / 6 * (p + 2 * q + 2 * r + w) for x, p, q, r, w in zip(s, a, b, c, d)]


def tetrahedron(edge):
    half, high = edge / 2, edge / math.sqrt(2)
    return [still(along=half), still(along=-half)] + [
        still(radial=high, cross=side * half, radial_speed=side * half * N) for side in (1, -1)
    ]


def circumnavigation(craft, radius):
    states = [beside(0, 0, 0, 0, 0, 0)]
    for k in range(craft - 1):
        # The circle: height in step with the angle from the node, cross-track root three of it.
        phase = U - 2 * math.pi * k / (craft - 1)
        height, tilt = -0.5 * radius * math.cos(phase), -math.sqrt(0.75) * radius * math.cos(phase)
        rise, lean = 0.5 * radius * N * math.sin(phase), math.sqrt(0.75) * radius * N * math.sin(phase)
        along, ahead = radius * math.sin(phase), radius * N * math.cos(phase)
        state = beside(height, along, tilt, rise, ahead, lean)
        states.append(with_energy(state, energy(states[0])))
    return states


CASES = {
    "tetra": tetrahedron(10e3),
    "ring": circumnavigation(4, 10e3),
    "free": [
        beside(0, 0, 0, 0, 0, 0),
        beside(1000.0, 10e3, -2000.0, 1.5, -2.0, 3.0),
        still(radial=-500.0, along=-10e3, cross=4000.0),
    ],
}

print("formation,a,b,t_s,range_m")
for name, states in CASES.items():
    for t in range(0, END_S + 1):
        if t % EVERY_S == 0:
            for a in range(len(states)):
                for b in range(a + 1, len(states)):
                    print(f"{name},{a},{b},{t},{math.dist(states[a][:3], states[b][:3]):.3f}")
        states = [step(t, s, 1.0) for s in states]
