"""Gate of `tools/documents`: a number in a page of an experiment is in the tables that were generated from raw data.

A table counts if a script of the repository writes it from raw data and `tools/documents` compares the two. Raw files of that form (`raw/*.md`) count too. A table is between `<!-- ... -->` and
`<!-- end -->` (`<!-- NAME: begin -->` and `<!-- NAME: end -->` on the pages of NIST Net), or on a page that begins with `<!-- Written by`.
A number of a paragraph, list item or table row may come from the generated tables of its own section. It may also come from those of the raw
files that the text names (`lab-fig12`, `vt-*`, a link to `raw/udp.json`). In a folder without such tables the raw files themselves count. A smaller scope would need a mark at each number. A larger one would
find nearly every number somewhere. A number with fewer digits than the table's must be its rounding. A number before `%` must be one in the table too, and one before a unit of time, rate or size must not.

Not judged: whole numbers below 10, code, numbers of figures and tables, columns whose head says `paper`, and parentheses that begin with
`paper`. Everything else is in `numbers.toml`, by page and reason; `computed` has formulas, whose own numbers must be in the page's tables.
"""

import json
import re
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXCUSES = Path(__file__).with_name("numbers.toml")
GENERATED = re.compile(r"<!-- ([^>]*?) -->\n(.*?)\n?<!-- (?:end|[\w-]+: end) -->", re.S)
NUMBER = re.compile(r"(?<![\w.,#/])\d+(?:,\d{3})*(?:\.\d+)?(?!\w|\.\d)")
# Columns that are the paper's, counts of rows, and verdicts, which `documents_figures.py` judges.
EXEMPT = re.compile(r"\bpaper\b|^#$|^trustworthy runs$", re.I)
REFERENCE = re.compile(
    r"\b(?:figs?\.?|figures?|tables?|claims?|equations?|sections?|rfcs?|algorithm) \d+[a-d]?(?:(?:, | and | to |, and )\d+[a-d]?\b)*|\b\d{4}-\d\d-\d\d\b", re.I)
NOT_PROSE = re.compile(r"^```.*?^```|<!--.*?-->|`[^`]*`|\]\([^)]*\)|https?://\S+|\((?:the )?papers?\b[^()]*(?:\([^()]*\)[^()]*)*\)", re.S | re.M | re.I)
RAW = re.compile(r"raw/([\w./*-]+?)\.(?:json|md)")
NAMED = re.compile(r"`((?:guest/)?[a-z][\w*-]*-[\w*-]+)`")


def value(token):
    return float(token.replace(",", ""))


def decimals(token):
    return len(token.partition(".")[2])


def kind(text, end):
    """`%` or `unit` by what follows a number, or an empty string if it may be either."""
    if follows := re.match(r"\s*(?:(%)|(?:[nmu]?s|[kMG]bit/s|[kMG]i?B)\b)", text[end:end + 12]):
        return follows.group(1) or "unit"
    return ""


def tokens(text):
    """(number, kind) of a text's numbers."""
    return [(m.group(), kind(text, m.end())) for m in NUMBER.finditer(text)]


@cache
def table_tokens(text):
    """(value, decimals, whether it is a share in per cent) of a table's numbers; None where a head, the text before or a list leaves it open."""
    found, head, caption = [], None, ""
    for line in text.split("\n"):
        cells = line.split("|")
        is_row = line.startswith("|")
        head = (head or cells) if is_row else None
        caption = caption if is_row or not line else line
        for n, cell in enumerate(cells):
            open_ = not is_row or re.search(r", %|\b(?:in|as) %", caption) or "%" in head[1] + cells[1] + head[min(n, len(head) - 1)]
            found += [(value(token), decimals(token), True if k == "%" else False if k else None if open_ else False) for token, k in tokens(cell)]
    return found


def is_in(token, text, kind=""):
    """Whether a number of generated tables is the token, or rounds to it; a share is no time or rate."""
    half = 0.5000001 * 10 ** -decimals(token)
    return any(
        digits >= decimals(token) and abs(other - value(token)) <= half and (not kind or share is None or share == (kind == "%"))
        for other, digits, share in table_tokens(text)
    )


def is_written(text):
    return text.startswith("<!-- Written by")


# By which pages multiply a number whose key ends so.
FACTORS = {"_ns": (1, 1e-6), "_s": (1, 1e3), "_ratio": (100,)}


def scalars(document, key=""):
    """The numbers of a raw file as text, in the units of pages. A key without a unit has that of the key around it."""
    if isinstance(document, dict):
        for name, part in document.items():
            yield from scalars(part, name if name.endswith(tuple(FACTORS)) else key)
    elif isinstance(document, list):
        for part in document:
            yield from scalars(part, key)
    elif isinstance(document, (int, float)) and not isinstance(document, bool):
        for factor in next((own for end, own in FACTORS.items() if key.endswith(end)), (1,)):
            yield f"{document * factor:.9f}"
    elif isinstance(document, str):
        yield document


def tables_of_raw(root=ROOT):
    """The generated tables of each raw file, by folder and name of the file without `.json`."""
    found = {}
    for page in root.glob("experiments/*/raw/*.md"):
        found[page.parents[1], page.stem] = page.read_text()
    for page in [*root.glob("experiments/*/*.md"), *root.glob("benches/*.md"), *root.glob("benches/*/*.md")]:
        text = page.read_text()
        named = [(re.findall(r"[\w-]+", mark), body) for mark, body in GENERATED.findall(text)]
        names = []
        for part in re.split(r"\n(?=## )", text) if is_written(text) else []:
            # A section without a raw file goes on with that of the section before it.
            names = RAW.findall(part) or names
            named.append((names, part))
        for names, body in named:
            for name in set(names):
                found[page.parent, name] = found.get((page.parent, name), "") + "\n" + body
    # Folders without any generated table: the raw files themselves.
    written = {folder for folder, _ in found}
    for file in root.glob("experiments/*/raw/*.json"):
        if file.parents[1] not in written:
            found[file.parents[1], file.stem] = "\n".join(scalars(json.loads(file.read_text())))
    return found


def blocks(text):
    """(line, block, generated tables of its section, text that names raw files) of paragraphs, list items and table rows.

    A row lacks its columns of the paper. Raw files may also be named in the paragraph before a row's table, and in the one that opens the section.
    """
    blank = lambda m: re.sub(r"[^\n]", "", m.group())
    start = 0
    for end in [m.start() for m in re.finditer(r"(?m)^## |\Z", text)]:
        tables = "\n".join(body for _, body in GENERATED.findall(text[start:end]))
        own = GENERATED.sub(blank, text[start:end])
        caption, exempt, in_table, opening = "", [], False, None
        for piece in re.finditer(r"(?m)^[^\n]+(?:\n(?!\||[-*] |\n|#)[^|\n].*)*", own):
            block = piece.group()
            names = block
            if block.startswith("|"):
                cells = [cell.strip() for cell in block.strip().strip("|").split("|")]
                if not in_table:
                    exempt = [n for n, cell in enumerate(cells) if EXEMPT.search(cell)]
                block, names = "| " + " | ".join("" if n in exempt else cell for n, cell in enumerate(cells)) + " |", caption + block
            else:
                caption = block
            if opening is None and not block.startswith("#"):
                opening = block if "](raw/" in block and not block.startswith(("|", "-")) else ""
            names += opening or ""
            in_table = block.startswith("|")
            yield text.count("\n", 0, start) + own.count("\n", 0, piece.start()) + 1, block, tables, names
        start = end


def named_tables(page, block, tables):
    """The tables of the raw files that the block names."""
    keys = [(page.parent, name) for name in NAMED.findall(block)]
    keys += [((page.parent / folder).resolve(), name) for folder, name in re.findall(r"\]\(([^)]*?)raw/([^)]*)\.(?:json|md)\)", block)]
    for folder, name in keys:
        own = [text for (other, file), text in tables.items() if other == folder and fnmatch(file, name)]
        # Marks that name no raw file: then all tables of the folder.
        yield from own or [text for (other, _), text in tables.items() if other == folder and not any(n == name for _, n in tables)]


def judged(block):
    """(number, kind) of the numbers of a block that have to come from somewhere."""
    prose = REFERENCE.sub("", NOT_PROSE.sub(" ", block))
    return [(token, kind) for token, kind in tokens(prose) if decimals(token) or value(token) >= 10]


def lacking(page, tables):
    """(line, number) of a page's numbers that are in none of their tables."""
    text = page.read_text()
    # Code goes first: a comment of it looks like a heading. Its lines stay, for the numbers of lines.
    text = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.S | re.M)
    for line, block, own, names in blocks(text):
        numbers = judged(block)
        if numbers:
            source = own + "\n" + "\n".join(named_tables(page, names, tables))
            yield from ((line, token) for token, kind in numbers if not is_in(token, source, kind))


def computed(formula, source):
    """The fault of a formula such as `5.5 = 100 * (17.35 / 16.44 - 1)`, or None."""
    result, _, right = formula.partition("=")
    if not re.fullmatch(r"[\d.,\s()*/+-]+", right):
        return "is no formula of numbers"
    # Powers of ten and 1024 are of the arithmetic, not of the data.
    unknown = [token for token in NUMBER.findall(right) if token != "1024" and token.strip("0") not in ("1", "") and not is_in(token, source)]
    if unknown:
        return f"has {', '.join(unknown)}, which the tables lack"
    token = result.strip()
    got = eval(right.replace(",", ""))  # noqa: S307: only numbers and operators, see above
    return None if abs(got - value(token)) <= 0.5000001 * 10 ** -decimals(token) else f"is {got:.4g}"


def faults(root=ROOT, excuses=None):
    excuses = tomllib.loads(EXCUSES.read_text()) if excuses is None else excuses
    unchecked = dict(excuses.get("unchecked", {}))
    tables = tables_of_raw(root)
    for page in sorted(root.glob("experiments/**/*.md")):
        name = str(page.relative_to(root))
        if "raw" in page.parts or is_written(page.read_text()):
            continue
        own = excuses.get(name, {})
        formulas = own.get("computed", [])
        excused = {token: reason for reason, texts in own.items() if reason != "computed" for token in " ".join([texts] if isinstance(texts, str) else texts).split()}
        excused |= {formula.partition("=")[0].strip(): "computed" for formula in formulas}
        missing = list(lacking(page, tables))
        new = [(line, token) for line, token in missing if token not in excused]
        if name in unchecked:
            if not new:
                yield f"tools/numbers.toml: {name} has no number without its raw data now: take it from `unchecked`"
            unchecked.pop(name)
            continue
        for line, token in new:
            yield (f"{name}:{line}: {token} is in no generated table of its section, nor of a raw file that the text names: correct it, "
                   f"name the raw file, or give the reason in tools/numbers.toml")
        for token in sorted(set(excused) - {token for _, token in missing}):
            yield f"tools/numbers.toml: {name} needs no excuse for {token}: remove it"
        source = "\n".join(text for (folder, _), text in tables.items() if folder == page.parent or page.parent.name == "experiments")
        for formula in formulas:
            if fault := computed(formula, source):
                yield f"tools/numbers.toml: {name}: `{formula}` {fault}"
    for name in unchecked:
        yield f"tools/numbers.toml: {name} in `unchecked` is no page of an experiment that is written by hand"
