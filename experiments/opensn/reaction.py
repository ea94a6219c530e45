"""Orbit-aware link state: what a failed satellite costs when all nodes know at once, when nodes learn of it
by messages, and when messages end after a few hops. Iridium and 14 cities, computed routes.
"""

import labs

SECONDS, AT_S, FOR_S = 40, 10, 15
TOLD = "detect: 100 ms, processing: 2 ms"
VARIANTS = {
    "at once": "{mode: computed}",
    "messages": f"{{mode: computed, reaction: {{{TOLD}}}}}",
    "three hops": f"{{mode: computed, reaction: {{{TOLD}, reach: 3}}}}",
    "one hop": f"{{mode: computed, reaction: {{{TOLD}, reach: 1}}}}",
}


def on_the_way():
    """A satellite in the middle of the first pair's path."""
    scenario = labs.iridium("look", SECONDS, VARIANTS["at once"], labs.pings(SECONDS))
    with labs.Lab("sn-reaction-look", scenario) as lab:
        if not lab.wait_until(2):
            raise SystemExit(f"the lab ended: see {lab.log.name}")
        hops = lab.verb("path", lab.name, *labs.PAIRS[0])["kernel"][0]["hops"]
        return hops[len(hops) // 2]["from"]


def main():
    victim = on_the_way()
    failure = f"failures:\n  - {{name: one, at: {AT_S} s, for: {FOR_S} s, nodes: [{victim}]}}"
    for name, routing in VARIANTS.items():
        scenario = labs.iridium(name.replace(" ", "-"), SECONDS, routing, labs.pings(SECONDS, 20), more=failure)
        with labs.Lab(f"sn-reaction-{name.replace(' ', '-')}", scenario) as lab:
            summary = lab.summary()
        for change in summary["changes"]:
            stood = change["converged_after_ns"]
            after = "not before the end" if stood is None else f"{stood / 1e6:.0f} ms"
            print(f"{name:10} {change['kind']:8} of {victim}: routes converged after {after}, "
                  f"{change.get('lost_probes')} probes lost")
        told = summary.get("link_state")
        messages = f"{told['originated']} messages, sent {told['sent']} times" if told else "no messages"
        trusted = summary["verdict"]
        print(f"{name:10} {messages}; {len(summary['handovers'])} handovers; "
              f"{'trustworthy' if trusted['trustworthy'] else trusted['reasons']}", flush=True)


main()
