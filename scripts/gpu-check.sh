#!/usr/bin/env bash
# Builds the CUDA module and its check with nvcc and g++ alone (no CMake, MPI or HDF5) and runs it on the GPUs of this
# machine: kernels, GEMMs, NCCL and rates, in under three minutes. Needs the CUDA Toolkit with cuBLAS, and NCCL.
#
#   scripts/gpu-check.sh [--build-only] [--no-device-status N] [--out FOLDER]
#
# CUDAToolkit_ROOT, CUBLAS_ROOT and NCCL_ROOT may name folders with include/ and lib/; without them nvcc on the PATH,
# /usr/local/cuda and Python's nvidia wheels are tried. Exit status: 0 all passed, or no device answers (said aloud;
# --no-device-status N gives N there); 1 a check failed; 4 something is missing or does not build.
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/gpu-check build_only=0 arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --build-only) build_only=1 ;;
    --no-device-status) arguments+=("$1" "$2"); shift ;;
    --out) out=$2; shift ;;
    *) echo "usage: $0 [--build-only] [--no-device-status N] [--out FOLDER]" >&2; exit 2 ;;
  esac
  shift
done
missing() { echo "gpu-check: $1 not found; set $2 to the folder that holds it" >&2; exit 4; }

# The first folder of a list that holds a file of this name.
find_in() {
  local pattern=$1 folder file
  shift
  for folder in "$@"; do
    for file in "$folder"/$pattern; do [ -e "$file" ] && { echo "$file"; return; }; done
  done
}

nvcc=$(command -v "${CUDAToolkit_ROOT:+$CUDAToolkit_ROOT/bin/}nvcc" || command -v /usr/local/cuda/bin/nvcc || true)
[ -n "$nvcc" ] || missing nvcc CUDAToolkit_ROOT
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
wheels=$(python3 -c 'import nvidia; print(" ".join(nvidia.__path__))' 2>/dev/null || true)
roots=()
for root in "${NCCL_ROOT:-}" "${CUBLAS_ROOT:-}" "${CUDAToolkit_ROOT:-}" "$toolkit" /usr/local/cuda /usr /usr/local; do
  [ -z "$root" ] || roots+=("$root")
done
for wheel in $wheels; do roots+=("$wheel"/*/); done
includes=() libraries=()
for root in "${roots[@]}"; do
  includes+=("$root/include" "$root/targets/x86_64-linux/include" "$root/targets/sbsa-linux/include")
  libraries+=("$root/lib" "$root/lib64" "$root/targets/x86_64-linux/lib" "$root/targets/sbsa-linux/lib"
              "$root/lib/x86_64-linux-gnu" "$root/lib/aarch64-linux-gnu")
done

flags=() links=()
for header in cuda_runtime_api.h cublas_v2.h nccl.h; do
  found=$(find_in "$header" "${includes[@]}")
  [ -n "$found" ] || missing "$header" "CUDAToolkit_ROOT, CUBLAS_ROOT or NCCL_ROOT"
  flags+=(-isystem "$(dirname "$found")")
done
for library in cudart cublas nccl; do
  found=$(find_in "lib$library.so*" "${libraries[@]}")
  [ -n "$found" ] || missing "lib$library.so" "CUDAToolkit_ROOT, CUBLAS_ROOT or NCCL_ROOT"
  links+=("$found" "-Wl,-rpath,$(dirname "$found")")
done

# For the GPU that is here; without one, for all that the release build covers.
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
  architectures=(-arch=native)
else
  newest=$("$nvcc" --list-gpu-arch | grep -o '[0-9]*' | sort -n | tail -1)
  architectures=(-gencode arch=compute_80,code=sm_80 -gencode "arch=compute_90,code=[sm_90,compute_90]")
  [ "$newest" -le 90 ] || architectures+=(-gencode "arch=compute_$newest,code=[sm_$newest,compute_$newest]")
fi
echo "gpu-check: $("$nvcc" --version | grep -o 'release [0-9.]*'), ${architectures[*]}"

# One object a source, as many at a time as there are cores.
warnings=(-Wall -Wextra -Wno-missing-field-initializers)
compile() {
  local source=$1 object=$out/${1//\//_}.o
  if [[ $source == *.cu ]]; then
    "$nvcc" -std=c++20 -O3 -fmad=false -I. -Werror all-warnings -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra "${architectures[@]}" -c "$source" -o "$object"
  else
    g++ -std=c++20 -O2 -fPIC -fvisibility=hidden -fopenmp -ffp-contract=off "${warnings[@]}" -I. "${flags[@]}" -c "$source" -o "$object"
  fi
}
objects() { for source in "$@"; do echo "$out/${source//\//_}.o"; done; }
module=(kernels/cuda/*.cc kernels/cuda/*.cu)
mapfile -t program < <(while read -r pattern; do ls $pattern; done < <(grep -v '^-' tests/gpu/sources.txt) |
                       grep -vxFf <(sed -n 's/^-//p' tests/gpu/sources.txt))
mkdir -p "$out"
jobs=()
for source in "${module[@]}" "${program[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do wait -n || exit 4; done
  compile "$source" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job" || { echo "gpu-check: it does not build" >&2; exit 4; }; done
g++ -shared -o "$out/librelibra_cuda.so" $(objects "${module[@]}") "${links[@]}"
g++ -fopenmp -o "$out/gpu-check" $(objects "${program[@]}") "${links[@]}" -ldl -lpthread

[ $build_only = 0 ] || exit 0
exec timeout 300 "$out/gpu-check" "$out/librelibra_cuda.so" "${arguments[@]}"
