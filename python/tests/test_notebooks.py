"""The tutorials in docs/notebooks: each is executed in a fresh kernel, in an empty folder, and its outputs are those that are kept with it,
numbers aside. The notebooks assert their numbers themselves.

CONSTEL_BLESS=1 keeps the output, pictures included.
"""

from __future__ import annotations

import os
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
LIMIT_S = 240


def shown(output: Any) -> tuple[str, str]:
    """An output's kind, and its text as far as it is the same at each run."""
    if output.output_type == "stream":
        return output.name, bare(output.text)
    kinds = sorted(output.data)
    text = "" if "image/png" in kinds else bare(output.data["text/plain"])
    return ",".join(kinds), text


def bare(text: str) -> str:
    """Without numbers and the widths of columns."""
    return re.sub(r" +", " ", re.sub(r"-?\d+(\.\d+)?(e[+-]\d+)?", "#", text)).strip()


class Notebooks(unittest.TestCase):
    maxDiff = None

    def one(self, path: Path) -> None:
        kept = nbformat.read(path, 4)
        if kept.metadata.constel.root and os.geteuid() != 0:
            self.skipTest("labs need root")
        ran = nbformat.read(path, 4)
        for cell in ran.cells:
            if cell.cell_type == "code":
                cell.outputs = []
        # Small pictures: they are kept in the repository.
        look = "%config InlineBackend.rc = {'figure.dpi': 60, 'figure.figsize': (7, 3.5)}\n%matplotlib inline"
        ran.cells.insert(0, nbformat.v4.new_code_cell(look, id="look"))
        with tempfile.TemporaryDirectory() as folder:
            client = NotebookClient(ran, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": folder}})
            client.execute()
        del ran.cells[0]
        for cell in ran.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":
                cell.execution_count = None
                for output in cell.outputs:
                    if "execution_count" in output:
                        output.execution_count = None
        if os.environ.get("CONSTEL_BLESS"):
            ran.metadata.language_info = {"name": "python"}
            nbformat.write(ran, path)
            return
        for then, now in zip(kept.cells, ran.cells):
            if then.cell_type == "code":
                self.assertEqual([shown(o) for o in now.outputs], [shown(o) for o in then.outputs], then.source)

    def test_there_are_notebooks(self) -> None:
        self.assertGreaterEqual(len(list(FOLDER.glob("*.ipynb"))), 4)


def _add(path: Path) -> None:
    setattr(Notebooks, f"test_{path.stem.replace('-', '_')}", lambda self: self.one(path))


for _path in sorted(FOLDER.glob("*.ipynb")):
    _add(_path)

if __name__ == "__main__":
    unittest.main()
