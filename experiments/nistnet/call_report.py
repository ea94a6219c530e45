"""The quality of a call: delay and loss of each packet next to the geometry, and listeners' opinion (ITU-T G.107)."""

from datetime import datetime

from spaces import quantile

# A receiver holds packets back so long to even out their delay; what comes later is lost to it.
JITTER_BUFFER_S = 0.06
# Coding and packets of 20 ms.
CODEC_S = 0.0265
WINDOW_S = 4


def mos(delay_s, loss):
    """G.107 with its defaults: G.711 with concealment (Ie 0, Bpl 25.1), which Opus is not worse than."""
    d = 1000 * delay_s
    rating = 93.2 - 0.024 * d - (0.11 * (d - 177.3) if d > 177.3 else 0) - 95 * loss / (loss + 0.251)
    if rating <= 0:
        return 1.0
    return 1 + 0.035 * rating + rating * (rating - 60) * (100 - rating) * 7e-6


def windows(rows):
    """Spans of time, with what a receiver has of each."""
    found = []
    for begin in range(0, int(max(at for at, _ in rows)), WINDOW_S):
        own = [delay for at, delay in rows if begin <= at < begin + WINDOW_S]
        came = sorted(delay for delay in own if delay is not None)
        if not came:
            continue
        # The receiver plays at the least delay plus its buffer.
        plays = came[0] + JITTER_BUFFER_S
        lost = 1 - sum(delay <= plays for delay in came) / len(own)
        found.append(dict(from_s=begin, packets=len(own), lost=round(lost, 4), plays_s=round(plays, 5),
                          mos=round(mos(plays + CODEC_S, lost), 3)))
    return found


def times(document):
    """Seconds of the call: of the geometry that was looked at, and of ends that changed their satellites."""
    geometry = [dict(t_s=row["at"] - document["zero"], delay_ms=row["forward"]["delay_ns"] / 1e6)
                for row in document["via"] if row["forward"] and row["forward"]["delay_ns"]]
    wall = lambda event: datetime.fromisoformat(event["wall"].replace("Z", "+00:00")).timestamp()
    handovers = [dict(t_s=wall(event) - document["zero"], end=event["station"]) for event in document["events"]]
    return geometry, handovers


def table(document):
    _, handovers = times(document)
    seconds = max(at for at, _ in document["rows"]["forward"])
    during = [one for one in handovers if 0 <= one["t_s"] <= seconds]
    lines = ["| way | packets | lost | delay: least, median, 99 %, most | MOS: least, median |", "|---|---|---|---|---|"]
    for way, name in (("forward", "London to New York"), ("reverse", "New York to London")):
        rows = document["rows"][way]
        came = [1000 * delay for _, delay in rows if delay is not None]
        scores = [row["mos"] for row in windows(rows)]
        lines.append(f"| {name} | {len(rows)} | {len(rows) - len(came)} | " + ", ".join(f"{v:.2f}" for v in (
            min(came), quantile(came, 0.5), quantile(came, 0.99), max(came))) + f" ms | {min(scores):.2f}, {quantile(scores, 0.5):.2f} |")
    moments = sorted({round(one["t_s"]) for one in during})
    verdict = "trustworthy" if document["verdict"]["trustworthy"] else "; ".join(document["verdict"]["reasons"])
    lines += ["", f"{len(during)} times an end changed its satellite within the {seconds:.0f} s, at {len(moments)} moments "
              f"({', '.join(str(moment) for moment in moments)} s). Verdict of the box: {verdict}."]
    return "\n".join(lines) + "\n"


def figure(document):
    geometry, handovers = times(document)
    width, height, left, right = 900, 560, 60, 880
    seconds = max(at for at, _ in document["rows"]["forward"])
    x = lambda t: left + (right - left) * t / seconds
    panels = []

    def panel(top, bottom, low, high, unit, ticks):
        y = lambda v: bottom - (bottom - top) * (min(max(v, low), high) - low) / (high - low)
        for tick in ticks:
            panels.append(f'<line x1="{left}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e5e5e5"/>'
                          f'<text x="8" y="{y(tick) + 4:.1f}" font-size="11">{tick:g} {unit}</text>')
        return y

    delays = [1000 * delay for way in document["rows"].values() for _, delay in way if delay is not None]
    low, high = int(min(delays)) - 2, int(quantile(delays, 0.999)) + 4
    y = panel(40, 290, low, high, "ms", range(low + (-low) % 5, high, 5))
    for way, colour in (("forward", "#1b6ca8"), ("reverse", "#c26b1a")):
        dots = "".join(f"M{x(at):.1f} {y(1000 * delay):.1f}h.8" for at, delay in document["rows"][way] if delay is not None)
        panels.append(f'<path d="{dots}" stroke="{colour}" stroke-width="1.2" fill="none"/>')
        gone = "".join(f"M{x(at):.1f} 292v8" for at, delay in document["rows"][way] if delay is None)
        panels.append(f'<path d="{gone}" stroke="{colour}" fill="none"/>')
    line = " ".join(f"{x(row['t_s']):.1f},{y(row['delay_ms']):.1f}" for row in geometry if 0 <= row["t_s"] <= seconds)
    panels.append(f'<polyline points="{line}" fill="none" stroke="black" stroke-width="0.8" stroke-dasharray="3 2"/>')
    for handover in handovers:
        if 0 <= handover["t_s"] <= seconds:
            panels.append(f'<line x1="{x(handover["t_s"]):.1f}" x2="{x(handover["t_s"]):.1f}" y1="40" y2="500" stroke="#999" stroke-width="0.7"/>')
    y = panel(330, 500, 1, 4.5, "", [1, 2, 3, 4])
    for way, colour in (("forward", "#1b6ca8"), ("reverse", "#c26b1a")):
        line = " ".join(f"{x(row['from_s'] + WINDOW_S / 2):.1f},{y(row['mos']):.1f}" for row in windows(document["rows"][way]))
        panels.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    for t in range(0, int(seconds) + 1, 15):
        panels.append(f'<text x="{x(t) - 8:.1f}" y="520" font-size="11">{t} s</text>')
    panels.append('<text x="60" y="24" font-size="13">One-way delay of each packet (blue: London to New York, orange: back, dashed: the '
                  'geometry), below it those lost</text><text x="60" y="322" font-size="13">MOS by the E-model; grey lines: an end changes its satellite</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(panels)}</svg>\n')
