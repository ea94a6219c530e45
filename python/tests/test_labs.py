"""Labs of this machine: needs root, and the program."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import constel
from constel import aio

DEMO = Path(__file__).resolve().parents[2] / "scenarios" / "demo.yaml"
NAME = f"py-{os.getpid()}"


def left() -> list[str]:
    """Objects on the host from labs of this test."""
    there = [path.name for path in Path("/run/constel").glob(f"{NAME}*")] if Path("/run/constel").is_dir() else []
    processes = subprocess.run(["pgrep", "-f", f"name {NAME}"], capture_output=True, text=True).stdout.split()
    return there + processes


def until(done: Callable[[], bool], within_s: float = 240.0) -> bool:
    """Waits for what must come; the bound only recognises what hangs."""
    limit = time.monotonic() + within_s
    while not done() and time.monotonic() < limit:
        time.sleep(0.05)
    return done()


def wait_until_gone() -> None:
    until(lambda: not left())


@unittest.skipUnless(os.geteuid() == 0, "labs need root")
class Labs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.scenario = constel.Scenario.load(DEMO)

    def tearDown(self) -> None:
        self.assertEqual(left(), [])

    def lab(self, suffix: str = "", **options: object) -> constel.OwnLab:
        options.setdefault("duration", "600 s")
        name = NAME + suffix
        return self.scenario.run(name=name, results=self.folder / name, **options)  # type: ignore[arg-type]

    def test_a_lab_from_beginning_to_end(self) -> None:
        with self.lab(profile_hz=10) as lab:
            self.assertIn(NAME, [lab.name, constel.attach(NAME).state()["lab"]])
            self.assertEqual((len(lab.nodes), lab.nodes[-1]), (72, "tokyo"))
            self.commands(lab)
            self.links(lab)
            self.changes(lab)
            began_s = lab.t_s or 0.0
            lab.sleep("500 ms")
            self.assertGreaterEqual(lab.t_s or 0.0, began_s + 0.5)
            kinds = [event.kind for event in lab.events(follow=False)]
            self.assertEqual(kinds[0], "starting")
            self.assertIn("link-set", kinds)
            with self.assertRaises(constel.UsageError):
                lab.start()
        with self.assertRaises(constel.LabDied):
            lab.state()
        self.results(lab.results)

    def commands(self, lab: constel.OwnLab) -> None:
        tokyo = lab["tokyo"]
        self.assertEqual(tokyo.exec(["hostname"]).stdout, "tokyo\n")
        self.assertEqual(tokyo.exec("cat", input="a b").stdout, "a b")
        self.assertEqual(tokyo.exec("exit 3", check=False).returncode, 3)
        with self.assertRaises(constel.CommandFailed) as failed:
            tokyo.exec("echo no >&2; exit 4")
        self.assertEqual((failed.exception.returncode, failed.exception.stderr), (4, "no\n"))
        with self.assertRaises(constel.LabTimeout):
            tokyo.exec("sleep 600", timeout="300 ms")
        with self.assertRaises(constel.CommandFailed) as nowhere:
            lab["atlantis"].exec("true")
        self.assertIn("no node 'atlantis'", nowhere.exception.stderr)
        with tokyo.popen(["sleep", "600"]) as process:
            process.terminate()
            self.assertNotEqual(process.wait(10), 0)
        self.assertEqual(lab.networks(), [])
        self.assertIn("constel_nodes", lab.metrics())
        self.assertIn(NAME, [row["lab"] for row in constel.labs()])
        self.assertEqual(len(list(lab.top(every="200 ms", samples=2))), 2)
        with lab.web() as address:
            self.assertTrue(address.startswith("http://127.0.0.1:"), address)
        ran = lab.exec("l*", "hostname")
        self.assertEqual(ran["stdout"], ["lagos\n", "london\n"])
        source = self.folder / "given"
        source.write_text("inside")
        tokyo.put(source, "/tmp/given")
        tokyo.get("/tmp/given", self.folder / "back")
        self.assertEqual((self.folder / "back").read_text(), "inside")
        self.assertIn(tokyo.ipv4, tokyo.exec("ip -4 addr show dev lo").stdout)
        self.assertIn(tokyo.ipv6, tokyo.exec("ip -6 addr show dev lo").stdout)

    def links(self, lab: constel.OwnLab) -> None:
        lab.converged([("tokyo", "london")], within="240 s")
        path = lab.path("tokyo", "london")
        hop = path["kernel"][0]["hops"][1]
        link = lab.link(hop["from"], hop["to"])
        self.assertTrue(link.up, link.why)
        link.set(extra_delay="20 ms", loss="0 %")
        self.assertEqual(link.show()["edges"][0]["effects"]["extra_delay_ns"], 20_000_000)
        link.reset()
        self.assertEqual(link.show()["edges"][0]["effects"], {})
        self.samples(lab, hop)
        link.fail()
        hops = [(h["from"], h["to"]) for h in lab.path("tokyo", "london")["kernel"][0]["hops"]]
        self.assertNotIn((hop["from"], hop["to"]), hops)
        link.heal()
        lab.port("tokyo/gsl0").set(rate="10 Mbit/s")
        lab.port("tokyo/gsl0").reset()
        failed = lab["tokyo"].fail()
        self.assertEqual((failed["nodes"], failed["unchanged"]), (["tokyo"], []))
        self.assertFalse(lab.path("tokyo", "london")["kernel"][0]["arrived"])
        self.assertEqual(lab.set_nodes("heal", "tok*")["nodes"], ["tokyo"])
        lab.converged([("tokyo", "london")], within="240 s")
        self.assertGreaterEqual(lab["tokyo"].restart()["processes"], 0)
        # The restarted daemon learns its routes anew.
        self.assertTrue(until(lambda: "london" in lab.routes("tokyo")["to"]))
        for wrong in ({"delay": 20}, {"delay": False}, {"delay": "20"}, {"colour": "red"}):
            with self.assertRaises(constel.UsageError):
                link.set(**wrong)
        with self.assertRaises(constel.LabRefused) as refused:
            lab.link("tokio", "london").show()
        self.assertEqual((refused.exception.code, refused.exception.nearest), ("node-not-found", "tokyo"))

    def changes(self, lab: constel.OwnLab) -> None:
        """A changed scenario for the running lab, and stations pointed by hand."""
        self.assertEqual(lab.apply(self.scenario)["changes"], [])
        text = f"{self.scenario.text}\nfailures:\n- {{name: storm, at: 0 s, nodes: [tokyo]}}\n"
        storm = constel.Scenario.from_text(text, self.scenario.folder)
        dry = lab.apply(storm, dry_run=True)
        self.assertEqual(([row["key"] for row in dry["changes"]], dry["applied"]), (["failures.storm"], False))
        self.assertTrue(lab.apply(storm)["applied"])
        self.assertTrue(lab.apply(self.scenario)["applied"])
        self.assertEqual(lab["tokyo"].detach()["stations"], ["tokyo"])
        lab.set_policy("tok*", to="hysteresis=5deg")
        self.assertGreater(lab.set_policy("tokyo")["from_ns"], 0)
        lab.converged([("tokyo", "london")], within="240 s")

    def samples(self, lab: constel.OwnLab, hop: dict[str, str]) -> None:
        """A sender that outruns its link fills the queue, and the rest is dropped; both are seen."""
        tokyo = lab.port("tokyo/gsl0")
        # Five seconds of queue: a busy host has time to begin to sample.
        tokyo.set(rate="200 kbit/s")
        flood = f"import socket; s = socket.socket(type=socket.SOCK_DGRAM); [s.sendto(b'x' * 1000, ('{lab['london'].ipv4}', 9)) for _ in range(400)]"
        lab["tokyo"].exec(["python3", "-c", flood])
        satellite = lab.path("tokyo", "london")["kernel"][0]["hops"][0]["to"]
        frame = lab.sample([("tokyo", satellite)], over="2 s", every="500 ms")
        out = [row for row in frame.rows() if row["from"] == "tokyo/gsl0"]
        self.assertGreaterEqual(len(out), 3)
        self.assertGreater(out[0]["queue_bytes"], out[-1]["queue_bytes"])
        self.assertLessEqual(out[0]["queue_bytes"], out[0]["queue_limit_bytes"])
        self.assertGreater(out[0]["dropped_queue"], 200)
        served = (out[-1]["delivered_bytes"] - out[0]["delivered_bytes"]) * 8 / (out[-1]["t_s"] - out[0]["t_s"])
        self.assertAlmostEqual(served / 2e5, 1.0, delta=0.3)
        tokyo.reset()

    def results(self, results: constel.Results) -> None:
        self.assertEqual((results.seed, results.finished), (1, True))
        flow = results.flow("lagos-london")
        answered = [row for row in flow.rows() if row["fate"] == "ok"]
        self.assertGreater(len(answered), 0)
        of_flow = next(row for row in results.flows.rows() if row["flow"] == "lagos-london")
        # A host that does not keep up makes round trips longer, and none shorter.
        most_us = 400_000 if of_flow["trustworthy"] else math.inf
        self.assertTrue(all(10_000 < row["rtt_us"] < most_us for row in answered))
        self.assertEqual(of_flow["rtt_min_us"], min(row["rtt_us"] for row in answered))
        self.assertEqual(results.events["kind"][-1], "finished")
        counted = results.interfaces(["tokyo"])
        self.assertEqual(set(counted["node"]), {"tokyo"})
        sent = [row["tx_packets"] for row in counted.rows() if row["port"] == "gsl0"]
        self.assertTrue(sent and sent == sorted(sent))
        self.assertGreater(len(results.paths), 0)
        self.assertIn("t_s", results.paths.columns)
        self.assertGreater(len(results.host), 0)
        with self.assertRaises(constel.UsageError):
            results.flow("nothing")

    def test_a_lab_comes_to_its_end_by_itself(self) -> None:
        with self.lab(duration="2 s", traffic=False) as lab:
            with self.assertRaises(constel.LabDied):
                lab.sleep("60 s")
            self.assertTrue(lab.wait().finished)
        self.assertEqual(len(lab.results.flows), 0)

    def test_a_node_leaves_and_returns_and_what_it_used_is_counted(self) -> None:
        limited = {"limits": {"nodes": {"tokyo": {"processes": 4096}}}, "sample": {"every": "100 ms", "interfaces": [], "edges": []}}
        self.scenario = self.scenario.replace(limited)
        with self.lab(traffic=False) as lab:
            lab["tokyo"].exec(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"])
            tokyo = next(node for node in lab.show()["node_list"] if node["name"] == "tokyo")
            self.assertGreater(tokyo["usage"]["cpu_ns"], 0)
            self.assertEqual(lab["tokyo"].remove()["nodes"], ["tokyo"])
            self.assertFalse(lab.path("tokyo", "london")["kernel"][0]["arrived"])
            with self.assertRaises(constel.UsageError):
                lab["tokyo"].restart()
            self.assertEqual(lab["tokyo"].add()["nodes"], ["tokyo"])
            lab.converged([("tokyo", "london")], within="240 s")
        used = lab.results.usage()
        self.assertEqual((used.columns[:3], set(used["node"])), (["t_s", "node", "cpu_ns"], {"tokyo"}))
        self.assertGreater(used["cpu_ns"][-1], 0)

    def test_information_of_nodes(self) -> None:
        self.scenario = self.scenario.replace({"information": [{"nodes": ["tokyo"]}]})
        with self.lab(traffic=False) as lab:
            tokyo = lab["tokyo"]
            tokyo.info_put("policy.json", "{}")
            self.assertEqual(tokyo.exec("cat /run/constel/user/policy.json").stdout, "{}")
            tokyo.info_send({"do": "reload"})
            tokyo.info_remove("policy.json")
            self.assertEqual(tokyo.exec("ls /run/constel/user").stdout, "")
            kinds = [event.kind for event in lab.events(follow=False)]
            self.assertEqual((kinds.count("user-file"), kinds.count("command")), (2, 1))
            with self.assertRaises(constel.LabRefused):
                lab["london"].info_put("policy.json", "{}")

    def test_a_lab_stays_until_it_is_taken_down(self) -> None:
        lab = self.scenario.up(name=NAME, results=self.folder / "stays", stays=True, traffic=False)
        try:
            self.assertEqual(lab.state()["state"], "running")
            self.assertIsInstance(lab.logs(), str)
        finally:
            lab.down()

    def test_an_exception_takes_the_lab_down(self) -> None:
        for error in (ZeroDivisionError, KeyboardInterrupt):
            with self.assertRaises(error):
                with self.lab(f"-{error.__name__.lower()[:4]}", traffic=False):
                    raise error
            self.assertEqual(left(), [])

    def test_names_that_are_taken_and_scenarios_that_are_bad(self) -> None:
        with self.lab(traffic=False):
            with self.assertRaises(constel.UsageError) as taken:
                self.scenario.run(name=NAME, results=self.folder / "other").start()
            self.assertIn(NAME, str(taken.exception))
            self.assertEqual(constel.attach(NAME).state()["state"], "running")
        with self.assertRaises(constel.LabDied):
            constel.attach(NAME)

    def test_a_killed_interpreter_leaves_nothing(self) -> None:
        code = f"""
import constel, time
with constel.Scenario.load({str(DEMO)!r}).run(name={NAME!r}, results={str(self.folder / 'killed')!r}, duration="600 s") as lab:
    print("up", flush=True)
    time.sleep(600)
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        self.assertEqual(child.stdout.readline(), "up\n")
        self.assertNotEqual(left(), [])
        child.send_signal(signal.SIGKILL)
        child.communicate()
        wait_until_gone()

    def test_labs_for_asyncio(self) -> None:
        async def whole() -> constel.Results:
            async with aio.OwnLab(self.lab("-a")) as one:
                done = await asyncio.gather(one["tokyo"].exec("hostname"), one["london"].exec("hostname"))
                self.assertEqual([d.stdout for d in done], ["tokyo\n", "london\n"])
                async for event in one.events("clock-started", timeout="60 s"):
                    self.assertEqual(event.kind, "clock-started")
                    break
                await one.sleep("200 ms")
                self.assertEqual((await one.exec("l*", "hostname"))["stdout"], ["lagos\n", "london\n"])
                self.assertGreaterEqual(await one.t_s or 0.0, 0.2)
                self.assertIn(await one["tokyo"].ipv4, (await one["tokyo"].exec("ip -4 addr show dev lo")).stdout)
                hop = (await one.path("tokyo", "london"))["optimum"]["hops"][0]
                await one.link(hop["from"], hop["to"]).set(extra_delay="1 ms")
                with self.assertRaises(constel.LabTimeout):
                    await one["tokyo"].exec("sleep 600", timeout="200 ms")
            return one.results

        async def cancelled() -> None:
            async with aio.OwnLab(self.lab("-b", traffic=False)):
                await asyncio.sleep(600)

        async def cancel() -> None:
            task = asyncio.create_task(cancelled())
            await asyncio.sleep(0.5)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.assertTrue(asyncio.run(whole()).finished)
        asyncio.run(cancel())


@unittest.skipUnless(os.geteuid() == 0, "labs need root")
class Sweeps(unittest.TestCase):
    def test_labs_of_a_sweep_run_side_by_side(self) -> None:
        scenario = constel.Scenario.load(DEMO).replace(
            {"traffic[lagos-london].for": "2 s", "traffic[tokyo-new-york].for": "2 s"}, duration="3 s"
        )

        def one(run: constel.Run) -> dict[str, float]:
            with run.lab(scenario.replace({"traffic[lagos-london].ping.interval": run["interval"]})) as lab:
                sent = len(lab.wait().flow("lagos-london"))
            return {"probes": sent}

        with tempfile.TemporaryDirectory() as folder:
            swept = constel.sweep(one, {"interval": ["100 ms", "500 ms"]}, jobs=2, folder=folder, progress=False)
            self.assertEqual(swept.failures, {})
            frame = swept.frame()
            self.assertEqual(frame["interval"], ["100 ms", "500 ms"])
            self.assertGreater(frame["probes"][0], frame["probes"][1])
            self.assertTrue(all(isinstance(value, bool) for value in frame["trustworthy"]))


if __name__ == "__main__":
    unittest.main()
