"""OpenSN's scripts over Constel, against a lab's socket of this test; one test makes a lab."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import constel
from constel.compat import opensn, opensn_links, opensn_types

ROWS = [
    {"name": "sat-p00-s00", "kind": "satellite"},
    {"name": "sat-p00-s01", "kind": "satellite"},
    {"name": "sat-p01-s00", "kind": "satellite"},
    {"name": "london", "kind": "ground"},
]
A, B, C, LONDON = (row["name"] for row in ROWS)
SCENARIO = "nodes:\n  satellites: {image: router, env: {ROLE: sat}}\n"
PLACES = [[7e6, 0.0, 0.0], [6.8e6, 0.0, 1.6e6], [6.8e6, 1.6e6, 0.0], [3_978_000.0, -8_700.0, 4_968_000.0]]

# The calls of OpenSN's configurator, in its order, three times.
SCRIPT = """
from opensn.operator.emulator_operator import EmulatorOperator
from opensn.model.instance import Instance
from opensn.model.position import Position
from opensn.const.dict_fields import PARAMETER_KEY_CONNECT, PARAMETER_KEY_DELAY, PARAMETER_KEY_BANDWIDTH, PARAMETER_KEY_LOSS
from opensn.model.link import LinkBase
from opensn.utils.tools import dec2ra
from config import ADDR, PORT
from time import sleep
import json, math

def away_m(one, other):
    def place(p):
        r = 6371000 + p.altitude
        return r * math.cos(p.latitude) * math.cos(p.longitude), r * math.cos(p.latitude) * math.sin(p.longitude), r * math.sin(p.latitude)
    return math.dist(place(one), place(other))

def config(cli, index, name):
    own = cli.get_instance(index, name)
    document = {"instance_id": name, "link_infos": {}, "end_infos": {}}
    for key, end in own.connections.items():
        link = cli.get_link(index, key)
        side = [at for at in (0, 1) if link.end_infos[at].instance_id == name][0]
        document["link_infos"][key] = link.address_infos[side]
        document["end_infos"][key] = {"instance_id": end.instance_id, "type": end.instance_type}
    return json.dumps(document)

cli = EmulatorOperator(ADDR, PORT)
for turn in range(TURNS):
    instances, links = {}, {}
    for index, machine in cli.get_node_map().items():
        instances.update(cli.get_instance_map(index))
        links.update(cli.get_link_map(index))
    places = {}
    for name, instance in instances.items():
        places[name] = cli.get_position(name)
        cli.put_position(name, places[name])
        if instance.type == "Satellite":
            assert instance.extra["TLE_1"].startswith("1 ") and int(instance.extra["OrbitIndex"]) >= 0
        else:
            assert abs(dec2ra(float(instance.extra["latitude"])) - places[name].latitude) < 1e-6
    for station in [one for one in instances.values() if one.type == "GroundStation" and one.start]:
        away = {name: away_m(places[name], places[station.instance_id]) for name, one in instances.items() if one.type == "Satellite"}
        nearest = min(away, key=lambda name: away[name])
        if nearest not in [end.instance_id for end in station.connections.values()]:
            addresses = [{}, {}]
            for key, end in station.connections.items():
                old = cli.disable_link_between(station.node_index, station.instance_id, end.end_node_index, end.instance_id)
                addresses = old[key].address_infos
                cli.put_instance_config(end.end_node_index, end.instance_id, config(cli, end.end_node_index, end.instance_id))
            cli.enable_link_between(station.node_index, station.instance_id, instances[nearest].node_index, nearest,
                                    address_info1=addresses[0], address_info2=addresses[1])
            cli.put_instance_config(station.node_index, station.instance_id, config(cli, station.node_index, station.instance_id))
            print("switched", station.instance_id, nearest, flush=True)
    for key, link in links.items():
        ends = [end.instance_id for end in link.end_infos]
        if not link.enable:
            continue
        link.parameter[PARAMETER_KEY_CONNECT] = 1
        link.parameter[PARAMETER_KEY_DELAY] = int(away_m(places[ends[0]], places[ends[1]]) / 3e8 * 1000000)
        link.parameter[PARAMETER_KEY_BANDWIDTH] = 1000000
        link.parameter[PARAMETER_KEY_LOSS] = 150
        cli.put_link_parameter(link.node_index, link.link_id, link.parameter)
    for name, instance in instances.items():
        cli.put_instance_config_if_not_exist(instance.node_index, name, config(cli, instance.node_index, name))
    sleep(PAUSE_S)
cli.close()
"""


PORTS = {LONDON: "gsl0", A: "isl0", B: "isl0", C: "isl0"}


class FakeLab:
    """A lab's socket: a policy gets a state whenever it has answered, and its attachments are the next state's ground links."""

    def __init__(self, folder: Path) -> None:
        (folder / "fake").mkdir()
        self.requests: list[dict[str, Any]] = []
        self.decided: list[dict[str, Any]] = []
        self.serving = [A]
        self.down: set[frozenset[str]] = set()
        self.late = 0
        self.uninformed: set[str] = set()
        self.left = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "fake" / "api.sock"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(wire,), daemon=True).start()

    def _serve(self, wire: socket.socket) -> None:
        with wire, wire.makefile("rwb") as lines:

            def send(answer: Any) -> None:
                lines.write(json.dumps(answer).encode() + b"\n")
                lines.flush()

            request = json.loads(lines.readline())
            self.requests.append(request)
            if request["verb"] == "policy":
                send({"ok": True, "data": {"nodes": [row["name"] for row in ROWS]}})
                step = 0
                while not self.left.wait(0.02):
                    step += 1
                    send({"ok": True, "data": self._state(step)})
                    answer = json.loads(lines.readline())
                    if answer.get("leave"):
                        self.left.set()
                        return
                    self.decided.append(answer)
                    self.serving = answer["attachments"].get(LONDON, self.serving)
                    for link in answer["links"]:
                        (self.down.discard if link["up"] else self.down.add)(frozenset((link["a"], link["b"])))
                return
            ends = frozenset((request.get("a"), request.get("b")))
            data = {
                "state": {"lab": "fake", "t_ns": 1},
                "show": {"node_list": ROWS},
                "scenario": {"text": SCENARIO, "file": "fake.yaml", "folder": "/"},
                "networks": [],
                "link": {"up": False, "why": "the Earth is between them"},
            }.get(request["verb"], {})
            if request["verb"] == "user-file" and request["node"] in self.uninformed:
                send({"ok": False, "error": f"`{request['node']}` has no information", "code": "no-information"})
            elif request["verb"] == "set-link" and ends == {LONDON, C} and C not in self.serving:
                send({"ok": False, "error": "there is no link now", "code": "no-link"})
            else:
                send({"ok": True, "data": data})

    def _state(self, step: int) -> dict[str, Any]:
        # Satellites fly north by 50 m in a step.
        places = {row["name"]: (x, y, z + 50 * step * (at < 3)) for at, (row, (x, y, z)) in enumerate(zip(ROWS, PLACES))}
        pairs = [(A, B), (A, C), *((LONDON, satellite) for satellite in self.serving)]
        edges = [
            {"from": a, "to": b, "port": PORTS[a], "delay_ns": round(math.dist(places[a], places[b]) / 0.299792458), "rate_bps": 10**8}
            for pair in pairs
            if frozenset(pair) not in self.down
            for a, b in (pair, pair[::-1])
        ]
        return {
            "step": step,
            "t_ns": step * 1_000_000_000,
            "late": self.late,
            "refused": 0,
            "positions_m": list(places.values()),
            "stations": [{"station": LONDON, "serving": self.serving, "candidates": []}],
            "edges": edges,
        }

    def close(self) -> None:
        self.left.set()
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()


class Loop(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        self.fake = FakeLab(self.folder)
        self.addCleanup(self.fake.close)
        addresses = mock.Mock()
        addresses.rows.return_value = [
            {"node": LONDON, "exit": 0, "stdout": '[{"ifname": "gsl0", "addr_info": [{"local": "10.64.0.1", "prefixlen": 12}]}]'},
            {"node": A, "exit": 127, "stdout": ""},
        ]
        for patch in (
            mock.patch("constel.lab._RUNTIME", self.folder),
            mock.patch.object(opensn, "labs", lambda: [{"lab": "fake", "state": "running"}]),
            mock.patch.object(opensn, "_say", lambda text: None),
            mock.patch("constel.lab.Lab.exec", lambda lab, pattern, command: addresses),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def operator(self) -> opensn.EmulatorOperator:
        cli = opensn.EmulatorOperator("127.0.0.1", 8080)
        self.addCleanup(cli.close)
        return cli

    def settled(self, cli: opensn.EmulatorOperator) -> None:
        """Waits until the lab has used two more answers."""
        after = len(self.fake.decided) + 3
        limit = datetime.now() + timedelta(seconds=20)
        while len(self.fake.decided) < after:
            self.assertLess(datetime.now(), limit)
            cli._links._changed.acquire()
            cli._links._changed.wait(0.1)
            cli._links._changed.release()

    def asked(self, verb: str) -> list[dict[str, Any]]:
        return [request for request in self.fake.requests if request["verb"] == verb]

    def test_instances_and_links_are_those_of_the_lab(self) -> None:
        cli = self.operator()
        self.assertEqual(list(cli.get_node_map()), [0])
        of = cli.get_instance_map(0)
        self.assertEqual([one.type for one in of.values()], ["Satellite"] * 3 + ["GroundStation"])
        self.assertEqual((of[C].extra["OrbitIndex"], of[C].extra["SatelliteIndex"], of[C].image), ("1", "0", "router"))
        self.assertEqual({end.instance_id for end in of[A].connections.values()}, {B, C, LONDON})
        link = cli.get_link_map(0)[f"{LONDON}:{A}"]
        self.assertEqual(link.address_infos, [{"IPV4": "10.64.0.1/12"}, {}])
        self.assertAlmostEqual(link.parameter.pop("delay"), math.dist(PLACES[0], PLACES[3]) / 299.792458, delta=10)
        self.assertEqual(link.parameter, {"connect": 1, "bandwidth": 12_500_000})
        with self.assertRaises(constel.UsageError) as missing:
            of[LONDON].extra["TLE_1"]
        self.assertIn("has no `TLE_1`", str(missing.exception))
        self.assertEqual(self.fake.decided[0]["attachments"], {LONDON: [A]}, "stations keep their satellites")

    def test_a_station_is_reconnected(self) -> None:
        cli = self.operator()
        old = cli.disable_link_between(0, LONDON, 0, A)
        self.assertEqual(list(old), [f"{LONDON}:{A}"])
        self.assertEqual(cli.disable_link_between(0, LONDON, 0, A), {})
        cli.enable_link_between(0, LONDON, 0, C, init_parameter={"loss": 150, "bandwidth": 1_000_000})
        self.assertEqual([end.instance_id for end in cli.get_instance(0, LONDON).connections.values()], [C], "at once")
        self.assertFalse(cli.get_link(0, f"{LONDON}:{A}").enable)
        self.settled(cli)
        self.assertEqual(self.fake.serving, [C])
        cli.get_instance_map(0)
        effects = {"loss": {"bernoulli": {"loss_ratio": 0.015}}, "rate_bps": 8_000_000}
        last = self.asked("set-link")[-1]
        self.assertEqual((last["a"], last["b"], last["effects"], last["reset"]), (LONDON, C, effects, False))

    def test_lasers_are_switched(self) -> None:
        cli = self.operator()
        cli.disable_link_between(0, B, 0, A)
        cli.put_link_parameter(0, f"{A}:{C}", {"connect": 0})
        self.settled(cli)
        self.assertEqual(self.fake.down, {frozenset((A, B)), frozenset((A, C))})
        self.assertNotIn(f"{A}:{B}", cli.get_link_map(0), "OpenSN removes a link")
        self.assertEqual(cli.get_link_map(0)[f"{A}:{C}"].parameter["connect"], 0)
        cli.enable_link_between(0, A, 0, B)
        cli.put_link_parameter(0, f"{A}:{C}", {"connect": 1})
        self.settled(cli)
        self.assertEqual(self.fake.down, set())

    def test_late_answers_are_given_again(self) -> None:
        cli = self.operator()
        cli.disable_link_between(0, B, 0, A)
        self.settled(cli)
        before = len(self.fake.decided)
        self.fake.late = 1
        self.settled(cli)
        again = [answer for answer in self.fake.decided[before:] if answer["links"]]
        self.assertEqual([answer["links"] for answer in again], [[{"a": A, "b": B, "up": False}]])

    def test_parameters_are_set_when_they_change(self) -> None:
        cli = self.operator()
        name = f"{A}:{B}"
        read = cli.get_link(0, name).parameter
        cli.put_link_parameter(0, name, {**read, "delay": read["delay"] + 90})
        self.assertEqual(self.asked("set-link"), [], "what was read, and the orbits' delay")
        cli.put_link_parameter(0, name, {"delay": 50_000})
        cli.put_link_parameter(0, name, {"delay": 50_000})
        self.assertEqual([one["effects"] for one in self.asked("set-link")], [{"delay_ns": 50_000_000}])
        orbit_us = math.dist(PLACES[0], PLACES[1]) / 299.792458
        cli.put_link_parameter(0, name, {"delay": round(orbit_us)})
        self.assertEqual([(one["effects"], one["reset"]) for one in self.asked("set-link")[1:]], [({}, True)])

    def test_configurations_of_instances(self) -> None:
        cli = self.operator()
        cli.put_instance_config(0, A, "{}")
        cli.put_instance_config(0, A, "{}")
        cli.put_instance_config_if_not_exist(0, A, "[]")
        sent = [(one["node"], one["name"], one["text"]) for one in self.asked("user-file")]
        self.assertEqual(sent, [(A, "opensn.json", "{}")])
        self.fake.uninformed = {C}
        with self.assertRaises(constel.UsageError) as none:
            cli.put_instance_config(0, C, "{}")
        self.assertIn("add `information: [{opensn: true}]`", str(none.exception))

    def test_what_has_no_counterpart_is_refused(self) -> None:
        cli = self.operator()
        for wrong, said in (
            (lambda: cli.enable_link_between(0, B, 0, C), "the Earth is between them"),
            (lambda: cli.enable_link_between(0, B, 0, "mars"), "no node `mars`"),
            (lambda: cli.get_instance_map(1), "no machine 1"),
            (lambda: cli.get_link(0, "1a2b3c4d"), "no link `1a2b3c4d`"),
            (lambda: cli.put_link_parameter(0, f"{A}:{B}", {"loss": 10_001}), "`loss` is 10001"),
            (lambda: cli.put_link_parameter(0, f"{A}:{B}", {"jitter": 1}), "`jitter` is 1"),
            (lambda: cli.put_instance(cli.get_instance(0, A)), "orbits, places and images are the scenario's"),
            (lambda: cli.etcd_client, "there is no etcd"),
            (lambda: opensn.emulation_info_from_json("[]"), "no emulation configuration"),
        ):
            with self.assertRaises(constel.UsageError) as refused:
                wrong()
            self.assertIn(said, str(refused.exception))
        with mock.patch.object(opensn, "labs", lambda: []), self.assertRaises(constel.UsageError) as none:
            opensn.EmulatorOperator("fake", 1)
        self.assertIn("none runs", str(none.exception))

    def test_emulation_configurations(self) -> None:
        cli = self.operator()
        types = {"Satellite": {"image": "router", "container_envs": {"ROLE": "sat"}, "resource_limit": {"nano_cpu": 10_000_000}}}
        for text in (json.dumps({"running": False, "type_config": types}), json.dumps(types)):
            info = opensn.emulation_info_from_json(text)
            self.assertEqual(info.type_config["Satellite"].resource_limit.nano_cpu, 10_000_000)
            self.assertEqual(opensn.emulation_info_from_json(opensn.emulation_info_to_json(info)), info)
            cli.put_emualtion_config(info)
        for name, image in (("Satellite", "other"), ("Router", "router")):
            with self.assertRaises(constel.UsageError):
                cli.put_emulation_config(opensn.emulation_info_from_json(json.dumps({name: {"image": image}})))

    def test_a_script_runs_as_it_is(self) -> None:
        (self.folder / "config.py").write_text('ADDR, PORT = "127.0.0.1", 8080\n')
        (self.folder / "main.py").write_text(SCRIPT.replace("TURNS", "3").replace("PAUSE_S", "0.1"))
        kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] not in ("opensn", "satellite_emulator", "config")}
        with mock.patch.dict(sys.modules, kept, clear=True), mock.patch.object(sys, "path", list(sys.path)):
            with mock.patch("builtins.print") as printed:
                opensn.run_script(self.folder / "main.py")
        self.assertEqual([call.args for call in printed.call_args_list], [("switched", LONDON, B)])
        self.assertEqual(self.fake.serving, [B])
        self.assertTrue(self.fake.left.wait(20))
        # Each link once, although the loop sets them three times; A had to be left before its link was set.
        links = [(one["a"], one["b"]) for one in self.asked("set-link")]
        self.assertEqual(sorted(links), sorted({*links}))
        self.assertIn((LONDON, B), links)
        self.assertEqual(self.asked("set-link")[0]["effects"]["rate_bps"], 8_000_000)
        documents = {one["node"]: json.loads(one["text"]) for one in self.asked("user-file")}
        self.assertEqual(documents.keys(), {row["name"] for row in ROWS})
        self.assertEqual(documents[LONDON]["link_infos"], {f"{LONDON}:{B}": {}})

    def test_the_end_of_the_lab_is_an_error(self) -> None:
        cli = self.operator()
        self.fake.close()
        cli._policy._thread.join(20)  # type: ignore[union-attr]
        with self.assertRaises(constel.LabDied):
            cli.get_instance_map(0)


class LinksOfScripts(unittest.TestCase):
    def test_links_of_networks_are_not_switched(self) -> None:
        links = opensn_links.Links({A: "Satellite", B: "Satellite", LONDON: "GroundStation"}, {f"{A}/net0"})
        edges = [{"from": A, "to": B, "port": "net0"}, {"from": B, "to": A, "port": "net0"}]
        links.decide(constel.State(1, 1.0, 0, 0, edges=edges))
        for change in (links.disable, lambda pair: links.cut(pair, True)):
            with self.assertRaises(constel.UsageError) as refused:
                change((A, B))
            self.assertIn("linked by a network", str(refused.exception))
        self.assertEqual((links.of(A), links.is_cut((A, B))), ([(A, B)], False))

    def test_the_last_satellites_come_first(self) -> None:
        links = opensn_links.Links({A: "Satellite", B: "Satellite", LONDON: "GroundStation"}, set())
        first = links.decide(constel.State(1, 1.0, 0, 0, stations=[{"station": LONDON, "serving": [A]}]))
        self.assertEqual(first.attachments, {LONDON: [A]})
        self.assertTrue(links.enable((LONDON, B)))
        self.assertEqual(links.decide(constel.State(2, 2.0, 0, 0)), constel.Decision({LONDON: [B, A]}))
        links.cut((LONDON, B), True)
        self.assertEqual(links.decide(constel.State(3, 3.0, 0, 0)), constel.Decision({LONDON: [A]}))
        self.assertEqual(links.of(LONDON), [(LONDON, A), (LONDON, B)], "a cut link is listed")
        self.assertEqual(links.decide(constel.State(4, 4.0, 0, 0)), constel.Decision())


class Elements(unittest.TestCase):
    def test_an_element_set_has_the_present_position(self) -> None:
        """SGP4 is Constel's own; the clock of the element set is two years away from the lab's."""
        walker = {"pattern": "delta", "inclination": "53 deg", "satellites": 24, "planes": 4, "phasing": 1, "altitude": "1200 km"}
        base = {"constel": 1, "name": "el", "start": "2026-11-21T05:14:00Z", "duration": "20 s"}
        of = {"isl": {"pattern": "none"}, "serves_ground": False}
        flown = constel.Scenario.from_dict({**base, "constellations": {"sat": {"walker": walker, **of}}})
        steps: dict[float, dict[str, tuple[float, float, float]]] = {t_s: {} for t_s in (0.0, 1.0, 2.0)}
        for row in flown.positions("0 s", "3 s", "1 s").rows():
            steps[row["t_s"]][row["node"]] = (row["x_m"], row["y_m"], row["z_m"])
        at = datetime(2024, 2, 29, 23, 59, 58, 500_000)
        lines = []
        for number, name in enumerate(flown.nodes, 1):
            lines += [name, *opensn_types.elements(number, at, steps[1.0][name], steps[0.0][name], 1.0)]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sets.tle").write_text("\n".join(lines) + "\n")
            again = {**base, "start": at.isoformat() + "Z", "constellations": {"sat": {"tle": {"file": "sets.tle"}, **of}}}
            read = constel.Scenario.from_dict(again, folder)
            names = {row["node"]: row["catalogue_name"] for row in read.plan().nodes.rows()}
            places = list(read.positions("0 s", "2 s", "1 s").rows())
        self.assertEqual(len(places), 2 * 24)
        for row in places:
            truth = steps[1.0 + row["t_s"]][names[row["node"]]]
            self.assertLess(math.dist((row["x_m"], row["y_m"], row["z_m"]), truth), 25e3)


LAB = """
constel: 1
name: {name}
start: 2026-11-21T05:14:00Z
duration: 60 s
step: 500 ms
constellations:
  iridium:
    preset: iridium
    gsl: {{min_elevation: 8.2 deg, policy: nearest, link: {{rate: 50 Mbit/s}}}}
    isl: {{pattern: plus-grid, polar_cutoff: 60 deg, max_range: 6000 km, link: {{rate: 100 Mbit/s}}}}
ground:
  stations:
    tokyo: {{latitude: 35.7 deg, longitude: 139.7 deg}}
    london: {{latitude: 51.5 deg, longitude: -0.1 deg}}
routing: {{mode: computed}}
information: [{{opensn: true}}]
"""


@unittest.skipUnless(os.geteuid() == 0, "labs need root")
class RealLab(unittest.TestCase):
    def test_a_script_reconnects_the_stations_of_a_lab(self) -> None:
        name = f"py-osn-{os.getpid()}"
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "config.py").write_text(f'ADDR, PORT = "{name}", 8080\n')
            (folder / "main.py").write_text(SCRIPT.replace("TURNS", "8").replace("PAUSE_S", "1"))
            scenario = constel.Scenario.from_text(LAB.format(name=name), folder)
            with scenario.run(results=folder / "results") as lab:
                call = [sys.executable, "-m", "constel.compat.opensn", "main.py"]
                done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("unlike OpenSN:", done.stderr)
                # The script has left, and its links and effects are still there.
                document = json.loads(lab["tokyo"].exec("cat /run/constel/user/opensn.json").stdout)
                (end,) = document["end_infos"].values()
                self.assertEqual((document["instance_id"], end["type"]), ("tokyo", "Satellite"))
                address = lab["tokyo"].exec("ip -j -4 address show gsl0").stdout
                (link,) = document["link_infos"].values()
                self.assertIn(link["IPV4"].split("/")[0], address)
                shown = lab.link("tokyo", end["instance_id"]).show()
                self.assertEqual({edge["rate_bps"] for edge in shown["edges"]}, {8_000_000}, shown["why"])
                # A loss of 1.5 % on each link.
                ping = lab["tokyo"].exec("ping -c 40 -i 0.1 -q london", check=False).stdout
                self.assertRegex(ping, r"[1-9]\d* received")
            policies = lab.results.summary["policies"]
            self.assertEqual([(of["name"], of["refused"]) for of in policies], [("opensn", 0)])
            self.assertGreater(policies[0]["changes"], 0)
            self.assertTrue((lab.folder / "choices" / "stations.csv").exists())


if __name__ == "__main__":
    unittest.main()
