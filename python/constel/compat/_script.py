"""Runs a script that was written for another emulator, with a shim in that emulator's place."""

import importlib
import sys


def main(shim: str) -> None:
    """Runs the script of the command line by `run_script` of `constel.compat.SHIM`. Ends the program with a usage line if
    no script is given."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: python -m constel.compat.{shim} SCRIPT [ARGUMENT...]")
    # The script gets its own arguments.
    sys.argv = sys.argv[1:]
    # This program is a second copy of that module, which scripts would not get.
    importlib.import_module(f"constel.compat.{shim}").run_script(sys.argv[0])
