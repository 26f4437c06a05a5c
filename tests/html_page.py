"""An HTML page as tests look at it: whether it is whole, and what it holds, links to and loads."""

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags, ids, words and addresses of a page; fails if a tag is not closed in its turn."""

    VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "path", "use"})

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = []
        self.ids = []
        self.addresses = []
        self.words = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), "nothing runs that a name could have brought along"
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "srcset") and value:
                self.addresses.append(value)

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def assert_needs_no_other_file(text):
    """Plots are inside, nothing is loaded, no id stands twice."""
    page = Page(text)
    assert all(address.startswith("#") for address in page.addresses)
    assert "svg" in page.tags
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []
    names = r"http://www\.w3\.org/(2000/svg|1999/xlink)"  # of XML vocabularies, never loaded
    assert re.sub(names, "", text).count("://") == 0
