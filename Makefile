# Thin front to the CMake presets. `make deps` installs what a bare Debian or Ubuntu lacks; every target below does it first.
SHELL := /bin/bash
PRESET ?= release
JOBS ?= $(shell nproc)

.PHONY: all demo test bench gpu-check asan format format-check deps clean

all: deps
	@cmake --preset $(PRESET) && cmake --build --preset $(PRESET) -j $(JOBS)

demo: deps            ## synthesise a small dump, plan it with 4 ranks, check it, show before and after
	@cmake --preset release -DRELIBRA_TESTS=OFF && cmake --build --preset release -j $(JOBS)
	@bash scripts/demo.sh build/release/bin/relibra demo-out

test: deps            ## all tests: unit, under mpirun at several rank counts, whole runs
	@cmake --preset dev && cmake --build --preset dev -j $(JOBS)
	@ctest --preset dev

bench: deps           ## benchmarks; figures are ratios inside one run
	@cmake --preset release -DRELIBRA_TESTS=OFF && cmake --build --preset release -j $(JOBS)
	@bash scripts/bench.sh build/release/bin

gpu-check:            ## the CUDA module on this machine's GPUs; needs the CUDA Toolkit and NCCL alone
	@bash scripts/gpu-check.sh

asan: deps            ## the tests under address and undefined-behaviour sanitizers
	@cmake --preset asan && cmake --build --preset asan -j $(JOBS)
	@ctest --preset asan

format:               ## clang-format over the tree
	@git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

format-check:
	@git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

deps:                 ## packages, by apt as root or through sudo
	@bash scripts/deps.sh

clean:
	@rm -rf build demo-out
