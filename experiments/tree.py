"""The tree that runs are of."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commit(*watched):
    """The commit, with `-dirty` where a crate or one of these folders is not as committed. Programs may be newer."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "crates", *watched) else "")
