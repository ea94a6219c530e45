"""Gates of `tools/metrics --check`: bounds on the shape of the source.

The debts are what was above a bound when the gate came. A debt may only shrink: one that is paid, or became smaller, must
be lowered here, so that it cannot come back unnoticed.
"""

import re
import tomllib
from collections import defaultdict

LARGEST_CIRCLE_FILES = 4
# Shorter bodies are alike by nature: accessors, conversions.
DUPLICATED_BODY_LINES = 8

LONG_DEBTS = {
    "control src/together/merge.rs merge": 113,
    "fuzz src/targets/leotp.rs network": 112,
    "host src/process/birth.rs carry_out": 110,
    "host src/process/spawn.rs start": 119,
    "lab src/life/bring_up.rs fabric": 128,
    "lab src/life/session.rs bring_up_and_down": 112,
    "plan src/planner/routes.rs plan": 113,
    "scenario src/resolve/routing/mod.rs resolve": 115,
}

# Bodies that stand twice, by the places of their functions.
DUPLICATE_DEBTS = {
    # One instruction of classic BPF. A common place would make a circle of netlink and process.
    "crates/host/src/netlink/watch.rs instruction = crates/host/src/process/filter.rs statement",
}

# Modules that neither touch the machine nor wait, in crates that do both. They can be run in virtual time.
PURE_MODULES = (
    "crates/cluster/src/machines/", "crates/cluster/src/underlay/", "crates/drivers/src/relay/sched/", "crates/measure/src/quantiles",
    "crates/measure/src/plot", "crates/measure/src/verdict", "crates/measure/src/compare/", "crates/measure/src/recording/",
)
IMPURE = re.compile(
    r"\bstd::(?:env|fs|process|thread|os)\b|\b(?:Tcp|Udp|Unix)\w*(?:Stream|Listener|Socket|Datagram)\b|\b(?:Instant|SystemTime)::now\b"
    r"|\b(?:rustix|libc|ureq|constel_host|constel_drivers)::|\bcrate::(?:agent|clock|crossing|probe|store|transfer)\b"
)


def circles(crates):
    for name, crate in crates.items():
        largest = max(map(len, crate["circles"]), default=0)
        if largest > LARGEST_CIRCLE_FILES:
            files = " ".join(next(c for c in crate["circles"] if len(c) == largest))
            yield f"crates/{name}: {largest} files import each other, at most {LARGEST_CIRCLE_FILES} may: {files}"


def long_functions(crates, most):
    found = {}
    for name, crate in crates.items():
        for text in crate["long_functions"]:
            function, lines = f"{name} {text}".rsplit(" ", 1)
            found[function] = int(lines)
    for function, lines in found.items():
        allowed = LONG_DEBTS.get(function, most)
        if lines > allowed:
            yield f"crates/{function}: {lines} lines, at most {allowed}: split it"
    for function, allowed in LONG_DEBTS.items():
        lines = found.get(function, 0)
        if lines < allowed:
            now = f"lower it to {lines}" if lines else "remove it"
            yield f"tools/metrics_gates.py: LONG_DEBTS says {allowed} for {function}: {now}"


def reasons(crates, root):
    """Every crate has a reason in docs/design.md, under "Reasons of crates", and every reason a crate."""
    design = (root / "docs/design.md").read_text()
    part = re.search(r"^\*\*Reasons of crates\.\*\*.*?(?=^\*\*|^#)", design, re.M | re.S)
    stated = set(re.findall(r"^- `([\w-]+)`: \S", part.group() if part else "", re.M))
    for name in sorted(set(crates) - stated):
        lines = crates[name]["source_lines"]
        yield f"crates/{name}: {lines} lines; make it a module of its user, or say under \"Reasons of crates\" in docs/design.md why not"
    for name in sorted(stated - set(crates)):
        yield f"docs/design.md: `{name}` stands under \"Reasons of crates\" and is no crate: remove it"


def pure_modules(files):
    """`files`: pairs of a crate's name and one of its files."""
    found = set()
    for crate, file in files:
        path = f"crates/{crate}/{file.name}"
        modules = [module for module in PURE_MODULES if path.startswith(module)]
        found.update(modules)
        if not modules or file.all_test:
            continue
        for m in IMPURE.finditer(file.code):
            if not file.in_test(m.start()):
                yield f"{path}:{file.line(m.start())}: `{m.group()}` in a pure module: give it as an argument"
    for module in sorted(set(PURE_MODULES) - found):
        yield f"tools/metrics_gates.py: PURE_MODULES has {module}, which does not exist: remove it"


def duplicates(files):
    """`files`: pairs of a crate's name and one of its files."""
    bodies = defaultdict(set)
    for crate, file in files:
        if not file.name.startswith("src/"):
            continue
        for f in file.functions:
            if f["test"]:
                continue
            # Strings count: two messages are two functions. Comments and layout do not.
            text = re.sub(r"//[^\n]*", "", file.text[file.code.index("{", f["start"]):f["end"]])
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if len(lines) >= DUPLICATED_BODY_LINES:
                bodies["\n".join(lines)].add(f"crates/{crate}/{file.name} {f['name']}")
    found = {" = ".join(sorted(places)) for places in bodies.values() if len(places) > 1}
    for places in sorted(found - DUPLICATE_DEBTS):
        yield f"{places}: the same body; keep one"
    for places in sorted(DUPLICATE_DEBTS - found):
        yield f"tools/metrics_gates.py: DUPLICATE_DEBTS has {places}, which is no more: remove it"


# Recipes that CONTRIBUTING.md must have.
RECIPES = (
    "a key of the scenario file", "a link driver", "a policy of stations", "a runtime", "a verb", "an effect of links", "an importer",
)
FOLDERS = ("crates/", "docs/", "python/", "scenarios/", "tools/", "web/")


def recipes(root):
    """The recipes of CONTRIBUTING.md, under "Add ...", name files that exist, and words that are in them."""
    text = (root / "CONTRIBUTING.md").read_text()
    part = text[text.index("## Add ..."):text.index("## Commit")]
    told = re.findall(r"^\*\*(.+?)\*\*", part, re.M)
    for name in RECIPES:
        if name not in told:
            yield f"CONTRIBUTING.md: no recipe for {name}"
    for place in sorted(set(re.findall(r"`([^`\s]+)`", part))):
        if place.startswith(FOLDERS) and not any(root.glob(place.rstrip("/").replace("NAME", "*"))):
            yield f"CONTRIBUTING.md: `{place}` does not exist"
    for word, file in re.findall(r"`([^`]+)`\s+in\s+`((?:%s)[^`\s]+\.\w+)`" % "|".join(FOLDERS), part):
        path = root / file
        if path.is_file() and word not in path.read_text():
            yield f"CONTRIBUTING.md: `{word}` is not in `{file}`"


def variants(text, name):
    """Variants of an enum with their attributes and documentation."""
    body = re.search(rf"enum {name} \{{\n(.*?)^\}}", text, re.M | re.S).group(1)
    return [(m.group(2), m.group(1)) for m in re.finditer(r"((?:^    (?:///|#\[).*\n)*)^    (\w+)[({,]", body, re.M)]


def followed(root):
    """Verbs, drivers, runtimes and importers have the places that their recipes name."""
    def read(path):
        return (root / path).read_text()

    wanted = []  # kind, name, word, file
    pages = "\n".join(p.read_text() for p in sorted(root.glob("docs/reference/*.md")))
    for variant, above in variants(read("crates/cli/src/args.rs"), "Verb"):
        wanted.append(("verb", variant, f"Verb::{variant}", "crates/cli/src/verbs.rs"))
        if "hide = true" not in above:
            name = re.sub(r"(?<=.)(?=[A-Z])", "-", variant).lower()
            if not re.search(rf"\bconstel {name}\b", pages):
                yield f"docs/reference: `constel {name}` is on no page"
            if "after_help = examples::" not in above:
                yield f"crates/cli/src/args.rs: {variant} has no `after_help` with examples"
    for variant, _ in variants(read("crates/link/src/capabilities.rs"), "DriverKind"):
        name = variant.lower()
        wanted += [("driver", name, f"DriverKind::{variant}", "crates/drivers/src/plane.rs"), ("driver", name, f"`{name}`", "docs/reference/drivers.md")]
        if not (root / f"crates/drivers/src/{name}/mod.rs").exists():
            yield f"crates/drivers/src/{name}/mod.rs: the driver {name} has no such file"
    for variant, _ in variants(read("crates/scenario/src/raw/nodes.rs"), "Runtime"):
        wanted.append(("runtime", variant, f"`{variant.lower()}`", "docs/reference/scenario/nodes.md"))
    for name in sorted(set(re.findall(r"\b(\w+)::parse\w*\(", read("crates/cli/src/verbs/import.rs")))):
        wanted.append(("importer", name, f'"import-{name}', "crates/fuzz/src/targets/files.rs"))
        wanted.append(("importer", name, name, "docs/reference/cli.md"))
    for kind, name, word, file in wanted:
        if word.lower() not in read(file).lower():
            yield f"{file}: `{word.strip('`')}` is missing; CONTRIBUTING.md, recipe of the {kind}, wants it for {name}"


def unused_dependencies(root):
    """Keys of Cargo.toml that nothing uses."""
    wanted = set()
    for manifest in [*sorted(root.glob("crates/*/Cargo.toml")), root / "python/Cargo.toml"]:
        document = tomllib.loads(manifest.read_text())
        sources = [p for folder in ("src", "tests", "examples", "benches") for p in manifest.parent.resolve().glob(f"{folder}/**/*.rs")]
        sources += manifest.parent.glob("build.rs")
        for source in sources:
            # Tests share files with those of other crates. A loop over a list that grows follows them.
            for path in re.findall(r'#\[path = "([^"]+)"\]', source.read_text()):
                path = (source.parent / path).resolve()
                # A `mod.rs` has its modules beside it.
                found = path.parent.rglob("*.rs") if path.name == "mod.rs" else [path]
                sources += [p for p in found if p.is_file() and p not in sources]
        text = "\n".join(p.read_text() for p in sources)
        keys = {key for kind in ("dependencies", "dev-dependencies", "build-dependencies") for key in document.get(kind, {})}
        wanted |= keys
        for key in sorted(keys):
            # libbpf's headers are found by cargo's variable of its links key.
            if not re.search(rf"\b{key.replace('-', '_')}\b", text) and key != "libbpf-sys":
                yield f"{manifest.relative_to(root)}: `{key}` is used by no file of the crate: remove it"
    shared = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["dependencies"]
    for key in sorted(set(shared) - wanted):
        yield f"Cargo.toml: `{key}` in [workspace.dependencies] is used by no crate: remove it"


def check(root, crates, files, most_lines):
    return [
        *circles(crates), *long_functions(crates, most_lines), *reasons(crates, root), *pure_modules(files),
        *duplicates(files), *unused_dependencies(root), *recipes(root), *followed(root),
    ]
