#!/usr/bin/env bash
# The batch scripts without a Slurm: shellcheck has nothing to say, --help explains each, what is missing is named.
. "$SOURCE/tests/support/whole.sh"
unset SLURM_JOB_ID
scripts=("$SOURCE"/slurm/*.sbatch)
[ ${#scripts[@]} -ge 5 ] || fail "only ${#scripts[@]} scripts"

for script in "${scripts[@]}"; do
  name=$(basename "$script")
  for flag in --help -h; do
    bash "$script" $flag >help.txt || fail "$name $flag ends with $?"
    grep -q "slurm/$name" help.txt || fail "$name $flag shows no example: $(cat help.txt)"
    grep -q "flag  *environment  *meaning" help.txt || fail "$name $flag shows no table of flags"
    ! grep -q "SBATCH --" help.txt || fail "$name $flag shows directives"
  done
  # Every flag of the table is taken, and every one taken is in the table.
  grep -oE '^ +--[a-z-]+' help.txt | tr -d ' ' | sort -u >told.txt
  awk '/^parse / { on = 1 } on { print } / -- "/ { on = 0 }' "$script" | grep -oE -- '--[a-z-]+=' | tr -d = | sort -u >taken.txt
  diff told.txt taken.txt || fail "$name: flags told (<) and taken (>) differ"
  status=0
  bash "$script" --no-such-flag >out.txt 2>&1 || status=$?
  [ $status = 2 ] || fail "$name --no-such-flag ends with $status"
  grep -q -- "$name: no option --no-such-flag" out.txt || fail "$name --no-such-flag says: $(cat out.txt)"
  status=0
  bash "$script" >out.txt 2>&1 || status=$?
  [ $status = 2 ] || fail "$name without arguments ends with $status"
  grep -q "see --help" out.txt || fail "$name without arguments says: $(cat out.txt)"
done

bash "$SOURCE/slurm/plan.sbatch" dump.h5 --ep-size 4 --gpus-per-node 4 >out.txt 2>&1 && fail "a plan outside of a job"
grep -q "not in a Slurm job" out.txt || fail "$(cat out.txt)"

command -v shellcheck >/dev/null || skip "the rest: no shellcheck (make deps installs it)"
cd "$SOURCE"
shellcheck -x -P slurm -P . slurm/*.sbatch slurm/*.sh
shellcheck -x -P . tests/support/slurm.sh tests/whole/slurm*_test.sh
