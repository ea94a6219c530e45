"""Rules of `tools/style`: from a text to its sentences, and from a sentence to its faults."""

import re

LONG_WORDS = 35
MANY_WORDS = 25

# Words that begin a noun clause or stand for a noun; a sentence starts with the noun itself. Questions may begin so.
CLAUSE = re.compile(
    r"(What|Whatever|Who|Whose|Whoever|Which|Where|Its|Their|They|The same|Of|Nothing|Nobody|Somebody|None|So|By how)\b(?!.*\?$)"
)
# A sentence may begin with a name in small letters, such as etcd, or with a number.
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"*_]*\s+(?=[A-Z`\"(*\[])|(?<=[\w)]{3}[.!?])\s+(?=[a-z0-9])|\v+")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|al|Fig|Eq|No|Sec|St|approx|resp)\.$")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", re.S)
URL = re.compile(r"<?https?://[^\s>)]+>?")
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")


def with_lines(replacement):
    """A replacement that keeps the line ends of what it replaces."""
    return lambda m: replacement + "\n" * m.group().count("\n")


def prose(text):
    """The text with code, targets of links and emphasis taken away."""
    # Bold words at the start that end with a full stop are a heading.
    text = re.sub(r"^\*\*[^*]+[.:]\*\*", "", text)
    text = CODE.sub(with_lines("CODE"), text)
    text = LINK.sub(lambda m: m.group(1) + "\n" * (m.group().count("\n") - m.group(1).count("\n")), text)
    text = re.sub(r"\[(CODE\s?)\]", r"\1", text)
    text = URL.sub("URL", text)
    return re.sub(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=[\w.,;:])[*_](?!\w)", "", text)


def sentences(text):
    """(line after the first, last line, sentence) of each sentence with three words or more."""
    text = prose(text)
    pieces, at = [], 0
    for end in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text[:end.start()].rstrip(')"*_')):
            pieces.append((at, end.end()))
            at = end.end()
    for start, end in [*pieces, (at, len(text))]:
        whole = text[start:end]
        sentence = " ".join(whole.split())
        if len(words(sentence)) > 2:
            begin = start + len(whole) - len(whole.lstrip())
            yield text.count("\n", 0, begin), text.count("\n", 0, start + len(whole.rstrip())), sentence


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


# -- the glossary's table -----------------------------------------------------------------------------------------

def phrase(text):
    """`is/are told` as an expression: whole words in any case, each of the alternatives."""
    parts = ["(?:" + "|".join(map(re.escape, word.split("/"))) + ")" for word in text.split()]
    return r"(?<![\w-])" + r"\s+".join(parts) + r"(?![\w-])"


def glossary(page):
    """[(what to write, expression of what not, expression of where it is right or None)] from the table `write | not | except`."""
    rows, in_table = [], False
    for line in page.replace("`", "").split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == ["write", "not", "except"]:
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and len(cells) == 3 and not re.fullmatch(r"[-: ]+", cells[0]):
            either = [re.compile("|".join(phrase(p.strip()) for p in cell.split(",")), re.I) if cell else None for cell in cells[1:]]
            rows.append((cells[0], *either))
    if not rows:
        raise ValueError("no table `write | not | except`")
    return rows


# -- verbs --------------------------------------------------------------------------------------------------------

# Finite forms that the regular endings do not show.
IRREGULAR = set(
    "am is are was were be been being has have had do does did can could may might must shall should will would cannot let lets "
    "began begins broke built came chose cost cuts drew fell felt fits found gave gets got goes grew held hits kept knew laid leads left lent lies "
    "lost made makes means meant met needs paid puts put ran read reads rose said sat saw says see seen sent sets set shows shut spent stood "
    "takes took thought tells told try tries understood went wins won wrote writes go get give take make keep hold know see find lead lose come "
    "consist consists become becomes became forbids forgot hides hurts split splits spread begins bind binds bound stay stays don't doesn't isn't aren't".split()
)


class Verbs:
    """Words that may be verbs, by the words of the whole project: those that also have a form with -ing or -ed."""

    def __init__(self, vocabulary):
        self.stems = {word for word in vocabulary if word and self.is_inflected(word, vocabulary)}

    @staticmethod
    def is_inflected(word, vocabulary):
        stems = (word.removesuffix("e"), word + word[-1])
        return any(stem + ending in vocabulary for stem in stems for ending in ("ing", "ed"))

    def may_be(self, word):
        if word in IRREGULAR or word in self.stems:
            return True
        for ending, stems in (("ies", (word[:-3] + "y",)), ("es", (word[:-2], word[:-1])), ("s", (word[:-1],)),
                              ("ed", (word[:-2], word[:-1], word[:-3], word[:-3] + "y"))):
            if word.endswith(ending) and any(stem in self.stems for stem in stems):
                return True
        return word.endswith("n't")

    def lacks(self, sentence):
        return not any(self.may_be(word) for word in re.findall(r"[a-z'-]+", sentence.lower()))


# -- faults -------------------------------------------------------------------------------------------------------

def faults(is_page, form, sentence, private, verbs):
    """[(column, rule)] of a sentence. `is_page`: it is one of a page, where sentences have verbs."""
    found = []
    if len(words(sentence)) > LONG_WORDS:
        found.append(("long", f"{len(words(sentence))} words, at most {LONG_WORDS}"))
    start = CLAUSE.match(sentence)
    if start:
        found.append(("clause", f"begins with `{start.group()}`: name the thing"))
    plain = QUOTED.sub("QUOTE", sentence)
    for write, bad, fine in private:
        m = bad.search(fine.sub("", plain) if fine else plain)
        if m:
            found.append(("odd", f"`{m.group()}`: write {write}"))
    # Captions and figures have numbers or a colon.
    if is_page and form == "paragraph" and re.search(r"^[^\d:]*[.!]$", sentence) and len(words(sentence)) > 3 and verbs.lacks(sentence):
        found.append(("odd", "no verb"))
    return found
