#!/usr/bin/env bash
# Renew the pinned files from the *.in files and pyproject.toml: `configs/envs/lock.sh UV`.
# Of environments that hold torch's CPU build on one machine and its CUDA build on another, torch's GPU libraries are left
# out: the CUDA build pins them exactly, and the CPU build needs none of them.
set -euo pipefail
uv=$(realpath "${1:?usage: configs/envs/lock.sh PATH_TO_UV}")
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lock() { # NAME ARGUMENT...
  local name=$1
  shift
  "$uv" pip compile -q --universal --python-version 3.11 --no-header --no-annotate "$@" -o "$scratch/$name.txt"
  local out="sys_platform == '(never|win32|emscripten)'"
  [ "$name" = serve-cuda ] || out="^(nvidia-c|nvidia-n[cv][cjst]|cuda-(bindings|pathfinder|toolkit)|triton==)|$out"
  grep -vE "$out" "$scratch/$name.txt" > "configs/envs/$name.txt"
}
lock pipeline pyproject.toml --group dev
lock serve-cpu --override configs/envs/overrides-cpu.txt configs/envs/serve-cpu.in
# xgrammar asks for triton, of any version; torch's CPU build, which comes with none, does not say which.
echo triton | "$uv" pip compile -q --universal --python-version 3.11 --no-header --no-annotate --no-deps - >> configs/envs/serve-cpu.txt
lock quantize --override configs/envs/overrides-cpu.txt configs/envs/quantize.in
lock train --override configs/envs/overrides-cpu.txt configs/envs/train.in
lock lm_eval configs/envs/lm_eval.in
lock endpoints --override configs/envs/overrides-cpu.txt configs/envs/endpoints.in
lock serve-cuda --override configs/envs/overrides-cuda.txt configs/envs/serve-cuda.in
# AutoAWQ asks for triton by itself, and torch's CPU build brings none.
lock autoawq --override configs/envs/overrides-cpu.txt configs/envs/autoawq.in
grep '^triton==' "$scratch/autoawq.txt" >> configs/envs/autoawq.txt
