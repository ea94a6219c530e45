"""Scenarios: read, changed, written, planned; the same as on the command line."""

from __future__ import annotations

import json
import random
import subprocess
import unittest
from datetime import timedelta
from pathlib import Path

import constel
from constel import _native, _yaml

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
IRIDIUM = SCENARIOS / "iridium.yaml"


def command_line(*arguments: str) -> str:
    return subprocess.run([constel.find_binary(), *arguments], check=True, capture_output=True, text=True).stdout


class Reading(unittest.TestCase):
    def test_what_a_file_says(self) -> None:
        scenario = constel.Scenario.load(IRIDIUM)
        self.assertEqual((scenario.name, scenario.seed, scenario.duration_s, scenario.step_s), ("iridium", 1, 75.0, 1.0))
        self.assertEqual((len(scenario.nodes), scenario.nodes[66]), (80, "buenos-aires"))
        self.assertEqual(scenario.to_yaml(), IRIDIUM.read_text())

    def test_errors_are_data(self) -> None:
        text = IRIDIUM.read_text().replace("780 km", "780").replace("routing:", "rooting:")
        with self.assertRaises(constel.ScenarioError) as raised:
            constel.Scenario.from_text(text, SCENARIOS, "bad.yaml")
        found = raised.exception.diagnostics
        self.assertEqual(raised.exception.exit, 4)
        self.assertIn(("bad.yaml", 21, "constellations.iridium.walker.altitude"), [(d.file, d.line, d.path) for d in found])
        self.assertEqual([(d.line, d.suggestion) for d in found if d.code == "unknown-key"], [(53, "did you mean `routing`?")])
        self.assertFalse(constel.check({"constel": 1}))
        self.assertTrue(all(d.line for d in constel.check({"constel": 1}).errors))
        with self.assertRaises(constel.ScenarioError):
            constel.Scenario.load(SCENARIOS / "nowhere.yaml")

    def test_every_shipped_scenario_goes_through_dictionaries_without_loss(self) -> None:
        files = [file for file in SCENARIOS.glob("*.yaml") if not file.name.startswith("box")]
        self.assertGreater(len(files), 5)
        for file in files:
            with self.subTest(file=file.name):
                read = _native.parse_yaml(file.name, file.read_text())
                self.assertEqual(_native.parse_yaml("again", _yaml.dump(read)), read)
        scenario = constel.Scenario.load(IRIDIUM)
        again = constel.Scenario.from_dict(scenario.to_dict(), SCENARIOS)
        self.assertEqual(again.to_dict(), scenario.to_dict())
        self.assertEqual(again.plan("30 s").json, scenario.plan("30 s").json)

    def test_any_values_survive_yaml(self) -> None:
        chance = random.Random(3)
        texts = ["", " ", "a: b", "- x", "#", "null", "No", "1", "1.5", "1 km", "~", "é\n\t\"\\", "{a}", "a ", "0x1", "1e3", "*", "&a",
                 "'", "%", "a #b", "?", "|", ">", "true", "-", "2026-11-21T00:00:00Z", "\u2028", ", ", "[", "!x", "@", "`"]

        def value(depth: int) -> object:
            kind = chance.randrange(8 if depth else 5)
            if kind == 5:
                return [value(depth - 1) for _ in range(chance.randrange(4))]
            if kind > 5:
                return {chance.choice(texts) + str(n): value(depth - 1) for n in range(chance.randrange(4))}
            plain = [chance.choice(texts), chance.randrange(-(10**20), 10**20), chance.uniform(-1e9, 1e9), chance.random() < 0.5, None]
            return plain[kind]

        for _ in range(400):
            given = {f"k{n}": value(4) for n in range(3)}
            for text in (_yaml.dump(given), _yaml.flow(given)):
                self.assertEqual(_native.parse_yaml("values", text), given, text)

    def test_replaced_values_leave_the_rest_as_it_is_written(self) -> None:
        scenario = constel.Scenario.load(IRIDIUM)
        other = scenario.replace({"traffic[ping-tokyo-london].ping.interval": "1 s"}, seed=7, duration="80 s")
        self.assertEqual((other.seed, other.duration_s), (7, 80.0))
        changed = [(a, b) for a, b in zip(scenario.text.splitlines(), other.text.splitlines()) if a != b]
        self.assertEqual(len(changed), 3, changed)
        self.assertIn("# the first and the last plane fly past each other", other.text)
        with self.assertRaises(constel.ScenarioError):
            scenario.replace(duration="10 parsecs")

    def test_times_have_units(self) -> None:
        scenario = constel.Scenario.load(IRIDIUM)
        self.assertEqual(scenario.plan(timedelta(seconds=30)).json, scenario.plan("30 s").json)
        for bad in (30, 30.0, "30"):
            with self.assertRaises(constel.UsageError):
                scenario.plan(bad)  # type: ignore[arg-type]


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.scenario = constel.Scenario.load(IRIDIUM)

    def test_plans_are_those_of_the_command_line_byte_for_byte(self) -> None:
        for at in ("0s", "30s", "74s"):
            self.assertEqual(self.scenario.plan(at).json, command_line("plan", str(IRIDIUM), "--at", at, "--json"))
        changed = self.scenario.replace(seed=3)
        by_text = subprocess.run([constel.find_binary(), "plan", "-", "--json"], input=changed.text, cwd=SCENARIOS,
                                 check=True, capture_output=True, text=True).stdout
        self.assertEqual(changed.plan().json, by_text)

    def test_a_check_is_that_of_the_command_line(self) -> None:
        self.assertEqual(self.scenario.check().document, json.loads(command_line("check", str(IRIDIUM), "--json")))

    def test_frames_of_a_plan_are_its_document(self) -> None:
        plan = self.scenario.plan("30 s")
        document = plan.document
        self.assertEqual(list(plan.edges.rows()), document["edges"])
        places = [[row["x_m"], row["y_m"], row["z_m"]] for row in plan.nodes.rows()]
        self.assertEqual(places, [node["position_itrf_m"] for node in document["nodes"]])

    def test_contacts_and_pairs_are_those_of_the_command_line(self) -> None:
        contacts = json.loads(command_line("plan", str(IRIDIUM), "--contacts", "--json"))["contacts"]
        self.assertEqual(list(self.scenario.contacts().rows()), contacts)
        pairs = self.scenario.pairs([("tokyo", "london"), ("lagos", "lima")], stop="20 s")
        told = json.loads(command_line("plan", str(IRIDIUM), "--pairs", "tokyo:london,lagos:lima", "--to", "20s", "--json"))
        for place, pair in enumerate(told["pairs"]):
            self.assertEqual(pairs.samples["delay_ns"][place::2], pair["delay_ns"])
            self.assertEqual(pairs.samples["changed"][place::2], pair["changed"])
            self.assertEqual(pairs.summary["delay_mean_ns"][place], pair["summary"]["delay_mean_ns"])
        stations = json.loads(command_line("plan", str(IRIDIUM), "--coverage", "--json"))["stations"]
        self.assertEqual(list(self.scenario.coverage().stations.rows()), stations)

    def test_positions_and_edges_over_time_are_those_of_plans(self) -> None:
        positions = self.scenario.positions(stop="60 s", every="30 s")
        edges = self.scenario.edges(stop="60 s", every="30 s")
        self.assertEqual(len(positions), 160)
        for at_s in (0.0, 30.0):
            plan = self.scenario.plan(f"{at_s} s")
            of_nodes = [(row["node"], row["x_m"], row["y_m"], row["z_m"]) for row in plan.nodes.rows()]
            rows = [row for row in positions.rows() if row["t_s"] == at_s]
            self.assertEqual([(row["node"], row["x_m"], row["y_m"], row["z_m"]) for row in rows], of_nodes)
            rows = [{k: v for k, v in row.items() if k != "t_s"} for row in edges.rows() if row["t_s"] == at_s]
            self.assertEqual(rows, plan.document["edges"])

    def test_paths_are_made_of_edges_whose_delays_are_theirs(self) -> None:
        asked = [("tokyo", "london"), ("sydney", "london")]
        paths = list(self.scenario.paths(asked, stop="20 s").rows())
        delays = self.scenario.pairs(asked, stop="20 s").samples
        self.assertEqual([(row["t_s"], row["a_node"], row["delay_ns"], row["hops"]) for row in paths],
                         [(row["t_s"], row["a_node"], row["delay_ns"], row["hops"]) for row in delays.rows()])
        edges = {(e["t_s"], e["from_node"], e["to_node"]): e["delay_ns"] for e in self.scenario.edges(stop="20 s").rows()}
        for row in paths:
            nodes = row["nodes"].split(" ")
            self.assertEqual((nodes[0], nodes[-1], len(nodes) - 1), (row["a_node"], row["b_node"], row["hops"]))
            self.assertEqual(sum(edges[row["t_s"], a, b] for a, b in zip(nodes, nodes[1:])), row["delay_ns"])

    def test_what_is_asked_wrongly_is_said(self) -> None:
        for ask in (
            lambda: self.scenario.plan("-1 s"),
            lambda: self.scenario.contacts("10 s", "5 s"),
            lambda: self.scenario.contacts(every="1500 ms"),
            lambda: self.scenario.pairs([("tokyo", "atlantis")]),
        ):
            with self.assertRaises(constel.UsageError):
                ask()


if __name__ == "__main__":
    unittest.main()
