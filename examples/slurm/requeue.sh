#!/bin/bash
# The same run in one job of Slurm's, which goes back into the queue as often as it takes: its number and
# its place in the accounting stay.
#
#   sbatch requeue.sh ./app input
#
# See chain.sh for LAUNCH. A node that fails requeues the job, too: then the run goes on from the
# checkpoint that was taken last, every hour here.
#SBATCH --job-name=requeue
#SBATCH --ntasks=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=requeue-%j.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$SLURM_SUBMIT_DIR/ckpt}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_INTERVAL=${STASIS_INTERVAL:-1h}
export STASIS_RESUME=1

echo "start ${SLURM_RESTART_COUNT:-0}"
${LAUNCH:-srun --mpi=pmi2} stasis launch "$@"
code=$?

# 7: it has ended with a checkpoint, so there is more to do. A program that fails is not tried again.
stasis status
if [ $? -eq 7 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
