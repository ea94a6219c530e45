"""Sweeps of functions that need no lab."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import constel


class Sweeps(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "sweep"

    def sweep(self, fn, params, **options):  # type: ignore[no-untyped-def]
        return constel.sweep(fn, params, folder=self.folder, progress=False, **options)

    def test_a_row_for_each_combination_and_seed(self) -> None:
        swept = self.sweep(lambda run: {"sum": run["a"] + run.seed}, {"a": [1, 2], "b": ["x", "y"]}, seeds=[10, 20])
        frame = swept.frame()
        self.assertEqual(frame.columns, ["run", "a", "b", "seed", "trustworthy", "sum"])
        self.assertEqual(frame["sum"], [11, 21, 11, 21, 12, 22, 12, 22])
        self.assertEqual(frame["b"], ["x", "x", "y", "y"] * 2)
        self.assertEqual(frame["run"], list(range(8)))

    def test_what_was_done_is_not_done_again(self) -> None:
        calls: list[int] = []

        def once(run: constel.Run) -> dict[str, float]:
            calls.append(run["a"])
            if run["a"] == 2 and len(calls) < 4:
                raise RuntimeError("not today")
            return {"y": run["a"] ** 2}

        first = self.sweep(once, {"a": [1, 2, 3]})
        self.assertEqual(([row["y"] for row in first.rows], list(first.failures)), ([1, 9], [1]))
        self.assertIn("not today", first.failures[1])
        second = self.sweep(once, {"a": [1, 2, 3, 4]})
        self.assertEqual(([row["y"] for row in second.rows], second.failures), ([1, 4, 9, 16], {}))
        self.assertEqual(calls, [1, 2, 3, 2, 4])

    def test_as_many_at_a_time_as_was_asked_for(self) -> None:
        meet = threading.Barrier(3, timeout=20)

        def together(run: constel.Run) -> dict[str, float]:
            meet.wait()
            return {}

        self.assertEqual(self.sweep(together, {"a": [1, 2, 3]}, jobs=3).failures, {})

    def test_untrustworthy_runs_are_marked_and_left_out_when_asked(self) -> None:

        def told(run: constel.Run) -> dict[str, float]:
            folder = run.folder / "results-0"
            folder.mkdir()
            (folder / "manifest.json").write_text("{}")
            (folder / "summary.json").write_text(json.dumps({"verdict": {"trustworthy": run["a"] != 2, "reasons": []}}))
            run._labs.append(type("Lab", (), {"folder": folder, "abandon": lambda self: None})())  # type: ignore[arg-type]
            return {"y": 1}

        swept = self.sweep(told, {"a": [1, 2, 3]})
        self.assertEqual(swept.frame()["trustworthy"], [True, False, True])
        self.assertEqual(swept.frame(trustworthy_only=True)["a"], [1, 3])

    def test_what_does_not_go_together_is_refused(self) -> None:
        self.sweep(lambda run: {}, {"a": [1]})
        for params in ({"b": [1]}, {"a": "1"}, {"a": []}, {"a": [object()]}):
            with self.assertRaises(constel.UsageError):
                self.sweep(lambda run: {}, params)
        other = self.folder.parent / "full"
        other.mkdir()
        (other / "thesis.tex").write_text("")
        with self.assertRaises(constel.UsageError):
            constel.sweep(lambda run: {}, {"a": [1]}, folder=other)
        self.assertEqual([file.name for file in other.iterdir()], ["thesis.tex"])

    def test_killed_it_goes_on_where_it_was(self) -> None:
        code = f"""
import constel, time
def slow(run):
    if run["a"] == 3:
        print("third", flush=True)
        time.sleep(600)
    return {{"y": run["a"]}}
constel.sweep(slow, {{"a": [1, 2, 3, 4]}}, folder={str(self.folder)!r})
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), "third\n")
        child.send_signal(signal.SIGKILL)
        child.communicate()
        made: list[int] = []

        def quick(run: constel.Run) -> dict[str, float]:
            made.append(run["a"])
            return {"y": run["a"]}

        swept = self.sweep(quick, {"a": [1, 2, 3, 4]})
        self.assertEqual((made, [row["y"] for row in swept.rows]), ([3, 4], [1, 2, 3, 4]))


if __name__ == "__main__":
    unittest.main()
