# shellcheck shell=bash
# What the batch scripts of this folder share: settings of the cluster, then helpers. They source it. Every setting can come
# from the environment (sbatch passes it on); to fix one for all users of a tree, change its default here.

# Environment modules to load, as in "gcc/12 openmpi/4.1 hdf5-parallel". None are needed where the build's libraries are found.
RELIBRA_MODULES=${RELIBRA_MODULES:-}
# The tree, and the driver: the build of the tree, or else what the PATH has.
RELIBRA_ROOT=${RELIBRA_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
RELIBRA=${RELIBRA:-$RELIBRA_ROOT/build/release/bin/relibra}
# How ranks are started: srun or mpirun. Default: srun where Slurm has the plugin below, else mpirun (Open MPI).
RELIBRA_LAUNCHER=${RELIBRA_LAUNCHER:-}
# How ranks find each other under srun: pmix for Open MPI (its pmi2 support is usually not built), pmi2 for MPICH.
RELIBRA_SRUN_MPI=${RELIBRA_SRUN_MPI:-pmix}
# cores: every rank has cores of its own, as many as --cpus-per-task says. none: where that fails, as in some containers.
RELIBRA_BIND=${RELIBRA_BIND:-cores}

# sbatch --export=NONE would otherwise strip the environment of what srun starts.
export SLURM_EXPORT_ENV=ALL

die() {
  echo "$(basename "$SCRIPT"): $*" >&2
  exit 2
}

# The comment at the top of the script is its help.
usage() { awk 'NR == 1 || /^#SBATCH/ { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0"; }

# parse FLAG=VARIABLE... -- ARGUMENTS...: `--flag value` or `--flag=value` sets its variable, before what the environment
# says. Other words go to WORDS; what follows `--` goes to OPTIONS, after the words of RELIBRA_OPTIONS.
parse() {
  local -A variable=()
  local flag
  while [ "$1" != -- ]; do variable[${1%%=*}]=${1#*=}; shift; done
  shift
  WORDS=()  # of dumps, mostly
  read -r -a OPTIONS <<<"${RELIBRA_OPTIONS:-}"
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage; exit 0 ;;
      --) shift; OPTIONS+=("$@"); return ;;
      -*)
        flag=${1%%=*}
        [ -n "${variable[$flag]:-}" ] || die "no option $flag; see --help (options of relibra go after --)"
        if [ "$flag" = "$1" ]; then
          [ $# -ge 2 ] || die "$flag wants a value"
          shift
          printf -v "${variable[$flag]}" %s "$1"
        else
          printf -v "${variable[$flag]}" %s "${1#*=}"
        fi ;;
      *) WORDS+=("$1") ;;
    esac
    shift
  done
}

# need VARIABLE FLAG: ends with a message where neither the flag nor the environment has given it.
need() { [ -n "${!1:-}" ] || die "$2 is missing (or $1 in the environment); see --help"; }

# plan_of DUMP: where its plan goes if nothing else is said, step7.h5 (or a folder step7/) -> step7.plan.h5 beside it.
plan_of() {
  local name=${1%/}
  echo "${name%.h5}.plan.h5"
}

# Loads the modules and finds the sizes of this allocation: NODES, TASKS, THREADS.
prepare() {
  [ -n "${SLURM_JOB_ID:-}" ] || die "not in a Slurm job: submit it with sbatch, or run it inside salloc"
  if [ -n "$RELIBRA_MODULES" ]; then
    # shellcheck disable=SC2086  # a list of words
    module load $RELIBRA_MODULES
  fi
  [ -x "$RELIBRA" ] || RELIBRA=$(command -v relibra) || die "no driver: build the tree (make), or set RELIBRA"
  if [ -z "$RELIBRA_LAUNCHER" ]; then
    RELIBRA_LAUNCHER=mpirun
    [[ $(srun --mpi=list 2>&1) != *"$RELIBRA_SRUN_MPI"* ]] || RELIBRA_LAUNCHER=srun
  fi
  NODES=${SLURM_JOB_NUM_NODES:-1}
  TASKS=${SLURM_NTASKS:-$((NODES * ${SLURM_NTASKS_PER_NODE:-1}))}
  THREADS=${SLURM_CPUS_PER_TASK:-1}
  export OMP_NUM_THREADS=$THREADS
  echo "$(basename "$SCRIPT"): $TASKS ranks on $NODES nodes, $THREADS threads each, by $RELIBRA_LAUNCHER;" \
       "job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
}

# launcher TASKS [SRUN OPTIONS...]: the words that start so many ranks on the allocation, into LAUNCH. mpirun takes the number
# alone and fills nodes in order.
launcher() {
  local tasks=$1
  shift
  case $RELIBRA_LAUNCHER-$RELIBRA_BIND in
    srun-cores) LAUNCH=(srun --cpu-bind=cores) ;;
    srun-none) LAUNCH=(srun --cpu-bind=none) ;;
    mpirun-cores) LAUNCH=(mpirun --map-by "slot:PE=$THREADS" --bind-to core -n "$tasks") ;;
    mpirun-none) LAUNCH=(mpirun --bind-to none -n "$tasks") ;;
    *) die "RELIBRA_LAUNCHER is '$RELIBRA_LAUNCHER', expected srun or mpirun; RELIBRA_BIND is '$RELIBRA_BIND', expected cores or none" ;;
  esac
  # Since Slurm 22.05 a step does not inherit --cpus-per-task.
  [ "$RELIBRA_LAUNCHER" = mpirun ] ||
    LAUNCH+=(--mpi="$RELIBRA_SRUN_MPI" --kill-on-bad-exit=1 --cpus-per-task="$THREADS" --ntasks="$tasks" "$@")
}

# ended PID: waits for a child through signals that are caught; its exit status.
ended() {
  local status
  while :; do
    status=0
    wait "$1" || status=$?
    kill -0 "$1" 2>/dev/null || return $status
  done
}

# attended COMMAND...: runs it where exec cannot, since something must follow. A job that is cancelled passes SIGTERM on and waits: a
# shell dies at once otherwise, and leaves the launcher behind.
attended() {
  local child='' asked='' status=0
  trap 'asked=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true' TERM
  "$@" </dev/null &
  child=$!
  [ -z "$asked" ] || kill -TERM "$child" 2>/dev/null || true
  ended "$child" || status=$?
  trap - TERM
  [ -z "$asked" ] || exit 143
  return $status
}

# For scripts that submit jobs: those should not inherit the sizes of the job that they may be submitted from.
leave_job() {
  local name
  for name in "${!SLURM_@}"; do
    case $name in SLURM_CONF | SLURM_EXPORT_ENV) ;; *) unset "$name" ;; esac
  done
}

# A job that was killed leaves its unfinished file behind, perhaps on another node: the start after it removes that.
# remove_left_behind PLAN
remove_left_behind() {
  [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || return 0
  rm -f "$(dirname "$1")/.$(basename "$1")".*.partial
}
