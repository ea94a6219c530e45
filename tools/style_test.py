"""Tests of `tools/style`: each rule with a sentence that it finds, and one that it does not."""

import style_rules
import style_texts

TABLE = """
| word | meaning |
|---|---|
| lab | nobody |

| write | not | except |
|---|---|---|
| print | is/are told, says | is told apart |
| again | anew | |
"""
VERBS = style_rules.Verbs({"send", "sending", "link", "linked", "node"})

# (rule or None, sentence) of a page.
RULES = [
    ("long", "The words send " + "word " * 32 + "end."),
    (None, "The words send " + "word " * 31 + "end."),
    (None, "The words send `" + "word " * 40 + "` end."),
    (None, "The words send [a link](" + "path/" * 40 + ") end."),
    ("clause", "What arrives is counted."),
    ("clause", "Nobody sends frames."),
    ("clause", "Of these, two are sent."),
    ("clause", "Its links are sent."),
    (None, "What arrives first?"),
    (None, "Often links are sent."),
    (None, "`What` is sent."),
    ("odd", "The error is told by the lab."),
    ("odd", "The lab says that links are sent."),
    ("odd", "Links are sent\nanew."),
    (None, "Links are told-apart and sent."),
    (None, "The lab is told apart by its links."),
    (None, "The lab prints `is told` on links."),
    (None, 'The lab prints "is told" on links.'),
    ("odd", "One word for one thing."),
    (None, "Nodes send frames to others."),
    (None, "Target: a node in 5 s."),
    (None, "**One word for one thing.** Nodes send frames."),
]

# (file, text, [(kind, line, sentence)])
READERS = [
    ("a.md", "# What is this heading\n\nOne node sends.\nTwo more nodes\nsend. A third one sends.\n\n```\nWhat is this code\n```\n",
     [("md", 3, "One node sends."), ("md", 4, "Two more nodes send."), ("md", 5, "A third one sends.")]),
    ("a.md", "| what this is | What it does |\n|---|---|\n| a | Sends e.g. Two frames. |\n- one item sends\n- another item sends\n",
     [("md", 1, "what this is"), ("md", 1, "What it does"), ("md", 3, "Sends e.g. Two frames."), ("md", 4, "one item sends"),
      ("md", 5, "another item sends")]),
    ("a.md", "**What this is** (a heading)\nOne node sends. 2 nodes send.", [("md", 2, "One node sends."), ("md", 2, "2 nodes send.")]),
    ("a.md", "<!-- What is this\ncomment -->\n\n[b]: https://what.is.this/link\nOne [link](a.md) sends.", [("md", 5, "One link sends.")]),
    ("a.md", "<!-- keys: A -->\nWhat is generated.\n<!-- end of keys -->\n\nOne node sends.", [("md", 5, "One node sends.")]),
    ("src/a.rs", "//! This file sends.\n\n/// Returns it\n/// at once.\nfn a() {} // This one sends.\n// This one too\n// sends.\n",
     [("doc", 1, "This file sends."), ("doc", 3, "Returns it at once."), ("comment", 5, "This one sends."), ("comment", 6, "This one too sends.")]),
    ("src/a.rs", "let a = '\"'; // This is \"no string that one reads\".\n", [("comment", 1, 'This is "no string that one reads".')]),
    ("src/a.rs", 'f("the frame {a} is \\\n    sent to `{b}`", "/a b c d e", "ip link a", r"a b c d e f");', [("text", 1, "the frame X is sent to CODE")]),
    ("src/a.rs", "#[cfg(test)]\nmod tests {\n    // One node sends.\n    f(\"one node sends all frames\");\n}\n", [("tests", 3, "One node sends.")]),
    ("tests/a.rs", "// One node sends.\nf(\"one node sends all frames\");\n", [("tests", 1, "One node sends.")]),
    ("a.ts", "// No word of this.\nf(\"four words of it\", `a ${x} of four words`, 'a');\n", [("web", 2, "four words of it"), ("web", 2, "a X of four words")]),
    ("a.html", "<p title=\"four words of it\">one word</p>\n<b>another four words sent</b>", [("web", 1, "four words of it"), ("web", 2, "another four words sent")]),
    ("a.py", '"""One node sends."""\n\ndef f():\n    """Two nodes\n    send it."""\n    g(help="four words of help")\n',
     [("python", 1, "One node sends."), ("python", 4, "Two nodes send it."), ("python", 6, "four words of help")]),
    ("a.ipynb", '  "cell_type": "markdown",\n  "source": [\n   "# Head\\n",\n   "One node sends."\n  ]\n  "cell_type": "code",\n  "source": [\n   "a b c d"\n  ]\n',
     [("md", 4, "One node sends.")]),
]

DIFF = """--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
--- a/docs/a.md
+++ b/docs/a.md
@@ -1 +1 @@ head
@@ -7,0 +8,2 @@
@@ -20,3 +22,0 @@
"""


def broken():
    private = style_rules.glossary(TABLE)
    for wanted, text in RULES:
        found = [column for _, _, s in style_rules.sentences(text) for column, _ in style_rules.faults(True, "paragraph", s, private, VERBS)]
        if found != ([wanted] if wanted else []):
            yield f"found {found}, not {wanted}: {text}"
    for name, text, wanted in READERS:
        found = [(kind, line + first, sentence) for kind, _, line, part in style_texts.of_text(name, text)
                 for first, _, sentence in style_rules.sentences(part)]
        if sorted(found) != sorted(wanted):
            yield f"read {found}, not {wanted}: {name}: {text}"
    try:
        style_rules.glossary("| word | meaning |\n")
        yield "a glossary without its table is accepted"
    except ValueError:
        pass
    if style_texts.added_in(DIFF) != {"docs/a.md": {1, 8, 9}}:
        yield f"added lines of a diff: {style_texts.added_in(DIFF)}"


def run():
    lines = [f"style: self-test: {line}" for line in broken()]
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0
