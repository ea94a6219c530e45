"""Many Consumers of one object, in virtual time: the load of each link beside that of as many flows of one Consumer each."""
from vt import mean, run_all

# 6 hops of 20 Mbit/s and 10 ms, 0.5 % loss on each; Consumers behind the last three nodes in turn.
PATH = {"hops": 6, "spread": 3, "mbps": 20, "delay_ms": 10, "loss": 0.005, "object_bytes": 4_000_000}
MIB = 1 << 20
CACHES = {"64 MiB in memory": (64 * MIB, 0), "1 MiB in memory": (MIB, 0), "1 MiB, and 64 MiB on disk": (MIB, 64 * MIB), "none": (0, 0)}
# All at once; in the middle of each other (the object takes 1.7 s); one after the other.
APART = {"together": 0.0, "0.5 s apart": 0.5, "5 s apart": 5.0}
COUNTS = (1, 2, 4, 8, 16, 32)


def spec(count, apart, cache, seed, protocol="beyond"):
    memory, disk = CACHES[cache]
    return {**PATH, "protocol": protocol, "seed": seed, "consumers": count, "every_s": APART[apart], "cache_bytes": memory, "disk_bytes": disk}


def table(seeds=(1, 2, 3)):
    r = run_all({(n, apart, cache): [spec(n, apart, cache, s) for s in seeds] for n in COUNTS for apart in APART for cache in CACHES}, "receivers")
    out = []
    for (n, apart, cache), runs in r.items():
        alone = [sum(x["carried_bytes"][i] for x in r[1, "together", cache]) / len(seeds) for i in range(PATH["hops"])]
        carried = [sum(x["carried_bytes"][i] for x in runs) / len(runs) for i in range(PATH["hops"])]
        behind = runs[0]["consumers_behind"]
        took = [t for x in runs for t in x["took_s"]]
        total = lambda key: sum(c[key] for x in runs for c in x["cache"]) / len(runs)
        out.append({"consumers": n, "apart": apart, "cache": cache, "carried_bytes": carried, "consumers_behind": behind,
                    "saved": [1 - c / (a * b) if b else 0.0 for c, a, b in zip(carried, alone, behind)],
                    "saved_in_all": 1 - sum(carried) / sum(a * b for a, b in zip(alone, behind)),
                    "took_mean_s": sum(took) / len(took), "took_max_s": max(took),
                    **{k: total(k) for k in ("hit_bytes", "disk_hit_bytes", "disk_stored_blocks", "evicted_blocks")}, "seeds": len(seeds)})
    return out
