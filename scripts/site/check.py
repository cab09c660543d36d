"""Checks a built site: usage `python3 check.py FOLDER`.

Every internal link, picture, script and style must exist, and every anchor must be on its page. External links are only checked
for their form; pages load nothing from elsewhere.
"""

import collections
import html.parser
import pathlib
import posixpath
import re
import sys
import urllib.parse

# Attributes that a browser loads by itself; links are only followed by the reader.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("source", "srcset")}
# Links with these relations are not loaded.
NAMED_ONLY = {"canonical", "prev", "next", "alternate"}
EXTERNAL = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s\"<>]*)?")


class Page(html.parser.HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded, self.headings = set(), [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.headings += tag == "h1"
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        for name in ("href", "src", "srcset"):
            if values.get(name):
                is_loaded = (tag, name) in LOADED and values.get("rel") not in NAMED_ONLY
                (self.loaded if is_loaded else self.links).append(values[name])


def problems(site):
    """What is wrong, one line per fault."""
    pages = {path.relative_to(site).as_posix(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    counts = collections.Counter()
    for name, page in pages.items():
        if page.headings != 1 and name != "404.html":
            yield f"{name}: {page.headings} headings of the first level"
        for target in page.loaded + page.links:
            parts = urllib.parse.urlsplit(target)
            counts["external" if parts.scheme else "internal"] += 1
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    yield f"{name}: loads {target}"
                elif parts.scheme not in ("data", "mailto") and not EXTERNAL.fullmatch(target):
                    yield f"{name}: the link {target} is malformed"
                continue
            # A page that is not found can be asked for from any folder: its links begin at the root.
            path = parts.path.lstrip("/") if name == "404.html" else posixpath.join(posixpath.dirname(name), parts.path)
            to = posixpath.normpath(urllib.parse.unquote(path)) if parts.path else name
            if (site / to).is_dir():
                to = posixpath.normpath(posixpath.join(to, "index.html"))
            if not (site / to).is_file():
                yield f"{name}: {target} does not exist"
            elif parts.fragment and to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].anchors:
                yield f"{name}: {target} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"url\(['\"]?(?!data:)([^)'\"]+)", path.read_text()):
            if re.match(r"(https?:)?//", target):
                yield f"{path.relative_to(site)}: loads {target}"
    print(f"{len(pages)} pages, {counts['internal']} internal and {counts['external']} external links")


def main():
    site = pathlib.Path(sys.argv[1])
    found = list(problems(site))
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(f"{len(found)} faults in {site}" if found else 0)


if __name__ == "__main__":
    main()
