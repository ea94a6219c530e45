"""Pictures: each is drawn, and what it shows is read back from it."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib

matplotlib.use("Agg")

import constel
import numpy
from constel import plots
from matplotlib import pyplot

DEMO = Path(__file__).resolve().parents[2] / "scenarios" / "demo.yaml"

PING = """t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked
2.0,52000,26000,26000,,ok,1,0
1.0,51000,25500,25500,,ok,1,0
3.0,,,,,lost,,0
6.0,61000,30500,30500,,ok,2,1
"""
TCP = """t_s,rtt_us,owd_us,owd_back_us,throughput_bps,fate,path,marked
1.0,,,,4000000,,1,0
2.0,,,,8000000,,1,0
"""
PATHS = """t_s,flow,path,path_rtt_us,shortest_rtt_us
0,ping,1,50000,50000
4,ping,,,
5,ping,2,60000,55000
"""


def a_run(folder: Path) -> constel.Results:
    """A results folder such as runs leave, with numbers that are known."""
    (folder / "flows").mkdir()
    (folder / "flows" / "ping.csv").write_text(PING)
    (folder / "flows" / "tcp.csv").write_text(TCP)
    (folder / "paths.csv").write_text(PATHS)
    events = [
        {"kind": "handover", "t_ns": 4_000_000_000, "station": "oslo", "from": "a", "to": None},
        {"kind": "handover", "t_ns": 5_000_000_000, "station": "oslo", "from": None, "to": "b"},
        {"kind": "handover", "t_ns": 8_000_000_000, "station": "oslo", "from": "b", "to": "c"},
        {"kind": "handover", "t_ns": 8_500_000_000, "station": "paris", "from": None, "to": "b"},
        {"kind": "failure", "t_ns": 6_000_000_000, "cause": "laser", "objects": ["a-b"]},
        {"kind": "failure", "t_ns": 7_000_000_000, "cause": "by hand", "objects": ["a"]},
        {"kind": "nodes-set", "t_ns": 7_000_000_000, "change": "fail", "nodes": ["a"]},
    ]
    lines = [json.dumps({"seq": seq, "wall": "", **event}) for seq, event in enumerate(events, 1)]
    (folder / "events.ndjson").write_text("\n".join(lines) + "\n")
    (folder / "manifest.json").write_text('{"seed": 1}')
    hop = {"station": "oslo", "port": None, "converged_after_ns": 1, "lost_probes": 0}
    handovers = [{**hop, "t_ns": 4_000_000_000, "from": "a", "to": None}]
    flows = [{"name": "ping", "from": "oslo", "to": "rome", "paths": [["oslo", "a", "rome"], ["oslo", "b", "c", "d", "rome"]]}, {"name": "tcp"}, {"name": "http"}]
    summary = {"lab_time_ns": 10_000_000_000, "handovers": handovers, "flows": flows}
    (folder / "summary.json").write_text(json.dumps(summary))
    return constel.read_results(folder)


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(pyplot.close, "all")
        self.results = a_run(Path(folder.name))
        self.scenario = constel.Scenario.load(DEMO)

    def drawn(self, ax: Any) -> Any:
        """Draws it. There is ink, and all of it is grey; axes with words say the unit."""
        ax.figure.canvas.draw()
        pixels = numpy.asarray(ax.figure.canvas.buffer_rgba())[:, :, :3].astype(int)
        self.assertGreater((pixels.min(axis=2) < 128).sum(), 500, "hardly any ink")
        self.assertEqual(int((pixels.max(axis=2) - pixels.min(axis=2)).max()), 0, "something is coloured")
        for label in (ax.get_xlabel(), ax.get_ylabel()):
            self.assertTrue(not label or label.endswith(")") or label == "share of rows", label)
        return ax

    def lines(self, ax: Any) -> Iterator[tuple[str, list[float], list[float]]]:
        for line in ax.get_lines():
            yield line.get_label(), list(line.get_xdata()), list(line.get_ydata())

    def test_round_trips_over_what_geometry_gives(self) -> None:
        ax = self.drawn(plots.rtt(self.results, "ping"))
        of = {label: (xs, ys) for label, xs, ys in self.lines(ax)}
        self.assertEqual(of["measured, N = 3"], ([1.0, 2.0, 6.0], [51.0, 52.0, 61.0]))
        self.assertEqual(of["emulation late, N = 1"], ([6.0], [61.0]))
        self.assertEqual(of["lost, N = 1"][0], [3.0])
        self.assertEqual(of["changes of path, N = 2"][0], [4.0, 4.0])
        self.assertEqual(of["handovers, N = 3"][0], [4.0, 4.0], "of oslo, not of paris")
        self.assertEqual(of["failures and repairs, N = 1"][0], [6.0, 6.0])
        self.assertEqual(of["changes by hand, N = 1"][0], [7.0, 7.0])
        times, values = of["path by geometry"]
        self.assertEqual((times, values[0], values[2]), ([0.0, 4.0, 5.0], 50.0, 60.0))
        self.assertTrue(math.isnan(values[1]), "where there is no path there is no line")
        self.assertEqual(of["shortest path"][1][2], 55.0)
        with self.assertRaises(constel.UsageError):
            plots.rtt(self.results, "tcp")

    def test_throughput(self) -> None:
        ax = self.drawn(plots.throughput(self.results))
        self.assertEqual(list(self.lines(ax))[:1], [("tcp, N = 2", [1.0, 2.0], [4.0, 8.0])])
        with self.assertRaises(constel.UsageError):
            plots.throughput(self.results, "ping")

    def test_distributions(self) -> None:
        frame = {"rtt_ms": [3.0, 1.0, None, 2.0, 5.0], "tcp": ["bbr", "bbr", "bbr", "cubic", "cubic"]}
        ax = self.drawn(plots.cdf(frame, "rtt_ms", "tcp"))
        self.assertEqual(
            list(self.lines(ax)),
            [("tcp: bbr, N = 2", [1.0, 1.0, 3.0], [0.0, 0.5, 1.0]), ("tcp: cubic, N = 2", [2.0, 2.0, 5.0], [0.0, 0.5, 1.0])],
        )
        self.assertEqual(ax.get_xlabel(), "rtt (ms)")
        dashes = {line.get_linestyle() for line in ax.get_lines()}
        self.assertEqual(len(dashes), 2, "lines differ without colour")
        markers = {line.get_marker() for line in ax.get_lines()}
        self.assertEqual(len(markers), 2, "lines at the same values are told apart")
        below = ax.get_legend().get_window_extent().y1
        self.assertLess(below, ax.get_window_extent().y0, "the legend covers no line")
        with self.assertRaises(constel.UsageError):
            plots.cdf({"x": [None]}, "x")

    def test_medians_with_intervals(self) -> None:
        frame = {"mbps": [float(n) for n in range(1, 11)] + [20.0, 40.0], "tcp": ["bbr"] * 10 + ["cubic"] * 2}
        ax = self.drawn(plots.intervals(frame, "mbps", "tcp", label="throughput (Mbit/s)"))
        of = {name: [line for line in ax.get_lines() if line.get_gid() == name] for name in ("interval", "median", "rows")}
        # Ranks 2 and 9 of ten; two values have no interval.
        self.assertEqual([list(line.get_xdata()) for line in of["interval"]], [[2.0, 9.0]])
        self.assertEqual([line.get_xdata()[0] for line in of["median"]], [5.5, 30.0])
        self.assertEqual([len(line.get_xdata()) for line in of["rows"]], [10, 2])
        ticks = [label.get_text() for label in ax.get_yticklabels()]
        self.assertEqual(ticks, ["bbr, N = 10", "cubic, N = 2"])
        self.assertEqual([plots._outside(n) for n in (5, 6, 10, 20, 100)], [None, 0, 1, 5, 39])

    def test_a_picture_for_a_column_of_a_paper(self) -> None:
        with plots.paper(width="8.636cm"):
            ax = self.drawn(plots.rtt(self.results, "ping"))
        wide, tall = ax.figure.get_size_inches()
        self.assertAlmostEqual(wide, 3.4)
        self.assertAlmostEqual(tall, 0.62 * 3.4)
        self.assertEqual(ax.xaxis.label.get_size(), 7)
        file = Path(self.results.folder) / "rtt.pdf"
        ax.figure.savefig(file)
        self.assertIn(b"%PDF", file.read_bytes()[:10])
        for width in ("3.4", "wide", "3.4 parsecs"):
            with self.assertRaises(constel.UsageError), plots.paper(width=width):
                pass

    def test_who_serves_a_station(self) -> None:
        ax = self.drawn(plots.handovers(self.results))
        bars = sorted((bar.get_x(), bar.get_width()) for bar in ax.patches)
        self.assertEqual(bars, [(0.0, 4.0), (5.0, 3.0), (8.0, 2.0), (8.5, 1.5)], "oslo is dark from 4 s to 5 s")
        self.assertEqual({text.get_text() for text in ax.texts}, {"a", "b", "c"})
        ax = self.drawn(plots.handovers(self.scenario))
        self.assertEqual([label.get_text() for label in ax.get_yticklabels()][:2], ["lagos", "london"])
        self.assertEqual(len(ax.patches), 7, "six stations, one of which hands over")

    def test_which_way_is_taken(self) -> None:
        ax = self.drawn(plots.paths(self.results, "ping"))
        self.assertEqual([(xs, ys) for _, xs, ys in self.lines(ax)], [([0.0, 4.0], [0, 0]), ([5.0, 10.0], [1, 1])])
        ticks = [label.get_text() for label in ax.get_yticklabels()]
        self.assertEqual(ticks, ["1: oslo > a > rome", "2: oslo > b > (1 more) > d > rome"])
        ax = self.drawn(plots.paths(self.scenario, ("lagos", "london")))
        self.assertEqual([xs for _, xs, _ in self.lines(ax)][0][0], 0.0)
        for of, what in ((self.results, ("a", "b")), (self.scenario, "ping"), (self.results, "tcp"), (self.results, "x")):
            with self.assertRaises(constel.UsageError):
                plots.paths(of, what)  # type: ignore[arg-type]

    def test_queues_as_a_heat_map(self) -> None:
        rows = [
            {"t_s": t / 10, "from": f"{a}/gsl0", "to": "sat/gsl0", "queue_bytes": t * 100 if a == "oslo" else None if t == 3 else 0}
            for t in range(6)
            for a in ("oslo", "rome")
        ]
        frame = constel.Frame.of_rows({"t_s": "float", "from": "text", "to": "text", "queue_bytes": "integer"}, rows)
        ax = self.drawn(plots.queues(frame))
        field = ax.images[0].get_array()
        self.assertEqual(field.shape, (2, 6))
        self.assertEqual(list(field[0]), [0, 100, 200, 300, 400, 500])
        self.assertTrue(numpy.ma.is_masked(field[1][3]), "no value is no shade")
        self.assertEqual(ax.figure.axes[1].get_ylabel(), "queue (bytes)")
        with self.assertRaises(constel.UsageError):
            plots.queues(constel.Frame.of_rows({"from": "text", "queue_bytes": "integer"}, []))

    def test_the_sky_over_a_station(self) -> None:
        ax = self.drawn(plots.sky(self.scenario, "lagos", at="3 s"))
        shown = {line.get_gid(): line for line in ax.get_lines()}
        # What `plan` says of the link is what the picture shows.
        edge = next(row for row in self.scenario.plan("3 s").edges.rows() if row["from_node"] == "lagos")
        filled = [name for name, line in shown.items() if line.get_fillstyle() == "full"]
        self.assertEqual(filled, [edge["to_node"]])
        # The distance over the sphere and the elevation make a triangle with the Earth's centre.
        nodes = {row["node"]: (row["x_m"], row["y_m"], row["z_m"]) for row in self.scenario.plan("3 s").nodes.rows()}
        for name, line in shown.items():
            here, there = nodes["lagos"], nodes[name]
            elevation = math.radians(90 - line.get_ydata()[0])
            r, d = math.hypot(*here), math.dist(here, there)
            far = math.sqrt(r * r + d * d + 2 * r * d * math.sin(elevation))
            self.assertAlmostEqual(far, math.hypot(*there), delta=1.0)
        with self.assertRaises(constel.UsageError):
            plots.sky(self.scenario, "atlantis")

    def test_north_and_east_are_where_they_are(self) -> None:
        x, y, z = 6.4e6, 0.0, 0.0
        for there, azimuth in (((x, 0.0, 1e5), 0.0), ((x, 1e5, 0.0), 90.0), ((x, 0.0, -1e5), 180.0), ((x, -1e5, 0.0), -90.0)):
            self.assertAlmostEqual(math.degrees(plots._look((x, y, z), there)[0]), azimuth)
        self.assertAlmostEqual(math.degrees(plots._look((x, y, z), (2 * x, 0.0, 0.0))[1]), 90.0)

    def test_the_map_with_a_path(self) -> None:
        ax = self.drawn(plots.map(self.scenario, ("tokyo", "new-york"), at="3500 ms"))
        way = self.scenario.paths([("tokyo", "new-york")])["nodes"][3].split()
        pieces = [line for line in ax.get_lines() if line.get_linestyle() == "-"]
        self.assertIn(len(pieces), (len(way) - 1, len(way)), "a line for each hop, and one more across 180 deg")
        tokyo = (pieces[0].get_xdata()[0], pieces[0].get_ydata()[0])
        self.assertAlmostEqual(tokyo[0], 139.69171, places=3)
        self.assertAlmostEqual(tokyo[1], 35.69, delta=0.2)
        self.assertEqual(plots._across((170, 10), (-170, 20)), [[(-190, 10), (-170, 20)], [(170, 10), (190, 20)]])
        with self.assertRaises(constel.UsageError):
            plots.map(self.scenario, ("tokyo", "london"), at="15 s")

    def test_into_axes_that_are_there(self) -> None:
        _, axes = pyplot.subplots(2)
        self.assertIs(plots.rtt(self.results, "ping", axes[0]), axes[0])
        self.assertIs(plots.throughput(self.results, ax=axes[1]), axes[1])

    def test_without_matplotlib_it_says_what_to_install(self) -> None:
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}):
            with self.assertRaises(constel.UsageError) as error:
                plots.rtt(self.results, "ping")
        self.assertIn("constel[plots]", str(error.exception))


if __name__ == "__main__":
    unittest.main()
