#!/usr/bin/env python3
"""Checks the guide (docs/guide) without building it.

    guide.py              names what is wrong, and fails
    guide.py --planted    makes mistakes in copies of the guide, and fails if one is not found

- SUMMARY.md lists every page, each once, and no page that does not exist.
- Links lead to a page, a picture or a heading of the guide: pages of mdBook reach nothing outside.
- Links of README.md, CONTRIBUTING.md and SECURITY.md lead somewhere, too.
- A page below `reference/` includes one document of the repository, whose links lead to pages and
  files of the guide, too: what it reaches beside it in the repository is not in the book.
- A block of Rust is compiled: by `examples/guide`, as a test of documentation, or it is marked
  `rust,ignore` and is in the file that the comment before it names.
- A block is of a kind that is known, and each page that has Rust is a module of `examples/guide`.
- No page has a line that stands for text to be written, such as `@FIGURES@`.
- Pictures are well-formed XML, are shown somewhere, and are what docs/guide/pictures.py draws,
  unless a benchmark has drawn them.

- A block of commands (`console`) that is not run has a comment before it: `<!-- run by FILE -->`
  names what runs the same, `<!-- by hand: WHY -->` says why nothing does.

Blocks marked `console run`, and `console run with PROGRAM ...`, are run by `cargo test -p smcx --test guide`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"(!?)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FROM = re.compile(r"^<!-- from (\S+) -->$")
RUN_BY = re.compile(r"^<!-- run by (\S+) -->$")
BY_HAND = re.compile(r"^<!-- by hand: .+ -->$")
RUN_WITH = re.compile(r"console run with( [\w-]+)+$")
PLACEHOLDER = re.compile(r"@[A-Z]+@$")
INCLUDE = re.compile(r"^\{\{#include (\S+)\}\}$", re.M)
KINDS = {"rust", "rust,no_run", "rust,ignore", "console", "console run", "text", "toml", "yaml",
         "dockerfile", "json"}
FRONT = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
SVG = "{http://www.w3.org/2000/svg}"


def anchor(heading):
    """The name that mdBook, and forges, give to a heading."""
    plain = re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
    kept = "".join(c for c in plain if c.isalnum() or c in "-_ ")
    return kept.replace(" ", "-")


def split(text):
    """The prose of a page, and its blocks: (line, kind, text, the line before it)."""
    prose, blocks, kind, before = [], [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if kind is None and fence:
            kind, start, body = fence[1], number, []
            above = before
        elif kind is not None and line == "```":
            blocks.append((start, kind, "\n".join(body), above))
            kind = None
        elif kind is not None:
            body.append(line)
        else:
            prose.append((number, line))
        if line.strip():
            before = line
    if kind is not None:
        blocks.append((start, "not closed", "", ""))
    return prose, blocks


def headings(prose):
    return {anchor(line.lstrip("#")) for _, line in prose if re.match(r"#+ ", line)}


class Guide:
    """The guide of a tree, and what is wrong with it."""

    def __init__(self, root):
        self.root, self.src = root, root / "docs/guide/src"
        self.faults, self.shown = [], set()
        self.pages = {page: page.read_text() for page in sorted(self.src.rglob("*.md"))}

    def fault(self, page, line, what):
        self.faults.append(f"{page.relative_to(self.root)}:{line}: {what}")

    def document(self, page):
        """The document that a page of `reference/` includes."""
        include = INCLUDE.search(self.pages[page])
        return (page.parent / include[1]).resolve() if include else None

    def anchors(self, page):
        text = self.pages[page]
        document = self.document(page)
        if document and document.exists():
            text += document.read_text()
        prose, _ = split(text)
        return headings(prose)

    def summary(self):
        summary = self.src / "SUMMARY.md"
        listed = [target for _, target in LINK.findall(self.pages[summary])]
        for target in listed:
            if self.src / target not in self.pages:
                self.fault(summary, 1, f"{target} does not exist")
            if listed.count(target) > 1:
                self.fault(summary, 1, f"{target} is listed more than once")
        for page in self.pages:
            if page != summary and str(page.relative_to(self.src)) not in listed:
                self.fault(page, 1, "is not in SUMMARY.md")

    def link(self, page, line, target):
        if re.match(r"[a-z]+:", target):
            return
        path, _, name = target.partition("#")
        there = Path(os.path.normpath(page.parent / path)) if path else page
        if self.src not in there.parents:
            self.fault(page, line, f"{target} leaves the guide")
        elif there.suffix == ".svg" and there.exists():
            self.shown.add(there)
        elif there not in self.pages:
            # A file that is no page is copied into the book as it is.
            if there.suffix == ".md" or not there.exists():
                self.fault(page, line, f"{target} does not exist")
        elif name and name not in self.anchors(there):
            self.fault(page, line, f"{target}: there is no such heading")

    def page(self, page):
        prose, blocks = split(self.pages[page])
        document = self.document(page)
        if document and not document.exists():
            self.fault(page, 1, f"includes {document}, which does not exist")
        elif document:
            if document.name != page.name:
                self.fault(page, 1, f"is not named as {document.name}, so links to it break")
            prose, _ = split(document.read_text())
        elif page.parent.name == "reference":
            self.fault(page, 1, "includes nothing")
        for line, text in prose:
            if PLACEHOLDER.match(text):
                self.fault(page, line, f"{text} is still to be written")
            for _, target in LINK.findall(re.sub(r"`[^`]*`", "", text)):
                self.link(page, line, target)
        for line, kind, text, before in blocks:
            self.block(page, line, kind, text, before)

    def block(self, page, line, kind, text, before):
        if kind not in KINDS and not RUN_WITH.match(kind):
            self.fault(page, line, f"a block of the kind {kind!r}")
        if kind == "rust,ignore":
            source = FROM.match(before)
            if not source:
                self.fault(page, line, "no comment before it names the file it is from")
            elif not (self.root / source[1]).exists():
                self.fault(page, line, f"{source[1]} does not exist")
            else:
                self.excerpt(page, line, text, (self.root / source[1]).read_text(), source[1])
        elif kind.startswith("rust"):
            module = f'include_str!("../../../docs/guide/src/{page.relative_to(self.src)}")'
            if module not in (self.root / "examples/guide/src/lib.rs").read_text():
                self.fault(page, line, "examples/guide/src/lib.rs does not compile this page")
        elif kind.startswith("console run") and not text.startswith(("$ ", "# ")):
            self.fault(page, line, "does not begin with a command")
        elif kind == "console" and not BY_HAND.match(before):
            other = RUN_BY.match(before)
            if not other:
                self.fault(page, line, "is not run, and no comment before it says what runs it")
            elif not (self.root / other[1]).exists():
                self.fault(page, line, f"{other[1]} does not exist")

    def excerpt(self, page, line, text, source, name):
        """Pieces between lines of `// ...` stand in the file, whatever their indentation."""
        lines = source.splitlines()
        for piece in re.split(r"^ *// \.\.\.$\n?", text, flags=re.M):
            wanted = textwrap.dedent(piece).strip("\n").splitlines()
            places = (lines[at : at + len(wanted)] for at in range(len(lines)))
            if not any(textwrap.dedent("\n".join(place)).splitlines() == wanted for place in places):
                self.fault(page, line, f"{wanted[0]!r} and what follows: not so in {name}")

    def pictures(self):
        for picture in sorted((self.src / "pictures").iterdir()):
            if picture.suffix != ".svg":
                self.fault(picture, 1, "is no SVG")
                continue
            try:
                tree = xml.parse(picture).getroot()
            except xml.ParseError as error:
                self.fault(picture, 1, str(error))
                continue
            if tree.tag != f"{SVG}svg" or not tree.get("viewBox"):
                self.fault(picture, 1, "is no SVG with a viewBox")
            if picture not in self.shown:
                self.fault(picture, 1, "no page shows it")
        drawn = subprocess.run(
            [sys.executable, self.root / "docs/guide/pictures.py", "--check"],
            stderr=subprocess.PIPE, check=False,
        )
        if drawn.returncode != 0:
            self.fault(self.src / "pictures", 1, drawn.stderr.decode().strip())

    def readme(self):
        """Links of the pages that lead to the guide."""
        for name in FRONT:
            prose, _ = split((self.root / name).read_text())
            for line, text in prose:
                for _, target in LINK.findall(re.sub(r"`[^`]*`", "", text)):
                    path, _, heading = target.partition("#")
                    there = (self.root / path).resolve()
                    if re.match(r"[a-z]+:", target) or not path:
                        continue
                    if not there.exists():
                        self.fault(self.root / name, line, f"{target} does not exist")
                    elif heading and there.suffix == ".md":
                        prose_there, _ = split(there.read_text())
                        if heading not in headings(prose_there):
                            self.fault(self.root / name, line, f"{target}: there is no such heading")

    def check(self):
        self.summary()
        self.readme()
        for page in self.pages:
            if page.name != "SUMMARY.md":
                self.page(page)
        self.pictures()
        return self.faults


# What is replaced in which file, and what must be found.
PLANTED = [
    ("SUMMARY.md", "(smc.md)", "(gone.md)", "gone.md does not exist"),
    ("SUMMARY.md", "- [Tune](tune.md)\n", "", "is not in SUMMARY.md"),
    ("about.md", "(smc.md)", "(smd.md)", "smd.md does not exist"),
    ("about.md", "(smc.md)", "(../../why-tcp.md)", "leaves the guide"),
    ("about.md", "(smc.md)", "(smc.md#no-such)", "no such heading"),
    ("embed.md", "Answer::Done(RToken", "Answer::Did(RToken", "not so in"),
    ("embed.md", "<!-- from ", "<!-- of ", "no comment before it"),
    ("fast.md", "<!-- by hand", "<!-- hand", "no comment before it says what runs it"),
    ("embed.md", "guide/tests/memory.rs", "guide/tests/storage.rs", "storage.rs does not exist"),
    ("run.md", "```console run with redis", "```console ran with redis", "a block of the kind"),
    ("port.md", "```rust\n", "```rusty\n", "a block of the kind"),
    ("smc.md", "(pictures/ways.svg)", "(pictures/way.svg)", "pictures/way.svg does not exist"),
    ("pictures/ways.svg", "</svg>", "", "no element found"),
    ("pictures/ways.svg", "SMC-D", "SMC-E", "not as docs/guide/pictures.py draws"),
    ("SUMMARY.md", "- [Events](reference/events.md)\n", "", "reference/events.md:1: is not in"),
    ("../../architecture.md", "(events.md)", "(ambiguities.md)", "ambiguities.md does not exist"),
    ("../../operate.md", "(grafana-smc.json)", "(grafana.json)", "grafana.json does not exist"),
    ("reference/policy.md", "policy.md}}", "police.md}}", "which does not exist"),
    ("../../../README.md", "docs/guide/src/smc.md", "docs/guide/smc.md", "does not exist"),
    ("fast.md", "## Sockets", "@SOCKETS@", "is still to be written"),
    ("limits.md", "# Limits", "```rust\n```\n# Limits", "does not compile this page"),
]


def planted():
    missed = []
    with tempfile.TemporaryDirectory() as scratch:
        for file, old, new, expected in PLANTED:
            copy = Path(scratch).resolve() / "tree"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(ROOT / "docs", copy / "docs")
            shutil.copytree(ROOT / "examples/guide/src", copy / "examples/guide/src")
            for name in FRONT:
                shutil.copy(ROOT / name, copy / name)
            page = copy / "docs/guide/src" / file
            text = page.read_text()
            if old not in text:
                missed.append(f"{file}: {old!r} is not there to be replaced")
                continue
            page.write_text(text.replace(old, new, 1))
            if not any(expected in fault for fault in Guide(copy).check()):
                missed.append(f"{file}: {old!r} as {new!r} is not found")
    return missed


def main():
    if sys.argv[1:] not in ([], ["--planted"]):
        sys.exit(__doc__)
    guide = Guide(ROOT)
    faults = planted() if sys.argv[1:] else guide.check()
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(PLANTED)} mistakes are found" if sys.argv[1:] else f"{len(guide.pages)} pages")


if __name__ == "__main__":
    main()
