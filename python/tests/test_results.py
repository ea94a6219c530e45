"""Results folders that were written by hand, so that no lab is needed."""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import constel

# A complete run of one ping.
RUN = Path(__file__).parents[2] / "crates/control/src/expect/run.json"


class AffectedRuns(unittest.TestCase):
    def results(self, reasons: list[str], **flow: object) -> constel.Results:
        """The results of a run with a second flow beside its own, `other`, that differs by `flow`."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        summary = json.loads(RUN.read_text())
        summary["verdict"] = {"trustworthy": not reasons, "reasons": reasons}
        summary["flows"].append({**summary["flows"][0], "name": "other", **flow})
        folder = Path(place.name)
        (folder / "manifest.json").write_text("{}")
        (folder / "summary.json").write_text(json.dumps(summary))
        return constel.Results(folder)

    def test_an_affected_flow_is_marked_and_its_run_is_not_trustworthy(self) -> None:
        reason = "flow other is affected: 7 of 20 samples met late frames"
        results = self.results([reason], trustworthy=False, marked_samples=7, doubt="7 of 20 samples met late frames")
        self.assertFalse(results.trustworthy)
        self.assertEqual(results.reasons, [reason])
        frame = results.flows
        self.assertEqual(frame["flow"], ["echo", "other"])
        self.assertEqual(frame["trustworthy"], [True, False])
        self.assertEqual(frame["run_trustworthy"], [False, False])
        self.assertEqual(frame["marked_samples"], [0, 7])

    def test_flows_of_a_trustworthy_run_are(self) -> None:
        frame = self.results([]).flows
        self.assertEqual(frame["trustworthy"], [True, True])
        self.assertEqual(frame["run_trustworthy"], [True, True])

    def test_failed_software_affects_no_figures(self) -> None:
        results = self.results([], status="failed", reason="exit code 7")
        frame = results.flows
        self.assertEqual((frame["status"], frame["trustworthy"]), (["ok", "failed"], [True, True]))
        self.assertTrue(results.trustworthy)


class Tables(unittest.TestCase):
    """Tables of a run of 10,001 handovers, of which the summary lists the first."""

    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name) / "a, run"
        self.folder.mkdir()
        handovers = [
            {"t_ns": n * 1_000_000, "station": "oslo", "from": f"s{n}", "to": f"s{n + 1}"} for n in range(10_001)
        ]
        others = [
            {"t_ns": None, "kind": "starting", "lab": "demo", "nodes": 72},
            {"t_ns": 5, "kind": "link-set", "link": "a-b", "reset": False, "effects": {"loss": 0.01, "delay_ns": 7}},
            {"t_ns": 6, "kind": "failure", "cause": "laser", "objects": ["a-b", "c"]},
            {"t_ns": 7, "kind": "link-set", "link": "a-b", "reset": True, "effects": {}},
        ]
        events = [*others, *({"kind": "handover", **row} for row in handovers)]
        with open(self.folder / "events.ndjson", "w") as file:
            for seq, event in enumerate(events, 1):
                file.write(json.dumps({"seq": seq, "wall": "2026", **event}) + "\n")
            file.write('{"seq": 99999, "kind": "hando')
        summary = json.loads(RUN.read_text())
        summary["handovers"] = [{**row, "converged_after_ns": 3, "lost_probes": 1} for row in handovers[:10_000]]
        (self.folder / "manifest.json").write_text("{}")
        (self.folder / "summary.json").write_text(json.dumps(summary))
        self.results = constel.read_results(self.folder)

    def test_every_handover_is_there(self) -> None:
        frame = self.results.handovers
        self.assertEqual(len(frame), 10_001)
        self.assertEqual(frame[9_999]["converged_after_ns"], 3)
        self.assertEqual(frame[-1], {**frame[9_999], "t_s": 10.0, "from": "s10000", "to": "s10001", "converged_after_ns": None, "lost_probes": None})
        (self.folder / "summary.json").unlink()
        unfinished = constel.read_results(self.folder).handovers
        self.assertEqual((len(unfinished), unfinished["lost_probes"][0]), (10_001, None))

    def test_events_are_wide(self) -> None:
        frame = self.results.events
        self.assertEqual(frame.columns[:6], ["seq", "t_s", "wall", "kind", "lab", "nodes"])
        self.assertEqual(frame[0]["t_s"], None)
        changed = frame.filter(kind="link-set")
        self.assertEqual((changed["effects_loss"], changed["effects_delay_ns"]), ([0.01, None], [7, None]))
        self.assertEqual((changed["reset"], changed["nodes"]), ([False, True], [None, None]))
        self.assertEqual(frame.filter(kind="failure")["objects"], ["a-b c"])
        self.assertEqual((frame.kinds["nodes"], frame.kinds["reset"], frame.units["effects_delay_ns"]), ("integer", "bool", "ns"))
        self.assertEqual(len(frame), 4 + 10_001)

    def test_flows_are_those_of_the_command_line(self) -> None:
        call = [constel.find_binary(), "results", str(self.folder), "--csv"]
        told = subprocess.run(call, capture_output=True, text=True, check=True).stdout
        frame = self.results.flows
        rows = list(csv.DictReader(told.splitlines()))
        self.assertEqual(frame.columns, list(rows[0]))
        read = {"integer": int, "float": float, "text": str, "bool": lambda cell: cell == "true"}
        for row, expected in zip(frame, rows, strict=True):
            values = {name: read[frame.kinds[name]](cell) if cell else None for name, cell in expected.items()}
            self.assertEqual(row, values)

    def test_properties_start_no_process(self) -> None:
        with mock.patch("subprocess.Popen", side_effect=AssertionError("a process")):
            for name in ("flows", "handovers", "events", "trustworthy", "failures", "summary", "manifest"):
                self.assertIsNotNone(getattr(self.results, name))


if __name__ == "__main__":
    unittest.main()
