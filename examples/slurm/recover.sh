#!/bin/bash
# A run that goes on inside of its allocation when a rank, a step or a node is lost.
#
#   sbatch recover.sh ./app input
#
# With --no-kill Slurm leaves the allocation to the other nodes when one fails. A node more than the job needs (--nodes)
# is a spare: the next step takes it. How the job is launched is said by LAUNCH, as in chain.sh. srun ends a step whose
# task has failed only with --kill-on-bad-exit; `stasis run` ends it in any case.
#SBATCH --job-name=recover
#SBATCH --ntasks=4
#SBATCH --no-kill
#SBATCH --time=04:00:00
#SBATCH --output=recover-%j.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$SLURM_SUBMIT_DIR/ckpt}
export STASIS_INTERVAL=${STASIS_INTERVAL:-10m}

exec stasis run -- ${LAUNCH:-srun --mpi=pmi2} stasis launch "$@"
