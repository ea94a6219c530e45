"""Ends of TCP connections for tests of the gateway: peer.py WHAT PORT [HOST]; clients print a JSON object."""

import hashlib
import json
import random
import socket
import struct
import sys
import threading
import time

what, port = sys.argv[1], int(sys.argv[2])


def read_all(connection):
    digest = hashlib.sha256()
    while data := connection.recv(65536):
        digest.update(data)
    return digest.hexdigest()


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def serve(each):
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))
    listener.listen(64)
    while True:
        connection, address = listener.accept()
        threading.Thread(target=each, args=(connection, address[0]), daemon=True).start()


def answer(connection, address, pause=0.0):
    time.sleep(pause)
    digest = read_all(connection)
    seen = address.removeprefix("::ffff:")
    connection.sendall(json.dumps({"digest": digest, "seen": seen}).encode())
    connection.close()


def connect():
    return socket.create_connection((sys.argv[3], port), timeout=40)


def upload(before=None):
    connection, digest, extra = connect(), hashlib.sha256(), {}
    if before is not None:
        # As much as goes without the server reading any of it.
        block, count, end = bytes(65536), 0, time.monotonic() + before
        connection.setblocking(False)
        while time.monotonic() < end:
            try:
                sent = connection.send(block)
                digest.update(block[:sent])
                count += sent
            except BlockingIOError:
                time.sleep(0.01)
        connection.settimeout(40)
        extra = {"before": count}
    data = random.Random(7).randbytes(3_000_000)
    digest.update(data)
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    answer_ = b""
    while part := connection.recv(65536):
        answer_ += part
    print(json.dumps(json.loads(answer_) | {"sent": digest.hexdigest()} | extra))


def expect_reset():
    try:
        connection = connect()
        connection.sendall(b"x")
        while connection.recv(1):
            pass
        print(json.dumps({"reset": False}))
    except ConnectionResetError:
        print(json.dumps({"reset": True}))


def hold_many():
    held = []
    for _ in range(20):
        try:
            connection = connect()
            connection.sendall(b"x")
            if connection.recv(1) == b"x":
                held.append(connection)
        except ConnectionResetError:
            pass
    print(json.dumps({"open": len(held)}))


def echo(connection, _):
    while data := connection.recv(65536):
        connection.sendall(data)


match what:
    case "digest":
        serve(answer)
    case "slow":
        serve(lambda c, a: answer(c, a, 2.5))
    case "reset":
        serve(lambda c, _: (c.recv(1), reset(c)))
    case "hold":
        serve(echo)
    case "upload":
        upload()
    case "fill":
        upload(2.0)
    case "expect-reset":
        expect_reset()
    case "hold-many":
        hold_many()
    case _:
        sys.exit(f"{what}?")
