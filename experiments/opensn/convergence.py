"""How fast each routing daemon finds its routes: at the start, after one laser fails, after one satellite fails.

Iridium and 14 cities. The failing link or satellite is on the path of Tokyo's packets to London at that moment, by
the kernels' tables. It is taken down in the running lab with `constel link fail` (a satellite by all its links,
one after the other). Probes: four pings at 10 a second.
"""

import os

import labs

VARIANTS = {
    "frr-ospf": "{daemon: frr, protocol: ospf}",
    "frr-isis": "{daemon: frr, protocol: isis}",
    "bird-ospf": "{daemon: bird, protocol: ospf}",
    "bird-babel": "{daemon: bird, protocol: babel}",
}
SECONDS = 75
LASER_S, SATELLITE_S = 8, 40


def path(lab):
    """Names of the nodes from tokyo to london by the kernels' tables; empty without a path."""
    answer = lab.verb("path", lab.name, "tokyo", "london") or {}
    for walk in answer.get("kernel", []):
        hops = walk.get("hops") or []
        if walk["arrived"]:
            return [hops[0]["from"]] + [hop["to"] for hop in hops]
    return []


def neighbours(lab, satellite):
    plan = lab.verb("plan", str(lab.file), "--at", f"{SATELLITE_S}s")
    return sorted({e["to_node"] for e in plan["edges"] if e["from_node"] == satellite})


def report(name, summary, what, rows):
    if not rows:
        print(f"{name:11} {what:26} nothing was taken down")
        return
    stood = [c["converged_after_ns"] for c in rows]
    if any(s is None for s in stood):
        took = "not before the end"
    else:
        end_ns = max(c["t_ns"] + s for c, s in zip(rows, stood))
        took = f"{(end_ns - rows[0]['t_ns']) / 1e9:.2f} s"
    lost = max((c.get("lost_probes") or 0) for c in rows)
    control = rows[0].get("control") or {}
    frames, octets = control.get("frames"), control.get("bytes")
    print(f"{name:11} {what:26} {took:>18}  {lost:4} probes lost  {frames} frames, {octets} bytes")


def main():
    for name in os.environ.get("ONLY", " ".join(VARIANTS)).split():
        routing = VARIANTS[name]
        scenario = labs.iridium(name, SECONDS, routing, labs.pings(SECONDS))
        with labs.Lab(f"sn-{name}", scenario) as lab:
            failed = []
            if lab.wait_until(LASER_S):
                nodes = path(lab)
                middle = len(nodes) // 2
                if len(nodes) >= 4:
                    lab.verb("link", "fail", lab.name, nodes[middle - 1], nodes[middle])
                    failed.append((nodes[middle - 1], nodes[middle]))
            if lab.wait_until(SATELLITE_S):
                nodes = path(lab)
                if len(nodes) >= 5:
                    victim = nodes[len(nodes) // 2]
                    for other in neighbours(lab, victim):
                        lab.verb("link", "fail", lab.name, victim, other)
                    failed.append((victim,))
            summary = lab.summary()
        start = summary["convergence"]
        control = start["control"]
        print(f"{name:11} {'from nothing':26} {start['first_s']:>16.2f} s  {'':16} "
              f"{control['frames']} frames, {control['bytes']} bytes; a link's direction "
              f"{control['frames_per_edge']['p50']:.0f} frames, {control['bytes_per_edge']['p50']:.0f} bytes")
        changes = [c for c in summary["changes"] if c["kind"] == "link-set"]
        boundary = (LASER_S + SATELLITE_S) / 2 * 1e9
        report(name, summary, f"laser {'-'.join(failed[0]) if failed else ''}",
               [c for c in changes if c["t_ns"] < boundary])
        report(name, summary, f"satellite {failed[1][0] if len(failed) > 1 else ''}",
               [c for c in changes if c["t_ns"] >= boundary])
        for h in summary["handovers"]:
            stood = h["converged_after_ns"]
            after = "not before the end" if stood is None else f"{stood / 1e9:.2f} s"
            lost = h.get("lost_probes")
            print(f"{name:11} {'handover of ' + h['station']:26} {after:>18}  "
                  f"{'no ping' if lost is None else str(lost) + ' probes lost'}")
        print(f"{name:11} daemons at the end: {labs.cost(summary)}")
        print(f"{name:11} verdict: {'trustworthy' if summary['verdict']['trustworthy'] else summary['verdict']['reasons']}",
              flush=True)


main()
