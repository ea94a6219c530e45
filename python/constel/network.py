"""Networks of a lab: their members, and the delays between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._time import Span, nanoseconds_of
from .errors import LabRefused

if TYPE_CHECKING:
    from .lab import Lab


class Network:
    """A network of a lab (`constel network`)."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self.name = name

    def show(self) -> dict[str, Any]:
        """Returns `network` and `members`, each with `node`, `port`, `joined` and `edges`.

        Raises `LabRefused` if there is no such network.
        """
        for network in self._lab.networks():
            if network["network"] == self.name:
                return network
        raise LabRefused(f"lab '{self._lab.name}' has no network '{self.name}'", "network-not-found")

    def join(self, node: str) -> dict[str, Any]:
        """Adds a member that the scenario lists in `members`. Returns when computed routes have followed."""
        return self._member(node, joined=True)

    def leave(self, node: str) -> dict[str, Any]:
        """Removes a member; it keeps its port, without edges. Returns when computed routes have followed."""
        return self._member(node, joined=False)

    def set(self, delays: Sequence[Sequence[Span | None]]) -> dict[str, Any]:
        """Sets one-way delays at one instant: a row for each member as sender, a value for each member as receiver, in the order
        of `show()["members"]`. `None` leaves an edge unchanged. The network must have `medium: links`."""
        delays_ns = [[None if delay is None else nanoseconds_of(delay) for delay in row] for row in delays]
        return self._delays({"delays_ns": delays_ns})

    def reset(self) -> dict[str, Any]:
        """Removes the delays that were set."""
        return self._delays({})

    def _member(self, node: str, *, joined: bool) -> dict[str, Any]:
        order = {"verb": "set-member", "network": self.name, "node": node, "joined": joined}
        answer: dict[str, Any] = self._lab.ask(order)
        return answer

    def _delays(self, delays: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._lab.ask({"verb": "set-delays", "network": self.name, **delays})
        return answer

    def __repr__(self) -> str:
        return f"<Network {self.name} of {self._lab.name}>"
