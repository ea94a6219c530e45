"""Verbs of labs, without a lab: a socket that answers as one does, and a program that prints its arguments."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import stat
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import constel
from constel import aio
from constel import lab as labs
from constel import network as networks

# Verbs of the command line that are not of one running lab, or that a person uses at a terminal, with their place in Python.
ELSEWHERE = {
    **dict.fromkeys(("demo", "init", "import", "image", "box", "doctor", "clean", "agent", "machines", "completion", "help", "test"), ""),
    **{"run": "Scenario.run", "up": "Scenario.up", "check": "Scenario.check", "plan": "Scenario.plan", "sweep": "sweep"},
    **{"list": "labs", "results": "read_results", "cp": "Node.put", "shell": "Node.shell", "info": "Node.info_put"},
    **{"node": "Lab.set_nodes", "station": "Lab.set_policy"},
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


class Names(unittest.TestCase):
    def test_sync_and_async_have_the_same_names(self) -> None:
        for one, other in (
            (constel.Lab, aio.Lab),
            (constel.OwnLab, aio.OwnLab),
            (constel.Node, aio.Node),
            (constel.Link, aio.Link),
            (constel.Network, aio.Network),
        ):
            own = {"sync"} if issubclass(other, aio.Lab) else set()
            # Attributes that are set when an object is made are properties of the other.
            attributes = {"name", "scenario"}
            self.assertEqual(public(one) - attributes, public(other) - own - attributes, one)
            for name in public(one):
                here, there = getattr(one, name), getattr(other, name)
                self.assertEqual(isinstance(here, property), isinstance(there, property), name)
                if not isinstance(here, property):
                    names = [list(inspect.signature(method).parameters.values()) for method in (here, there)]
                    kinds = [[(p.name, p.kind, p.default) for p in parameters] for parameters in names]
                    self.assertEqual(kinds[0], kinds[1], f"{one.__name__}.{name}")

    def test_every_verb_of_the_command_line_is_there(self) -> None:
        text = labs.command_line(["--help"]).stdout
        verbs = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
        self.assertGreater(len(verbs), 25, text)
        for verb in verbs:
            place = ELSEWHERE.get(verb, f"Lab.{verb}")
            kind, _, member = place.partition(".")
            if place:
                there = hasattr(getattr(constel, kind), member) if member else hasattr(constel, kind)
                self.assertTrue(there, f"constel {verb}: {place}")


class FakeLab:
    """A socket that keeps each request, and answers with it."""

    def __init__(self, folder: Path, name: str) -> None:
        (folder / name).mkdir()
        self.requests: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / name / "api.sock"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            with wire, wire.makefile("rwb") as lines:
                request = json.loads(lines.readline())
                self.requests.append(request)
                answers: dict[str, Any] = {
                    "networks": [{"network": "backbone", "members": []}],
                    "state": {"lab": "fake", "t_ns": 2_500_000_000},
                    "show": {"node_list": [{"name": "oslo", "kind": "ground", "ipv4": "10.0.0.1", "ipv6": "fd00::1"}]},
                }
                data = answers.get(request["verb"], request)
                lines.write(json.dumps({"ok": True, "data": data}).encode() + b"\n")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class Requests(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        folder = Path(place.name)
        self.fake = FakeLab(folder, "fake")
        self.addCleanup(self.fake.close)
        for module in (labs, aio):
            patch = mock.patch.object(module, "_RUNTIME", folder)
            patch.start()
            self.addCleanup(patch.stop)
        program = folder / "constel"
        program.write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done\ncat\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        patch = mock.patch.dict("os.environ", {"CONSTEL": str(program)})
        patch.start()
        self.addCleanup(patch.stop)
        self.folder = folder
        self.lab = constel.Lab("fake")

    def request(self) -> dict[str, Any]:
        request = self.fake.requests[-1]
        self.assertEqual(request.pop("version"), 1)
        return request

    def test_information_of_a_node(self) -> None:
        oslo = self.lab["oslo"]
        oslo.info_put("a.json", "{}")
        self.assertEqual(self.request(), {"verb": "user-file", "node": "oslo", "name": "a.json", "text": "{}"})
        file = self.folder / "b"
        file.write_text("São")
        oslo.info_put("b", file)
        self.assertEqual(self.request()["text"], "São")
        oslo.info_remove("a.json")
        self.assertEqual(self.request(), {"verb": "user-file", "node": "oslo", "name": "a.json"})
        oslo.info_send({"do": ["reload", 1]})
        self.assertEqual(self.request(), {"verb": "command", "node": "oslo", "data": {"do": ["reload", 1]}})

    def test_networks(self) -> None:
        backbone = self.lab.network("backbone")
        self.assertEqual(backbone.show(), {"network": "backbone", "members": []})
        backbone.join("oslo")
        self.assertEqual(self.request(), {"verb": "set-member", "network": "backbone", "node": "oslo", "joined": True})
        backbone.leave("oslo")
        self.assertFalse(self.request()["joined"])
        backbone.set([[None, "1.5 ms"], ["2 us", None]])
        self.assertEqual(self.request(), {"verb": "set-delays", "network": "backbone", "delays_ns": [[None, 1_500_000], [2_000, None]]})
        backbone.reset()
        self.assertEqual(self.request(), {"verb": "set-delays", "network": "backbone"})
        with self.assertRaises(constel.LabRefused):
            self.lab.network("other").show()

    def test_properties_start_no_process(self) -> None:
        with mock.patch("subprocess.Popen", side_effect=AssertionError("a process")):
            self.assertEqual((self.lab.t_s, self.lab.nodes), (2.5, ["oslo"]))
            self.assertEqual((self.lab["oslo"].ipv4, self.lab["oslo"].ipv6), ("10.0.0.1", "fd00::1"))

    def test_texts_of_the_command_line(self) -> None:
        self.assertEqual(self.lab.metrics(), "metrics\nfake\n")
        self.assertEqual(self.lab.logs(7), "logs\nfake\n--lines\n7\n")
        self.assertEqual(self.lab["oslo"].logs(), "logs\nfake\noslo\n--lines\n200\n")
        with self.lab.web(write=True, port=8000) as address:
            self.assertEqual(address, "web", "the first line of the output")

    def test_the_same_for_asyncio(self) -> None:
        async def all() -> None:
            lab = await aio.attach("fake")
            self.assertEqual((await lab.t_s, await lab.nodes, await lab["oslo"].ipv4), (2.5, ["oslo"], "10.0.0.1"))
            await lab["oslo"].info_put("a", "text")
            self.assertEqual(self.request()["text"], "text")
            await lab.network("backbone").set([["1 ms"]])
            self.assertEqual(self.request()["delays_ns"], [[1_000_000]])
            self.assertEqual(await lab.metrics(), "metrics\nfake\n")
            async with lab.web() as address:
                self.assertEqual(address, "web")
            with self.assertRaises(constel.LabRefused):
                await lab.network("other").show()

        asyncio.run(all())

    def test_delays_need_units(self) -> None:
        with self.assertRaises(constel.UsageError):
            constel.Network(self.lab, "backbone").set([[1.0]])  # type: ignore[list-item]
        self.assertIs(networks.Network, constel.Network)


if __name__ == "__main__":
    unittest.main()
