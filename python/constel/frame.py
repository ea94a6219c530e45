"""Tables: columns with names, for any library that reads Arrow and for plain Python."""

from __future__ import annotations

import csv
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ._native import Table

if TYPE_CHECKING:
    import pandas
    import polars

Kind = Literal["integer", "float", "bool", "text"]

_SHOWN = 10


class Frame:
    """Columns of equal length. Units are part of the columns' names: `delay_ns`, `x_m`, `rate_bps`; `t_s` is lab time.

    | expression | value |
    |---|---|
    | `frame["delay_ns"]` | a column as a list; `None` is a missing value |
    | `frame[["t_s", "delay_ns"]]` | a frame of these columns |
    | `frame[3]`, `frame[-1]` | a row as a dictionary |
    | `frame[10:20]`, `frame[::2]` | a frame of these rows |
    | `frame[mask]`, `frame.filter(...)` | a frame of the rows that a mask or a condition selects |
    | `for row in frame` | the rows as dictionaries |

    `__arrow_c_stream__` exports the columns to polars, pyarrow, pandas, DuckDB and others without a copy:
    `polars.DataFrame(frame)`, `pyarrow.table(frame)`. A field of the schema has its unit as metadata (`unit`). These libraries
    are optional: a frame is not one of theirs, so that a program has the same types whatever is installed.
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

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column that has one, from its name: `{"delay_ns": "ns", "rate_bps": "bit/s"}`."""
        units = self._table.units
        return {name: units[name] for name in self.columns if name in units}

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and the number of columns."""
        return len(self), len(self._table.schema)

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of this name."""
        return name in self.columns

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | list[str] | Sequence[bool]) -> Frame: ...
    def __getitem__(self, key: str | int | slice | list[str] | Sequence[bool]) -> list[Any] | dict[str, Any] | Frame:
        """Returns a column, a row, some rows or some columns, as above.

        Raises `KeyError` for a column, `IndexError` for a row that does not exist.
        """
        if isinstance(key, str):
            return self._table.column(key)
        if isinstance(key, slice):
            return self._taken(range(len(self))[key])
        if hasattr(key, "__index__") and not hasattr(key, "__len__"):
            row = range(len(self))[key]
            return {name: self._table.column(name, row, 1)[0] for name in self.columns}
        keys: list[Any] = list(key)  # type: ignore[arg-type]
        if keys and all(isinstance(name, str) for name in keys):
            kinds = self.kinds
            return Frame.of({name: (kinds[name], self._table.column(name)) for name in keys})  # type: ignore[misc]
        return self.filter(keys)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dictionaries."""
        return self.rows()

    def head(self, rows: int = 5) -> Frame:
        """Returns the first rows; with a negative number, all but the last ones."""
        return self[:rows]

    def tail(self, rows: int = 5) -> Frame:
        """Returns the last rows; with a negative number, all but the first ones."""
        return self[-rows:] if rows > 0 else self[min(-rows, len(self)) :] if rows else self[:0]

    def filter(self, mask: Sequence[bool] | None = None, /, **equal: Any) -> Frame:
        """Returns the rows for which the mask is true, or whose columns have these values: `frame.filter(flow="ping")`.

        A mask has one value for each row. Lists, and arrays of numpy, polars, pandas and pyarrow are masks:
        `frame.filter([rtt is not None for rtt in frame["rtt_us"]])`. Raises `ValueError` for a mask of another length or type.
        """
        rows = range(len(self))
        chosen = list(rows)
        if mask is not None:
            values = [value.as_py() if hasattr(value, "as_py") else value for value in mask]
            if len(values) != len(rows):
                raise ValueError(f"the mask has {len(values)} values, the frame {len(rows)} rows")
            # numpy has a type of its own for true and false.
            wrong = next((value for value in values if value is not None and type(value).__name__ not in ("bool", "bool_")), None)
            if wrong is not None:
                raise ValueError(f"a mask is of True and False, not {wrong!r}")
            chosen = [row for row in rows if values[row]]
        for name, value in equal.items():
            column = self._table.column(name)
            chosen = [row for row in chosen if column[row] == value]
        return self._taken(chosen)

    def part(self, first: int, rows: int) -> Frame:
        """Returns `rows` rows, from row `first` on."""
        return self[first : first + rows]

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

    def _repr_html_(self) -> str:
        """Returns the first rows as a table, for notebooks."""
        units = self.units
        heads = "".join(
            f"<th>{html.escape(name)}<br><small>{units.get(name, kind)}</small></th>" for name, kind in self.kinds.items()
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values()) + "</tr>\n"
            for row in self.head(_SHOWN).rows()
        )
        rows, columns = self.shape
        return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n<p>{rows} rows, {columns} columns</p>"

    def _taken(self, rows: Iterable[int]) -> Frame:
        return Frame(self._table.take(list(rows)))


def column_of(values: Sequence[Any]) -> tuple[Kind, list[Any]]:
    """Returns the kind of a column with these values, and the values: lists of texts become one text with spaces between
    them, other mixed or nested values JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "bool", list(values)
    if kinds == {int} and all(value is None or abs(value) < 2**63 for value in values):
        return "integer", list(values)
    if kinds and kinds <= {int, float}:
        return "float", [None if value is None else float(value) for value in values]
    return "text", [_text(value) for value in values]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return json.dumps(value)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
