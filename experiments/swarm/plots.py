"""Curves as static SVG: straight or logarithmic axes, whiskers where a point has an interval. Equal data give equal bytes."""

import math
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 70, 190, 34, 46
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#8c564b"]


def ticks(least, most, log):
    if log:
        return [10.0**e for e in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)]
    rough = (most - least) / 6 or 1
    step = 10 ** math.floor(math.log10(rough))
    step *= next(f for f in (1, 2, 5, 10) if f * step >= rough)
    return [step * k for k in range(math.floor(least / step), math.ceil(most / step) + 1)]


def words(value):
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def lines(title, x_label, y_label, curves, log_x=False, log_y=False):
    """`curves`: name to points, each (x, y) or (x, y, half of its interval); a name that begins with `~` is drawn broken."""
    known = {n: [p for p in ps if p[1] is not None and not (log_y and p[1] <= 0)] for n, ps in curves.items()}
    all_of = [p for ps in known.values() for p in ps]
    xs, ys = [p[0] for p in all_of], [p[1] for p in all_of] + ([] if log_y else [0])
    x_ticks, y_ticks = ticks(min(xs), max(xs), log_x), ticks(min(ys), max(ys), log_y)
    scale = lambda v, marks, log: (math.log(v / marks[0]) / math.log(marks[-1] / marks[0])) if log else (v - marks[0]) / (marks[-1] - marks[0])
    x = lambda v: LEFT + scale(v, x_ticks, log_x) * (WIDTH - LEFT - RIGHT)
    y = lambda v: HEIGHT - BOTTOM - scale(v, y_ticks, log_y) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{LEFT}" y="18" font-size="15">{escape(title)}</text>']
    for v in y_ticks:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{words(v)}</text>')
    out += [f'<text x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{words(v)}</text>' for v in x_ticks]
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    for number, (name, points) in enumerate(known.items()):
        colour = COLOURS[number % len(COLOURS)]
        broken = ' stroke-dasharray="6 4"' if name.startswith("~") else ""
        path = " ".join(f"{x(p[0]):.1f},{y(p[1]):.1f}" for p in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{broken}/>')
        for p in points if len(points) <= 60 else []:
            out.append(f'<circle cx="{x(p[0]):.1f}" cy="{y(p[1]):.1f}" r="2.5" fill="{colour}"/>')
            if len(p) > 2:
                low, high = (y(min(max(p[1] + d, y_ticks[0]), y_ticks[-1])) for d in (-p[2], p[2]))
                out.append(f'<line x1="{x(p[0]):.1f}" x2="{x(p[0]):.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 16 * number + 10}" fill="{colour}">{escape(name.lstrip("~"))}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
