"""StarryNet's scripts over Constel."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import constel
from constel.compat import starrynet
from constel.compat.starrynet import StarryNet

STATIONS = [[50.110924, 8.682127], [46.6357, 14.311817]]
CONFIG: dict[str, Any] = {
    "Name": "py-sn",
    "Altitude (km)": 4000,
    "Cycle (s)": 5731,
    "Inclination": 53,
    "Phase shift": 1,
    "# of orbit": 5,
    "# of satellites": 5,
    "Duration (s)": 14,
    "update_time (s)": 10,
    'satellite link bandwidth ("X" Gbps)': 5,
    'sat-ground bandwidth ("X" Gbps)': 5,
    'satellite link loss ("X"% )': 0,
    'sat-ground loss ("X"% )': 0,
    "GS number": 2,
    "antenna number": 1,
    "antenna_inclination_angle": 5,
    "remote_machine_IP": "192.0.2.1",
    "remote_machine_username": "root",
    "remote_machine_password": "no",
    "Satellite link": "grid",
    "IP version": "IPv4",
    "Intra-AS routing": "OSPF",
    "Inter-AS routing": "BGP",
    "Link policy": "LeastDelay",
    "Handover policy": "instant handover",
    'multi-machine ("0" for no, "1" for yes)': 0,
}

# The calls of StarryNet's own example, in its order, in fewer seconds.
SCRIPT = """
from starrynet.sn_observer import *
from starrynet.sn_orchestrater import *
from starrynet.sn_synchronizer import *

if __name__ == "__main__":
    sn = StarryNet("./config.json", [[50.110924, 8.682127], [46.635700, 14.311817]], 1, [[1, 27]])
    sn.create_nodes()
    sn.create_links()
    sn.run_routing_deamon()
    print("distance", sn.get_distance(1, 2, 2))
    print("neighbors", sn.get_neighbors(1, 2))
    print("GSes", sn.get_GSes(7, 2))
    print("LLA", sn.get_position(7, 2))
    sn.get_utility(2)
    print("IP", sn.get_IP(7))
    sn.set_damage(0.3, 5)
    sn.set_recovery(7)
    sn.check_routing_table(27, 3)
    sn.set_next_hop(1, 3, 6, 11)
    sn.check_routing_table(1, 12)
    sn.set_ping(13, 14, 3)
    sn.set_ping(1, 2, 1)
    sn.set_ping(26, 27, 13)
    sn.set_perf(13, 14, 2)
    sn.start_emulation()
    sn.stop_emulation()
"""


class Shim(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def network(self, **changed: Any) -> StarryNet:
        config = self.folder / "config.json"
        config.write_text(json.dumps({**CONFIG, **changed}))
        return StarryNet(config, STATIONS, 1, [[1, 27]])

    def test_answers_before_anything_runs(self) -> None:
        sn = self.network()
        # Neighbours of a plane stand on a circle of five.
        self.assertAlmostEqual(sn.get_distance(1, 2, 2), 2 * (6378.137 + 4000) * math.sin(math.pi / 5), delta=15)
        self.assertEqual(sn.get_neighbors(1, 2), [2, 5, 6, 25])
        self.assertEqual({n for i in range(1, 26) for n in sn.get_GSes(i, 2)}, {26, 27})
        frankfurt = [float(word) for word in sn.get_position(26, 2).split(",")]
        for told, given in zip(frankfurt, [*STATIONS[0], 0.0]):
            self.assertAlmostEqual(told, given, places=4)
        self.assertTrue(any("0.587 c" in line for line in sn.differences))
        self.assertFalse(any("lasers" in line for line in sn.differences))

    def test_the_shipped_constellation_has_no_lasers(self) -> None:
        """Five satellites of a plane at 550 km do not see each other: the Earth is between them."""
        sn = self.network(**{"Altitude (km)": 550})
        self.assertEqual(sn.get_neighbors(1, 2), [])
        self.assertTrue(any(line.startswith("50 of the 50 lasers") for line in sn.differences))

    def test_damage_is_the_scenarios_and_repeats(self) -> None:
        def damaged() -> list[Any]:
            sn = self.network()
            sn.set_damage(0.3, 5)
            sn.set_recovery(7)
            failures: list[Any] = sn._scenario().to_dict()["failures"]
            return failures

        first = damaged()
        self.assertEqual(first, damaged())
        self.assertEqual((first[0]["at"], first[0]["for"], len(first[0]["nodes"])), ("5000000000 ns", "2000000000 ns", 7))

    def test_what_has_no_counterpart_is_refused(self) -> None:
        sn = self.network()
        for wrong in (
            lambda: sn.set_ping(1, 28, 2),
            lambda: sn.set_ping(0, 1, 2),
            lambda: sn.set_ping(1, 2, 14),
            lambda: sn.set_damage(1.5, 2),
            lambda: StarryNet(self.folder / "config.json", STATIONS, 1, [[1, 13], [14, 27]]),
            lambda: StarryNet(self.folder / "none.json", STATIONS),
        ):
            with self.assertRaises(constel.UsageError):
                wrong()

    def test_latitude_and_height_at_the_ends_of_the_ellipsoid(self) -> None:
        for place, known in (
            ((6_378_137.0 + 1e3, 0.0, 0.0), (0.0, 0.0, 1.0)),
            ((0.0, 0.0, 6_356_752.314245 + 2e3), (90.0, 0.0, 2.0)),
            ((0.0, -6_378_137.0, 0.0), (0.0, -90.0, 0.0)),
        ):
            for told, truth in zip(starrynet._geodetic(*place), known):
                self.assertAlmostEqual(told, truth, places=6)

    @unittest.skipUnless(os.geteuid() == 0, "labs need root")
    def test_a_script_of_starrynets_runs_as_it_is(self) -> None:
        config = {**CONFIG, "Name": f"py-sn-{os.getpid()}"}
        (self.folder / "config.json").write_text(json.dumps(config))
        (self.folder / "example.py").write_text(SCRIPT)
        call = [sys.executable, "-m", "constel.compat.starrynet", "example.py"]
        done = subprocess.run(call, cwd=self.folder, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("unlike StarryNet: delays are true distances", done.stderr)
        said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
        self.assertRegex(said["IP"], r"^\['\d+\.\d+\.\d+\.\d+'\]$")
        out = self.folder / f"{config['Name']}-5-5-4000-53-grid-LeastDelay"
        files = {path.name for path in out.glob("*.txt")}
        self.assertEqual(
            files,
            {"utility-info_2.txt", "route-27_3.txt", "route-1_12.txt", "ping-13-14_3.txt", "ping-1-2_1.txt", "ping-26-27_13.txt", "perf-13-14_2.txt"},
        )
        # Satellites 1 and 2 are a link apart: the light's time there and back, and little more.
        light_ms = 2 * float(said["distance"]) / 299_792.458 * 1e3
        rtts = [float(ms) for ms in re.findall(r"time=([0-9.]+) ms", (out / "ping-1-2_1.txt").read_text())]
        self.assertEqual(len(rtts), 4)
        self.assertGreaterEqual(min(rtts), light_ms - 0.1)
        last = max(self.folder.rglob("summary.json"), key=lambda path: path.stat().st_mtime)
        # A host that does not keep up makes all of them longer.
        if json.loads(last.read_text())["verdict"]["trustworthy"]:
            self.assertLess(min(rtts), light_ms + 5)
        self.assertIn("4 received", (out / "ping-26-27_13.txt").read_text())
        self.assertIn("Mbits/sec", (out / "perf-13-14_2.txt").read_text())
        self.assertIn("proto bird", (out / "route-27_3.txt").read_text())
        third = said["IP"].strip("[]'").rsplit(".", 1)[0]
        ours = [line for line in (out / "route-1_12.txt").read_text().splitlines() if "proto" not in line and line.startswith(third)]
        self.assertEqual(len(ours), 1, "the next hop that was set")
        self.assertFalse(list(Path("/run/constel").glob(f"{config['Name']}*")), "nothing is left")


if __name__ == "__main__":
    unittest.main()
