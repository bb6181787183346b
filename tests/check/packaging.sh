#!/bin/bash
# All packages have the version of bps.h, every function has a manual page, every third-party library has its licence,
# and the recipe for Spack can be loaded.
. "$(dirname "$0")/common.sh"
bad=0
wrong() { echo "$*"; bad=1; }
version=$(awk '/define BPS_(MAJOR|MINOR|PATCH) /{ printf "%s%s", dot, $3; dot = "." }' include/bps/bps.h)

spec=$(sed -n 's/^Version: *//p' packaging/rpm/bps.spec)
[ "$spec" = "$version" ] || wrong "packaging/rpm/bps.spec has version $spec, bps.h has $version"
sed -n '/^%changelog/,$p' packaging/rpm/bps.spec | grep -q -- "- $version-" || wrong "packaging/rpm/bps.spec: no $version in %changelog"
for line in "version: $version" "appVersion: $version"; do
  grep -qx "$line" packaging/helm/bps-server/Chart.yaml || wrong "packaging/helm/bps-server/Chart.yaml lacks \"$line\", the version of bps.h"
done
for file in packaging/bps.pc packaging/cmake/*.cmake; do
  grep -q '@VERSION@\|@SONAME@' "$file" || wrong "$file does not take its version from bps.h"
done
if command -v python3 >/dev/null; then
  python3 - "$version" <<'EOF' || bad=1
import sys, types
names = "license version variant depends_on requires".split()
calls = []
module = types.ModuleType("spack.package")
for name in names:
    setattr(module, name, lambda *words, _name=name, **options: calls.append((_name, words)))
module.MakefilePackage = object
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), module
path = "packaging/spack/package.py"
scope = {}
exec(compile(open(path).read(), path, "exec"), scope)
versions = [words[0] for name, words in calls if name == "version"]
needs = {words[0].split()[0].split("@")[0] for name, words in calls if name == "depends_on"}
if versions != [sys.argv[1]]: sys.exit(f"{path} has versions {versions}, bps.h has {sys.argv[1]}")
missing = {"highway", "libsodium", "expat", "fmt", "nlohmann-json", "cli11"} - needs
if missing or "Bps" not in scope: sys.exit(f"{path} lacks {missing or 'the class Bps'}")
EOF
fi

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
for header in bps bps_ext params reducer; do
  packaging/from_header.sh include/bps/$header.h "$pages" "$version" 2026-01-01 || bad=1
done
for name in $(grep -ohE '^BPS_API .*\(' include/bps/*.h | grep -oE 'bps[A-Za-z]+\(' | tr -d '('); do
  [ -s "$pages/$name.3" ] || wrong "no manual page of $name (packaging/from_header.sh)"
done

# The headers of other projects whose code the binaries contain.
while read -r header licence; do
  ! grep -rqs --include='*.h' --include='*.cc' "#include [<\"]$header" src net_plugin cpu_reduce topo tools perf ||
    [ -s "packaging/licences/$licence" ] || wrong "packaging/licences/$licence: missing, but $header is included"
done <<'EOF'
sodium libsodium
expat.h expat
fmt/ fmt
hwy/ highway
nlohmann/ json
CLI/ CLI11
EOF

# Each system has a package, or "-", for everything that the build needs.
for manager in apt dnf zypper; do
  [ "$(tools/deps.sh --print $manager | wc -l)" -ge 15 ] || wrong "tools/deps.sh --print $manager lists too few packages"
done
awk '/^(required|optional)="/ { table = 1; next } /^"/ { table = 0 } table && NF != 4 { print "tools/deps.sh: not four columns: " $0; bad = 1 }
  END { exit bad }' tools/deps.sh || bad=1
! tools/deps.sh --print yum >/dev/null 2>&1 || wrong "tools/deps.sh --print yum is accepted"
exit $bad
