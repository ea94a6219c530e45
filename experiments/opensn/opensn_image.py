#!/usr/bin/env python3
"""OpenSN's JSON of images, and a satellite image made after its Dockerfile, run as they are.

Makes the image of satellite-router/Dockerfile as `docker save` would write it, imports it and the JSON (`constel import`), and runs
the resulting scenario. It polls the satellites' kernels for the time at which each has a route to every other satellite's address. Keeps raw/sn-opensn-image.json.
Root, busybox-static and FRR.
"""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

import labs

HERE = pathlib.Path(__file__).resolve().parent
PARTS = HERE / "satellite-router"
NAME = "sn-opensn-image"
WITHIN_S = 180


def constel(*words):
    done = subprocess.run([labs.CONSTEL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"constel {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def archive(store, at):
    """The Dockerfile's image: the layer of constel/frr, as the store has it unpacked, and one with the setup program."""
    of = json.loads(constel("image", "show", "constel/frr", "--json"))
    inner = store / "layers" / of["image"]["layers"][0]["chain"].replace(":", "-")
    layers = []
    with io.BytesIO() as base:
        with tarfile.open(fileobj=base, mode="w") as tar:
            tar.add(inner, arcname=".")
        layers.append(base.getvalue())
    with io.BytesIO() as own:
        with tarfile.open(fileobj=own, mode="w") as tar:
            tar.add(PARTS / "setup", arcname="Workspace/setup", filter=executable)
        layers.append(own.getvalue())
    config = json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Env": [f"{k}={v}" for k, v in of["config"]["env"]], "Cmd": ["/Workspace/setup"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }).encode()
    names = [f"{n}/layer.tar" for n in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["satellite-router:latest"], "Layers": names}]
    files = {"config.json": config, "manifest.json": json.dumps(manifest).encode(), **dict(zip(names, layers))}
    with tarfile.open(at, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def executable(info):
    info.mode, info.uid, info.gid = 0o755, 0, 0
    return info


def many(*command):
    """A command in all satellites: an object for each."""
    return json.loads(constel("exec", NAME, "*", "--json", "--", *command))


def missing(nodes):
    """How many routes to other satellites' addresses are lacking in all kernels."""
    rows = many("sh", "-c", "ip -4 route show")
    known = {row["node"]: set(row["stdout"].split()) for row in rows}
    return sum(address not in known.get(node, ()) for node in nodes for other, address in nodes.items() if other != node)


def main():
    labs.WORK.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(labs.WORK)
    make = HERE.parents[1] / "scenarios/images/make"
    subprocess.run([make, "frr"], check=True, env={**os.environ, "CONSTEL": str(labs.CONSTEL)})
    saved = labs.WORK / "satellite-router.tar"
    archive(labs.WORK / "constel/images", saved)
    constel("image", "import", saved)
    imported = labs.WORK / "opensn-imported.yaml"
    imported.unlink(missing_ok=True)
    constel("import", PARTS / "emulation.json", "--out", imported)
    text = imported.read_text().replace("duration: 60000 ms", f"duration: {WITHIN_S} s")
    with labs.Lab(NAME, text) as lab:
        if not lab.wait_until(1):
            sys.exit(f"the lab ended: see {lab.log.name}")
        nodes = {row["node"]: json.loads(row["stdout"])["ipv4"] for row in many("cat", "/run/constel/node.json")}
        stood, lacking = None, None
        while stood is None and lab.process.poll() is None:
            lacking = missing(nodes)
            stood = lab.t_s() if lacking == 0 else None
            time.sleep(2)
        first, *_, last = nodes
        ping = subprocess.run([labs.CONSTEL, "exec", NAME, first, "--", "ping", "-c", "5", nodes[last]], stdout=subprocess.PIPE, text=True).stdout
        lab.process.send_signal(2)
        lab.summary(lambda _: {"satellites": len(nodes), "all_routes_s": stood, "lacking": lacking, "ping": ping.splitlines()[-2:]})
    print(f"{len(nodes)} satellites: every route after {stood} s of lab time; {ping.splitlines()[-2:]}")


main()
