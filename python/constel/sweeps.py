"""Sweeps: a function over parameters and seeds, with labs in parallel, resumable, and one frame over all runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._time import Span
from .errors import UsageError
from .frame import Frame, Kind
from .results import Results, read_results

if TYPE_CHECKING:
    from .lab import OwnLab
    from .scenario import Scenario

_ROW = "row.json"
"""A completed run's parameters and figures, in its folder."""

Figures = Mapping[str, float | int | str | bool | None]
"""The figures of a run."""


class Run:
    """One run of a sweep: its parameters and seed, and the labs that it makes."""

    def __init__(self, number: int, params: Mapping[str, Any], seed: int, folder: Path) -> None:
        self.number = number
        self.params = dict(params)
        self.seed = seed
        self.folder = folder
        """The run's own folder; files of an earlier, unfinished run are removed."""
        self._labs: list[OwnLab] = []
        self._stopped = threading.Event()

    def lab(self, scenario: Scenario, *, duration: Span | None = None, **options: Any) -> OwnLab:
        """Returns a lab of the scenario with this run's seed, and with a folder and a name of its own: labs of a sweep are
        independent. Options are those of `Scenario.run`."""
        if self._stopped.is_set():
            raise UsageError("the sweep is being stopped")
        place = len(self._labs)
        name = f"sweep-{os.getpid()}-{self.number}" + (f"-{place}" if place else "")
        seeded = scenario.replace(seed=self.seed)
        lab = seeded.run(name=name, results=self.folder / f"results-{place}", duration=duration, **options)
        self._labs.append(lab)
        return lab

    @property
    def results(self) -> list[Results]:
        """The results of the run's labs that have ended."""
        return [read_results(lab.folder) for lab in self._labs if (lab.folder / "summary.json").is_file()]

    def __getitem__(self, name: str) -> Any:
        """Returns a parameter."""
        return self.params[name]

    def __reduce__(self) -> tuple[Any, ...]:
        # Executors send runs to other processes before their first lab.
        return Run, (self.number, self.params, self.seed, self.folder)

    def _end(self) -> None:
        self._stopped.set()
        for lab in self._labs:
            lab.abandon()


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep."""

    folder: Path
    rows: list[dict[str, Any]] = field(repr=False)
    failures: dict[int, str] = field(repr=False)
    """The runs that raised an exception, with the traceback. A further call of the sweep runs them again."""

    def frame(self, *, trustworthy_only: bool = False) -> Frame:
        """Returns a row for each run: `run`, the parameters, `seed`, `trustworthy`, and the figures. Includes untrustworthy
        runs unless `trustworthy_only` is set."""
        rows = [row for row in self.rows if row["trustworthy"] is not False or not trustworthy_only]
        names = dict.fromkeys(name for row in self.rows for name in row)
        return Frame.of({name: _column([row.get(name) for row in rows]) for name in names})


def sweep(
    fn: Callable[[Run], Figures],
    params: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]],
    seeds: Iterable[int] = (1,),
    *,
    jobs: int | None = None,
    folder: str | Path,
    progress: bool = True,
    executor: Executor | None = None,
) -> Sweep:
    """Calls `fn(run)` for every combination of parameters and every seed, `jobs` at a time (default 1), each in a thread.

    `params`: a list of values for each name, of which all combinations are made; or the combinations themselves. `fn` returns
    figures, a value for each name. An exception of `fn` is kept as that run's failure, and the other runs continue. A run is
    untrustworthy if one of its labs is.

    Every completed run is written to `folder` immediately: if the sweep is killed, calling it again resumes it. A folder of
    other parameters is refused. Ctrl-C stops the running labs.

    `executor`: makes the calls instead of threads, in other processes or on other machines: any
    `concurrent.futures.Executor`, for example a `ProcessPoolExecutor`, `Client(...).get_executor()` of Dask, or an
    `MPIPoolExecutor` of mpi4py. It must be able to send `fn` and the parameters, so that `fn` is a function of a module and
    not a lambda with most executors. It gets all runs at once (with `jobs`: at most `jobs` at a time), and stays open. Each
    run has its folder where it is made; the figures return to this process and its `folder`, so that resuming needs no
    common file system. After Ctrl-C no further run starts; runs that have started end by themselves.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs={jobs}: at least one at a time")
    combinations = _combinations(params)
    runs = [(values, seed) for values in combinations for seed in seeds]
    if not runs:
        raise UsageError("there is nothing to run: no parameters, or no seeds")
    folder = Path(folder).absolute()
    _claim(folder, combinations)
    rows: dict[str, dict[str, Any]] = {}
    waiting: list[tuple[str, Run]] = []
    for number, (values, seed) in enumerate(runs):
        key = _key(values, seed)
        done = folder / key / _ROW
        if done.is_file():
            rows[key] = json.loads(done.read_text())
        else:
            waiting.append((key, Run(number, values, seed, folder / key)))
    failures: dict[int, str] = {}
    say = _Progress(len(runs), progress)
    say(len(rows), "there already" if rows else "")
    if executor is not None:
        _work(fn, waiting, jobs or len(waiting), executor, rows, failures, say)
    else:
        with ThreadPoolExecutor(jobs or 1, thread_name_prefix="constel-sweep") as threads:
            _work(fn, waiting, jobs or 1, threads, rows, failures, say)
    order = [_key(values, seed) for values, seed in runs]
    numbered = [{"run": number, **rows[key]} for number, key in enumerate(order) if key in rows]
    return Sweep(folder, numbered, failures)


def _work(
    fn: Callable[[Run], Figures],
    waiting: list[tuple[str, Run]],
    jobs: int,
    executor: Executor,
    rows: dict[str, dict[str, Any]],
    failures: dict[int, str],
    say: _Progress,
) -> None:
    under_way: dict[Future[dict[str, Any]], tuple[str, Run]] = {}
    left = iter(waiting)
    try:
        while True:
            # At most `jobs` runs are submitted at a time, so that Ctrl-C leaves no run in a thread that starts later.
            for key, run in itertools.islice(left, jobs - len(under_way)):
                under_way[executor.submit(_one, fn, run)] = (key, run)
            if not under_way:
                break
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                key, run = under_way.pop(done)
                told = f"{run.params}, seed {run.seed}"
                error = done.exception()
                if error is None:
                    rows[key] = done.result()
                    if not (run.folder / _ROW).is_file():
                        # The run was made on a machine with another file system.
                        _keep(run.folder, rows[key])
                    say(len(rows), told + (": NOT trustworthy" if rows[key]["trustworthy"] is False else ""))
                elif isinstance(error, Exception):
                    failures[run.number] = "".join(traceback.format_exception(error))
                    say(len(rows), f"{told}: {type(error).__name__}: {error}")
                else:
                    raise error
    except BaseException:
        for future, (_, run) in under_way.items():
            future.cancel()
            run._end()
        raise


def _one(fn: Callable[[Run], Figures], run: Run) -> dict[str, Any]:
    # An incomplete folder of a killed run is of no use.
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    figures = fn(run)
    taken = {"run", "seed", "trustworthy", *run.params} & set(figures)
    if taken:
        raise UsageError(f"a figure cannot be called {', '.join(sorted(taken))}: the sweep has that")
    verdicts = [results.trustworthy for results in run.results]
    row: dict[str, Any] = {**run.params, "seed": run.seed, "trustworthy": all(verdicts) if verdicts else None, **figures}
    _keep(run.folder, row)
    return row


def _keep(folder: Path, row: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{_ROW}.new"
    fresh.write_text(json.dumps(row))
    fresh.rename(folder / _ROW)


def _combinations(params: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(params, Mapping):
        names = list(params)
        for name in names:
            if isinstance(params[name], str):
                raise UsageError(f"{name}={params[name]!r}: give a list of values")
        return [dict(zip(names, values)) for values in itertools.product(*(params[name] for name in names))]
    return [dict(values) for values in params]


def _claim(folder: Path, combinations: list[dict[str, Any]]) -> None:
    """Reserves the folder for sweeps with the same names of parameters. Other values and seeds may be added later."""
    folder.mkdir(parents=True, exist_ok=True)
    mine = {"names": sorted({name for values in combinations for name in values})}
    claim = folder / "sweep.json"
    if claim.is_file():
        theirs = json.loads(claim.read_text())
        if theirs != mine:
            raise UsageError(f"{folder} is of a sweep over {theirs['names']}, not {mine['names']}: choose another folder")
    elif any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty, and no sweep's: choose another folder")
    else:
        claim.write_text(json.dumps(mine))


def _key(values: Mapping[str, Any], seed: int) -> str:
    try:
        text = json.dumps([values, seed], sort_keys=True)
    except TypeError as error:
        raise UsageError(f"parameters are texts, numbers, booleans, lists and mappings of such: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _column(values: list[Any]) -> tuple[Kind, list[Any]]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return "bool", values
    if kinds <= {int}:
        return "integer", values
    if kinds <= {int, float}:
        return "float", [None if value is None else float(value) for value in values]
    texts = [value if isinstance(value, str) or value is None else json.dumps(value) for value in values]
    return "text", texts


class _Progress:
    def __init__(self, total: int, wanted: bool) -> None:
        self._total = total
        self._wanted = wanted

    def __call__(self, done: int, what: str) -> None:
        if self._wanted:
            print(f"sweep: {done} of {self._total}{': ' if what else ''}{what}", file=sys.stderr, flush=True)
