#!/usr/bin/env python3
"""Lists the public functions of smc-proto that a program does not contain.

    check-public-api.py API.json PROGRAM.symbols [ALLOWED]

API.json is what rustdoc says of the crate (--output-format json): functions,
methods, and the functions of every trait implementation of a public type,
derived ones and those written by macros included. PROGRAM.symbols is
`nm --demangle` of a program built without optimisation and linked with
--gc-sections, so that a function that is called has a symbol and one that is
not has none. ALLOWED names functions that may be absent, one a line, each with
its reason behind a '#'.

Functions with a body in another crate (provided methods, blanket
implementations) are not counted: they are not smc-proto's.
"""

import json
import sys


def strip_arguments(path):
    """A path without anything in angle brackets: `a::B<C>::d` is `a::B::d`."""
    depth, kept = 0, []
    for at, letter in enumerate(path):
        if letter == "<":
            depth += 1
        elif letter == ">" and path[at - 1] != "-":
            depth -= 1
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).replace("::::", "::").removesuffix("::")


def split_symbol(symbol):
    """(type or module, last part of the trait or None, function) of a demangled symbol."""
    if not symbol.startswith("<"):
        owner, _, name = strip_arguments(symbol).rpartition("::")
        return owner, None, name
    depth = 0
    for end, letter in enumerate(symbol):
        if letter == "<":
            depth += 1
        elif letter == ">" and symbol[end - 1] != "-":
            depth -= 1
            if depth == 0:
                break
    inside, rest = symbol[1:end], symbol[end + 1 :]
    name = strip_arguments(rest.removeprefix("::"))
    depth = 0
    for at, letter in enumerate(inside):
        if letter == "<":
            depth += 1
        elif letter == ">" and inside[at - 1] != "-":
            depth -= 1
        elif depth == 0 and inside.startswith(" as ", at):
            trait = strip_arguments(inside[at + 4 :]).rpartition("::")[2]
            return type_name(inside[:at]), trait, name
    return type_name(inside), None, name


def type_name(text):
    while text.startswith(("&", "mut ")):
        text = text.removeprefix("&").removeprefix("mut ")
    return strip_arguments(text)


def public_functions(api):
    """Of every public function: (type or module, trait or None, name), and its place."""
    index, paths = api["index"], api["paths"]

    def path_of(item_id):
        return "::".join(paths[str(item_id)]["path"])

    def local(item_id):
        known = paths.get(str(item_id))
        return known is not None and known["crate_id"] == 0

    def place(item):
        span = item["span"]
        return f"{span['filename']}:{span['begin'][0]}" if span else "?"

    found = {}
    seen = set()

    def implementation(impl, kind):
        if kind["blanket_impl"] or kind["is_synthetic"]:
            return
        owner = kind["for"]
        while "borrowed_ref" in owner:
            owner = owner["borrowed_ref"]["type"]
        # An implementation for a type of another crate is listed with the one it is From.
        if "resolved_path" in owner and local(owner["resolved_path"]["id"]):
            owner = path_of(owner["resolved_path"]["id"])
        elif "primitive" in owner:
            owner = owner["primitive"]
        else:
            return
        trait = kind["trait"] and kind["trait"]["path"].rpartition("::")[2]
        for child in kind["items"]:
            item = index[str(child)]
            if "function" in item["inner"]:
                found[owner, trait, item["name"]] = place(item)

    def visit(item_id, module):
        if item_id in seen:
            return
        seen.add(item_id)
        item = index.get(str(item_id))
        if item is None:
            return
        kind, inner = next(iter(item["inner"].items()))
        if kind == "module":
            for child in inner["items"]:
                visit(child, item["name"])
        elif kind == "use":
            if inner["id"] is not None and local(inner["id"]):
                visit(inner["id"], module)
        elif kind == "function":
            owner, _, name = path_of(item_id).rpartition("::")
            found[owner, None, name] = place(item)
        elif kind in ("struct", "enum", "union"):
            for child in inner["impls"]:
                impl = index[str(child)]
                implementation(impl, impl["inner"]["impl"])
        elif kind == "trait":
            for child in inner["implementations"]:
                impl = index[str(child)]
                implementation(impl, impl["inner"]["impl"])

    visit(api["root"], "")
    return found


def main():
    api = json.load(open(sys.argv[1], encoding="utf-8"))
    functions = public_functions(api)
    # A format this script does not know would read as an empty crate.
    for sentinel in ("connect", "handle_clc", "poll_rdma"):
        if ("smc_proto::endpoint::Endpoint", None, sentinel) not in functions:
            sys.exit(f"Endpoint::{sentinel} is not in {sys.argv[1]}: format {api['format_version']}?")

    present = set()
    with open(sys.argv[2], encoding="utf-8") as symbols:
        for line in symbols:
            symbol = line.rstrip("\n").split(" ", 2)[-1]
            if "smc_proto" in symbol:
                present.add(split_symbol(symbol))

    allowed = {}
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as lines:
            for line in lines:
                name, _, reason = line.partition("#")
                if name.strip():
                    if not reason.strip():
                        sys.exit(f"{sys.argv[3]}: no reason given for {name.strip()}")
                    allowed[name.strip()] = reason.strip()

    def shown(function):
        owner, trait, name = function
        return f"<{owner} as {trait}>::{name}" if trait else f"{owner}::{name}"

    absent = {shown(f): where for f, where in functions.items() if f not in present}
    for name, where in sorted(absent.items()):
        if name not in allowed:
            print(f"not reached: {name}  ({where})")
    for name in sorted(set(allowed) - set(absent)):
        print(f"allowed to be absent, but reached or gone: {name}")
    inherent = sum(1 for _, trait, _ in functions if trait is None)
    unexpected = set(absent) - set(allowed)
    print(
        f"{len(functions)} public functions ({inherent} of their own, "
        f"{len(functions) - inherent} of traits), {len(functions) - len(absent)} reached, "
        f"{len(absent) - len(unexpected)} absent with a reason, {len(unexpected)} not reached"
    )
    sys.exit(1 if unexpected or set(allowed) - set(absent) else 0)


if __name__ == "__main__":
    main()
