#!/usr/bin/env bash
# A batch on a Slurm cluster: sbatch examples/cluster/slurm.sh /shared/footage /shared/straight [options of qrsc batch]
# A Ray cluster is started on the nodes of the job, and ends with it. Submit it again to go on where it was ended.
#SBATCH --job-name=qrsc-batch
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

input=$1 output=$2
shift 2

# Only processes that know the token may join the cluster or run anything on it.
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | awk '{print $1}')
port=$((6379 + SLURM_JOB_ID % 1000))

srun --nodes=1 --ntasks=1 -w "$head" ray start --head --node-ip-address="$address" --port="$port" \
  --dashboard-host=127.0.0.1 --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 15
for node in "${nodes[@]:1}"; do
  srun --nodes=1 --ntasks=1 -w "$node" ray start --address="$address:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
done

srun --overlap --nodes=1 --ntasks=1 -w "$head" qrsc batch "$input" -o "$output" --ray "$address:$port" --progress none "$@"
