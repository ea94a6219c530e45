"""Rules of one's own: plans have what the functions chose, without Python as well; errors have their place."""

from __future__ import annotations

import subprocess
import tempfile
import time
import unittest
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from math import cos, pi, sin
from pathlib import Path

import constel

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


@constel.gsl_policy
def nearest(choice: constel.Choice) -> Mapping[str, str]:
    best: dict[str, tuple[float, str]] = {}
    for row in choice.candidates.rows():
        own = (row["range_m"], row["satellite"])
        best[row["station"]] = min(best.get(row["station"], own), own)
    return {station: satellite for station, (_, satellite) in best.items()}


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.iridium = constel.Scenario.load(SCENARIOS / "iridium.yaml")


class Policies(Rules):
    def test_a_policy_that_imitates_the_built_in_one_plans_the_same(self) -> None:
        built_in = self.iridium.replace({"constellations.iridium.gsl.policy": "nearest"})
        # What the file itself would choose is another thing.
        other = self.iridium.replace({"constellations.iridium.gsl.policy": "longest-visible"})
        own = other.with_rules(nearest, folder=self.folder)
        self.assertEqual(own.edges().to_dict(), built_in.edges().to_dict())
        self.assertNotEqual(other.edges().to_dict(), built_in.edges().to_dict())

    def test_its_plan_is_the_same_without_python(self) -> None:
        own = self.iridium.with_rules(nearest, folder=self.folder)
        own.save(SCENARIOS / ".rules-of-a-test.yaml")
        self.addCleanup((SCENARIOS / ".rules-of-a-test.yaml").unlink)
        call = [constel.find_binary(), "plan", SCENARIOS / ".rules-of-a-test.yaml", "--at", "33 s", "--json"]
        self.assertEqual(subprocess.run(call, check=True, capture_output=True, text=True).stdout, own.plan("33 s").json)

    def test_it_is_told_what_it_said_before_and_may_keep_it(self) -> None:
        @constel.gsl_policy
        def keeps(choice: constel.Choice) -> Mapping[str, list[str]]:
            able: dict[str, list[str]] = {}
            for row in choice.candidates.rows():
                able.setdefault(row["station"], []).append(row["satellite"])
            held = {station: [s for s in choice.serving.get(station, ()) if s in those] for station, those in able.items()}
            return {station: held[station] or those[:1] for station, those in able.items()}

        own = self.iridium.with_rules(keeps, folder=self.folder)
        count = sum(row["handovers"] for row in own.coverage().stations.rows())
        self.assertLess(count, sum(row["handovers"] for row in self.iridium.with_rules(nearest, folder=self.folder / "other").coverage().stations.rows()))

    def test_none_is_dark(self) -> None:
        @constel.gsl_policy
        def dark(choice: constel.Choice) -> Mapping[str, None]:
            return dict.fromkeys(choice.candidates["station"])

        own = self.iridium.with_rules(dark, folder=self.folder)
        self.assertNotIn("gsl", own.edges("0 s", "5 s")["kind"])

    def test_what_cannot_be_is_an_error_with_its_time(self) -> None:
        def fails(said: object, words: str) -> None:
            with self.subTest(words=words), self.assertRaisesRegex(constel.RuleFailed, words) as raised:
                self.iridium.with_rules(constel.gsl_policy(lambda choice: said(choice)), folder=self.folder)  # type: ignore[operator]
            self.assertEqual(raised.exception.t_s, 0.0)
            self.assertFalse((self.folder / "choices.csv").exists())

        full = nearest.function
        fails(lambda choice: 3, "gave int, not a mapping")
        fails(lambda choice: {}, "says nothing of `")
        fails(lambda choice: {**full(choice), "atlantis": None}, "`atlantis` can use no satellite now, or is no station")
        fails(lambda choice: {**full(choice), "tokyo": "iridium-p99-s99"}, "`tokyo` cannot use `iridium-p99-s99` now")
        fails(lambda choice: {}["nothing"], "KeyError: 'nothing'")

    def test_its_own_exception_is_the_cause_and_a_slow_one_is_an_error(self) -> None:
        def broken(choice: constel.Choice) -> Mapping[str, str]:
            raise ZeroDivisionError("by hand")

        with self.assertRaises(constel.RuleFailed) as raised:
            self.iridium.with_rules(constel.gsl_policy(broken), folder=self.folder)
        self.assertIsInstance(raised.exception.__cause__, ZeroDivisionError)
        self.assertEqual(raised.exception.rule, "broken")

        def slow(choice: constel.Choice) -> Mapping[str, str]:
            time.sleep(0.02)
            return nearest(choice)

        with self.assertRaisesRegex(constel.RuleFailed, "0.01 s are allowed"):
            self.iridium.with_rules(constel.gsl_policy(slow, within="10 ms"), folder=self.folder)

    def test_a_file_by_hand_is_checked_line_by_line(self) -> None:
        bad = self.folder / "choices.csv"
        bad.write_text("t_s,station,satellites\n0,tokio,\n1,tokyo,iridium-p00-s0\nsoon,tokyo,\n3,london,\n2,london,\n4,london\n")
        with self.assertRaises(constel.ScenarioError) as raised:
            self.iridium.replace({"ground.choices": str(bad)})
        found = [(d.line, d.code, d.suggestion) for d in raised.exception.diagnostics]
        self.assertEqual(
            found,
            [
                (2, "unknown-station", "did you mean `tokyo`?"),
                (3, "unknown-satellite", "did you mean `iridium-p00-s00`?"),
                (4, "bad-value", None),
                (6, "order", None),
                (7, "bad-value", None),
            ],
        )


class Routing(Rules):
    def setUp(self) -> None:
        super().setUp()
        self.computed = self.iridium.replace({"routing": {"mode": "computed"}, "traffic": []}, duration="20 s")

    @staticmethod
    def backwards(edges: constel.Frame, destination: str, ends: frozenset[str]) -> dict[str, str]:
        """Fewest hops, and of equals the last by name: hardly ever what least delay gives. No path passes through `ends`."""
        into: dict[str, list[str]] = {}
        for from_, to in sorted(set(zip(edges["from_node"], edges["to_node"])), reverse=True):
            into.setdefault(to, []).append(from_)
        ways: dict[str, str] = {}
        rim = [destination]
        while rim:
            outer = []
            for node in rim:
                for near in into.get(node, []):
                    if near not in ways and near != destination and (node == destination or node not in ends):
                        ways[near] = node
                        outer.append(near)
            rim = outer
        return ways

    def test_packets_take_the_ways_that_a_function_chose(self) -> None:
        stations = frozenset(node for node in self.computed.nodes if not node.startswith("iridium-"))
        said: dict[float, dict[str, str]] = {}

        @constel.routing
        def own_way(sky: constel.Sky) -> Mapping[str, Mapping[str, str]]:
            ways = {end: self.backwards(sky.edges, end, stations) for end in ("tokyo", "london")}
            said[sky.t_s] = ways["london"]
            return ways

        own = self.computed.with_rules(own_way, folder=self.folder)
        with own.run(results=self.folder / "run") as lab:
            lab.sleep_until("1500 ms")
            path = lab.path("tokyo", "london")
            hops = path["kernel"][0]["hops"]
            nodes = [hops[0]["from"].split("/")[0], *(hop["to"].split("/")[0] for hop in hops)]
            t_s = lab.t_s
            assert t_s is not None
        chosen = [["tokyo"], ["tokyo"]]
        for way, at in zip(chosen, (t_s, max(0.0, t_s - own.step_s))):
            ways = said[max(t for t in said if t <= at)]
            while way[-1] != "london":
                way.append(ways[way[-1]])
        self.assertIn(nodes, chosen)
        shortest = self.computed.paths([("tokyo", "london")], "0 s", "20 s")["nodes"]
        self.assertNotIn(" ".join(nodes), shortest)

    def test_ways_that_do_not_arrive_are_errors(self) -> None:
        links = self.computed.edges("0 s", "1 s").rows()
        lasers = [(row["from_node"], row["to_node"]) for row in links if row["kind"].startswith("isl")]
        a, b = lasers[0]

        def fails(said: object, words: str) -> None:
            with self.subTest(words=words), self.assertRaisesRegex(constel.RuleFailed, words):
                self.computed.with_rules(constel.routing(lambda sky: said), folder=self.folder)  # type: ignore[arg-type, return-value]

        fails(3, "no mapping")
        fails({"london": {"atlantis": a}}, "no node is called `atlantis`")
        fails({"london": {"tokyo": "london"}}, "`tokyo` has no link to `london` now")
        fails({"london": {a: b}}, f"the way from `{a}` to `london` ends at `{b}`")
        fails({"london": {a: b, b: a}}, "comes round at")


class Laws(Rules):
    def test_what_a_failure_law_breaks_has_no_links(self) -> None:
        edge = next(row for row in self.iridium.edges("0 s", "1 s").rows() if row["kind"].startswith("isl"))
        link = (edge["from_node"], edge["to_node"])

        @constel.failure_law
        def night(sky: constel.Sky) -> Iterable[str | tuple[str, str]]:
            self.assertEqual(len(sky.positions), len(self.iridium.nodes))
            if 10 <= sky.t_s < 20:
                yield "iridium-p02-s03"
            if sky.t_s >= 70:
                yield link

        own = self.iridium.with_rules(night, folder=self.folder)

        def linked(t_s: int, node: str) -> bool:
            plan = own.plan(f"{t_s} s").edges
            return node in plan["from_node"]

        self.assertEqual([linked(t_s, "iridium-p02-s03") for t_s in (9, 10, 19, 20)], [True, False, False, True])
        for t_s, there in ((69, True), (70, False)):
            pairs = {(row["from_node"], row["to_node"]) for row in own.plan(f"{t_s} s").edges.rows()}
            self.assertEqual(link in pairs, there)
        with self.assertRaisesRegex(constel.RuleFailed, "no node is called `mars`"):
            self.iridium.with_rules(constel.failure_law(lambda sky: ["mars"]), folder=self.folder)

    def test_a_link_law_is_what_ground_links_carry(self) -> None:
        @constel.link_law
        def tides(sky: constel.Sky) -> Mapping[str, Mapping[str, float]]:
            return {"tokyo": {"down_bit_per_s": 1e6 if sky.t_s < 30 else 2e6, "loss_ratio": 0.25}}

        own = self.iridium.with_rules(tides, folder=self.folder)
        for t_s, rate in ((5, 1_000_000), (40, 2_000_000)):
            down = [row for row in own.plan(f"{t_s} s").edges.rows() if row["to_node"] == "tokyo"]
            self.assertEqual([row["rate_bps"] for row in down], [rate] * len(down))
            self.assertTrue(all(row["loss_ratio"] >= 0.25 for row in down) and down)
        with self.assertRaisesRegex(constel.RuleFailed, "one or more of"):
            self.iridium.with_rules(constel.link_law(lambda sky: {"tokyo": {"speed": 1}}), folder=self.folder)

    def test_a_trajectory_flies_where_it_says(self) -> None:
        radius_m = 7_000e3

        @constel.trajectory
        def ring(at: datetime) -> Mapping[str, tuple[float, float, float]]:
            angle = 2 * pi * (at.minute * 60 + at.second) / 5_800
            return {f"craft-{k}": (radius_m * cos(angle + k), radius_m * sin(angle + k), 0.0) for k in range(3)}

        start = datetime(2026, 11, 21, tzinfo=timezone.utc)
        file = ring.write(self.folder / "ring.csv", start, "60 s")
        scenario = constel.Scenario.from_dict(
            {
                "constel": 1,
                "name": "ring",
                "start": "2026-11-21T00:00:00Z",
                "duration": "60 s",
                "constellations": {"ring": {"ephemeris": {"file": str(file)}, "isl": {"pattern": "none"}, "gsl": {"min_elevation": "5 deg", "link": {"rate": "1 Mbit/s"}}}},
                "ground": {"stations": {"quito": {"latitude": "0 deg", "longitude": "-78 deg"}}},
                "routing": {"mode": "computed"},
            }
        )
        for row in scenario.positions("30 s", "31 s").rows():
            if row["node"].startswith("ring"):
                k = int(row["node"][-2:])
                angle = 2 * pi * 30 / 5_800 + k
                self.assertAlmostEqual(row["x_m"], radius_m * cos(angle), delta=1.0)
                self.assertAlmostEqual(row["y_m"], radius_m * sin(angle), delta=1.0)

    def test_a_topology_is_the_users_own_at_each_step(self) -> None:
        @constel.topology
        def turns(t_s: float) -> Iterable[constel.Joined]:
            a, b = ("node-0", "node-1") if t_s < 5 else ("node-1", "node-2")
            return [constel.Joined(a, b, 7.5, 1e6, 0.125), constel.Joined(b, a, 2.5)]

        file = turns.write(self.folder / "turns.csv", "10 s")
        scenario = constel.Scenario.from_dict(
            {
                "constel": 1,
                "name": "turns",
                "start": "2026-11-21T00:00:00Z",
                "duration": "10 s",
                "ground": {"hosts": {"node": {"count": 3, "latitude": "0 deg", "longitude": "0 deg"}}},
                "networks": {"mesh": {"members": ["node-*"], "law": {"matrix": str(file)}, "link": {"rate": "10 Mbit/s"}}},
                "routing": {"mode": "computed"},
            }
        )
        seen = [(row["from_node"], row["to_node"], row["delay_ns"], row["rate_bps"], row["loss_ratio"]) for row in scenario.plan("6 s").edges.rows()]
        self.assertEqual(seen, [("node-1", "node-2", 7_500_000, 1_000_000, 0.125), ("node-2", "node-1", 2_500_000, 10_000_000, 0.0)])


if __name__ == "__main__":
    unittest.main()
