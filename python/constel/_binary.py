"""Finds the program `constel`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from .errors import ConstelError


def find_binary() -> str:
    """Returns the path of the program `constel`: `$CONSTEL`, or the program installed with this package, or the one on the
    PATH.

    Raises `ConstelError` if the binary is missing.
    """
    given = os.environ.get("CONSTEL")
    if given:
        return given
    places = [sysconfig.get_path("scripts")]
    # `pip install --user` and `--target`.
    user = sysconfig.get_preferred_scheme("user")
    places.append(sysconfig.get_path("scripts", scheme=user))
    package = Path(__file__).resolve().parent
    places += [str(package.parent / "bin"), str(Path(sys.executable).parent)]
    for place in places:
        program = os.path.join(place, "constel")
        if os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    found = shutil.which("constel")
    if found:
        return found
    looked = ", ".join(dict.fromkeys(places))
    raise ConstelError(f"there is no program `constel` in {looked}, nor on the PATH; CONSTEL may name one")
