"""Runs in labs, again and again until each has ROUNDS (3) results of labs that the host kept up with.

A figure is a list of groups, each a lab and the runs that follow each other in it. The rows are in raw/lab-FIGURE.json, with each lab's verdict. An
interrupted figure goes on where it was. A row of a lab that the host did not keep up with stays, marked, until another has taken its place."""
import json, os, time
from lab import commit, rows_of

HERE = os.path.dirname(os.path.abspath(__file__))
RAW = os.environ.get("RAW", os.path.join(HERE, "raw"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
# So often more, where the host does not keep up.
MORE = int(os.environ.get("MORE", "2"))


class Run:
    """`of(lab)` gives a row; `columns` are those by which rows are of the same run, "flow" among them."""

    def __init__(self, of, **columns):
        self.of, self.columns = of, columns

    def parts(self):
        """Runs that each have rows of their own: itself."""
        return [self]

    def is_of(self, row):
        return all(row.get(k) == v for k, v in self.columns.items())

    def has(self, rows):
        """How many of these rows are results of it."""
        return sum(1 for r in rows if self.is_of(r) and trusted(r) and "when" in r)


def trusted(row):
    return row["verdict"]["trustworthy"] and "error" not in row


def tag(flow):
    """The name of a flow in rows."""
    return "-".join(x for x in flow[:2] if x)


def wanted(flows):
    """Those of ONLY=tcp-bbr,leotp-beyond; all without."""
    only = [x for x in os.environ.get("ONLY", "").split(",") if x]
    return [f for f in flows if not only or tag(f) in only]


def show(figure, row):
    print(figure, {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items() if not isinstance(v, (list, dict))}, flush=True)


def in_turn(figure, lab, runs):
    """One lab, in which `runs` follow each other: the row of each, with the lab's verdict. Runs that several rows come of give a list."""
    rows = []
    with lab as l:
        for run in runs:
            made = run.of(l)
            for row in made if isinstance(made, list) else [made]:
                rows.append({**run.columns, **row, "when": time.strftime("%Y-%m-%d %H:%M")})
                show(figure, rows[-1])
    verdict = l.verdict()
    print("  verdict", verdict, flush=True)
    return [{**r, "verdict": verdict} for r in rows]


def keep(figure, runs, rows, **extra):
    """Puts new rows of these runs beside the old ones. Series and distributions, longer than a few values, are kept of each run's first result."""
    os.makedirs(RAW, exist_ok=True)
    path = os.path.join(RAW, f"lab-{figure}.json")
    kept = rows_of(path)
    # That of the first run: rows of it may still be there.
    first = json.load(open(path)).get("commit") if kept else None
    for run in (part for run in runs for part in run.parts()):
        new = [r for r in rows if run.is_of(r)]
        old = [r for r in kept if run.is_of(r)]
        kept = [r for r in kept if not run.is_of(r)]
        results = [r for r in old if trusted(r) and "when" in r] + [r for r in new if trusted(r)]
        of_run = results or [r for r in old if "when" in r] + new
        kept += [{k: rounded(v) for k, v in r.items() if at == 0 or not isinstance(v, list) or len(v) < 8} for at, r in enumerate(of_run)]
    with open(path + ".new", "w") as f:
        json.dump({"figure": figure, "commit": first or commit(), **extra, "rows": kept}, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def rounded(value):
    return [round(x, 3) if isinstance(x, float) else x for x in value] if isinstance(value, list) else value


def study(figure, groups, **extra):
    """`groups`: [(what makes a lab, [Run])]. Each round has every run once, so that all have the same hours."""
    for attempt in range(1, ROUNDS + MORE + 1):
        for make, runs in groups:
            rows = rows_of(os.path.join(RAW, f"lab-{figure}.json"))
            due = [run for run in runs if run.has(rows) < min(attempt, ROUNDS)]
            if due:
                keep(figure, due, in_turn(figure, make(), due), **extra)
