#!/usr/bin/env python3
"""Fetches files by FTP, one after the other: for each line `ADDRESS PORT BYTES LIMIT` of its input, one of JSON of what it took."""

import ftplib
import json
import sys
import time


def fetch(address, port, size, limit):
    """Seconds that data flow, as FTP clients count them: from the server's word that they come to the last byte."""
    ftp = ftplib.FTP(timeout=limit)
    got, room = 0, bytearray(1 << 20)
    try:
        ftp.connect(address, port)
        ftp.login()
        ftp.voidcmd("TYPE I")
        with ftp.transfercmd(f"RETR {size}") as data:
            begin = last = time.monotonic()
            while count := data.recv_into(room):
                got += count
                last = time.monotonic()
                if last - begin > limit:
                    raise TimeoutError(f"not within {limit} s")
        if got == size:
            return dict(seconds=round(last - begin, 4))
        return dict(error=f"{got} of {size} bytes came", got=got)
    except (OSError, EOFError, ftplib.Error) as error:
        return dict(error=repr(error), got=got)
    finally:
        ftp.close()


for line in sys.stdin:
    address, *numbers = line.split()
    print(json.dumps(fetch(address, *map(int, numbers))), flush=True)
