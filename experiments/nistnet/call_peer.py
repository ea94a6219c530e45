"""One end of a call by WebRTC (aiortc), as a process: its offer or answer goes by files in a folder.

call_peer.py FOLDER offer|answer SECONDS FILE.wav
"""

import asyncio
import json
import sys
from pathlib import Path

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.contrib.media import MediaBlackhole, MediaPlayer


async def wait_for(file):
    while not file.exists():
        await asyncio.sleep(0.05)
    return RTCSessionDescription(**json.loads(file.read_text()))


def give(file, description):
    part = file.with_suffix(".part")
    part.write_text(json.dumps(dict(sdp=description.sdp, type=description.type)))
    part.rename(file)


async def main():
    folder, role, seconds, sound = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    sink = MediaBlackhole()
    peer.on("track", sink.addTrack)
    connected = asyncio.Event()

    @peer.on("connectionstatechange")
    def changed():
        if peer.connectionState == "connected":
            connected.set()

    peer.addTrack(MediaPlayer(sound, loop=True).audio)
    if role == "offer":
        await peer.setLocalDescription(await peer.createOffer())
        give(folder / "offer.json", peer.localDescription)
        await peer.setRemoteDescription(await wait_for(folder / "answer.json"))
    else:
        await peer.setRemoteDescription(await wait_for(folder / "offer.json"))
        await peer.setLocalDescription(await peer.createAnswer())
        give(folder / "answer.json", peer.localDescription)
    await sink.start()
    await asyncio.wait_for(connected.wait(), 20)
    await asyncio.sleep(seconds)
    stats = await peer.getStats()
    kept = {}
    for report in stats.values():
        row = {key: value for key, value in vars(report).items() if isinstance(value, (int, float, str))}
        kept[report.type] = row
    print(json.dumps(kept))
    await peer.close()


asyncio.run(main())
