"""OpenSN's constants and types, its emulation configuration, and element sets for its scripts, which compute orbits themselves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ..errors import UsageError

__all__ = [
    "TYPE_SATELLITE", "TYPE_GROUND_STATION", "VLINK_TYPE", "LINK_V4_ADDR_KEY", "R_EARTH", "LIGHT_SPEED_M_S",
    "POLAR_REGION_LATITUDE", "PARAMETER_KEY_CONNECT", "PARAMETER_KEY_DELAY", "PARAMETER_KEY_LOSS",
    "PARAMETER_KEY_BANDWIDTH", "ConnectionInfo", "EmulationInfo", "EndInfo", "Instance", "InstanceTypeConfig", "LinkBase",
    "Node", "Position", "ResourceLimit", "dec2ra", "ra2deg", "emulation_info_from_json", "emulation_info_to_json",
]

TYPE_SATELLITE, TYPE_GROUND_STATION = "Satellite", "GroundStation"
VLINK_TYPE = "vlink"
PARAMETER_KEY_CONNECT, PARAMETER_KEY_DELAY = "connect", "delay"
PARAMETER_KEY_LOSS, PARAMETER_KEY_BANDWIDTH = "loss", "bandwidth"
R_EARTH, LIGHT_SPEED_M_S = 6371000, 3e8
"""The constants of OpenSN's scripts, metres and metres per second."""
LINK_V4_ADDR_KEY = "IPV4"
POLAR_REGION_LATITUDE = math.radians(66.5)

_EARTH_RAD_S, _EARTH_GM = 7.292115e-5, 3.986004418e14
_J2000 = datetime(2000, 1, 1, 12)
_Place = tuple[float, float, float]


@dataclass
class Position:
    """A place: latitude and longitude in radians, altitude in metres."""

    latitude: float = 0.0
    longitude: float = 0.0
    altitude: float = 0.0


@dataclass
class ResourceLimit:
    """Limits of an instance: thousand-millionths of a processor, and bytes."""

    nano_cpu: int | str = 0
    memory_byte: int | str = 0


@dataclass
class ConnectionInfo:
    """A link of an instance, with its other end."""

    link_id: str = ""
    instance_id: str = ""
    instance_type: str = ""
    end_node_index: int = 0


@dataclass
class Instance:
    """A node of the lab. `extra` has texts: of satellites `TLE_0` to `TLE_2`, `OrbitIndex`, `SatelliteIndex`, `Area`; of stations
    `latitude` and `longitude`, degrees, and `altitude`, metres."""

    instance_id: str = ""
    name: str = ""
    type: str = ""
    image: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    device_info: dict[str, Any] = field(default_factory=dict)
    resource: ResourceLimit = field(default_factory=ResourceLimit)
    node_index: int = 0
    connections: dict[str, ConnectionInfo] = field(default_factory=dict)
    start: bool = True


@dataclass
class EndInfo:
    """An end of a link."""

    instance_id: str = ""
    instance_type: str = ""
    instance_pid: int = 0
    end_node_index: int = 0


@dataclass
class LinkBase:
    """A link. `address_infos` has `IPV4`, an address with its prefix length, of both ends; `parameter` as for
    `EmulatorOperator.put_link_parameter`."""

    link_id: str = ""
    end_infos: list[EndInfo] = field(default_factory=list)
    type: str = VLINK_TYPE
    address_infos: list[dict[str, str]] = field(default_factory=list)
    link_index: int = 0
    enable: bool = False
    cross_machine: bool = False
    parameter: dict[str, int] = field(default_factory=dict)
    node_index: int = 0
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Node:
    """A machine: a lab here has one, number 0."""

    node_index: int = 0
    free_instance: int = 0
    is_master_node: bool = True


@dataclass
class InstanceTypeConfig:
    """The image of all instances of a type, with variables and limits."""

    image: str = ""
    envs: dict[str, str] = field(default_factory=dict)
    resource_limit: ResourceLimit = field(default_factory=ResourceLimit)


@dataclass
class EmulationInfo:
    """OpenSN's emulation configuration."""

    running: bool = False
    type_config: dict[str, InstanceTypeConfig] = field(default_factory=dict)


class Extra(dict[str, str]):
    """Texts of an instance; a missing one is an error that has the reason.

    Raises `UsageError`.
    """

    def __init__(self, name: str, texts: Mapping[str, str]) -> None:
        super().__init__(texts)
        self._name = name

    def __missing__(self, key: str) -> str:
        raise UsageError(
            f"`{self._name}` has no `{key}`: `OrbitIndex` is of Walker patterns, `Area` of labs without `areas`, `TLE_0` of satellites"
            f" with a position. It has {', '.join(self) or 'none'}"
        )


def emulation_info_from_json(seq: str) -> EmulationInfo:
    """Returns an emulation configuration from OpenSN's JSON: `running` and `type_config`, or the types alone.

    Raises `UsageError` for another text.
    """
    try:
        document = json.loads(seq)
        info = EmulationInfo(bool(document.get("running", False)))
        for kind, of in document.get("type_config", document).items():
            limit, envs = of.get("resource_limit") or {}, of.get("container_envs", of.get("envs")) or {}
            resource = ResourceLimit(limit.get("nano_cpu", 0), limit.get("memory_byte", 0))
            info.type_config[kind] = InstanceTypeConfig(of["image"], {name: str(value) for name, value in envs.items()}, resource)
    except (ValueError, AttributeError, KeyError) as error:
        raise UsageError(
            "no emulation configuration of OpenSN, which is"
            f' {{"running": false, "type_config": {{"Satellite": {{"image": ...}}}}}}: {type(error).__name__}: {error}'
        ) from None
    return info


def emulation_info_to_json(config: EmulationInfo) -> str:
    """Returns an emulation configuration as OpenSN's JSON."""
    types_ = {
        kind: {"image": of.image, "container_envs": of.envs, "resource_limit": asdict(of.resource_limit)}
        for kind, of in config.type_config.items()
    }
    return json.dumps({"running": config.running, "type_config": types_})


def dec2ra(dec: float) -> float:
    """Returns degrees as radians."""
    return math.radians(dec)


def ra2deg(ra: float) -> float:
    """Returns radians as degrees."""
    return math.degrees(ra)


def elements(number: int, at: datetime, now_m: _Place, before_m: _Place, apart_s: float) -> tuple[str, str]:
    """Returns the two lines of an element set: a circular orbit through the present position at `at` (UTC).

    `now_m`, `before_m`: the present position and that of `apart_s` seconds before, metres, ITRF. Scripts compute positions from the
    lines at the present time, not at the lab's. SGP4 adds periodic terms: its position at `at` is off by some 20 km.
    """
    days = (at - _J2000).total_seconds() / 86400
    turned = math.radians((280.46061837 + 360.98564736629 * days) % 360)

    def inertial(place: _Place, angle: float) -> _Place:
        x, y, z = place
        return x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle), z

    (x, y, z), (u, v, w) = inertial(now_m, turned), inertial(before_m, turned - _EARTH_RAD_S * apart_s)
    normal = (v * z - w * y, w * x - u * z, u * y - v * x)
    size = math.hypot(*normal) or 1.0
    cos_i = normal[2] / size
    node = math.atan2(normal[0], -normal[1])
    # Along the ascending node, and across it within the orbit's plane.
    along = x * math.cos(node) + y * math.sin(node)
    across = (y * math.cos(node) - x * math.sin(node)) * cos_i + z * math.hypot(normal[0], normal[1]) / size
    a = math.hypot(x, y, z)
    turns_per_day = math.sqrt(_EARTH_GM / a**3) * 86400 / math.tau
    day = 1 + (at - datetime(at.year, 1, 1)).total_seconds() / 86400
    degrees = [math.degrees(angle) % 360 for angle in (node, 0.0, math.atan2(across, along))]
    raan, perigee, anomaly = (0.0 if value >= 359.99995 else value for value in degrees)
    epoch = f"{at.year % 100:02d}{day:012.8f}"
    lines = (
        f"1 {number:05d}U 00000A   {epoch}  .00000000  00000-0  00000-0 0  999",
        f"2 {number:05d} {math.degrees(math.acos(cos_i)):8.4f} {raan:8.4f} 0000000 {perigee:8.4f} {anomaly:8.4f} {turns_per_day:11.8f}    1",
    )
    first, second = (line + str(sum(int(c) if c.isdigit() else c == "-" for c in line) % 10) for line in lines)
    return first, second
