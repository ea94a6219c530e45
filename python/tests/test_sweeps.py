"""Sweeps of functions that need no lab."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path

import constel

try:
    import distributed
except ImportError:
    distributed = None  # type: ignore[assignment]


# Executors send functions by their names.
def product(run: constel.Run) -> dict[str, int]:
    if run["a"] == 4:
        raise RuntimeError("not four")
    (run.folder / "note").write_text("made")
    return {"y": run["a"] * run.seed, "pid": os.getpid()}


def seed_of(run: constel.Run) -> dict[str, int]:
    return {"y": run.seed}


def reading(run: constel.Run) -> dict[str, float]:
    """A lab in virtual time, without root."""
    with run.lab(constel.Scenario.from_dict(PAIR).replace({"ground.cables[0].delay": run["delay"]}), virtual_time=True) as lab:
        flows = lab.wait().flows
    return {"rtt_p50_us": flows["rtt_p50_us"][0]}


PAIR = {
    "constel": 1,
    "name": "pair",
    "start": "2026-11-21T00:00:00Z",
    "duration": "3 s",
    "ground": {
        "hosts": {
            "a": {"latitude": "0 deg", "longitude": "0 deg"},
            "b": {"latitude": "0 deg", "longitude": "1 deg"},
        },
        "cables": [{"from": "a", "to": "b", "delay": "10 ms", "link": {"rate": "20 Mbit/s"}}],
    },
    "traffic": [{"name": "ping", "at": "0 s", "for": "2 s", "ping": {"from": "a", "to": "b", "interval": "100 ms"}}],
}


class Elsewhere(Executor):
    """A machine whose files this one does not see."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        future.set_result(fn(*args, **kwargs))
        shutil.rmtree(args[1].folder)
        return future


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

    def same_by(self, executor: Executor) -> set[int]:
        """Makes a sweep by an executor and once more. Returns the processes that made its runs."""
        params = {"a": list(range(1, 9))}
        first = self.sweep(product, params, seeds=[10, 20], executor=executor)
        self.assertEqual(sorted(first.failures), [6, 7])
        self.assertIn("not four", first.failures[6])
        expected = [a * seed for a in params["a"] for seed in (10, 20) if a != 4]
        self.assertEqual([row["y"] for row in first.rows], expected)
        self.assertEqual(len(list(self.folder.glob("*/note"))), 14)
        # The second call finds all rows, and fails again where the first one did. The executor is still open.
        again = self.sweep(product, params, seeds=[10, 20], jobs=1, executor=executor)
        self.assertEqual((again.rows, sorted(again.failures)), (first.rows, [6, 7]))
        return {row["pid"] for row in first.rows}

    def test_processes_make_the_runs(self) -> None:
        with ProcessPoolExecutor(2) as executor:
            made_by = self.same_by(executor)
        self.assertNotIn(os.getpid(), made_by)

    @unittest.skipIf(distributed is None, "dask is not installed (pip install 'dask[distributed]')")
    def test_a_cluster_of_dask_makes_the_runs(self) -> None:
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            workers = set(client.run(os.getpid).values())
            self.assertEqual(len(workers), 2)
            made_by = self.same_by(client.get_executor())
        self.assertEqual(made_by, workers)

    def test_rows_made_elsewhere_are_kept_here(self) -> None:
        first = self.sweep(seed_of, {"a": [1]}, seeds=[1, 2], executor=Elsewhere())
        second = self.sweep(seed_of, {"a": [1]}, seeds=[1, 2, 3], executor=Elsewhere())
        self.assertEqual((first.rows, len(second.rows)), (second.rows[:2], 3))
        self.assertEqual(first.failures, {})

    def test_labs_in_virtual_time_have_the_same_figures_in_processes(self) -> None:
        binary = Path(os.environ.get("CONSTEL") or shutil.which("constel") or "constel")
        if not (binary.resolve().parents[1] / "virtual/linux").exists() and "CONSTEL_KERNEL" not in os.environ:
            self.skipTest("there is no kernel of virtual time (make virtual)")
        params = {"delay": ["10 ms", "20 ms"]}
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
            apart = self.sweep(reading, params, executor=executor)
        self.folder = self.folder.with_name("threads")
        here = self.sweep(reading, params)
        self.assertEqual((apart.failures, here.failures), ({}, {}))
        self.assertEqual(apart.rows, here.rows)
        for row, least_us in zip(here.rows, (20_000, 40_000)):
            self.assertIs(row["trustworthy"], True)
            self.assertTrue(least_us <= row["rtt_p50_us"] < least_us + 1_000, row)


if __name__ == "__main__":
    unittest.main()
