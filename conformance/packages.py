#!/usr/bin/env python3
"""Packages every crate that is to be published, and examines the packages.

    packages.py [--release] [--verify CRATE]...

Crates with `publish = false` are tools of this project, and left out. `--verify` also
compiles a crate from its package alone; without it nothing is compiled. `--release` also wants
what is due when a version is published: the public address of the repository in each package, and
the version with its date in CHANGELOG.md.
"""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ["LICENSE-APACHE", "LICENSE-MIT"]
# What the registry accepts, in bytes; ours are a tenth of it at most.
LARGEST = 1 << 20


def cargo(*arguments, **options):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, **options)


def workspace():
    printed = cargo("metadata", "--locked", "--no-deps", "--format-version", "1",
                    stdout=subprocess.PIPE).stdout
    return json.loads(printed)


def package(names):
    chosen = [f"--package={name}" for name in names]
    # Quiet: Cargo names each test that is not in a package, over a hundred lines.
    cargo("package", "--quiet", "--locked", "--allow-dirty", "--no-verify", *chosen)


def contents(crate):
    """The files of a package by their path below its only directory."""
    with tarfile.open(crate) as tar:
        for member in tar:
            top, _, path = member.name.partition("/")
            if top != crate.stem or not member.isfile():
                raise ValueError(f"{crate.name}: {member.name} is no file below {crate.stem}/")
            yield path, tar.extractfile(member).read()


def description_faults(manifest):
    about = manifest["package"]
    for key in ["description", "license", "readme", "documentation", "rust-version"]:
        if not about.get(key):
            yield f"has no {key}"
    keywords, categories = about.get("keywords", []), about.get("categories", [])
    if not 1 <= len(keywords) <= 5 or any(len(word) > 20 for word in keywords):
        yield f"keywords {keywords}: one to five are due, of 20 letters at most"
    if not 1 <= len(categories) <= 5:
        yield f"categories {categories}: one to five are due"


def dependency_tables(manifest):
    for table in [manifest, *manifest.get("target", {}).values()]:
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"]:
            yield from table.get(kind, {}).items()


def dependency_faults(manifest, unpublished):
    for name, wanted in dependency_tables(manifest):
        real = wanted.get("package", name) if isinstance(wanted, dict) else name
        if real in unpublished:
            yield f"depends on {real}, which is not published"
        if isinstance(wanted, dict) and "path" in wanted:
            yield f"depends on a path: {name}"
        features = wanted.get("features", []) if isinstance(wanted, dict) else []
        if real == "rustix" and "param" in features and "use-libc-auxv" not in features:
            yield "rustix reads the auxiliary vector by itself, which crashes under valgrind"


def faults(crate, unpublished):
    files = dict(contents(crate))
    for name in LICENCES:
        if files.get(name) != (ROOT / name).read_bytes():
            yield f"{name} is missing, or is not that of the project"
    if not files.get("README.md", b"").startswith(b"# "):
        yield "README.md is missing"
    # Cargo.lock and .cargo_vcs_info.json are Cargo's own.
    known = {"Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json", "README.md",
             *LICENCES}
    for path in files:
        if path not in known and not path.startswith("src/"):
            yield f"{path} is not expected"
    manifest = tomllib.loads(files["Cargo.toml"].decode())
    yield from description_faults(manifest)
    yield from dependency_faults(manifest, unpublished)
    if crate.stat().st_size > LARGEST:
        yield f"{crate.stat().st_size} bytes are more than {LARGEST}"


def release_faults(published):
    for each in published:
        if not (each["repository"] or "").startswith("https://"):
            yield f"{each['name']}: has no repository"
    versions = {each["version"] for each in published}
    if len(versions) != 1:
        yield f"versions differ: {sorted(versions)}"
    changes = (ROOT / "CHANGELOG.md").read_text()
    for version in versions:
        if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.M):
            yield f"CHANGELOG.md has no section of {version} with its date"


def main(arguments):
    release = arguments[:1] == ["--release"]
    arguments = arguments[release:]
    to_verify = arguments[1::2]
    if arguments[::2] != ["--verify"] * len(to_verify):
        sys.exit(__doc__)
    metadata = workspace()
    packages = metadata["packages"]
    published = [each for each in packages if each["publish"] != []]
    unpublished = {each["name"] for each in packages if each["publish"] == []}
    package([each["name"] for each in published])
    found = 0
    for each in published:
        crate = Path(metadata["target_directory"], "package",
                     f"{each['name']}-{each['version']}.crate")
        for fault in faults(crate, unpublished):
            print(f"{crate.name}: {fault}", file=sys.stderr)
            found += 1
    for fault in release_faults(published) if release else []:
        print(fault, file=sys.stderr)
        found += 1
    for name in to_verify:
        cargo("package", "--locked", "--allow-dirty", f"--package={name}")
    print(f"{len(published)} packages, {found} faults")
    return 1 if found or not published else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as failed:
        # Cargo has said why.
        sys.exit(failed.returncode)
