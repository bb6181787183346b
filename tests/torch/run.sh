#!/bin/bash
# Builds bps_torch as a wheel, installs it into a virtual environment of its own, and runs its tests. Installs PyTorch
# there if the machine's python3 has none. Usage: run.sh [BUILD]. The last line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
venv=$build/torch/venv
log=$build/torch/log
passed=0 failed=0 skipped=0
for name in $(compgen -e | grep -E '^(BPS|NCCL)_' | grep -v '^BPS_TEST_'); do unset "$name"; done

say() { printf '%-5s %s\n' "$1" "$2"; }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
  exit
}
skip_all() { skipped=1; say skip "PyTorch tests: $1"; finish; }
fail_all() { failed=1; say FAIL "$1"; tail -n 40 "$log" | sed 's/^/      /'; finish; }

prepare() {
  python3 -c 'import venv, ensurepip' 2>/dev/null || skip_all "python3 has no venv (Debian: python3-venv)"
  "$venv/bin/python" -c 'import torch, numpy, setuptools, wheel' 2>/dev/null && return
  mkdir -p "$build/torch"
  echo "      installing PyTorch in $venv, some minutes"
  # A torch that is installed already is used. pip then installs only what is missing beside it.
  python3 -m venv --clear --system-site-packages "$venv" >"$log" 2>&1 || fail_all "python3 -m venv"
  timeout 900 "$venv/bin/pip" install -q torch numpy "setuptools>=61" wheel >"$log" 2>&1 ||
    skip_all "pip cannot install torch: $(tail -n 1 "$log")"
  "$venv/bin/python" -c 'import torch.distributed as d; raise SystemExit(not d.is_gloo_available())' >>"$log" 2>&1 ||
    skip_all "torch cannot be imported, or has no Gloo: $(tail -n 1 "$log")"
}

# pip builds in the source tree, so the package is built from a copy. Compilers are wrapped by ccache if it is there.
install_package() {
  local cache; cache=$(command -v ccache || :)
  rm -rf "$build/torch/src" "$build/torch/wheel"
  cp -r frameworks/torch "$build/torch/src"
  BPS_HOME=$PWD CC="$cache gcc" CXX="$cache g++" timeout 900 "$venv/bin/pip" wheel -q --no-build-isolation --no-deps \
    -w "$build/torch/wheel" "$build/torch/src" >"$log" 2>&1 || fail_all "bps_torch does not build"
  "$venv/bin/pip" install -q --no-deps --force-reinstall "$build"/torch/wheel/*.whl >"$log" 2>&1 ||
    fail_all "bps_torch cannot be installed"
}

# Counts each test of a unittest program.
run_unittest() {
  local name=$1 start=$SECONDS good bad left
  BPS_TEST_BUILD=$build timeout 600 "$venv/bin/python" "$name" -v >"$log" 2>&1
  local status=$?
  good=$(grep -cE '\.\.\. ok$' "$log") bad=$(grep -cE '^(FAIL|ERROR): ' "$log") left=$(grep -cE '\.\.\. skipped ' "$log")
  skipped=$((skipped + left)) passed=$((passed + good))
  if [ "$status" = 0 ] && [ "$good" -gt 0 ]; then
    say ok "$name: $good tests ($left skipped), $((SECONDS - start)) s"
  else
    failed=$((failed + (bad > 0 ? bad : 1)))
    say FAIL "$name: status $status (124: time-out)"
    tail -n 60 "$log" | sed 's/^/      /'
  fi
}

run_script() {
  local start=$SECONDS
  BPS_TORCH_PYTHON=$venv/bin/python timeout 300 "$1" "$build" >"$log" 2>&1
  case $? in
    0) passed=$((passed + 1)); say ok "$1, $((SECONDS - start)) s" ;;
    77) skipped=$((skipped + 1)); say skip "$1: $(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)); say FAIL "$1"; tail -n 40 "$log" | sed 's/^/      /' ;;
  esac
}

prepare
install_package
for test in frameworks/torch/tests/test_*.py; do run_unittest "$test"; done
for test in tests/torch/*.sh; do [ "$test" = tests/torch/run.sh ] || run_script "$test"; done
finish
