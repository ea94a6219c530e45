"""Video over the transports of gateways.py: segments of HLS over Iridium, Beijing to New York, fetched as a player does, and when they come too late to be shown.

No picture is decoded: what is measured is when each segment is there. Raw data: raw/lab-video.json, a row for each transport and repeat."""
import http.client, json, os, subprocess, sys, time
import gateways

SEGMENT_S, RATE_MBPS, SEGMENTS = 2, 10, 20
SEGMENT_BYTES = int(SEGMENT_S * RATE_MBPS * 1e6 / 8)
# A player begins with this much, and holds no more than so much.
BEGIN_S, AHEAD_S = 4, 12
# Segments that are not there by then are not waited for.
PATIENCE_S = 90


def play(at):
    """In the client: fetches the playlist and the segments over one connection; prints when the picture began and how often and long it stood still."""
    began = time.monotonic()
    wire = http.client.HTTPConnection(at, gateways.PORT, timeout=PATIENCE_S)

    def fetch(size):
        wire.request("GET", f"/{size}")
        return len(wire.getresponse().read()) == size
    got, start, stalls, stalled = 0, None, 0, 0.0
    whole = fetch(1000)
    while whole and got < SEGMENTS and time.monotonic() - began < PATIENCE_S:
        whole = fetch(SEGMENT_BYTES)
        now = time.monotonic() - began
        # When the picture runs out of what was there before.
        runs_out = None if start is None else start + stalled + got * SEGMENT_S
        if runs_out is not None and now > runs_out:
            stalls, stalled = stalls + 1, stalled + now - runs_out
        got += whole
        if start is None and got * SEGMENT_S >= BEGIN_S:
            start = now
        if start is not None:
            ahead = start + stalled + got * SEGMENT_S - now
            time.sleep(max(0.0, ahead - AHEAD_S))
    print(json.dumps({"segments": got, "start_s": start, "stalls": stalls, "stalled_s": stalled}))


def watched(lab, at):
    argv = lab.argv("client", [sys.executable, os.path.abspath(__file__), at])
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


def video(raw, name, rounds=int(os.environ.get("ROUNDS", "3"))):
    path = os.path.join(raw, "lab-video.json")
    rows = []
    for repeat in range(rounds):
        for kind in gateways.KINDS:
            rows.append(gateways.one(kind, True, name, 3 + repeat, watched))
            print({k: v for k, v in rows[-1].items() if k != "gateways"}, flush=True)
            head = {"figure": "video", "segment_s": SEGMENT_S, "rate_mbps": RATE_MBPS, "of": SEGMENTS, "begin_s": BEGIN_S, "ahead_s": AHEAD_S, "patience_s": PATIENCE_S}
            gateways.write(path, head, rows)


if __name__ == "__main__":
    play(sys.argv[1])
