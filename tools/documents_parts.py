"""The parts of `experiments/run` (`experiments/parts.toml`): gate of `tools/documents`, and which raw files are older than what they measure.

- Commands and measured paths exist, and each raw file belongs to one part at most.
- Each raw file and each command of the table in experiments/README.md belongs to a part.

A raw file is *old* if a commit after the one of its run has changed a path that it measures. The commit of its run is its own `commit`; a file without one, or with one that this
repository lacks, counts from the commit that last changed the file. Old files are listed (`experiments/run --old`) and refuse nothing. Most changes
of code leave figures as they are, and runs take a night. A gate that refused would be passed by writing files again instead of measuring again.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import documents_figures

ROOT = Path(__file__).resolve().parents[1]
KEYS = {"command", "raw", "measures", "each", "minutes", "needs", "guest"}


def parts(root=ROOT):
    """{name: part}, each with `command`, `raw` (globs), `measures` (paths), `guest`, `minutes` (or None) and `needs`."""
    document = tomllib.loads((root / "experiments/parts.toml").read_text())
    sets, found = document.pop("sets", {}), {}
    for pattern, told in document.items():
        if unknown := set(told) - KEYS:
            raise ValueError(f"{pattern}: {', '.join(sorted(unknown))}: not one of {', '.join(sorted(KEYS))}")
        for word in told.get("each", [""]):
            own = lambda key: told[key].get(word) if isinstance(told.get(key), dict) else told.get(key)
            found[pattern.replace("{}", word)] = {
                "command": told["command"].replace("{}", word),
                "raw": [path.replace("{}", word) for path in told["raw"]],
                "measures": [path for name in told["measures"] for path in sets.get(name, [name])],
                "minutes": own("minutes"),
                "guest": told.get("guest", False),
                "needs": own("needs"),
            }
    return found


def files_of(part, root=ROOT):
    return sorted(file for glob in part["raw"] for file in root.glob(glob))


def git(root, *words):
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.strip()


def run_commit(file, root=ROOT):
    """The commit of a raw file's run; an empty string if it was never committed."""
    document = json.loads(file.read_text())
    own = str(document.get("commit", "")).removesuffix("-dirty") if isinstance(document, dict) else ""
    if own and subprocess.run(["git", "merge-base", "--is-ancestor", own, "HEAD"], cwd=root, capture_output=True).returncode == 0:
        return own
    return git(root, "log", "-1", "--format=%h", "--", str(file))


def old(part, root=ROOT):
    """[(raw file, commit of its run, number of commits since that changed what it measures)]."""
    found = []
    for file in files_of(part, root):
        if commit := run_commit(file, root):
            since = git(root, "rev-list", "--no-merges", "--count", f"{commit}..HEAD", "--", *part["measures"])
            if int(since or 0):
                found.append((file, commit, int(since)))
    return found


def faults(root=ROOT):
    where = "experiments/parts.toml"
    try:
        all_parts = parts(root)
    except (ValueError, KeyError) as error:
        yield f"{where}: {error}"
        return
    owner = {}
    for name, part in all_parts.items():
        if fault := documents_figures.command_fault(part["command"], root):
            yield f"{where}: {name}: {fault}"
        yield from (f"{where}: {name}: measures {path}, which is not there" for path in part["measures"] if not (root / path).exists())
        for file in files_of(part, root):
            if file in owner:
                yield f"{where}: {name}: {file.relative_to(root)} is of {owner[file]} too"
            owner[file] = name
    page = root / "experiments/README.md"
    table = page.read_text().partition("<!-- figures -->")[2].partition("<!-- end of figures -->")[0]
    for link in sorted(set(re.findall(r"\]\(([^)]*\.json)\)", table))):
        if (page.parent / link).exists() and (page.parent / link).resolve() not in owner:
            yield f"{where}: no part makes {link} of experiments/README.md"
