"""An FTP server and client of a few lines: passive mode, binary, one congestion control for all data."""

import ftplib
import socket
import threading
import time

TCP_CONGESTION = 13
BLOCK = bytes(64 << 10)


def control(sock, name):
    sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())


def serve(host, port, data_port, congestion):
    """Serves files of zeros, called by their length in bytes, until the process ends."""
    listener = socket.create_server((host, port), backlog=64)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=session, args=(peer, host, data_port, congestion), daemon=True).start()


def session(peer, host, data_port, congestion):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    say = lambda text: peer.sendall(text.encode() + b"\r\n")
    passive = None
    say("220 ready")
    for line in peer.makefile("r", newline="\r\n"):
        verb, _, rest = line.strip().partition(" ")
        if verb == "USER":
            say("331 name taken")
        elif verb == "PASS":
            say("230 welcome")
        elif verb == "TYPE":
            say("200 binary")
        elif verb == "PASV":
            passive = passive or socket.create_server((host, data_port), backlog=8)
            a = host.replace(".", ",")
            say(f"227 ({a},{data_port >> 8},{data_port & 255})")
        elif verb == "RETR":
            data, _ = passive.accept()
            control(data, congestion)
            say("150 here it comes")
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
    peer.close()
    if passive:
        passive.close()


def fetch(host, port, size):
    """Seconds that data flow, as FTP clients count them: from the server's word that they come to the last byte."""
    ftp = ftplib.FTP(timeout=120)
    ftp.connect(host, port)
    ftp.login("user", "pass")
    ftp.voidcmd("TYPE I")
    got = 0
    data = ftp.transfercmd(f"RETR {size}")
    begin = time.monotonic()
    while block := data.recv(1 << 20):
        got += len(block)
    seconds = time.monotonic() - begin
    data.close()
    ftp.voidresp()
    ftp.quit()
    if got != size:
        raise ValueError(f"{got} of {size} bytes came")
    return seconds
