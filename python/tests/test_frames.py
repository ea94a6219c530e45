"""Frames: what goes in comes out, by every door."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import arrow_reader
import constel

COLUMNS = {
    "n": ("integer", [1, None, -(2**63), 2**63 - 1]),
    "x": ("float", [0.5, -1e300, None, 0.0]),
    "up": ("bool", [True, False, None, True]),
    "name": ("text", ["", "São", None, "a\nb"]),
}


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


class Frames(unittest.TestCase):
    def test_what_goes_in_comes_out(self) -> None:
        frame = constel.Frame.of(COLUMNS)  # type: ignore[arg-type]
        values = {name: values for name, (_, values) in COLUMNS.items()}
        self.assertEqual(frame.to_dict(), values)
        self.assertEqual(list(frame.rows())[1], {"n": None, "x": -1e300, "up": False, "name": "São"})
        self.assertEqual(frame.kinds, {name: kind for name, (kind, _) in COLUMNS.items()})
        self.assertEqual(arrow_reader.read(frame), values)

    def test_columns_of_any_length_and_without_rows(self) -> None:
        chance = random.Random(7)
        for rows in (0, 1, 7, 8, 9, 64, 1000):
            some = [chance.choice([None, True, False]) for _ in range(rows)]
            texts = [chance.choice(["a", "", "bcd"]) for _ in range(rows)]
            frame = constel.Frame.of({"b": ("bool", some), "t": ("text", texts)})
            self.assertEqual(arrow_reader.read(frame), {"b": some, "t": texts})

    def test_it_may_be_read_twice_and_after_the_frame_is_gone(self) -> None:
        frame = constel.Frame.of({"n": ("integer", list(range(10_000)))})
        frame.__arrow_c_stream__()  # Taken by nobody.
        self.assertEqual(arrow_reader.read(frame), arrow_reader.read(frame))

        class Taken:
            def __init__(self) -> None:
                self.capsule = constel.Frame.of({"n": ("integer", list(range(10_000)))}).__arrow_c_stream__()

            def __arrow_c_stream__(self) -> object:
                return self.capsule

        self.assertEqual(arrow_reader.read(Taken())["n"], list(range(10_000)))

    def test_what_is_wrong_is_refused(self) -> None:
        for columns in (
            {"a": ("integer", [1]), "b": ("integer", [1, 2])},
            {"a": ("number", [1])},
            {"a": ("integer", ["x"])},
            {"a": ("integer", [2**63])},
            {"a\0": ("integer", [1])},
        ):
            with self.assertRaises((ValueError, TypeError, OverflowError)):
                constel.Frame.of(columns)  # type: ignore[arg-type]
        with self.assertRaises(KeyError):
            constel.Frame.of({})["a"]

    def test_a_long_frame_prints_its_first_rows(self) -> None:
        text = repr(constel.Frame.of({"n": ("integer", list(range(99)))}))
        self.assertTrue(text.startswith("99 rows\nn\n0\n1\n"), text)
        self.assertTrue(text.endswith("and 89 more"), text)

    @unittest.skipUnless(installed("polars", "pandas", "pyarrow"), "polars, pandas and pyarrow are not installed")
    def test_polars_pandas_and_pyarrow_read_the_same(self) -> None:
        import pyarrow

        frame = constel.Frame.of(COLUMNS)  # type: ignore[arg-type]
        self.assertEqual(frame.to_polars().to_dict(as_series=False), frame.to_dict())
        self.assertEqual(pyarrow.table(frame).to_pydict(), frame.to_dict())
        self.assertEqual(list(frame.to_pandas()["name"].isna()), [False, False, True, False])

    def test_importing_it_imports_no_library_of_frames(self) -> None:
        code = "import sys, constel; sys.exit(any(m in sys.modules for m in ('pandas', 'polars', 'pyarrow', 'numpy')))"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
