"""The paths that `vt_many.py` draws by its seed, in labs: beyond() and the kernel's bbr, each in a lab of its own under the same sky. Satellites on the path
have kernels of their own, all others only forward.

PATHS=5 takes the first five only. With JOBS=2 each lab is in a guest of virtual time, two at a time, the shortest first (`guests.py`)."""
import os
import guests, sky, vt_many
from lab import SMALL
from rounds import study as rounds_of, wanted

FLOWS = [("end to end", sky.BBR), ("A", ("leotp", "beyond", SMALL))]


def scenario(p, name, seconds):
    """`vt_many.scenario` with the losses and queues that were drawn."""
    queue = f"queue: {p['queue_bytes'] // 1024} KiB"
    text = vt_many.scenario(p).replace("name: drawn", f"name: {name}").replace(f"duration: {vt_many.SECONDS + 60} s", f"duration: {seconds + 20} s")
    for link, loss in (("laser", p["laser_loss"]), ("ground", p["ground_loss"])):
        rate = f"{{rate: {p[link + '_mbps']} Mbit/s, queue: 128 KiB}}"
        # Both may be as fast: the laser's comes first.
        text = text.replace(rate, f"{{rate: {p[link + '_mbps']} Mbit/s, {queue}, loss: {100 * loss:.3f} %}}", 1)
    return text


def specs(name, seconds):
    """Each path's runs: (way, case, flow, columns)."""
    for number, (p, _) in enumerate(vt_many.drawn(int(os.environ.get("PATHS", vt_many.PATHS)))):
        way = sky.Way(name, scenario(p, name, seconds), ("here", "there"), seconds)
        columns = {"path": number, "sky": p["sky"], "cities": f"{p['from'][0]} to {p['to'][0]}"}
        more = {"hops_mean": sum(way.hops) / len(way.hops), **{k: p[k] for k in ("ground_mbps", "laser_mbps", "ground_loss", "laser_loss")}}
        yield from ((way, case, f, {**columns, **more}) for case, f in FLOWS if f in wanted([f]))


def work(spec):
    """About in which proportion guests compute for the runs: by frames times links. LEOTP has a program in each node."""
    _, _, flow, columns = spec
    return min(columns["ground_mbps"], columns["laser_mbps"]) * columns["hops_mean"] * (3 if flow[0] == "leotp" else 1)


def study(name, seconds):
    runs, extra = list(specs(name, seconds)), {"seconds": seconds, "seed": vt_many.SEED}
    if os.environ.get("JOBS"):
        return guests.study("drawn", sorted(runs, key=work), **extra)
    rounds_of("drawn", [way.run(case, flow, **columns) for way, case, flow, columns in runs], **extra)
