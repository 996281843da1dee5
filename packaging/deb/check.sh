#!/usr/bin/env bash
# Examines a package that build.sh made, without installing it.
#
#   packaging/deb/check.sh PACKAGE
#
# Every file belongs to root, who alone may write it; the command finds its library where
# the package puts it; each command has a manual page, and man has no complaint about any;
# lintian finds no error, where it is installed.
set -euo pipefail
package=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $package: $*" >&2
  exit 1
}

dpkg-deb --contents "$package" >"$scratch/contents"
if grep -v ' root/root ' "$scratch/contents"; then fail "files of others than root"; fi
if grep -E '^.(.{4}w|.{7}w)' "$scratch/contents"; then fail "files that others may write"; fi
dpkg-deb --extract "$package" "$scratch/root"
(cd "$scratch/root" && dpkg-deb --control "$package" "$scratch/control" &&
  md5sum --quiet --check "$scratch/control/md5sums")

smcx=$scratch/root/usr/bin/smcx
out=$(SMC_POLICY='' "$smcx" run --stats -- /bin/sh -c 'echo "$LD_PRELOAD"' 2>&1) ||
  fail "smcx run: $out"
[[ $out == *"$scratch/root/usr/lib/smcx/libsmc-preload.so"* ]] || fail "preloaded: $out"

man=$scratch/root/usr/share/man/man1
# Commands, and those below them, as the help lists them.
commands_of() {
  "$smcx" "$@" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$' || true
}
pages=1
for command in $(commands_of); do
  [ -e "$man/smcx-$command.1.gz" ] || fail "no manual page of $command"
  pages=$((pages + 1))
  for inner in $(commands_of "$command"); do
    [ -e "$man/smcx-$command-$inner.1.gz" ] || fail "no manual page of $command $inner"
    pages=$((pages + 1))
  done
done
[ "$pages" -gt 10 ] || fail "only $pages commands were found"
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
  for page in "$man"/*.gz; do
    # The alias leads to a page that is not installed here.
    [ "${page##*/}" != smcx-forward.1.gz ] || continue
    said=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings --encoding=UTF-8 \
      --troff-device=utf8 -Z --local-file "$page" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "${page##*/}: $said"
  done
else
  echo "SKIPPED: man is not installed, so that it has no say about the pages" >&2
fi
for shell in bash zsh fish; do
  command -v "$shell" >/dev/null || continue
  case $shell in
    bash) script=bash-completion/completions/smcx ;;
    zsh) script=zsh/vendor-completions/_smcx ;;
    fish) script=fish/vendor_completions.d/smcx.fish ;;
  esac
  "$shell" -n "$scratch/root/usr/share/$script" || fail "completions of $shell"
done
if command -v lintian >/dev/null; then
  said=$(lintian --fail-on error --tag-display-limit 0 "$package" 2>&1) || fail "lintian: $said"
  echo "$said"
else
  echo "SKIPPED: lintian is not installed" >&2
fi
echo "$package: $pages commands with manual pages, $(wc -l <"$scratch/control/md5sums") files"
