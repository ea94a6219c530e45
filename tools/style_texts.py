"""Readers of `tools/style`: from a file to the texts in it that people read.

A reader yields `(kind, form, line, text)`. `line` is that of the text's first character; line ends stay in the text, so that
a place in it has a line. `form` is `paragraph`, `item` (of a list), `cell` (of a table) or `words` (a string).
"""

import ast
import re

RUST = re.compile(
    r"""(?P<comment>//[^\n]*)|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b"(?:\\.|[^"\\])*"|"(?P<string>(?:\\.|[^"\\])*)"
    |'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'""", re.S | re.X,
)
TYPESCRIPT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<=[(,=:\s])/(?![/*\s])(?:\\.|\[[^\]\n]*\]|[^/\\\n])+/[a-z]*(?=[.,;)\s])
    |"(?P<string>(?:\\.|[^"\\\n])*)"|`(?P<template>(?:\\.|[^`\\])*)`""", re.S | re.X,
)
# From here on a Rust file has only tests.
RUST_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
# Tables of keys are made from the documentation of Rust, where their words are judged. Other comments are not shown.
GENERATED = r"<!-- keys: .*?<!-- end of keys -->|<!--.*?-->"
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s+")
# Headings (also bold lines), rules of tables, markup, pictures, targets of links, and columns that are aligned by spaces.
MARKUP = re.compile(r"\s*(#+ |\|[\s|:-]+$|</?\w|!\[|\[[^\]]+\]: |[^|]*\S {3,}\S|\*\*[^*]+\*\*(?: \([^)]*\))?$)")


def markdown(kind, text, first=1):
    """The paragraphs, items and cells of Markdown."""
    fence, form, start, lines = False, None, 0, []
    text = re.sub(GENERATED, lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n") + [""], first):
        item, fenced = ITEM.match(line), FENCE.match(line)
        cells = line.strip().startswith("|")
        ends = fence or fenced or item or cells or not line.strip() or MARKUP.match(line)
        if ends and lines:
            yield kind, form, start, "\n".join(lines)
            lines = []
        if fenced:
            fence = not fence
        elif fence or MARKUP.match(line) or not line.strip():
            continue
        elif cells:
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                if cell.strip():
                    yield kind, "cell", number, cell.strip()
        else:
            if not lines:
                form, start = "item" if item else "paragraph", number
            lines.append(line[item.end():] if item else line)


def notebook(text):
    """The Markdown cells of a notebook: one line of the file is one of the cell."""
    cell = source = False
    lines, start = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        if m := re.match(r'\s*"cell_type": "(\w+)"', line):
            cell = m.group(1) == "markdown"
        elif re.match(r'\s*"source": \[$', line):
            source, lines, start = cell, [], number + 1
        elif source and line.strip() in ("]", "],"):
            source = False
            yield from markdown("md", "\n".join(lines), start)
        elif source:
            lines.append(ast.literal_eval(line.strip().rstrip(",")).rstrip("\n"))


def rust(text, is_test):
    """Documentation, comments and, outside of tests, strings that are messages."""
    tests = RUST_TESTS.search(text)
    words_end = 0 if is_test else tests.start() if tests else len(text)
    tests_line = text.count("\n", 0, words_end) if words_end else -1
    block, kind, start, last = [], None, 0, -1
    at, number = 0, 1
    for m in RUST.finditer(text):
        number += text.count("\n", at, m.start())
        at = m.start()
        if comment := m.group("comment"):
            alone = not text[text.rfind("\n", 0, at) + 1:at].strip()
            lead = re.match(r"//[/!]?", comment).group() if alone else "//"
            if comment.startswith("////"):
                continue
            if block and not (alone and last == number - 1 and lead == kind):
                yield from comment_of(kind, block, start, start > tests_line)
                block = []
            if not block:
                kind, start = lead, number
            block.append(re.sub(r"^ ", "", comment[len(lead):]))
            last = number if alone else -1
        elif m.group("string") and at < words_end:
            if words := message(m.group("string")):
                yield "text", "words", number, words
    if block:
        yield from comment_of(kind, block, start, start > tests_line)


def comment_of(lead, lines, start, is_test):
    kind = "tests" if is_test else "comment" if lead == "//" else "doc"
    return markdown(kind, "\n".join(lines), start)


def message(literal):
    """A string as people see it, if it is a sentence: at least four words, and neither code nor a path."""
    text = re.sub(r"\\\n", "\n", literal)
    text = re.sub(r'\\(["\'\\])', r"\1", text).replace("\\n", "\v").replace("\\t", "\v")
    text = re.sub(r"\{\{|\}\}", "|", text)
    text = re.sub(r"\$?\{[^{}]*\}", "X", text)
    plain = re.findall(r"(?<!\S)[(`\"]?[A-Za-z][a-z'-]*[`\")]?[.,;:!?]*(?!\S)", text)
    if len(plain) < 4 or re.match(r"\s*(/|https?:|[-#<|])", text) or re.search(r"[=;]\s*\v|[{};]\s*$", text):
        return None
    return text


def typescript(text):
    """The strings of the page."""
    for m in TYPESCRIPT.finditer(text):
        literal = m.group("string") or m.group("template")
        if literal and (words := message(literal)):
            yield "web", "words", text.count("\n", 0, m.start()) + 1, words


def html(text):
    for m in re.finditer(r">([^<>]+)<|\b(?:title|placeholder|aria-label)=\"([^\"]+)\"", text):
        if words := message(m.group(1) or m.group(2)):
            yield "web", "words", text.count("\n", 0, m.start()) + 1, words


def python(text):
    """Docstrings, and the help of arguments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            value = getattr(node.body[0], "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                lines = value.value.split("\n")
                indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
                least = min(indents, default=0)
                yield from markdown("python", "\n".join([lines[0], *(line[least:] for line in lines[1:])]), value.lineno)
        elif isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog"):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield "python", "words", node.value.lineno, node.value.value


def of_text(name, text):
    """All texts in the contents of a file that people read."""
    ending = re.search(r"\.\w+$|$", name).group()
    if ending == ".md":
        return markdown("md", text)
    if ending == ".ipynb":
        return notebook(text)
    if ending == ".rs":
        return rust(text, re.search(r"(^|/)tests?(/|\.rs$)|/fuzz/", name) is not None)
    if ending == ".ts":
        return typescript(text)
    if ending == ".html":
        return html(text)
    if ending in (".py", ".pyi") or re.match(r"#!.*python", text):
        return python(text)
    return ()


def texts(path, name):
    """All texts of a file. Files that are neither one of these nor a script are not read to their end."""
    if path.suffix in (".md", ".ipynb", ".rs", ".ts", ".html", ".py", ".pyi"):
        return of_text(name, path.read_text())
    with path.open("rb") as file:
        is_script = not path.suffix and file.read(2) == b"#!"
    return of_text(name, path.read_text()) if is_script else ()


def added_in(diff):
    """{file: numbers of the added lines} of a diff with no lines of context."""
    added, name = {}, None
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            name = line[6:] if line.startswith("+++ b/") else None
        elif name and (m := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line)):
            first = int(m.group(1))
            added.setdefault(name, set()).update(range(first, first + int(m.group(2) or 1)))
    return added
