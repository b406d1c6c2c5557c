#!/usr/bin/env bash
# Install the Debian or Ubuntu packages that the build and the tests need; do nothing where all are there.
set -euo pipefail
packages=(g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libhdf5-openmpi-dev hdf5-tools libcli11-dev
          nlohmann-json3-dev libtomlplusplus-dev libgtest-dev libgmock-dev libdnnl-dev coinor-cbc coinor-libcbc-dev python3 python3-h5py python3-numpy
          slurm-wlm shellcheck zlib1g-dev libjs-chart.js chromium chromium-driver python3-selenium)

if ! command -v dpkg-query >/dev/null; then
  for tool in g++ cmake ninja mpicc mpirun h5pcc; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [ -z "${missing[*]:-}" ] && exit 0
  echo "deps: not a Debian or Ubuntu system, and these are missing: ${missing[*]}" >&2
  echo "deps: install g++ >= 12, CMake >= 3.25, Ninja, Open MPI, HDF5 built with MPI, CLI11, nlohmann-json, toml++, GoogleTest, oneDNN, zlib" >&2
  exit 1
fi

for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ -z "${missing[*]:-}" ] && exit 0
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deps: missing packages, and neither root nor sudo: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  -o DPkg::Lock::Timeout=300 "${missing[@]}"
