"""`tools/documents --self-test`: what the gates of numbers, of the table of figures and of parts refuse, and what they accept."""

import json
import subprocess
import tempfile
from pathlib import Path

import documents_figures
import documents_numbers
import documents_parts

TABLE = "<!-- table udp -->\n| n | loss, % | rate, Mbit/s |\n|---|---|---|\n| 12 | 3.46 | 94.52 |\n<!-- end -->\n"
# A text after the table, and the numbers of it that are refused.
TEXTS = [
    ("A loss of 3.46 % at 94.5 Mbit/s.", []),
    ("A loss of 3.4 %.", ["3.4"]),
    ("A rate of 95.5 Mbit/s, of 3 nodes.", ["95.5"]),
    ("94.5 % are lost.", ["94.5"]),
    ("It has 77 (paper: 78), as Fig. 79 and `80` say.", ["77"]),
    ("## Another section\n\nA rate of 94.5 Mbit/s.", ["94.5"]),
    ("## Another section\n\nA rate of 94.5 Mbit/s ([udp](raw/udp.json)).", []),
    ("## Another section\n\n| claim | the paper | here |\n|---|---|---|\n| a | 55 | 56 |", ["56"]),
]
EXCUSES = [
    ({}, ["line 9: 77"]),
    ({"experiments/a/page.md": {"settings": "77"}}, []),
    ({"experiments/a/page.md": {"settings": "77 78"}}, ["no excuse for 78"]),
    ({"experiments/a/page.md": {"computed": ["77 = 100 * 3.46 / 4.50"]}}, ["which the tables lack"]),
    ({"experiments/a/page.md": {"computed": ["77 = 94.52 - 3.46"]}}, ["is 91.06"]),
    ({"unchecked": {"experiments/a/page.md": "later"}}, []),
    ({"unchecked": {"experiments/a/page.md": "later"}, "experiments/a/page.md": {"settings": "77"}}, ["take it from `unchecked`"]),
]
ROW = "| Swarm [Fig. 1](a/page.md) | it | `experiments/a/run udp` | [udp](a/raw/udp.json) | 1 of 2 | partly | none |"
ROWS = [
    (ROW, ""),
    (ROW.replace("1 of 2", "2 of 2"), "trustworthy runs are `1 of 2`"),
    (ROW.replace("a/run udp", "a/walk udp"), "is not there"),
    (ROW.replace("run udp", "run tcp"), "has tcp"),
    (ROW.replace("partly", "mostly"), "is not one of"),
    (ROW.replace("[udp](a/raw/udp.json) | 1 of 2", "no data yet | "), "without a raw file"),
    (ROW + "\n" + ROW, "is in line 4 too"),
    (ROW.replace("Fig. 1", "Fig. 2"), "no row for Fig 1"),
]


PART = '[udp]\ncommand = "experiments/a/run udp"\nraw = ["experiments/a/raw/*.json"]\nmeasures = ["code"]\n'
PARTS = [
    (PART, ""),
    (PART.replace("a/run", "a/walk"), "is not there"),
    (PART.replace('"code"', '"other"'), "measures other, which is not there"),
    (PART.replace("*.json", "*.csv"), "no part makes a/raw/udp.json"),
    (PART + PART.replace("[udp]", "[again]"), "is of udp too"),
    (PART + "hours = 2\n", "hours: not one of"),
    (PART.replace("udp", "{}").replace("[{}]", '["{}"]\neach = ["udp"]'), ""),
]


def expect(what, found, parts):
    if len(found) != len(parts) or not all(part in text if isinstance(part, str) else part == text for part, text in zip(parts, found)):
        raise SystemExit(f"documents: self-test: {what}: expected {parts}, got {found}")


def ages(root, file):
    """A raw file is old as soon as what it measures has changed after its run, also where the file was written again since."""
    git = lambda *words: subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()
    kept = lambda message: git("add", "-A") + git("commit", "-q", "-m", message) + git("rev-parse", "--short", "HEAD")
    (root / "experiments/parts.toml").write_text(PART)
    part = documents_parts.parts(root)["udp"]
    since = lambda: [number for _, _, number in documents_parts.old(part, root)]
    git("init", "-q")
    first = kept("measured")
    expect("a run", since(), [])
    (root / "code").write_text("2")
    kept("changed")
    expect("a change", since(), [1])
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "more": 1}))
    kept("written again without a commit of its own")
    expect("no commit", since(), [])
    file.write_text(json.dumps({**document, "commit": first}))
    kept("with the commit of its run")
    expect("its own commit", since(), [1])


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        here = root / "experiments/a"
        (here / "raw").mkdir(parents=True)
        (here / "raw/udp.json").write_text(json.dumps({"rows": [{"verdict": {"trustworthy": True}, "flow": {"trustworthy": False}}, {"trustworthy": False}]}))
        (here / "run").write_text("PARTS = ['udp']")
        page = here / "page.md"
        for text, refused in TEXTS:
            page.write_text(f"# A\n\n## One\n\n{TABLE}\n{text}\n")
            expect(text, [token for _, token in documents_numbers.lacking(page, documents_numbers.tables_of_raw(root))], refused)
        # Of a folder without generated tables.
        bare = root / "experiments/b/page.md"
        (bare.parent / "raw").mkdir(parents=True)
        (bare.parent / "raw/t.json").write_text(json.dumps({"wait_ns": {"p50": 1_500_000}, "lost_ratio": 0.125}))
        bare.write_text("It took 1.50 ms, not 1.60 ms, and 12.5 % were lost ([t](raw/t.json)).\n")
        expect("raw file", [token for _, token in documents_numbers.lacking(bare, documents_numbers.tables_of_raw(root))], ["1.60"])
        bare.unlink()
        page.write_text(f"# A\n\n{TABLE}\nIt is 77.\n")
        for excuses, refused in EXCUSES:
            found = [fault.replace("page.md:9", "line 9") for fault in documents_numbers.faults(root, excuses)]
            expect(excuses, found, refused)
        for rows, refused in ROWS:
            (root / "experiments/README.md").write_text(f"<!-- figures -->\n| a |\n|---|\n{rows}\n<!-- end of figures -->\n")
            faults = [fault for fault in documents_figures.faults(root, {"Swarm": (1, 0)})]
            expect(rows, faults, [refused] if refused else [])
        (root / "experiments/README.md").write_text(f"<!-- figures -->\n| a |\n|---|\n{ROW}\n<!-- end of figures -->\n")
        (root / "code").write_text("1")
        for text, refused in PARTS:
            (root / "experiments/parts.toml").write_text(text)
            expect(text, list(documents_parts.faults(root)), [refused] if refused else [])
        ages(root, here / "raw/udp.json")
    return 0
