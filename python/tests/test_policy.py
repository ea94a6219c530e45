"""Live policies against a lab's socket of this test: no root, no lab."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import constel

NODES = ["sat-0", "sat-1", "london"]


def state(step: int, late: int = 0) -> dict[str, Any]:
    """A state as a lab sends it."""
    candidates = [
        {"satellite": "sat-0", "range_m": 1.5e6, "elevation_deg": 20.0, "remaining_s": 9.0, "links": 1},
        {"satellite": "sat-1", "range_m": 1.0e6, "elevation_deg": 60.0, "remaining_s": 90.0, "links": 0},
    ]
    return {
        "step": step,
        "t_ns": step * 1_000_000_000,
        "late": late,
        "refused": 0,
        "positions_m": [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]],
        "stations": [{"station": "london", "serving": ["sat-0"], "candidates": candidates}],
        "edges": [{"from": "sat-0", "port": "isl0", "to": "sat-1", "carried_bps": 7.5}],
    }


class FakeLab:
    """A lab's socket with one client."""

    def __init__(self, folder: Path) -> None:
        (folder / "fake").mkdir()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / "fake" / "api.sock"))
        self._server.listen()
        self._server.settimeout(20)
        self._opened = contextlib.ExitStack()
        self._opened.enter_context(self._server)

    def serve(self, joined: dict[str, Any]) -> dict[str, Any]:
        """Accepts the client; returns its request."""
        self._wire, _ = self._server.accept()
        self._wire.settimeout(20)
        self._opened.enter_context(self._wire)
        self._lines = self._opened.enter_context(self._wire.makefile("rb"))
        request: dict[str, Any] = json.loads(self._lines.readline())
        self.send(joined)
        return request

    def send(self, answer: dict[str, Any]) -> None:
        self._wire.sendall(json.dumps(answer).encode() + b"\n")

    def asks(self, of: dict[str, Any]) -> dict[str, Any]:
        """Sends a state; returns the answer."""
        self.send({"ok": True, "data": of})
        return self.receive()

    def receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._lines.readline())
        return answer

    def ended(self) -> bool:
        """Whether the client has ended its sending."""
        return self._lines.readline() == b""

    def close(self) -> None:
        self._opened.close()


JOINED = {"ok": True, "data": {"nodes": NODES, "step_ns": 1_000_000_000, "within_ns": 200_000_000}}


class Policies(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patched = mock.patch("constel.lab._RUNTIME", Path(folder.name))
        patched.start()
        self.addCleanup(patched.stop)
        self.fake = FakeLab(Path(folder.name))
        self.addCleanup(self.fake.close)
        self.lab = constel.Lab("fake")

    def joined(self, policy: constel.LivePolicy, answer: dict[str, Any] = JOINED) -> dict[str, Any]:
        """Lets a policy join the fake lab; returns its request."""
        requests: list[dict[str, Any]] = []
        accepting = threading.Thread(target=lambda: requests.append(self.fake.serve(answer)))
        accepting.start()
        try:
            policy.join(self.lab)
        finally:
            accepting.join()
        return requests[0]

    def test_a_decorated_function_decides_each_step(self) -> None:
        seen: list[constel.State] = []
        requests: list[dict[str, Any]] = []
        accepting = threading.Thread(target=lambda: requests.append(self.fake.serve(JOINED)))
        accepting.start()

        @self.lab.policy(within="200 ms", wants=["stations", "edges", "positions"])
        def highest(state: constel.State) -> constel.Decision | None:
            seen.append(state)
            if state.step == 2:
                return None
            best = {
                own["station"]: max(own["candidates"], key=lambda c: c["elevation_deg"])["satellite"]
                for own in state.stations
            }
            return constel.Decision(
                attachments=best, links={("sat-0", "sat-1"): False}, routes={("london", "sat-0"): "sat-1", ("sat-1", "london"): None}
            )

        accepting.join()
        self.assertEqual(
            requests[0],
            {
                "version": 1,
                "verb": "policy",
                "name": "highest",
                "wants": ["stations", "edges", "positions"],
                "within_ns": 200_000_000,
            },
        )
        answer = self.fake.asks(state(1))
        self.assertEqual(
            answer,
            {
                "step": 1,
                "attachments": {"london": ["sat-1"]},
                "links": [{"a": "sat-0", "b": "sat-1", "up": False}],
                "routes": [
                    {"node": "london", "destination": "sat-0", "next": "sat-1"},
                    {"node": "sat-1", "destination": "london", "next": None},
                ],
            },
        )
        self.assertEqual(self.fake.asks(state(2, late=1)), {"step": 2, "attachments": {}, "links": [], "routes": []})
        self.assertEqual((seen[0].t_s, seen[1].late), (1.0, 1))
        self.assertEqual(seen[0].positions, {"sat-0": (1.0, 2.0, 3.0), "sat-1": None, "london": (4.0, 5.0, 6.0)})
        self.assertEqual(seen[0].edges[0]["carried_bps"], 7.5)
        leaving = threading.Thread(target=highest.leave)
        leaving.start()
        self.assertEqual(self.fake.receive(), {"step": 0, "leave": True})
        self.assertTrue(self.fake.ended())
        self.fake.close()
        leaving.join(20)
        self.assertFalse(leaving.is_alive())
        self.assertEqual(highest.steps, 2)

    def test_a_failure_of_the_function_is_kept_with_its_time(self) -> None:
        def broken(state: constel.State) -> constel.Decision:
            raise ValueError("nothing to choose from")

        policy = constel.LivePolicy(broken)
        self.joined(policy)
        self.fake.send({"ok": True, "data": state(3)})
        self.assertTrue(self.fake.ended(), "it leaves without a word, and the lab counts that")
        with self.assertRaises(constel.RuleFailed) as failed:
            policy.wait()
        self.assertIn("rule `broken` at 3 s: ValueError: nothing to choose from", str(failed.exception))
        self.assertIsInstance(failed.exception.__cause__, ValueError)

    def test_another_value_than_a_decision_is_a_failure(self) -> None:
        policy = constel.LivePolicy(lambda state: {"london": "sat-0"}, name="mapping")  # type: ignore[arg-type, return-value]
        self.joined(policy)
        self.fake.send({"ok": True, "data": state(1)})
        with self.assertRaises(constel.RuleFailed) as failed:
            policy.wait()
        self.assertIn("returns a constel.Decision or None, not dict", str(failed.exception))

    def test_refusals_of_the_lab_are_exceptions(self) -> None:
        refused = {"ok": False, "error": "the policy `other` decides for this lab", "code": "unsupported"}
        with self.assertRaises(constel.LabRefused) as no:
            self.joined(constel.LivePolicy(lambda state: None, name="second"), refused)
        self.assertEqual(no.exception.code, "unsupported")
        self.fake._lines.close()
        self.fake._wire.close()
        policy = constel.LivePolicy(lambda state: constel.Decision(attachments={"atlantis": "sat-0"}), name="lost")
        self.joined(policy)
        self.fake.asks(state(1))
        self.fake.send({"ok": False, "error": "no node is called 'atlantis'", "code": "node-not-found", "nearest": None})
        with self.assertRaises(constel.RuleFailed) as lost:
            policy.wait()
        self.assertIsInstance(lost.exception.__cause__, constel.LabRefused)

    def test_a_lab_that_ends_is_no_failure(self) -> None:
        policy = constel.LivePolicy(lambda state: None, name="idle")
        self.joined(policy)
        self.fake.asks(state(1))
        self.assertTrue(policy.decides)
        self.fake.close()
        policy.wait()
        self.assertFalse(policy.decides)
        policy.leave()
        with self.assertRaises(constel.UsageError):
            policy.join(self.lab)

    def test_parts_of_the_state_are_checked(self) -> None:
        with self.assertRaises(constel.UsageError) as wrong:
            constel.LivePolicy(lambda state: None, wants=["loads"])
        self.assertIn("'loads' is no part of a state: positions, stations, edges", str(wrong.exception))


if __name__ == "__main__":
    unittest.main()
