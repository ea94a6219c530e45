"""The program that comes with the package: its first verbs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import constel


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([constel.find_binary(), *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


class Program(unittest.TestCase):
    def test_a_first_scenario_is_valid_and_replaces_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run("init", "my-sky.yaml", "--cities", "Tokyo,São-Paulo", "--for", "20 s", cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("constel run my-sky.yaml", done.stderr)
            made = constel.Scenario.load(Path(folder) / "my-sky.yaml")
            self.assertEqual((made.name, made.duration_s, set(made.nodes[66:])), ("my-sky", 20.0, {"tokyo", "sao-paulo"}))
            self.assertEqual(run("init", "my-sky.yaml", cwd=folder).returncode, 2)
            self.assertEqual(made.text, (Path(folder) / "my-sky.yaml").read_text())
        unknown = run("init", "-", "--cities", "london,tokio")
        self.assertEqual((unknown.returncode, unknown.stdout), (2, ""))
        self.assertIn("did you mean 'tokyo'?", unknown.stderr)
        self.assertEqual(run("init", "-", "--for", "20").returncode, 4)

    def test_the_demo_prints_what_it_runs(self) -> None:
        printed = run("demo", "--print").stdout
        self.assertEqual(printed, (Path(__file__).resolve().parents[2] / "scenarios" / "demo.yaml").read_text())

    @unittest.skipUnless(os.geteuid() == 0, "labs need root")
    def test_the_demo_tells_its_first_ping_and_what_is_next(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run("demo", "--name", f"py-demo-{os.getpid()}", "--results", f"{folder}/demo")
            self.assertIn(done.returncode, (0, 3), done.stderr)
            self.assertRegex(done.stdout, r"first ping after \d+\.\d s: Lagos to London and back in \d+\.\d ms\n")
            for verb in ("constel results plot", "constel init", "constel run"):
                self.assertIn(verb, done.stdout.split("Next:")[1])
            # The round trip that was told is the first that was measured, and no packet is faster than light.
            rows = [row for row in constel.read_results(f"{folder}/demo").flow("lagos-london").rows() if row["fate"] == "ok"]
            self.assertIn(f"back in {rows[0]['rtt_us'] / 1e3:.1f} ms", done.stdout)
            self.assertGreater(min(row["rtt_us"] for row in rows), 2 * 5_000e3 / 299_792_458 * 1e6)

    def test_completion_knows_verbs(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("doctor", run("completion", shell).stdout)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("man", folder).returncode, 0)
            self.assertIn("constel", {page.stem.split("-")[0] for page in Path(folder).iterdir()})


if __name__ == "__main__":
    unittest.main()
