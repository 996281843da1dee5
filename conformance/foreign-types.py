#!/usr/bin/env python3
"""Names types and traits of crates before 1.0 in the public API of the published libraries.

    foreign-types.py [CRATE]...  names them, and fails if there are any
    foreign-types.py --planted   takes every crate of others for one before 1.0, and fails if none
                                 is found then

A new minor version of such a crate is another crate to the compiler, so that an API with its types
could not be kept over an update. What is behind a feature named after the crate and its version
(`axum-0_8`) is left out: another version is another feature.

Rustdoc says what is public (--output-format json). Its format is unstable: without what every crate
has, which is its own public items, the check fails.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STANDARD = {"core", "alloc", "std"}
VERSIONED = re.compile(r"-\d+(_\d+)?$")
# Features that need libraries of the system, or another target.
LEFT_OUT = {"rdma", "soft", "allocation-failures"}


def output(*command, **options):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, **options).stdout


def libraries(metadata):
    """Published packages that have a library, with the features that are checked."""
    own = set(metadata["workspace_members"])
    for package in metadata["packages"]:
        kinds = {kind for target in package["targets"] for kind in target["kind"]}
        # The one that is preloaded is no library to link with, and the command's is its own.
        if package["id"] in own and package["publish"] is None and "lib" in kinds \
                and package["name"] not in ("smcx", "smc-preload"):
            features = [name for name in package["features"]
                        if not VERSIONED.search(name) and name not in LEFT_OUT]
            yield package["name"], features


def described(chosen):
    """Rustdoc's description of each of these libraries, by name."""
    # Rustdoc alone is allowed what is unstable: build scripts would look for it, too, and everything
    # that depends on them would be compiled anew.
    environment = {**os.environ, "RUSTDOC": str(ROOT / "conformance" / "rustdoc-unstable.sh"),
                   "RUSTDOCFLAGS": "-Z unstable-options --output-format json --cap-lints allow"}
    packages = [word for name in chosen for word in ("-p", name)]
    features = [f"{name}/{feature}" for name, of in chosen.items() for feature in of]
    # All in one call, so that what several depend on is compiled once.
    output("cargo", "doc", "--quiet", "--locked", "--no-deps", "--lib", *packages,
           "--no-default-features", "--features", ",".join(features), env=environment)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return {name: json.loads((target / "doc" / f"{name.replace('-', '_')}.json").read_text())
            for name in chosen}


def references(node):
    """All types and traits that a part of an item names, by their ids."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("resolved_path", "trait") and isinstance(value, dict) and "id" in value:
                yield value["id"]
            # Items within have entries of their own.
            if key not in ("items", "impls", "implementations"):
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def numbers(node):
    """Ids of fields, however a kind of type has them."""
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    found = [node] if type(node) is int else []
    return found + [number for part in parts for number in numbers(part)]


def reachable(api):
    """Items that a user of the crate can name, or has by what can be named.

    A trait that is public in a private module bounds types, and is visible nowhere else: what its items
    name is no part of the API.
    """
    index, seen, left = api["index"], set(), [api["root"]]
    while left:
        item = index.get(str(left.pop()))
        if item is None or item["id"] in seen or item["crate_id"] != 0:
            continue
        seen.add(item["id"])
        kind, inner = next(iter(item["inner"].items()))
        if kind == "module":
            left += inner["items"]
        elif kind == "use":
            left.append(inner["id"])
        elif kind == "impl":
            left += inner["items"]
        elif kind == "trait":
            left += inner["items"]
        elif kind in ("struct", "enum", "union"):
            left += inner["impls"] + inner.get("variants", [])
            left += numbers([inner.get("fields"), inner.get("kind")])
        elif kind == "variant":
            left += numbers(inner["kind"])
    return seen


def known(api, implementation, reached):
    """Whether the trait is one of another crate, or can be named."""
    trait = implementation["trait"]
    path = trait and api["paths"].get(str(trait["id"]))
    return not path or path["crate_id"] != 0 or trait["id"] in reached


def foreign(api):
    """Of every item of another crate that the API names: its crate, its path, and where."""
    crates, found = api["external_crates"], {}
    reached, own = reachable(api), 0
    for item in api["index"].values():
        if item["crate_id"] != 0 or item["id"] not in reached:
            continue
        own += 1
        inner = item["inner"]
        kind = inner.get("impl")
        if kind and (kind["blanket_impl"] or kind["is_synthetic"] or not known(api, kind, reached)):
            continue
        if "use" in inner and inner["use"]["id"] is not None:
            named = [inner["use"]["id"]]
        else:
            named = references(inner)
        for reference in named:
            path = api["paths"].get(str(reference))
            if path is None or path["crate_id"] == 0:
                continue
            crate = crates[str(path["crate_id"])]["name"]
            span = item["span"]
            place = f"{span['filename']}:{span['begin'][0]}" if span else "?"
            found.setdefault((crate, "::".join(path["path"])), place)
    if own < 20:
        sys.exit(f"rustdoc's description has {own} items: is its format another one?")
    return found


def faults(name, api, versions):
    for (crate, path), place in sorted(foreign(api).items()):
        if crate in STANDARD or crate.startswith("smc_"):
            continue
        version = versions.get(crate, "0 (unknown)")
        if version.startswith("0"):
            yield f"{name}: {path}, of {crate} {version}, at {place}"


def main():
    metadata = json.loads(output("cargo", "metadata", "--locked", "--all-features",
                                 "--format-version", "1"))
    versions = {target["name"].replace("-", "_"): package["version"]
                for package in metadata["packages"] for target in package["targets"]
                if "lib" in target["kind"] or "proc-macro" in target["kind"]}
    count = 0
    planted = "--planted" in sys.argv
    wanted = [argument for argument in sys.argv[1:] if argument != "--planted"]
    chosen = {name: features for name, features in libraries(metadata)
              if not wanted or name in wanted}
    if not chosen:
        sys.exit("there is no such library")
    for name, api in described(chosen).items():
        for fault in faults(name, api, {} if planted else versions):
            count += 1
            print(fault)
    print(f"{len(chosen)} libraries, {count} types of crates before 1.0")
    return int((count == 0) if planted else (count > 0))


if __name__ == "__main__":
    sys.exit(main())
