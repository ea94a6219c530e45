#!/usr/bin/env python3
"""An FTP server of a few lines, whose data go by a congestion control of choice: passive mode, files of zeros called by their length.

experiments/nistnet/ftp.py CONGESTION ADDRESS:PORT...      until its standard input ends
"""

import socket
import sys
import threading

TCP_CONGESTION = 13
BLOCK = bytes(64 << 10)


def serve(host, port, congestion):
    listener = socket.create_server((host, port), backlog=64)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=session, args=(peer, host, congestion, port), daemon=True).start()


def passive_listener(host, port):
    """On one of the cell's data ports."""
    for data_port in range(port + 1, port + 9):
        try:
            return socket.create_server((host, data_port), backlog=1), data_port
        except OSError:
            continue
    raise RuntimeError(f"no data port is free behind {port}")


def session(peer, host, congestion, port):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    say = lambda text: peer.sendall(text.encode() + b"\r\n")
    listener = None
    say("220 ready")
    try:
        for line in peer.makefile("r", newline="\r\n"):
            verb, _, rest = line.strip().partition(" ")
            if verb == "USER":
                say("331 name taken")
            elif verb == "PASS":
                say("230 welcome")
            elif verb in ("TYPE", "CWD"):
                say("200 so be it")
            elif verb == "PWD":
                say('257 "/"')
            elif verb == "SIZE":
                say(f"213 {int(rest)}")
            elif verb == "PASV":
                listener, data_port = passive_listener(host, port)
                say(f"227 ({host.replace('.', ',')},{data_port >> 8},{data_port & 255})")
            elif verb == "RETR":
                data, _ = listener.accept()
                listener.close()
                data.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, congestion.encode())
                say(f"150 {int(rest)} bytes")
                left = int(rest)
                while left:
                    left -= data.send(BLOCK[:min(left, len(BLOCK))])
                data.close()
                say("226 done")
            elif verb == "QUIT":
                say("221 bye")
                break
            else:
                say("502 no such thing")
    except OSError:
        # Whoever fetched has gone.
        pass
    finally:
        peer.close()
        if listener:
            listener.close()


if __name__ == "__main__":
    for own in sys.argv[2:]:
        address, port = own.split(":")
        threading.Thread(target=serve, args=(address, int(port), sys.argv[1]), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
