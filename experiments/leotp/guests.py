"""Labs of a study in guests of virtual time, without root: each run has a guest of its own, JOBS of them at a time. Needs `make virtual`.

The sky of a run (`sky.Way`) is computed on the host, because a guest would take longer for that than for the lab. Rows have two columns more:
`wall_s`, from the start of the guest to its end, and `cpu_s`, its processor time on the host."""
import concurrent.futures, json, os, pickle, queue, subprocess, sys, tempfile, time
import rounds
from lab import CONSTEL, LEOTP, ROOT, TRANSFER, rows_of

HERE = os.path.dirname(os.path.abspath(__file__))
MEGABYTES = os.environ.get("MEGABYTES", "4096")
# A guest that has taken so long by the wall clock is ended. A busy host makes it long.
LIMIT_S = os.environ.get("LIMIT_S", "7200")
JOB = """export CONSTEL='{constel}' LEOTP='{leotp}' TRANSFER='{transfer}' PYTHONDONTWRITEBYTECODE=1
exec python3 '{here}/guests.py' '{figure}' '{folder}'
"""


def in_guest(figure, spec, processors):
    """As `in_guest_here`, on one of the free `processors`: the kernel and the programs of a guest take turns, and a turn costs more between two."""
    processor = processors.get()
    try:
        # Of this thread, and of what it starts.
        os.sched_setaffinity(0, {processor})
        return in_guest_here(figure, spec)
    finally:
        processors.put(processor)


def in_guest_here(figure, spec):
    """The row of a run (way, case, flow, columns); a string with the guest's last output if it has none."""
    with tempfile.TemporaryDirectory(prefix="leotp-guest-") as folder:
        file = lambda name: os.path.join(folder, name)
        with open(file("spec"), "wb") as f:
            pickle.dump(spec, f)
        with open(file("job"), "w") as f:
            f.write(JOB.format(constel=CONSTEL, leotp=LEOTP, transfer=TRANSFER, here=HERE, figure=figure, folder=folder))
        since = time.monotonic()
        with open(file("log"), "w") as log:
            boot = [os.path.join(ROOT, "tools/virtual/boot"), file("job"), MEGABYTES, folder]
            guest = subprocess.Popen(["timeout", "-k", "10", LIMIT_S, *boot], stdout=log, stderr=log)
            _, _, used = os.wait4(guest.pid, 0)
        try:
            with open(file("row")) as f:
                row = json.load(f)
        except OSError:
            with open(file("log")) as f:
                return f.read()[-1500:]
        return {**row, "when": time.strftime("%Y-%m-%d %H:%M"), "wall_s": round(time.monotonic() - since, 1), "cpu_s": round(used.ru_utime + used.ru_stime, 1)}


def study(figure, specs, **extra):
    """Runs those of `specs` that have no trustworthy row yet, each [(way, case, flow, columns)] in a guest. Each row is kept as soon as it is there."""
    run_of = lambda way, case, flow, columns: way.run(case, flow, **columns)[1][0]
    rows = rows_of(os.path.join(rounds.RAW, f"lab-{figure}.json"))
    due = [spec for spec in specs if not run_of(*spec).has(rows)]
    failed, jobs = 0, int(os.environ["JOBS"])
    here = sorted(os.sched_getaffinity(0))
    processors = queue.SimpleQueue()
    for job in range(jobs):
        processors.put(here[job % len(here)])
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(in_guest, figure, spec, processors): spec for spec in due}
        for ended in concurrent.futures.as_completed(running):
            row = ended.result()
            if isinstance(row, str):
                failed += 1
                print(f"{figure}: a guest ended without a row: {row}", file=sys.stderr, flush=True)
                continue
            rounds.show(figure, row)
            print("  verdict", row["verdict"], flush=True)
            rounds.keep(figure, [run_of(*running[ended])], [row], **extra)
    if failed:
        raise SystemExit(f"{failed} of {len(due)} guests ended without a row; run it again for these")


def inside(figure, folder):
    """The run, in the guest."""
    with open(os.path.join(folder, "spec"), "rb") as f:
        way, case, flow, columns = pickle.load(f)
    lab, runs = way.run(case, flow, **columns)
    row, = rounds.in_turn(figure, lab(), runs)
    with open(os.path.join(folder, "row.new"), "w") as f:
        json.dump(row, f)
    os.rename(os.path.join(folder, "row.new"), os.path.join(folder, "row"))


if __name__ == "__main__":
    inside(*sys.argv[1:])
