# shellcheck shell=bash
# A Slurm of the test's own: a controller and several nodes on this machine, without munge, cgroups or systemd. Source it
# after whole.sh; the daemons end with the test. Needs root, as slurmd does. Two tests may run at once: ports and the folder
# for sockets, whose names have to be short, come from the name of $WORK, and all else lies there.

need_slurm() {
  for program in slurmctld slurmd srun sbatch squeue scontrol scancel; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || skip "no $program (make deps installs Slurm)"
  done
  PATH=$PATH:/usr/sbin
  [ "$(id -u)" = 0 ] || skip "slurmd with several nodes on one machine needs root"
}

# first_free_port COUNT: where so many ports in a row have no listener; below those that the kernel hands out.
first_free_port() {
  local first port try taken
  for try in $(seq 0 100); do
    first=$((16000 + (SLURM_TEST_NUMBER + try) % 1500 * 8)) taken=0
    for port in $(seq $first $((first + $1 - 1))); do
      ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || taken=1
    done
    [ $taken = 1 ] || { echo $first; return; }
  done
  fail "no free ports for Slurm"
}

write_slurm_conf() {
  local nodes=$1 cpus=$2 gpus=$3 host port i gres=
  host=$(hostname -s)
  port=$(first_free_port $((nodes + 1)))
  cat <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
StateSaveLocation=$SLURM_TEST/state
SlurmdSpoolDir=$SLURM_TEST_SOCKETS/%n/spool
TmpFS=$SLURM_TEST_SOCKETS/%n/tmp
SlurmctldPidFile=$SLURM_TEST/slurmctld.pid
SlurmdPidFile=$SLURM_TEST/slurmd.%n.pid
SlurmctldLogFile=$SLURM_TEST/slurmctld.log
SlurmdLogFile=$SLURM_TEST/slurmd.%n.log
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
MinJobAge=3600
KillWait=3
SlurmctldTimeout=30
SlurmdTimeout=60
END
  if [ "$gpus" -gt 0 ]; then  # they must be devices; /dev/null is one
    for i in $(seq 0 $((gpus - 1))); do mknod "$SLURM_TEST/gpu$i" c 1 3; done
    echo "NodeName=n[1-$nodes] Name=gpu File=$SLURM_TEST/gpu[0-$((gpus - 1))]" >"$SLURM_TEST/gres.conf"
    echo "GresTypes=gpu"
    gres="Gres=gpu:$gpus"
  fi
  for i in $(seq "$nodes"); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=$cpus Boards=1 SocketsPerBoard=1" \
         "CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=4000 $gres State=UNKNOWN"
  done
  echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
}

# A node in namespaces of its own, where the machine lets us: host name and shared memory, by which MPI tells nodes apart. Elsewhere
# (a container without CAP_SYS_ADMIN) MPI must not use shared memory, since segments of two nodes would have one name.
start_node() {
  mkdir -p "$SLURM_TEST_SOCKETS/$1"/{spool,tmp}
  # shellcheck disable=SC2016  # for the inner shell
  local enter='hostname "$NODE" && mount --bind "$SLURM_TEST/hosts" /etc/hosts && mount -t tmpfs -o size=2g tmpfs /dev/shm'
  if NODE=$1 unshare -m -u bash -c "$enter" 2>/dev/null; then
    NODE=$1 unshare -m -u bash -c "$enter && exec slurmd -N $1" || no_slurmd "$1"
  else
    export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
    slurmd -N "$1" || no_slurmd "$1"
  fi
}

# Slurm's daemon needs things of the machine that a container may lack, such as /sys/fs/cgroup.
no_slurmd() { skip "slurmd does not start here: $(grep -h error "$SLURM_TEST/slurmd.$1.log" | head -n 1)"; }

# start_slurm NODES CPUS [GPUS]: nodes n1, n2, ... of so many pretended cores and GPUs. Slurm's commands find it.
start_slurm() {
  local nodes=$1 cpus=$2 gpus=${3:-0} i
  SLURM_TEST_NUMBER=$(cksum <<<"$WORK" | cut -d' ' -f1)
  SLURM_TEST_SOCKETS=/tmp/relibra-slurm-$SLURM_TEST_NUMBER
  export SLURM_TEST=$WORK/slurm SLURM_CONF=$WORK/slurm/slurm.conf
  rm -rf "$SLURM_TEST_SOCKETS"
  mkdir -p "$SLURM_TEST/state"
  write_slurm_conf "$nodes" "$cpus" "$gpus" >"$SLURM_CONF"
  echo "CgroupAutomount=no" >"$SLURM_TEST/cgroup.conf"
  { cat /etc/hosts; echo "127.0.0.1 $(seq -f n%g -s ' ' 1 "$nodes")"; } >"$SLURM_TEST/hosts"
  trap stop_slurm EXIT
  slurmctld -c
  for i in $(seq "$nodes"); do start_node "n$i"; done
  for i in $(seq 150); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null || true)" != "$nodes" ] || break
    sleep 0.1
  done
  if [ "$i" -lt 150 ]; then
    [[ $(srun --mpi=list 2>&1) == *pmix* ]] || skip "this Slurm has no PMIx"
    return
  fi
  tail -n 20 "$SLURM_TEST"/*.log
  fail "Slurm did not come up"
}

# Ends jobs, then daemons, then whatever was started with this configuration and is still there.
stop_daemons() {
  local file pid i
  timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
  for i in $(seq 50); do
    [ -n "$(timeout 5 squeue -h -t running,completing 2>/dev/null)" ] || break
    sleep 0.1
  done
  for file in "$SLURM_TEST"/*.pid; do [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null || true; done
  for i in $(seq 30); do
    compgen -G "$SLURM_TEST/*.pid" >/dev/null || break
    sleep 0.1
  done
  # shellcheck disable=SC2013  # names without blanks
  for file in $(grep -lzxsF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ); do
    pid=${file//[^0-9]/}
    [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null || true
  done
  rm -rf "$SLURM_TEST" "$SLURM_TEST_SOCKETS"
}

stop_slurm() {
  local status=$?
  set +e
  trap - EXIT
  [ ! -d "$SLURM_TEST" ] || cp "$SLURM_TEST"/*.log "$WORK" 2>/dev/null
  stop_daemons
  exit $status
}

# submit ARGUMENTS...: sbatch with output in JOBID.out; prints the number of the job.
submit() { sbatch --parsable --output="$WORK/%j.out" "$@"; }

# state JOB: the word for it, of an array the words of its tasks, each once.
state() { squeue -h -t all -r -j "$1" -o %T | sort -u | tr '\n' ' ' | sed 's/ $//'; }

# becomes JOB STATE SECONDS: waits for the state; of an array until all tasks have it.
becomes() {
  local i now
  for i in $(seq $(($3 * 10))); do
    now=$(state "$1")
    [ "$now" != "$2" ] || return 0
    case " $now " in *FAILED* | *CANCELLED* | *TIMEOUT* | *NODE_FAIL*) break ;; esac
    sleep 0.1
  done
  scontrol show job "$1" | grep -E 'JobState|Reason|ExitCode|Dependency' || true
  tail -n 30 "$WORK/$1"*.out 2>/dev/null || true
  fail "job $1 is '$now', not '$2' within $3 s"
}

# ended JOB SECONDS: waits until nothing of it runs, whatever came of it.
ended() {
  local i
  for i in $(seq $(($2 * 10))); do
    [ -n "$(squeue -h -t pending,running,completing,suspended,configuring -j "$1" 2>/dev/null)" ] || return 0
    sleep 0.1
  done
  fail "job $1 did not end within $2 s: $(state "$1")"
}

# requeue JOB: back into the queue, and started again soon rather than after Slurm's two minutes. Nodes refuse a job that starts in
# the second in which it was killed.
requeue() {
  local i
  scontrol requeue "$1"
  for i in $(seq 300); do
    [ "$(squeue -h -t all -j "$1" -o '%T %r')" != "PENDING BeginTime" ] || break
    sleep 0.1
  done
  sleep 2
  scontrol update jobid="$1" starttime=now
}

# gone PATTERN SECONDS: waits until no process has such a command line.
gone() {
  local i
  for i in $(seq $(($2 * 10))); do
    pgrep -f -- "$1" >/dev/null || return 0
    sleep 0.1
  done
  return 1
}
