"""Results folders that were written by hand, so that no lab is needed."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

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


if __name__ == "__main__":
    unittest.main()
