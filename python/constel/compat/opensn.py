"""OpenSN's Python SDK over a running lab: a script reads the network each second and reconnects it (Fig. 10 of its paper).

    python -m constel.compat.opensn main.py      a script as it is; its imports of `opensn` lead here
    from constel.compat.opensn import *          in a script of your own

The script's decisions are those of a live policy: they hold from the next steps of the scenario on, and the results have them as
files that repeat the run. `DIFFERENCES` lists where the lab differs from OpenSN; it is printed when a script connects.
"""

from __future__ import annotations

import atexit
import json
import re
import runpy
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _native
from ..errors import LabDied, LabRefused, LabTimeout, UsageError
from ..lab import attach, labs
from ..policy import LivePolicy
from . import opensn_types
from ._script import main
from .opensn_links import Links, Pair
from .opensn_types import *
from .opensn_types import Extra
from .starrynet import _geodetic, _say

__all__ = ["DIFFERENCES", "EmulatorOperator"]
__all__ += opensn_types.__all__

DIFFERENCES = (
    "links change with a step of the scenario, one or two steps after the call; the functions that read have the change at once",
    "a ground link is dark while its satellite is below the station's mask; OpenSN's passes through the Earth",
    "lasers and cables are those of the scenario, and the orbits break lasers; a script can switch them",
    "a delay within 5 % or 100 us of the orbits' is left to the orbits, which change it continuously",
    "addresses of interfaces are the lab's; those of `put_link` and `enable_link_between` are not used",
    "positions are the lab's; `put_position` has no effect",
    "element sets are circular orbits through the present positions, within some 20 km; `get_position` is exact",
)
_MOST = {PARAMETER_KEY_CONNECT: 1, PARAMETER_KEY_DELAY: 10**10, PARAMETER_KEY_LOSS: 10**4, PARAMETER_KEY_BANDWIDTH: 10**10}
"""The parameters of a link, with their largest values."""
_SAME_DELAY, _SAME_DELAY_US = 0.05, 100.0
"""Scripts compute with a sphere and elements of their own: such deviations from the orbits' delay are no decision."""
_FIRST_STATES_S = 60.0
_PLACES = {TYPE_SATELLITE: "satellites", TYPE_GROUND_STATION: "stations"}
_TYPES = {"satellite": TYPE_SATELLITE, "spacecraft": TYPE_SATELLITE, "ground": TYPE_GROUND_STATION}
_WITHOUT = {
    "etcd_client": "there is no etcd; `Lab.ask` has the requests of a lab",
    "get_instance_runtime": "nodes have no id of Docker; `Lab.show` has their state",
    "get_instance_runtime_map": "nodes have no id of Docker; `Lab.show` has their state",
    **{f"{name}_async": f"call `{name}`, which takes milliseconds" for name in ("put_link", "put_link_parameter", "put_instance_config")},
    **{f"{name}_async": f"call `{name}`" for name in ("put_instance", "put_emualtion_config")},
}


class EmulatorOperator:
    """OpenSN's client, for one running lab. Instances have the names of the lab's nodes as ids; a link's id is `NODE:NODE`.

    `addr`: the name of a lab; any other text is the only lab that runs. `port` and `async_pool_size` are not used. Stations keep
    their satellites until the script reconnects them. Functions raise `UsageError` for an unknown machine, instance or link.

    Raises `UsageError` if no lab runs, or several; `LabRefused` if another live policy decides for it; `LabTimeout` if the steps of
    its scenario are too long for a loop.
    """

    def __init__(self, addr: str, port: int | str, async_pool_size: int = 128) -> None:
        names = [str(row["lab"]) for row in labs() if row["state"] == "running"]
        if addr not in names and len(names) != 1:
            found = f"these run: {', '.join(names)}; give the name of one" if names else "none runs; start one by `constel up FILE`"
            raise UsageError(f"`{addr}` is no running lab: {found}")
        self._lab = attach(addr if addr in names else names[0])
        # The effects that the script wants, and those that the lab has.
        self._effects: dict[Pair, dict[str, Any]] = {}
        self._told: dict[Pair, dict[str, Any]] = {}
        self._configs: dict[str, str] = {}
        self._addresses: dict[str, str] | None = None
        shown = self._lab.ask({"verb": "scenario"})
        self._scenario: dict[str, Any] = _native.parse_yaml(shown["file"], shown["text"])
        self._shown = self._nodes()
        networks = {f"{member['node']}/{member['port']}" for of in self._lab.networks() for member in of["members"]}
        self._links = Links({name: self._type(name) for name in self._shown}, networks)
        self._policy = LivePolicy(self._links.decide, name="opensn")
        self._policy.join(self._lab)
        atexit.register(self.close)
        limit = time.monotonic() + _FIRST_STATES_S
        while not self._links.wait(0.2):
            self._alive()
            if time.monotonic() > limit:
                self.close()
                raise LabTimeout(f"lab '{self._lab.name}' had no two steps in {_FIRST_STATES_S:g} s: a loop needs a `step` of seconds")
        for line in DIFFERENCES:
            _say(f"unlike OpenSN: {line}")

    def close(self) -> None:
        """Ends the script's control, as does the end of the script; its last decisions hold, and the run stays trustworthy."""
        atexit.unregister(self.close)
        self._policy.leave()

    def get_emulation_config(self) -> EmulationInfo:
        """Returns the images and variables of the lab's scenario; limits are 0."""
        nodes = self._scenario.get("nodes") or {}
        info = EmulationInfo(True)
        for kind, place in _PLACES.items():
            of = nodes.get(place) or {}
            envs = {str(name): str(value) for name, value in (of.get("env") or {}).items()}
            info.type_config[kind] = InstanceTypeConfig(of.get("image") or "", envs)
        return info

    def put_emualtion_config(self, config: EmulationInfo) -> None:
        """Compares images and variables with those of the lab, which cannot change while it runs. Limits are the scenario's.

        Raises `UsageError` if they differ, and for types other than `Satellite` and `GroundStation`.
        """
        lab = self.get_emulation_config().type_config
        for kind, of in config.type_config.items():
            if kind not in lab:
                raise UsageError(f"type `{kind}`: nodes are of the types {', '.join(_PLACES)}; others are `hosts` of the scenario")
            if (of.image, of.envs) != (lab[kind].image, lab[kind].envs):
                raise UsageError(
                    f"the lab's {_PLACES[kind]} have image `{lab[kind].image}` with {lab[kind].envs}, not `{of.image}` with {of.envs}, and"
                    " a running lab keeps its images: `constel import` makes a scenario of the configuration for `constel up`"
                )

    put_emulation_config = put_emualtion_config

    def get_node_map(self) -> dict[int, Node]:
        """Returns the machines by number, and reads which instances run.

        Raises `LabDied` if the lab is over; `RuleFailed` if it refused a decision.
        """
        self._refresh()
        return {0: Node()}

    def get_node(self, node_index: int) -> Node:
        """Returns a machine."""
        self._check(node_index)
        return Node()

    def get_instance_map(self, node_index: int) -> dict[str, Instance]:
        """Returns all instances by id, and reads which of them run.

        Raises as `get_node_map`.
        """
        self._check(node_index)
        self._refresh()
        return {name: self._instance(name) for name in self._shown}

    def get_instance(self, node_index: int, instance_id: str) -> Instance:
        """Returns an instance with its present links."""
        self._check(node_index, instance_id)
        return self._instance(instance_id)

    def put_instance(self, instance: Instance) -> None:
        """Starts or stops an instance by `start`, without waiting for routes.

        Raises `UsageError` if the instance is in that state: nothing else of it can change in a running lab.
        """
        self._check(instance.node_index, instance.instance_id)
        if instance.start == self._instance(instance.instance_id).start:
            raise UsageError(
                f"put_instance: `{instance.instance_id}` is in this state already, and orbits, places and images are the scenario's"
                " (`constel apply`). Links change by `enable_link_between` and `disable_link_between`"
            )
        self._lab.set_nodes("start" if instance.start else "stop", instance.instance_id, wait=False)
        self._refresh()

    def get_link_map(self, node_index: int) -> dict[str, LinkBase]:
        """Returns all links by id: those of stations as the script wants them, lasers and cables as they are now."""
        self._check(node_index)
        pairs = {pair for name in self._shown for pair in self._links.of(name)}
        return {_id(pair): self._link(pair) for pair in sorted(pairs)}

    def get_link(self, node_index: int, link_id: str) -> LinkBase:
        """Returns a link, also one that is gone (`enable` is false then)."""
        return self._link(self._pair(node_index, link_id))

    def put_link(self, link_base: LinkBase) -> None:
        """Enables or disables a link by `enable`, and sets its parameters. Addresses stay the lab's.

        Raises as `enable_link_between` and `put_link_parameter`.
        """
        a, b = (end.instance_id for end in link_base.end_infos)
        self._check(0, a, b)
        pair = self._links.pair(a, b)
        known = pair in self._links.of(a)
        if link_base.enable and not known:
            self.enable_link_between(0, a, 0, b, init_parameter=link_base.parameter)
        elif link_base.enable:
            self.put_link_parameter(0, _id(pair), link_base.parameter)
        elif known:
            self.disable_link_between(0, a, 0, b)

    def put_link_parameter(self, node_index: int, link_id: str, parameter: Mapping[str, float] | None) -> None:
        """Sets parameters of a link in both directions; others stay as set before. A link that does not exist yet gets them with the
        first `get_instance_map` or `get_node_map` after it appears.

        `connect`: 0 or 1. `delay`: microseconds, up to 10^10. `loss`: ten-thousandths, up to 10,000. `bandwidth`: bytes per second,
        up to 10^10, as OpenSN passes it to its queue; 0 is the scenario's rate. Raises `UsageError` for other names and values;
        `LabRefused` (`unsupported`) if the lab's link driver lacks the effect.
        """
        pair, told = self._pair(node_index, link_id), dict(parameter or {})
        for key, value in told.items():
            if not 0 <= value <= _MOST.get(key, -1):
                allowed = ", ".join(f"`{name}` (0 to {most})" for name, most in _MOST.items())
                raise UsageError(f"put_link_parameter: `{key}` is {value} for `{link_id}`; the parameters are {allowed}")
        if PARAMETER_KEY_CONNECT in told:
            self._links.cut(pair, not told[PARAMETER_KEY_CONNECT])
        before = self._effects.get(pair, {})
        after: dict[str, Any] = dict(before)
        if (delay_us := told.get(PARAMETER_KEY_DELAY)) is not None:
            orbit_us = self._links.orbit_us(pair, by_hand="delay_ns" in self._told.get(pair, {}))
            same = orbit_us is not None and abs(delay_us - orbit_us) <= max(_SAME_DELAY * orbit_us, _SAME_DELAY_US)
            after["delay_ns"] = None if same else round(delay_us * 1000)
        if (loss := told.get(PARAMETER_KEY_LOSS)) or (loss == 0 and "loss" in before):
            after["loss"] = {"bernoulli": {"loss_ratio": loss / 1e4}} if loss else None
        if (bandwidth := told.get(PARAMETER_KEY_BANDWIDTH)) is not None:
            # What a script has read and puts back is no change.
            if "rate_bps" in before or self._link(pair).parameter.get(PARAMETER_KEY_BANDWIDTH) != bandwidth:
                after["rate_bps"] = round(8 * bandwidth) or None
        self._effects[pair] = {name: value for name, value in after.items() if value is not None}
        self._set(pair)

    def enable_link_between(
        self,
        node_index1: int,
        instance_id1: str,
        node_index2: int,
        instance_id2: str,
        address_info1: Mapping[str, str] | None = None,
        address_info2: Mapping[str, str] | None = None,
        link_type: str = VLINK_TYPE,
        init_parameter: Mapping[str, float] | None = None,
    ) -> None:
        """Connects a station to a satellite, or switches on a laser or cable of the scenario.

        A station with too few antennas uses the satellites that were connected last, of those that it can use. Addresses and type
        are not used. Raises `UsageError` for two instances that the scenario does not link or whose link the orbits break, with the
        reason; and as `put_link_parameter`.
        """
        self._check(node_index1, instance_id1)
        self._check(node_index2, instance_id2)
        pair = self._links.pair(instance_id1, instance_id2)
        if not self._links.enable(pair):
            raise UsageError(
                f"enable_link_between: {' and '.join(pair)} have no link: {self._lab.link(*pair).why}. A script can connect stations"
                " to satellites, and switch lasers and cables of the scenario (`isl`, `links`)"
            )
        self.put_link_parameter(0, _id(pair), init_parameter)

    def disable_link_between(
        self, node_index1: int, instance_id1: str, node_index2: int, instance_id2: str
    ) -> dict[str, LinkBase]:
        """Disconnects two instances; returns the links that they had, by id, none or one.

        Raises `UsageError` for a link of a network, whose members `Lab.network` changes.
        """
        self._check(node_index1, instance_id1)
        self._check(node_index2, instance_id2)
        pair = self._links.pair(instance_id1, instance_id2)
        if pair not in self._links.of(pair[0]):
            return {}
        link = self._link(pair)
        self._links.disable(pair)
        return {link.link_id: link}

    def get_position_map(self) -> dict[str, Position]:
        """Returns the positions of all instances in the step in force."""
        return {name: self.get_position(name) for name in self._shown}

    def get_position(self, instance_id: str) -> Position:
        """Returns the position of an instance in the step in force (WGS84); zeros for a satellite without one."""
        self._check(0, instance_id)
        place = self._links.place(instance_id)
        if place is None:
            return Position()
        latitude_deg, longitude_deg, height_km = _geodetic(*place)
        return Position(dec2ra(latitude_deg), dec2ra(longitude_deg), height_km * 1e3)

    def put_position(self, instance_id: str, position: Position) -> None:
        """Does nothing: the lab's views have the positions of the orbits."""
        self._check(0, instance_id)

    def put_instance_config(self, node_index: int, instance_id: str, config_seq: str) -> None:
        """Puts a text into the node, as `/run/constel/user/opensn.json`; an equal text is not put again. The documents in
        `/share/topo`, which OpenSN's images read, are written by the lab itself.

        Raises `UsageError` for a node without `information`.
        """
        self._check(node_index, instance_id)
        if self._configs.get(instance_id) == config_seq:
            return
        try:
            self._lab[instance_id].info_put("opensn.json", config_seq)
        except LabRefused as error:
            if error.code != "no-information":
                raise
            raise UsageError(f"put_instance_config: {error}; add `information: [{{opensn: true}}]` to the scenario") from None
        self._configs[instance_id] = config_seq

    def put_instance_config_if_not_exist(self, node_index: int, instance_id: str, config_seq: str) -> None:
        """As `put_instance_config`, for an instance to which this script has put none."""
        if instance_id not in self._configs:
            self.put_instance_config(node_index, instance_id, config_seq)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _WITHOUT:
                raise UsageError(f"EmulatorOperator.{name} has no counterpart: {_WITHOUT[name]}")
            raise AttributeError(f"OpenSN's EmulatorOperator has no `{name}`")

    def _nodes(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self._lab.show()["node_list"]}

    def _alive(self) -> None:
        if not self._policy.decides:
            self._policy.wait()
            raise LabDied(f"lab '{self._lab.name}' is over, or the operator was closed")

    def _refresh(self) -> None:
        self._alive()
        self._shown = self._nodes()
        for pair in self._effects:
            self._set(pair)

    def _set(self, pair: Pair) -> None:
        """Sets the effects of a link that exists."""
        wanted, told = self._effects[pair], self._told.get(pair, {})
        if wanted == told or not self._links.edge(pair):
            return
        # Only a reset removes an effect.
        reset = not told.keys() <= wanted.keys()
        try:
            self._lab.ask({"verb": "set-link", "a": pair[0], "b": pair[1], "effects": wanted, "reset": reset})
        except LabRefused as error:
            # It went since the last state.
            if error.code != "no-link":
                raise
            return
        self._told[pair] = wanted

    def _check(self, node_index: int, *names: str) -> None:
        if node_index != 0:
            raise UsageError(f"there is no machine {node_index}: a lab with a live policy has one, number 0")
        for name in names:
            if name not in self._shown:
                raise UsageError(f"lab '{self._lab.name}' has no node `{name}`: ids are those of `get_instance_map`")

    def _type(self, name: str) -> str:
        return _TYPES.get(str(self._shown[name]["kind"]), "Host")

    def _pair(self, node_index: int, link_id: str) -> Pair:
        a, _, b = link_id.partition(":")
        if a not in self._shown or b not in self._shown:
            raise UsageError(f"there is no link `{link_id}`: ids are those of `get_link_map`")
        self._check(node_index)
        return self._links.pair(a, b)

    def _address(self, node: str, other: str) -> dict[str, str]:
        """Returns the address of a node's interface towards another; empty if it has none, or no program `ip`."""
        if self._addresses is None:
            rows = self._lab.exec("*", ["ip", "-j", "-4", "address"]).rows()
            self._addresses = {
                f"{row['node']}/{port['ifname']}": f"{at['local']}/{at['prefixlen']}"
                for row in rows
                if row["exit"] == 0
                for port in json.loads(row["stdout"])
                for at in port["addr_info"][:1]
            }
        address = self._addresses.get(f"{node}/{self._links.port(node, other)}")
        return {} if address is None else {LINK_V4_ADDR_KEY: address}

    def _link(self, pair: Pair) -> LinkBase:
        edge, effects = self._links.edge(pair), self._effects.get(pair, {})
        parameter = {PARAMETER_KEY_CONNECT: int(not self._links.is_cut(pair))}
        if edge:
            parameter[PARAMETER_KEY_DELAY] = edge["delay_ns"] // 1000
        if edge.get("rate_bps") is not None:
            parameter[PARAMETER_KEY_BANDWIDTH] = edge["rate_bps"] // 8
        if "loss" in effects:
            parameter[PARAMETER_KEY_LOSS] = round(effects["loss"]["bernoulli"]["loss_ratio"] * 1e4)
        ends = [EndInfo(name, self._type(name)) for name in pair]
        addresses = [self._address(*pair), self._address(*reversed(pair))]
        return LinkBase(_id(pair), ends, address_infos=addresses, enable=pair in self._links.of(pair[0]), parameter=parameter)

    def _instance(self, name: str) -> Instance:
        kind, connections = self._type(name), dict[str, ConnectionInfo]()
        for pair in self._links.of(name):
            other = pair[1] if pair[0] == name else pair[0]
            connections[_id(pair)] = ConnectionInfo(_id(pair), other, self._type(other))
        of = self.get_emulation_config().type_config.get(kind, InstanceTypeConfig())
        start = self._shown[name].get("state") != "stopped"
        return Instance(name, name, kind, of.image, Extra(name, self._extra(name, kind)), connections=connections, start=start)

    def _extra(self, name: str, kind: str) -> dict[str, str]:
        place = self._links.place(name)
        if kind == TYPE_GROUND_STATION and place is not None:
            latitude_deg, longitude_deg, height_km = _geodetic(*place)
            return {"latitude": f"{latitude_deg:.9f}", "longitude": f"{longitude_deg:.9f}", "altitude": f"{height_km * 1e3:.3f}"}
        extra = {} if "areas" in (self._scenario.get("routing") or {}) else {"Area": "0"}
        if found := re.search(r"-p(\d+)-s(\d+)$", name):
            extra.update(OrbitIndex=str(int(found[1])), SatelliteIndex=str(int(found[2])))
        if kind == TYPE_SATELLITE and (lines := self._links.elements(name)) is not None:
            extra.update(TLE_0=name, TLE_1=lines[0], TLE_2=lines[1])
        return extra


def _id(pair: Pair) -> str:
    return ":".join(pair)


_MODULES = (
    *("operator.emulator_operator", "model.instance", "model.link", "model.position", "model.node", "model.emulation_config"),
    *("const.dict_fields", "const.link_type", "const.const_var", "utils.tools"),
)


def run_script(script: str | Path) -> None:
    """Runs a script of OpenSN. Imports of `opensn` (`satellite_emulator` in early scripts) get this module; other imports find the
    files beside the script."""
    for package in ("opensn", "satellite_emulator"):
        for name in (package, *(f"{package}.{module}" for module in _MODULES)):
            sys.modules[name] = sys.modules[__name__]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main("opensn")
