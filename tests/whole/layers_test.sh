#!/usr/bin/env bash
# Includes go one way: each layer sees only the layers that its line in lib/CMakeLists.txt allows.
set -euo pipefail
cd "$SOURCE"
declare -A may=(
  [lib/base]="lib/base"
  [lib/model]="lib/model lib/base"
  [lib/cost]="lib/cost lib/model lib/base"
  [lib/planning]="lib/planning lib/cost lib/model lib/base"
  [lib/policy]="lib/policy lib/planning lib/cost lib/model lib/base"
  [lib/comm]="lib/comm lib/base"
  [lib/count]="lib/count lib/model lib/comm lib/base"
  [lib/workload]="lib/workload lib/model lib/base"
  [lib/exec]="lib/exec lib/model lib/comm lib/base kernels"
  [lib/job]="lib io"
  [io]="io lib/model lib/comm lib/base"
  [kernels]="kernels"
  [apps]="apps lib io"
  [apps/bench]="apps/bench lib io kernels"  # a benchmark may reach for any layer
)
bad=0
for layer in "${!may[@]}"; do
  [ -d "$layer" ] || continue
  while IFS=: read -r file include; do
    [[ $layer == apps && $file == apps/bench/* ]] && continue
    ok=0
    for allowed in ${may[$layer]}; do [[ $include == "$allowed"/* ]] && ok=1; done
    [ $ok = 1 ] || { echo "$file includes $include, which $layer may not see"; bad=1; }
  done < <(grep -rnoE --include='*.h' --include='*.cc' --include='*.cu' --include='*.cuh' '^#include "[^"]+"' "$layer" |
           sed -E 's/^([^:]+):[0-9]+:#include "([^"]+)"/\1:\2/')
done
exit $bad
