#!/usr/bin/env bash
# Stands in for ssh in mpirun's plm_rsh_agent: another_host.sh HOST COMMAND... runs the command on this machine, with HOST as the name
# of the host and shared memory of its own, by which MPI tells nodes apart. Needs what `unshare -m -u` needs.
while [[ $1 == -* ]]; do shift; done
export ANOTHER_HOST=$1 ANOTHER_COMMAND="${*:2}"
# shellcheck disable=SC2016  # for the inner shell
exec unshare -m -u bash -c 'hostname "$ANOTHER_HOST" && mount -t tmpfs -o size=2g tmpfs /dev/shm && eval "exec $ANOTHER_COMMAND"' </dev/null
