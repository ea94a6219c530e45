"""Links of the site that leave `docs/`: the files are in the clone, so the site prints their paths instead."""

import posixpath
import re

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, **_):
    """Called by mkdocs for each page."""
    folder = posixpath.dirname(page.file.src_uri)

    def said(found):
        text, target = found[1], found[2]
        place = posixpath.normpath(posixpath.join("docs", folder, target))
        if place.startswith("docs/"):
            return found[0]
        return f"{text} (`{place}`)" if text.strip("`") != place else f"`{place}`"

    return LINK.sub(said, markdown)
