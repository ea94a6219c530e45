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

    def test_rows_and_columns_are_chosen_as_in_any_table(self) -> None:
        frame = constel.Frame.of({"n": ("integer", list(range(20))), "name": ("text", [None, "São"] * 10)})
        self.assertEqual(frame.shape, (20, 2))
        self.assertEqual(frame.head()["n"], [0, 1, 2, 3, 4])
        self.assertEqual((frame.head(-18)["n"], frame.head(0).shape), ([0, 1], (0, 2)))
        self.assertEqual(frame.tail(3)["n"], [17, 18, 19])
        self.assertEqual((frame.tail(-18)["n"], frame.tail(0).shape, frame.tail(99).shape), ([18, 19], (0, 2), (20, 2)))
        self.assertEqual(frame[3:7:2].to_dict(), {"n": [3, 5], "name": ["São", "São"]})
        self.assertEqual(frame[::-1]["n"][:2], [19, 18])
        self.assertEqual(frame.part(18, 5)["n"], [18, 19])
        self.assertEqual((frame[1], frame[-2]), ({"n": 1, "name": "São"}, {"n": 18, "name": None}))
        self.assertEqual([row["n"] for row in frame], list(range(20)))
        self.assertEqual(list(frame)[1], {"n": 1, "name": "São"})
        self.assertEqual(frame[["name"]].columns, ["name"])
        self.assertTrue("n" in frame and "m" not in frame)
        # What was chosen is a table like any other.
        self.assertEqual(arrow_reader.read(frame[5:8]), {"n": [5, 6, 7], "name": ["São", None, "São"]})
        for wrong in (20, -21):
            with self.assertRaises(IndexError):
                frame[wrong]
        with self.assertRaises(KeyError):
            frame[["n", "m"]]

    def test_rows_are_filtered_by_a_mask_or_by_values(self) -> None:
        frame = constel.Frame.of(COLUMNS)  # type: ignore[arg-type]
        mask = [x is not None for x in frame["x"]]
        self.assertEqual(frame.filter(mask)["x"], [0.5, -1e300, 0.0])
        self.assertEqual(frame[mask].to_dict(), frame.filter(mask).to_dict())
        self.assertEqual(frame.filter(frame["up"])["n"], [1, 2**63 - 1], "a missing value selects nothing")
        self.assertEqual(frame.filter(up=True, name="")["n"], [1])
        self.assertEqual(frame.filter(mask, up=False)["x"], [-1e300])
        self.assertEqual(frame.filter([False] * 4).shape, (0, 4))
        self.assertEqual(frame.filter([False] * 4).kinds, frame.kinds)
        for wrong in ([True], [1, 0, 1, 0], ["a", "b", "c", "d"]):
            with self.assertRaises(ValueError):
                frame.filter(wrong)  # type: ignore[arg-type]
        with self.assertRaises(KeyError):
            frame.filter(colour="red")

    @unittest.skipUnless(installed("numpy"), "numpy is not installed")
    def test_a_mask_of_numpy(self) -> None:
        import numpy

        frame = constel.Frame.of({"n": ("integer", [1, 2, 3])})
        self.assertEqual(frame[numpy.array(frame["n"]) > 1]["n"], [2, 3])
        self.assertEqual(frame[numpy.int64(1)], {"n": 2})

    def test_units_are_in_the_schema(self) -> None:
        kinds = {"t_s": "float", "delay_ns": "integer", "rate_bps": "float", "hops": "integer", "station": "text"}
        frame = constel.Frame.of_rows(kinds, [])  # type: ignore[arg-type]
        self.assertEqual(frame.units, {"t_s": "s", "delay_ns": "ns", "rate_bps": "bit/s"})
        self.assertEqual(arrow_reader.units(frame), frame.units)

    def test_a_notebook_shows_a_table(self) -> None:
        frame = constel.Frame.of({"delay_ns": ("integer", list(range(99))), "<name>": ("text", ["a & b"] * 99)})
        page = frame._repr_html_()
        self.assertIn("<th>delay_ns<br><small>ns</small></th>", page)
        self.assertIn("<th>&lt;name&gt;<br><small>text</small></th>", page)
        self.assertEqual(page.count("<td>a &amp; b</td>"), 10)
        self.assertIn("99 rows, 2 columns", page)

    @unittest.skipUnless(installed("polars", "pandas", "pyarrow"), "polars, pandas and pyarrow are not installed")
    def test_polars_pandas_and_pyarrow_read_the_same(self) -> None:
        import pyarrow

        frame = constel.Frame.of(COLUMNS)  # type: ignore[arg-type]
        self.assertEqual(frame.to_polars().to_dict(as_series=False), frame.to_dict())
        self.assertEqual(pyarrow.table(frame).to_pydict(), frame.to_dict())
        self.assertEqual(list(frame.to_pandas()["name"].isna()), [False, False, True, False])
        units = pyarrow.table(constel.Frame.of({"delay_ns": ("integer", [1])})).schema.field("delay_ns").metadata
        self.assertEqual(units, {b"unit": b"ns"})

    def test_importing_it_imports_no_library_of_frames(self) -> None:
        code = "import sys, constel; sys.exit(any(m in sys.modules for m in ('pandas', 'polars', 'pyarrow', 'numpy')))"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
