#!/usr/bin/env python3
"""Writes the tables of the pages from raw/*.json, between `<!-- table SCRIPT RAW -->` and `<!-- end -->`: what `SCRIPT --table raw/RAW.json` prints.

    experiments/machines/report.py [--check]     --check: changes nothing, exit code 1 where a table is not that of its data
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = re.compile(r"<!-- table ([^>]*?) -->\n.*?<!-- end -->", re.S)


def made(match):
    script, raw = match.group(1).split()
    command = [sys.executable, "-B", str(HERE / script), "--table", str(HERE / f"raw/{raw}.json")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return f"<!-- table {script} {raw} -->\n{text.strip()}\n<!-- end -->"


def main():
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text()
        new = TABLE.sub(made, text)
        if "--check" in sys.argv and new != text:
            sys.exit(f"report: {page.name} is not that of the raw data; run experiments/machines/report.py")
        if new != text:
            page.write_text(new)


if __name__ == "__main__":
    main()
