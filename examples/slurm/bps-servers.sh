# Functions for batch scripts of Slurm: summation servers on the CPU nodes of a job. train.sbatch is an example.
#
# start_bps_servers [OPTION VALUE]... starts a server on each server node, with a new key, and waits until all answer. It
# sets BPS_SERVERS, BPS_ROOT and BPS_KEY_FILE for the ranks, and the lists WORKER_NODES and SERVER_NODES. At the end of
# the batch script the servers end, and the key is removed. In a heterogeneous job the first component has the worker
# nodes and the second one the server nodes. In other jobs --feature selects the server nodes.
#
#   --feature NAME       the nodes of the job with this feature are server nodes
#   --dir FOLDER         a folder that all nodes share, for the key and the servers' logs (default: SLURM_SUBMIT_DIR)
#   --port PORT          of the servers (default: 7700)
#   --data-ports A-B     of the servers (default: 7701-7799)
#   --root-port PORT     of rank 0 (default: 20000 + the job's number modulo 10000)
#   --wait SECONDS       until all servers must answer (default: 60)

start_bps_servers() {
  local feature='' folder=${SLURM_SUBMIT_DIR:-} port=7700 data_ports=7701-7799 root_port='' seconds=60
  [ -n "${SLURM_JOB_ID:-}" ] || { echo "bps-servers.sh: SLURM_JOB_ID is not set: not in a job of Slurm" >&2; return 1; }
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || { echo "bps-servers.sh: $1 needs a value" >&2; return 2; }
    case $1 in
      --feature) feature=$2 ;;
      --dir) folder=$2 ;;
      --port) port=$2 ;;
      --data-ports) data_ports=$2 ;;
      --root-port) root_port=$2 ;;
      --wait) seconds=$2 ;;
      *) echo "bps-servers.sh: unknown option $1" >&2; return 2 ;;
    esac
    shift 2
  done
  [ -w "$folder/." ] || { echo "bps-servers.sh: --dir '$folder' is no folder that this user can write to" >&2; return 1; }
  _bps_nodes "$feature" || return 1

  _bps_folder=$(mktemp -d "$folder/bps-$SLURM_JOB_ID.XXXXXX") || return 1
  trap '_bps_status=$?; stop_bps_servers; exit $_bps_status' EXIT
  bps-server --make-key "$_bps_folder/key" || return 1
  export BPS_KEY_FILE=$_bps_folder/key
  export BPS_ROOT=${WORKER_NODES%%,*}:${root_port:-$((20000 + SLURM_JOB_ID % 10000))}

  # A server uses all CPUs of its node (--cpu-bind=none), and the others go on if one ends (--kill-on-bad-exit=0).
  srun "${_bps_where[@]}" --nodes="$_bps_count" --ntasks="$_bps_count" --ntasks-per-node=1 --cpu-bind=none \
    --kill-on-bad-exit=0 --output="$_bps_folder/server-%N.log" \
    bps-server --listen "0.0.0.0:$port" --data-ports "$data_ports" --key-file "$BPS_KEY_FILE" < /dev/null &
  _bps_step=$!
  export BPS_SERVERS=${SERVER_NODES//,/:$port,}:$port
  local until=$((SECONDS + seconds))
  until bps-server --check > "$_bps_folder/check" 2>&1; do
    if [ $SECONDS -ge $until ] || ! kill -0 "$_bps_step" 2> /dev/null; then
      echo "bps-servers.sh: the servers do not answer:" >&2
      tail -n 5 "$_bps_folder"/check "$_bps_folder"/server-*.log >&2
      stop_bps_servers
      return 1
    fi
    sleep 0.5
  done
}

# Sets WORKER_NODES, SERVER_NODES, and how srun selects the server nodes.
_bps_nodes() {
  local workers servers
  if [ -n "${SLURM_JOB_NODELIST_HET_GROUP_1:-}" ]; then
    workers=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0") || return 1
    servers=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_1") || return 1
    _bps_where=(--het-group=1)
  elif [ -n "$1" ]; then
    local features
    features=$(sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %f') || return 1
    servers=$(awk -v wanted="$1" '{ n = split($2, has, ","); for (i = 1; i <= n; i++) if (has[i] == wanted) print $1 }' <<< "$features" | sort -u)
    workers=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | grep -vxF "${servers:-no server}")
    [ -n "$servers" ] || { echo "bps-servers.sh: no node of $SLURM_JOB_NODELIST has the feature $1" >&2; return 1; }
    _bps_where=(--nodelist="$(tr '\n' , <<< "$servers" | sed 's/,$//')")
  else
    echo "bps-servers.sh: the job has no second component; give --feature" >&2
    return 1
  fi
  [ -n "$workers" ] || { echo "bps-servers.sh: no worker node is left" >&2; return 1; }
  WORKER_NODES=$(paste -sd , <<< "$workers") SERVER_NODES=$(paste -sd , <<< "$servers")
  _bps_count=$(wc -l <<< "$servers")
}

# Ends the servers and removes the key. SIGTERM reaches them through srun; after 30 s Slurm kills the step.
stop_bps_servers() {
  if [ -n "${_bps_step:-}" ]; then
    kill -TERM "$_bps_step" 2> /dev/null
    local until=$((SECONDS + 30))
    while kill -0 "$_bps_step" 2> /dev/null && [ $SECONDS -lt $until ]; do sleep 0.1; done
    kill -KILL "$_bps_step" 2> /dev/null
    wait "$_bps_step" 2> /dev/null
    _bps_step=
  fi
  [ -z "${_bps_folder:-}" ] || rm -rf "$_bps_folder"
  _bps_folder=
  unset BPS_SERVERS BPS_ROOT BPS_KEY_FILE
}
