#!/usr/bin/env python3
"""Holds the dependencies of the workspace to deny.toml: licences, sources, wildcards.

A part of what `cargo deny check licenses bans sources` does, without installing it. Reads
what `cargo metadata` prints on the standard input.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

OPERATORS = {"(", ")", "AND", "OR", "WITH"}


def tokens(expression):
    """Splits an SPDX expression; `/` is an old way to write OR."""
    return re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))


class Expression:
    """An SPDX expression: OR binds weaker than AND, WITH belongs to its licence."""

    def __init__(self, text, allowed):
        self.rest, self.allowed = tokens(text), allowed

    def permitted(self):
        result = self.either()
        if self.rest:
            raise ValueError(f"{self.rest[0]} is not expected")
        return result

    def take(self, token):
        if self.rest[:1] == [token]:
            return self.rest.pop(0)
        return None

    def either(self):
        result = self.all()
        while self.take("OR"):
            # Not `or`, which would leave the right side unread.
            result |= self.all()
        return result

    def all(self):
        result = self.one()
        while self.take("AND"):
            result &= self.one()
        return result

    def one(self):
        if self.take("("):
            result = self.either()
            if not self.take(")"):
                raise ValueError("a parenthesis is missing")
            return result
        name = self.name()
        if self.take("WITH"):
            name += f" WITH {self.name()}"
        return name in self.allowed

    def name(self):
        if not self.rest or self.rest[0] in OPERATORS:
            raise ValueError("a licence is missing")
        return self.rest.pop(0)


def permitted(text, allowed):
    try:
        return bool(text) and Expression(text, allowed).permitted()
    except ValueError:
        return False


def check_itself():
    """The rules refuse what they should, or they say nothing about the rest."""
    allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
    for text in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-2.0", "(GPL-2.0 OR MIT) AND Apache-2.0",
                 "Apache-2.0 WITH LLVM-exception", "GPL-2.0 AND MIT OR MIT"]:
        assert permitted(text, allowed), text
    for text in [None, "", "GPL-3.0", "MIT AND GPL-3.0", "MIT AND (GPL-2.0 OR GPL-3.0)",
                 "MIT WITH LLVM-exception", "MIT Apache-2.0", "(MIT", "MIT OR"]:
        assert not permitted(text, allowed), text


def faults(packages, rules):
    allowed = set(rules["licenses"]["allow"])
    clarified = {each["crate"]: each["expression"] for each in rules["licenses"]["clarify"]}
    sources = {f"registry+{at}" for at in rules["sources"]["allow-registry"]}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or clarified.get(package["name"])
        if not permitted(licence, allowed):
            yield f"{name}: licence {licence!r} is not among those of deny.toml"
        if package["source"] not in sources | {None}:
            yield f"{name}: comes from {package['source']}"
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and "path" not in dependency:
                    yield f"{name}: any version of {dependency['name']} would do"


def main():
    check_itself()
    rules = tomllib.loads((Path(__file__).parent.parent / "deny.toml").read_text())
    packages = json.load(sys.stdin)["packages"]
    found = list(faults(packages, rules))
    for fault in found:
        print(fault, file=sys.stderr)
    outside = sum(package["source"] is not None for package in packages)
    print(f"{outside} dependencies, {len(found)} faults")
    return 1 if found or not outside else 0


sys.exit(main())
