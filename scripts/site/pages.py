"""Gathers the pages of the site from the repository: usage `python3 pages.py PERVADE FOLDER`.

PERVADE is the command, whose definitions become the reference. FOLDER gets `pages` and `mkdocs.yml`. Every text has one
source: pages are copied from Markdown files as GitHub shows them, with their links turned into those of the site.
"""

import json
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

import reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PICTURES = {".png", ".svg"}

# Pages of the site by section, as files of the repository; the order of the guide is that of its own list.
SECTIONS = {
    "Guide": ["docs/guide/README.md"],
    "Concepts": ["docs/glossary.md", "docs/maths.md", "docs/paper.md"],
    "Reference": ["docs/data.md"],
    "Results": ["docs/results.md", "repro/table2.md", "repro/table3.md", "repro/compare/digits.md", "docs/performance.md"],
    "Project": ["CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/cuda.md"],
}
FIRST = "README.md"
# Titles of files that have no heading: what commands wrote.
TITLES = {
    "repro/table2.md": "Table 2 of the paper",
    "repro/table3.md": "Table 3 of the paper",
    "repro/compare/digits.md": "Methods on the digits",
}


def guide():
    """The pages of the guide, in the order of its list."""
    listed = re.findall(r"^\d+\. \[[^\]]*\]\(([^)]*)\)", (ROOT / "docs/guide/README.md").read_text(), re.MULTILINE)
    found = {path.name for path in (ROOT / "docs/guide").glob("*.md")} - {"README.md"}
    if set(listed) != found:
        sys.exit(f"docs/guide/README.md does not list {sorted(found ^ set(listed))}, or they do not exist")
    return [f"docs/guide/{name}" for name in listed]


def sources():
    """Files of the repository by section."""
    return {**SECTIONS, "Guide": [*SECTIONS["Guide"], *guide()]}


def site_path(source):
    """Where a file of the repository is on the site."""
    path = source.removeprefix("docs/")
    if source == FIRST:
        return "index.md"
    if path.endswith("/README.md"):
        return path.replace("README.md", "index.md")
    return path.lower() if "/" not in source else path


def outside_fences(text, change):
    """Applies `change` to the parts of a Markdown text that are not fenced code."""
    parts = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def with_site_links(text, source, known, pictures):
    """Turns links between files of the repository into links of the site. What the site does not have is named but not linked."""
    here = pathlib.PurePosixPath(site_path(source)).parent

    def change(found):
        sign, label, target = found.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return found.group()
        path, _, anchor = target.partition("#")
        file = ((ROOT / source).parent / path).resolve()
        if not file.exists():
            sys.exit(f"{source}: {target} does not exist")
        name = file.relative_to(ROOT).as_posix()
        if file.suffix in PICTURES:
            pictures.add(name)
        elif name not in known:
            return label
        to = posixpath.relpath(site_path(name), here)
        return f"{sign}[{label}]({to}{'#' + anchor if anchor else ''})"

    return outside_fences(text, lambda part: LINK.sub(change, part))


def kind(line):
    """What a line of Markdown is part of."""
    if re.match(r"([-*]|\d+\.) ", line):
        return "list"
    if line.startswith("  "):
        return "continued"
    return "table" if line.startswith("|") else "comment" if line.startswith("<!--") else "text" if line else "blank"


def with_blank_lines(text):
    """GitHub needs no blank line before a list, a table or a comment, and an indent of two within a list; Python-Markdown
    does."""
    lines, is_paragraph = [], False
    for line in text.split("\n"):
        before, now = kind(lines[-1] if lines else ""), kind(line)
        # A line that continues an item belongs to its list; a paragraph of its own within an item ends with a blank line.
        is_same = now in (before, "blank", "continued") or (before == "continued" and now == "list" and not is_paragraph)
        if before != "blank" and not is_same and {before, now} & {"list", "table", "comment"}:
            lines.append("")
        is_paragraph = now == "continued" and (is_paragraph or before == "blank")
        lines.append("    " + line.lstrip() if is_paragraph else line)
    return "\n".join(lines)


def copy(source, pages, known, pictures):
    """Copies a page."""
    text = (f"# {TITLES[source]}\n\n" if source in TITLES else "") + (ROOT / source).read_text()
    text = ("---\nhide: [navigation]\n---\n" if source == FIRST else "") + text
    text = with_site_links(text, source, known, pictures)
    text = outside_fences(text, with_blank_lines)
    to = pages / site_path(source)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text)


def title(source):
    """The title of a page in the navigation: its heading up to a comma."""
    return TITLES.get(source) or re.search(r"^# ([^,\n]*)", (ROOT / source).read_text(), re.MULTILINE).group(1)


def navigation(sections, made):
    """The navigation of the site: sections with their pages."""
    nav = [{"Home": "index.md"}]
    for section, names in sections.items():
        entries = [site_path(name) if name.endswith("/README.md") else {title(name): site_path(name)} for name in names]
        nav.append({section: (made if section == "Reference" else []) + entries})
    return nav


def main(pervade, folder):
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    pages.mkdir(parents=True)
    sections = sources()
    known = {FIRST, *(name for names in sections.values() for name in names)}
    pictures = set()
    for source in sorted(known):
        copy(source, pages, known, pictures)
    for picture in pictures:
        to = pages / site_path(picture)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / picture, to)
    shutil.copytree(HERE / "assets", pages / "assets")
    definitions = json.loads(subprocess.run([pervade, "reference"], check=True, capture_output=True, text=True).stdout)
    made = reference.write(definitions, ROOT / "python/pervade", pages)
    nav = json.dumps(navigation(sections, made), indent=1)
    (folder / "mkdocs.yml").write_text((HERE / "mkdocs.yml").read_text() + f"nav: {nav}\n")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve())
