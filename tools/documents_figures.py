"""Gate of `tools/documents`: the table of experiments/README.md has every figure of the papers, and its rows lead somewhere.

- Each figure and table of each paper has one row; `Fig. 14a` and `Fig. 14b` are parts of one.
- The commands of a row exist: their script, and each of their words in a script of that folder. Pages and raw files are links, which `tools/documents` follows.
- `trustworthy runs` is what the raw files of the row say.
- A row without raw data claims nothing.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Last figure and last table of each paper.
LAST = {"OpenSN": (20, 4), "LEOTP": (19, 2), "EDT": (9, 0), "Swarm": (10, 3), "NIST Net": (8, 5)}
ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4}
HOLDS = {"yes", "partly", "no", "unknown", "drawing"}


def figures(words):
    """[(kind, number, part)] of `Table 1, Fig. 4`, `Figs 5 to 7` or `Tables I to III`."""
    found = []
    for kind, first, part, word, last in re.findall(r"\b(Fig|Table)s?\.? ([\dIV]+)([ab]?)(?: (to|and) ([\dIV]+))?", words):
        number = lambda text: ROMAN.get(text) or int(text)
        end = number(last) if last else number(first)
        found += [(kind, n, part) for n in (range(number(first), end + 1) if word == "to" else {number(first), end})]
    return found


def verdicts(document):
    """(trustworthy, all) of the verdicts in a raw file. Those of parts of a run, such as its flows, do not count again."""
    if isinstance(document, dict):
        verdict = document.get("verdict") if isinstance(document.get("verdict"), dict) else document
        if isinstance(verdict.get("trustworthy"), bool):
            return int(verdict["trustworthy"]), 1
        document = list(document.values())
    if isinstance(document, list):
        each = [verdicts(part) for part in document]
        return sum(good for good, _ in each), sum(every for _, every in each)
    return 0, 0


def command_fault(command, root):
    words = [word for word in command.split() if word not in ("python3", "cargo")]
    if command.startswith("cargo"):
        crates = re.findall(r"-p constel-(\w+)", command)
        return None if crates and all((root / "crates" / crate).is_dir() for crate in crates) else f"`{command}` names no crate"
    script = root / words[0]
    if not script.is_file():
        return f"`{words[0]}` is not there"
    own = [file for file in script.parent.iterdir() if file.is_file()]
    texts = "\n".join([file.read_text(errors="replace") for file in own if file.suffix in ("", ".py", ".mjs")] + [file.stem for file in own])
    is_known = lambda word: (root / word).exists() if "/" in word else re.search(rf"\b{re.escape(word.lstrip('-'))}\b", texts)
    unknown = [word for word in words[1:] if re.match(r"-*[a-z]", word) and not is_known(word)]
    return f"no script of {script.parent.relative_to(root)} has {', '.join(unknown)}" if unknown else None


def row_faults(cells, page, root):
    figure, _, command, raw, runs, holds, _ = cells
    yield from filter(None, (command_fault(one, root) for one in re.findall(r"`([^`]+)`", command)))
    if holds not in HOLDS:
        yield f"`{holds}` is not one of {', '.join(sorted(HOLDS))}"
    files = [page.parent / link for link in re.findall(r"\]\(([^)]*\.json)\)", raw)]
    if not files and holds not in ("drawing", "unknown") and not raw.startswith("none: "):
        yield "claims a result without a raw file"
    counts = [verdicts(json.loads(file.read_text())) for file in files if file.exists()]
    good, every = sum(n for n, _ in counts), sum(n for _, n in counts)
    want = f"{good} of {every}" if every else "no verdicts" if files else ""
    if not (runs == want or every == 0 and files and runs.startswith(want)):
        yield f"trustworthy runs are `{want}` by the raw files, not `{runs}`"


def faults(root=ROOT, last=LAST):
    page = root / "experiments/README.md"
    lines = page.read_text().splitlines()
    begin, end = lines.index("<!-- figures -->") + 3, lines.index("<!-- end of figures -->")
    seen = {}
    for number in range(begin, end):
        cells = [cell.strip() for cell in lines[number].strip().strip("|").split("|")]
        where = f"experiments/README.md:{number + 1}"
        if len(cells) != 7:
            yield f"{where}: {len(cells)} cells, not 7"
            continue
        paper = next((name for name in last if cells[0].startswith(name + " ")), None)
        if paper is None:
            yield f"{where}: `{cells[0]}` begins with no paper's short name"
            continue
        for figure in figures(cells[0]):
            if (paper, *figure) in seen:
                yield f"{where}: {paper} {' '.join(map(str, figure)).strip()} is in line {seen[paper, *figure]} too"
            seen[paper, *figure] = number + 1
        yield from (f"{where}: {cells[0].split(']')[0].replace('[', '')}: {fault}" for fault in row_faults(cells, page, root))
    for paper, (last_figure, last_table) in last.items():
        for kind, end_of in (("Fig", last_figure), ("Table", last_table)):
            for n in range(1, end_of + 1):
                if not any((paper, kind, n, part) in seen for part in ("", "a", "b")):
                    yield f"experiments/README.md: {paper} has no row for {kind} {n}"
