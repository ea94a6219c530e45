"""Tables: columns with names, for any library that reads Arrow and for plain Python."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ._native import Table

if TYPE_CHECKING:
    import pandas
    import polars

Kind = Literal["integer", "float", "bool", "text"]

_SHOWN = 10


class Frame:
    """Columns of equal length. Units are part of the columns' names: `delay_ns`, `x_m`, `rate_bps`; `t_s` is lab time.

    `__arrow_c_stream__` exports the columns to polars, pyarrow, pandas, DuckDB and others without a copy:
    `polars.DataFrame(frame)`, `pyarrow.table(frame)`. These libraries are optional: `frame["delay_ns"]` is a list, and `for
    row in frame.rows()` yields dictionaries.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    @classmethod
    def of(cls, columns: Mapping[str, tuple[Kind, Sequence[Any]]]) -> Frame:
        """Returns a frame of `{name: (kind, values)}`; `None` is a missing value."""
        return cls(Table.of([(name, kind, list(values)) for name, (kind, values) in columns.items()]))

    @classmethod
    def of_rows(cls, kinds: Mapping[str, Kind], rows: Iterable[Mapping[str, Any]]) -> Frame:
        """Returns a frame of rows; missing keys are missing values, and keys that are not in `kinds` are ignored."""
        rows = list(rows)
        return cls.of({name: (kind, [row.get(name) for row in rows]) for name, kind in kinds.items()})

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._table.schema]

    @property
    def kinds(self) -> dict[str, str]:
        """The type of each column: `integer`, `float`, `bool` or `text`."""
        return dict(self._table.schema)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> list[Any]:
        """Returns a column as a list; `None` is a missing value."""
        return self._table.column(name)

    def part(self, first: int, rows: int) -> Frame:
        """Returns `rows` rows, from row `first` on."""
        return Frame.of({name: (kind, self._table.column(name, first, rows)) for name, kind in self.kinds.items()})  # type: ignore[misc]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dictionaries."""
        names = self.columns
        for first in range(0, len(self), 4096):
            columns = [self._table.column(name, first, 4096) for name in names]
            for values in zip(*columns):
                yield dict(zip(names, values))

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns all columns as lists."""
        return {name: self[name] for name in self.columns}

    def to_csv(self, path: str | Path) -> None:
        """Writes the frame as CSV; a missing value is an empty cell."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(self.columns)
            out.writerows(row.values() for row in self.rows())

    def to_polars(self) -> polars.DataFrame:
        """Returns a frame of polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a frame of pandas, which must be installed. With pyarrow no Python object is made for each value."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            return pandas.DataFrame(self.to_dict(), columns=self.columns)
        frame: pandas.DataFrame = pyarrow.table(self).to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any:
        """Arrow's C stream interface."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names = self.columns
        shown = min(len(self), _SHOWN)
        columns = [[name, *map(_shown, self._table.column(name, 0, shown))] for name in names]
        widths = [max(map(len, column)) for column in columns]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in zip(*columns)]
        more = len(self) - shown
        return "\n".join([f"{len(self)} rows", *lines, *([f"and {more} more"] if more else [])])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
