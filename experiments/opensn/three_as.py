"""The paper's Fig. 8: a user watches a content provider's video over a constellation, three autonomous systems.

AS 65001 is the constellation with its gateways. A user and a router are AS 65002 behind the gateway of Tokyo, a
server and a router AS 65003 behind that of London. The two cables between gateway and router have eBGP, the gateways
iBGP, and the constellation its own protocol. ffmpeg makes an HLS stream of segments of 2 s, nginx serves it, the
user fetches each segment in its time while the gateways hand over. Prints throughput per segment and delay per second.

(In the paper's figure the ground stations belong to the terrestrial systems. Here they belong to the constellation's:
BGP then runs over cables, and a handover is its interior protocol's business alone.)
"""

import csv
import os
import subprocess

import labs

SECONDS = int(os.environ.get("SECONDS_OF_LAB", "120"))
START_S, SEGMENT_S, RATE_KBIT = 5, 2, 4000
ROUTING = os.environ.get("ROUTING", "daemon: bird\n  protocol: ospf")

GROUND = """  hosts:
    user: {latitude: 35.68 deg, longitude: 139.70 deg}
    user-router: {latitude: 35.69 deg, longitude: 139.70 deg}
    provider-router: {latitude: 51.50 deg, longitude: -0.12 deg}
    provider: {latitude: 51.49 deg, longitude: -0.12 deg}
  cables:
    - {from: user, to: user-router, delay: 1 ms, link: {rate: 1 Gbit/s}}
    - {from: user-router, to: tokyo, delay: 1 ms, link: {rate: 1 Gbit/s}}
    - {from: provider-router, to: london, delay: 1 ms, link: {rate: 1 Gbit/s}}
    - {from: provider, to: provider-router, delay: 1 ms, link: {rate: 1 Gbit/s}}"""

SYSTEMS = """
  systems:
    constellation: {asn: 65001}
    user: {asn: 65002, nodes: [user, user-router]}
    provider: {asn: 65003, nodes: [provider, provider-router]}"""

PLAYER = """import sys, time, urllib.request
url, segments, length = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
begun = time.monotonic()
for number in range(segments):
    due = begun + number * length
    time.sleep(max(0.0, due - time.monotonic()))
    start = time.monotonic()
    try:
        size = len(urllib.request.urlopen(f"{url}/s{number:03}.ts", timeout=30).read())
    except OSError as error:
        print(number, f"{start - begun:.3f}", "failed", error, flush=True)
        continue
    took = time.monotonic() - start
    print(number, f"{start - begun:.3f}", size, f"{took:.4f}", flush=True)
"""


def video(folder, seconds):
    """Segments of a test picture at a constant rate."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "v.m3u8").exists():
        subprocess.run(
            ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size=640x360:rate=25:duration={seconds}",
             "-c:v", "libx264", "-preset", "ultrafast", "-b:v", f"{RATE_KBIT}k", "-minrate", f"{RATE_KBIT}k",
             "-maxrate", f"{RATE_KBIT}k", "-bufsize", f"{RATE_KBIT}k", "-x264-params", "nal-hrd=cbr", "-g", "50",
             "-f", "hls", "-hls_time", str(SEGMENT_S), "-hls_list_size", "0",
             "-hls_segment_filename", str(folder / "s%03d.ts"), str(folder / "v.m3u8")], check=True)
    return len(list(folder.glob("s*.ts")))


def main():
    labs.WORK.mkdir(parents=True, exist_ok=True)
    play_s = SECONDS - START_S - 5
    folder = labs.WORK / f"video-{play_s}"
    segments = video(folder, play_s)
    (labs.WORK / "player.py").write_text(PLAYER)
    nginx = labs.WORK / "nginx.conf"
    nginx.write_text(
        f"daemon off; master_process off; pid {labs.WORK}/nginx.pid; error_log {labs.WORK}/nginx.err;\n"
        "events {}\nhttp { access_log off; "
        f"client_body_temp_path {labs.WORK}/body; proxy_temp_path {labs.WORK}/proxy; "
        f"fastcgi_temp_path {labs.WORK}/fastcgi; uwsgi_temp_path {labs.WORK}/uwsgi; scgi_temp_path {labs.WORK}/scgi; "
        f"server {{ listen 8080; root {folder}; }} }}\n")
    traffic = "\n".join([
        f"  - {{name: server, at: 1 s, for: {SECONDS - 2} s, run: {{node: provider, command: [nginx, -c, {nginx}]}}}}",
        f"  - {{name: player, at: {START_S} s, for: {SECONDS - START_S - 1} s, run: {{node: user, command: "
        f"[python3, {labs.WORK}/player.py, 'http://provider:8080', '{segments}', '{SEGMENT_S}']}}}}",
        f"  - {{name: delay, at: {START_S} s, for: {SECONDS - START_S - 2} s, "
        "ping: {from: user, to: provider, interval: 100 ms, family: ipv4}}",
    ])
    scenario = labs.iridium("three-as", SECONDS, f"\n  {ROUTING}{SYSTEMS}", traffic, ground=GROUND,
                            # Hands over more often than the other experiments' policy.
                            policy="nearest")
    with labs.Lab("sn-three-as", scenario) as lab:
        summary = lab.summary()
    print(f"routes converged after {summary['convergence']['first_s']:.2f} s, "
          f"{summary['convergence']['pairs']} pairs; {labs.cost(summary)}")
    for h in summary["handovers"]:
        stood = h["converged_after_ns"]
        print(f"  t = {h['t_ns'] / 1e9:.0f} s  {h['station']}: {h['from']} -> {h['to']}, routes converged after "
              f"{'?' if stood is None else f'{stood / 1e9:.2f} s'}, lost probes {h.get('lost_probes')}")
    out = lab.results / "flows"
    player = next(p for p in out.rglob("*") if p.is_file() and p.name.startswith("player") and p.stat().st_size)
    print("segment  asked at lab time  bytes     seconds  Mbit/s")
    late = failed = 0
    for line in player.read_text().splitlines():
        words = line.split()
        if words[2] == "failed":
            failed += 1
            print(f"{words[0]:>7}  {START_S + float(words[1]):17.1f}  failed: {' '.join(words[3:])}")
            continue
        size, took = int(words[2]), float(words[3])
        late += took > SEGMENT_S
        print(f"{words[0]:>7}  {START_S + float(words[1]):17.1f}  {size:8}  {took:7.3f}  {size * 8 / took / 1e6:6.2f}")
    print(f"{failed} segments failed, {late} took longer than they play")
    series = {}
    with open(out / "delay.out", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["rtt_us"]:
                series.setdefault(int(float(row["sent_s"])), []).append(float(row["rtt_us"]) / 1e3)
    print("round-trip time, median of each second, ms:")
    print("  " + " ".join(f"{s}:{sorted(v)[len(v) // 2]:.1f}" for s, v in sorted(series.items())))
    flow = next(f for f in summary["flows"] if f["name"] == "delay")
    print(f"probes: {flow['sent_packets']} sent, loss {flow['loss_ratio']:.4f}; "
          f"verdict: {summary['verdict']['trustworthy']} {summary['verdict']['reasons']}")


main()
