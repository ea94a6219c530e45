"""Plots for common questions, one call each. Plots need matplotlib: `pip install 'constel[plots]'`.

Every call draws into `ax`, or into a new figure, and returns the axes; `ax.figure.savefig("x.pdf")` writes a file. Axis
labels have a quantity and a unit. Lines differ by dashes, markers and shades of grey, so that a print on paper is readable.
Legends are below the axes and state numbers of values. `paper` sets the width of a column and a style.
"""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._time import Span, seconds_of
from .errors import UsageError
from .frame import Frame
from .results import Results
from .scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
_SHADES = ("0.35", "0.75")
STYLE = Path(__file__).with_name("paper.mplstyle")
"""The style of `paper`, a style file of matplotlib. `constel results plot --style` reads it too."""
_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72, "px": 1 / 96}
_BY_HAND = ("link-set", "nodes-set", "member-joined", "member-left", "delays-set", "rules-changed")
_BINS = 120
"""The maximum number of columns of a heat map."""


@contextlib.contextmanager
def paper(width: str = "3.4in", *, height: str | None = None, style: str | Path | None = None) -> Iterator[None]:
    """Sets the size and the style of all figures that are made in the block. The default width is that of a column of IEEE and
    ACM.

    `width` and `height` have the unit in, cm, mm, pt or px; default: 0.62 of the width. `style`: a style file, or the name of one
    of matplotlib's, on top of `STYLE`. Letters in PDF are embedded as TrueType.
    """
    pyplot = _pyplot()
    wide = _inches(width)
    tall = 0.62 * wide if height is None else _inches(height)
    styles = [str(STYLE), *([] if style is None else [str(style)])]
    faint = {"grid.color": "0.88", "grid.linewidth": 0.5, "axes.axisbelow": True}
    size = {"figure.figsize": (wide, tall), "pdf.fonttype": 42}
    with pyplot.rc_context(faint), pyplot.style.context(styles), pyplot.rc_context(size):
        yield


def rtt(results: Results, flow: str, ax: Axes | None = None) -> Axes:
    """Plots a flow's round-trip times over lab time. Below are those of its path and of the shortest path, both from
    geometry. Lines mark changes of its path, handovers of its ends, failures and changes by hand; strokes on the axis are
    lost probes, crosses late packets of the emulation.

    Raises `UsageError` if the flow has no round-trip times.
    """
    ax = _axes(ax)
    samples = sorted(results.flow(flow).rows(), key=lambda row: float(row["t_s"]))
    rows = [row for row in samples if row["rtt_us"] is not None]
    if not rows:
        raise UsageError(f"flow {flow!r} measured no round trips")
    for style, label, drawn in (
        ({"marker": ".", "color": "0.45", "markersize": 3}, "measured", rows),
        ({"marker": "x", "color": "k", "markersize": 6}, "emulation late", [row for row in rows if row["marked"]]),
    ):
        if drawn:
            label = f"{label}, N = {len(drawn)}"
            ax.plot([row["t_s"] for row in drawn], [row["rtt_us"] / 1e3 for row in drawn], linestyle="", label=label, **style)
    lost = [row["t_s"] for row in samples if row["fate"] in ("lost", "unsent")]
    if lost:
        axis = ax.get_xaxis_transform()
        label = f"lost, N = {len(lost)}"
        ax.plot(lost, [0.02] * len(lost), "|", color="k", markersize=6, transform=axis, label=label, gid="lost")
    path = [row for row in results.paths.rows() if row["flow"] == flow]
    for label, column, dashes in (("path by geometry", "path_rtt_us", "-"), ("shortest path", "shortest_rtt_us", ":")):
        times, values = [row["t_s"] for row in path], [_ms(row[column]) for row in path]
        ax.plot(times, values, linestyle=dashes, color="k", linewidth=1, drawstyle="steps-post", label=label)
    changes = [now["t_s"] for before, now in zip(path, path[1:]) if before["path"] != now["path"]]
    _mark(ax, changes, "changes of path", (0, (1, 2)))
    _mark_events(ax, results, _ends(results, flow))
    ax.set(xlabel="lab time (s)", ylabel="round-trip time (ms)", title=f"Flow {flow}")
    _legend(ax)
    return ax


def throughput(results: Results, *flows: str, ax: Axes | None = None) -> Axes:
    """Plots the payload throughput of flows over lab time. Default: all flows that have one. Lines mark handovers of the flows'
    ends, failures and changes by hand.

    Raises `UsageError` if no flow has a throughput.
    """
    ax = _axes(ax)
    names = flows or tuple(row["name"] for row in results.summary["flows"] if results.has_series(row["name"]))
    lines = [(name, _valued(results.flow(name), "throughput_bps")) for name in names]
    lines = [(name, rows) for name, rows in lines if rows]
    if not lines:
        raise UsageError("no flow measured throughput")
    for place, (name, rows) in enumerate(lines):
        times, rates = [row["t_s"] for row in rows], [row["throughput_bps"] / 1e6 for row in rows]
        _line(ax, place, len(lines), times, rates, label=f"{name}, N = {len(rows)}")
    _mark_events(ax, results, [end for name, _ in lines for end in _ends(results, name)])
    ax.set(xlabel="lab time (s)", ylabel="throughput (Mbit/s)")
    ax.set_ylim(bottom=0)
    _legend(ax)
    return ax


def cdf(
    frame: Frame | Mapping[str, Sequence[float | None]],
    value: str,
    by: str | None = None,
    *,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plots the share of rows whose `value` is at most x, a line for each value of `by`. `label` is the label of the axis,
    with its unit; the default is made from the column's name: `rtt_us` is "rtt (us)".

    Raises `UsageError` if the column has no values.
    """
    ax = _axes(ax)
    of = _grouped(frame, value, by)
    for place, (name, xs) in enumerate(of.items()):
        xs.sort()
        shares = [place / len(xs) for place in range(len(xs) + 1)]
        words = f"{by}: {name}, N = {len(xs)}" if by else f"N = {len(xs)}"
        _line(ax, place, len(of), [xs[0], *xs], shares, drawstyle="steps-post", label=words)
    ax.set(xlabel=label or _with_unit(value), ylabel="share of rows", ylim=(0, 1))
    _legend(ax)
    return ax


def intervals(
    frame: Frame | Mapping[str, Sequence[float | None]],
    value: str,
    by: str,
    *,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plots the median of `value` for each value of `by`, with its 95 % confidence interval and every row as a ring. The interval
    is between two of the rows (order statistics), whatever their distribution; fewer than six rows have none.

    Raises `UsageError` if the column has no values.
    """
    ax = _axes(ax)
    of = _grouped(frame, value, by)
    for place, xs in enumerate(of.values()):
        xs.sort()
        outside = _outside(len(xs))
        if outside is not None:
            ends = [xs[outside], xs[-1 - outside]]
            first = "95 % interval of the median" if not any(line.get_gid() == "interval" for line in ax.get_lines()) else None
            ax.plot(ends, [place, place], "-|", color="k", linewidth=1.2, markersize=8, label=first, gid="interval")
        rings = "a row" if place == 0 else None
        # Beside the interval, so that rows close together do not hide it.
        ax.plot(xs, [place + 0.22] * len(xs), "o", color="0.35", fillstyle="none", markersize=4, label=rings, gid="rows")
        half = len(xs) // 2
        median = xs[half] if len(xs) % 2 else (xs[half - 1] + xs[half]) / 2
        ax.plot([median], [place], "D", color="k", markersize=5, label="median" if place == 0 else None, gid="median")
    ax.set_yticks(range(len(of)), [f"{name}, N = {len(xs)}" for name, xs in of.items()])
    ax.set(xlabel=label or _with_unit(value), ylim=(len(of) - 0.5, -0.5))
    _legend(ax)
    return ax


def handovers(of: Results | Scenario, ax: Axes | None = None) -> Axes:
    """Plots the satellite that serves each station over time: a bar for each satellite, and a gap while the station is dark.
    For a scenario, all stations, by geometry; for a run, the stations with handovers.

    Raises `UsageError` if there is nothing to plot.
    """
    ax = _axes(ax)
    bars, end_s = _served(of)
    if not bars:
        raise UsageError("no station handed over" if isinstance(of, Results) else "no station is ever served")
    rows = sorted({key for key, *_ in bars})
    for place, key in enumerate(rows):
        mine = sorted((bar for bar in bars if bar[0] == key), key=lambda bar: bar[1])
        for (_, since, until, satellite), shade in zip(mine, cycle(_SHADES)):
            ax.barh(place, until - since, left=since, height=0.7, color=shade, edgecolor="k", linewidth=0.5)
            if until - since > end_s / 12:
                colour = "w" if shade == _SHADES[0] else "k"
                ax.text((since + until) / 2, place, satellite, ha="center", va="center", fontsize=6, color=colour, clip_on=True)
    ax.set_yticks(range(len(rows)), rows)
    ax.grid(False, axis="y")
    ax.set(xlabel="lab time (s)", xlim=(0, end_s), title="Serving satellites")
    return ax


def paths(of: Results | Scenario, what: str | tuple[str, str], ax: Axes | None = None) -> Axes:
    """Plots the path in use over time: for a run, a flow's path by the kernels' routes; for a scenario, a pair's path of
    least delay. Each path has a row, in the order of first use; gaps are times without a path.

    Raises `UsageError` if there never is a path.
    """
    ax = _axes(ax)
    times, ways, end_s = _ways(of, what)
    seen = list(dict.fromkeys(way for way in ways if way))
    if not seen:
        raise UsageError(f"there never is a path of {what!r}")
    for way, run in groupby(zip(times, [*times[1:], end_s], ways), key=lambda item: item[2]):
        spans = list(run)
        if way:
            ax.plot([spans[0][0], spans[-1][1]], [seen.index(way)] * 2, color="k", linewidth=4, solid_capstyle="butt")
    # Two long paths may differ in the middle alone, so that each has a number.
    labels = [f"{number}: {_shortened(way)}" for number, way in enumerate(seen, 1)]
    ax.set_yticks(range(len(seen)), labels, fontsize=6)
    ax.invert_yaxis()
    ax.set(xlabel="lab time (s)", xlim=(times[0], end_s), title=f"Path of flow {what}" if isinstance(what, str) else f"Path of least delay, {what[0]} to {what[1]}")
    return ax


def queues(frame: Frame, value: str = "queue_bytes", *, ax: Axes | None = None) -> Axes:
    """Plots the content of queues, edge by edge over lab time; darker is more. `frame` is the result of `Lab.sample`; `value`
    may be another of its columns. Each field shows the maximum of its interval.

    Raises `UsageError` if there are no values.
    """
    ax = _axes(ax)
    rows = _valued(frame, value)
    if not rows:
        raise UsageError(f"column {value!r} has no values")
    edges = list(_by_edge(rows))
    place_of = {edge: place for place, edge in enumerate(edges)}
    first, last = min(row["t_s"] for row in rows), max(row["t_s"] for row in rows)
    looks = max(len(mine) for mine in _by_edge(rows).values())
    bins = min(_BINS, looks)
    wide = (last - first) / bins or 1.0
    field = [[math.nan] * bins for _ in edges]
    for row in rows:
        line, piece = field[place_of[row["from"], row["to"]]], min(int((row["t_s"] - first) / wide), bins - 1)
        line[piece] = row[value] if math.isnan(line[piece]) else max(line[piece], row[value])
    image = ax.imshow(
        field,
        aspect="auto",
        cmap="Greys",
        vmin=0,
        interpolation="nearest",
        extent=(first, first + wide * bins, len(edges) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(edges)), [f"{a} > {b}" for a, b in edges], fontsize=7)
    ax.set(xlabel="lab time (s)")
    ax.figure.colorbar(image, ax=ax, label=_with_unit(value))
    return ax


def sky(scenario: Scenario, station: str, at: Span = "0 s", ax: Axes | None = None) -> Axes:
    """Plots the satellites above a station: north is up, the zenith in the middle; linked satellites are filled. `ax` must be
    polar.

    Raises `UsageError` if there is no such station.
    """
    ax = _axes(ax, "polar")
    polar: Any = ax
    plan = scenario.plan(at)
    nodes = {row["node"]: row for row in plan.nodes.rows()}
    here = _place(nodes.get(station))
    if here is None:
        raise UsageError(f"there is no station called {station!r}")
    linked = {row["to_node"] for row in plan.edges.rows() if row["from_node"] == station}
    polar.set_theta_zero_location("N")
    polar.set_theta_direction(-1)
    for name, row in nodes.items():
        there = _place(row)
        if row["kind"] != "satellite" or there is None:
            continue
        azimuth, elevation = _look(here, there)
        if elevation > 0:
            spot = (azimuth, 90 - math.degrees(elevation))
            ax.plot(*spot, "o", color="k", fillstyle="full" if name in linked else "none", gid=name)
            ax.annotate(name, spot, fontsize=6, xytext=(3, 3), textcoords="offset points")
    polar.set_rlim(0, 90)
    polar.set_rgrids([0, 30, 60, 90], ["90 deg", "60 deg", "30 deg", "0 deg"], fontsize=6)
    polar.set_thetagrids([0, 90, 180, 270], ["N", "E", "S", "W"])
    ax.set_title(f"sky over {station} at {_shown(at)}: elevation (deg)")
    return ax


def map(scenario: Scenario, pair: tuple[str, str] | None = None, at: Span = "0 s", ax: Axes | None = None) -> Axes:
    """Plots satellites (dots) and stations (triangles) by longitude and latitude, and the least-delay path of a pair.

    Raises `UsageError` if the pair has no path at that time.
    """
    ax = _axes(ax)
    places: dict[str, tuple[float, float]] = {}
    for row in scenario.plan(at).nodes.rows():
        place = _place(row)
        if place is None:
            continue
        x, y, z = place
        # Geocentric latitude: within 0.2 deg of the geodetic latitude of maps.
        spot = (math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y))))
        places[row["node"]] = spot
        if row["kind"] in ("satellite", "spacecraft"):
            ax.plot(*spot, ".", color="0.55", markersize=3)
        else:
            ax.plot(*spot, "^", color="k", markersize=5)
            ax.annotate(row["node"], spot, fontsize=7, xytext=(4, 4), textcoords="offset points")
    if pair is not None:
        way = _way(scenario, pair, at)
        for a, b in zip(way, way[1:]):
            for line in _across(places[a], places[b]):
                ax.plot(*zip(*line), "-", color="k", linewidth=1.2)
    ax.set(xlabel="longitude (deg)", ylabel="latitude (deg)", xlim=(-180, 180), ylim=(-90, 90), title=f"at {_shown(at)}")
    ax.set_xticks(range(-180, 181, 60))
    ax.set_yticks(range(-90, 91, 30))
    ax.grid(color="0.9", linewidth=0.5)
    ax.set_axisbelow(True)
    return ax


def _axes(ax: Axes | None, projection: str | None = None) -> Axes:
    if ax is not None:
        return ax
    _, made = _pyplot().subplots(subplot_kw={"projection": projection} if projection else None, layout="constrained")
    axes: Axes = made
    return axes


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise UsageError(f"pictures need matplotlib: pip install 'constel[plots]' ({error})") from None
    return pyplot


def _inches(length: str) -> float:
    for unit, inches in _INCHES.items():
        with contextlib.suppress(ValueError):
            if length.endswith(unit):
                return float(length.removesuffix(unit)) * inches
    raise UsageError(f"{length!r} is no length: write a number with its unit, as in '3.4in' or '8.6cm'")


def _legend(ax: Axes) -> None:
    """Puts the legend below the axes, where it hides nothing."""
    handles, _ = ax.get_legend_handles_labels()
    if handles:
        from matplotlib import rcParams
        from matplotlib.transforms import ScaledTranslation

        columns = 2 if len(handles) > 3 else len(handles)
        # Between the axes and the legend are the numbers and the label of the axis, whatever the height of the axes is.
        room_pt = 9 + 2.6 * rcParams["font.size"]
        below = ScaledTranslation(0, -room_pt / 72, ax.figure.dpi_scale_trans)
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            bbox_transform=ax.transAxes + below,
            ncols=columns,
            frameon=False,
            fontsize="small",
        )


def _line(ax: Axes, place: int, lines: int, xs: Sequence[float], ys: Sequence[float], **options: Any) -> None:
    """Draws line number `place` of `lines`. Lines at the same values are told apart: the first is wider, the others are dashed,
    and their markers are at other places."""
    marked = lines > 1
    ax.plot(
        xs,
        ys,
        linestyle=_DASHES[place % len(_DASHES)],
        color="k",
        linewidth=1.8 if marked and place == 0 else 1,
        marker=_MARKERS[place % len(_MARKERS)] if marked else None,
        markersize=4,
        markerfacecolor="w",
        # A fraction of the diagonal of the axes: where the first marker is, and the distance of the others.
        markevery=((place + 0.5) / lines * 0.15, 0.15) if marked else None,
        **options,
    )


def _mark(ax: Axes, times: Sequence[float], words: str, dashes: Any) -> None:
    """Draws a line at each time, and one entry of the legend for all."""
    for place, t_s in enumerate(times):
        label = f"{words}, N = {len(times)}" if place == 0 else None
        ax.axvline(t_s, color="0.55", linewidth=0.8, linestyle=dashes, zorder=0, label=label, gid="mark")


def _mark_events(ax: Axes, results: Results, stations: Sequence[str]) -> None:
    """Marks handovers of stations, failures and repairs, and changes by hand."""
    if not (results.folder / "events.ndjson").is_file():
        return
    rows = [row for row in results.events.rows() if row["t_s"] is not None]
    handed = [row["t_s"] for row in rows if row["kind"] == "handover" and row["station"] in stations]
    broken = [row["t_s"] for row in rows if row["kind"] in ("failure", "repair") and row["cause"] != "by hand"]
    changed = [row["t_s"] for row in rows if row["kind"] in _BY_HAND]
    _mark(ax, handed, "handovers", "--")
    _mark(ax, broken, "failures and repairs", "-.")
    _mark(ax, changed, "changes by hand", "-")


def _ends(results: Results, flow: str) -> list[str]:
    """Returns the nodes at the ends of a flow."""
    rows = [row for row in results.summary["flows"] if row["name"] == flow] if results.finished else []
    return [row[end] for row in rows for end in ("from", "to") if row.get(end)]


def _grouped(
    frame: Frame | Mapping[str, Sequence[float | None]], value: str, by: str | None
) -> dict[Any, list[float]]:
    """Returns the values of a column for each value of another."""
    values = frame[value]
    groups: Sequence[Any] = frame[by] if by else [None] * len(values)
    of: dict[Any, list[float]] = {}
    for x, group in zip(values, groups):
        if x is not None:
            of.setdefault(group, []).append(x)
    if not of:
        raise UsageError(f"column {value!r} has no values")
    return of


def _outside(n: int) -> int | None:
    """Returns how many of `n` sorted values are outside of the 95 % interval of the median, on each side; `None` if even the
    whole range has less confidence. The number of values below the true median is binomial with 1/2."""
    below, outside = 0, None
    for k in range(n // 2):
        below += math.comb(n, k)
        if below > 0.025 * 2**n:
            break
        outside = k
    return outside


def _valued(frame: Frame, column: str) -> list[dict[str, Any]]:
    return [row for row in frame.rows() if row[column] is not None]


def _by_edge(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    edges: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        edges.setdefault((row["from"], row["to"]), []).append(row)
    return edges


def _ms(us: float | None) -> float:
    return math.nan if us is None else us / 1e3


_UNITS = {
    **{unit: unit for unit in ("s", "ns", "us", "ms", "bytes", "m", "km", "ratio", "deg")},
    **{"bps": "bit/s", "mbps": "Mbit/s", "percent": "%"},
}


def _with_unit(column: str) -> str:
    """Returns the label of an axis for a column whose name ends with its unit."""
    head, _, unit = column.rpartition("_")
    return f"{head.replace('_', ' ')} ({_UNITS[unit]})" if head and unit in _UNITS else column


def _shown(at: Span) -> str:
    return f"{seconds_of(at):g} s"


def _shortened(way: tuple[str, ...]) -> str:
    """Returns a path as one line for a tick label."""
    if len(way) > 4:
        return f"{way[0]} > {way[1]} > ({len(way) - 4} more) > {way[-2]} > {way[-1]}"
    return " > ".join(way)


def _served(of: Results | Scenario) -> tuple[list[tuple[str, float, float, str]], float]:
    """Returns tuples of station, since, until and satellite; and the end of lab time."""
    bars: list[tuple[str, float, float, str]] = []
    if isinstance(of, Scenario):
        stations = {row["node"] for row in of.plan().nodes.rows() if row["kind"] != "satellite"}
        for row in of.contacts().rows():
            if row["kind"] == "gsl":
                a, b = row["a_node"], row["b_node"]
                station, satellite = (a, b) if a in stations else (b, a)
                bars.append((station, row["from_s"], row["to_s"], satellite))
        return bars, of.duration_s
    end_s = of.summary["lab_time_ns"] / 1e9
    rows = sorted(of.handovers.rows(), key=lambda row: (row["station"], row["port"] or "", row["t_s"]))
    for (station, port), group in groupby(rows, key=lambda row: (row["station"], row["port"])):
        name = station if port is None else f"{station}/{port}"
        since = 0.0
        mine = list(group)
        for row in mine:
            if row["from"] is not None:
                bars.append((name, since, row["t_s"], row["from"]))
            since = row["t_s"]
        if mine[-1]["to"] is not None:
            bars.append((name, since, end_s, mine[-1]["to"]))
    return bars, end_s


def _ways(of: Results | Scenario, what: str | tuple[str, str]) -> tuple[list[float], list[tuple[str, ...]], float]:
    """Returns instants, the path from each instant on, and the end."""
    if isinstance(of, Scenario):
        if isinstance(what, str):
            raise UsageError(f"of a scenario give two nodes, not {what!r}")
        rows = list(of.paths([what]).rows())
        return [row["t_s"] for row in rows], [tuple((row["nodes"] or "").split()) for row in rows], of.duration_s
    if not isinstance(what, str):
        raise UsageError(f"of a run give a flow's name, not {what!r}")
    flows = [row for row in of.summary["flows"] if row["name"] == what]
    if not flows:
        raise UsageError(f"there is no flow called {what!r}")
    known = flows[0].get("paths", [])
    rows = [row for row in of.paths.rows() if row["flow"] == what]
    if not rows:
        raise UsageError(f"the run kept no paths of flow {what!r}")
    numbers = [row["path"] for row in rows]
    # A run lists only the first paths of a flow; later ones have no number.
    ways = [tuple(known[number - 1]) if number else () for number in numbers]
    return [row["t_s"] for row in rows], ways, of.summary["lab_time_ns"] / 1e9


def _way(scenario: Scenario, pair: tuple[str, str], at: Span) -> list[str]:
    """Returns the path of the step that contains a time."""
    frame = scenario.paths([pair])
    at_s = seconds_of(at)
    if at_s >= scenario.duration_s:
        raise UsageError(f"{_shown(at)} is not within the scenario's {scenario.duration_s:g} s")
    nodes = frame["nodes"][bisect.bisect_right(frame["t_s"], at_s) - 1]
    if not nodes:
        raise UsageError(f"there is no path between {pair[0]} and {pair[1]} at {_shown(at)}")
    way: list[str] = nodes.split()
    return way


def _place(row: Mapping[str, Any] | None) -> tuple[float, float, float] | None:
    return None if row is None or row["x_m"] is None else (row["x_m"], row["y_m"], row["z_m"])


def _look(here: tuple[float, float, float], there: tuple[float, float, float]) -> tuple[float, float]:
    """Returns azimuth and elevation, radians, relative to the sphere through `here`."""
    x, y, z = here
    r, flat = math.hypot(x, y, z), math.hypot(x, y)
    d = (there[0] - x, there[1] - y, there[2] - z)
    up = (x * d[0] + y * d[1] + z * d[2]) / r
    # At a pole every direction is south; azimuth is then measured from the meridian of Greenwich.
    along = (x / flat, y / flat) if flat else (1.0, 0.0)
    east = -along[1] * d[0] + along[0] * d[1]
    north = (flat * d[2] - z * (along[0] * d[0] + along[1] * d[1])) / r
    return math.atan2(east, north), math.atan2(up, math.hypot(east, north))


def _across(a: tuple[float, float], b: tuple[float, float]) -> list[list[tuple[float, float]]]:
    """Returns a line between two places, in two parts if it crosses 180 deg."""
    if abs(a[0] - b[0]) <= 180:
        return [[a, b]]
    turn = 360.0 if a[0] < b[0] else -360.0
    return [[(a[0] + turn, a[1]), b], [a, (b[0] - turn, b[1])]]
