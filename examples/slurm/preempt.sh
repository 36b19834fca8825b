#!/bin/bash
# A run that gives way to others: Slurm sends SIGTERM to its ranks, and takes the nodes when the partition's
# GraceTime is over. By then the job has frozen itself and gone back into the queue.
#
#   sbatch --partition=low preempt.sh ./app input
#
# For partitions with a GraceTime. Under srun, since it is srun's ranks that get the signal: an
# mpirun would end them at once.
#SBATCH --job-name=preempt
#SBATCH --ntasks=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=preempt-%j.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$SLURM_SUBMIT_DIR/ckpt}
export STASIS_SIGNAL=TERM
export STASIS_RESUME=1

echo "start ${SLURM_RESTART_COUNT:-0}"
${LAUNCH:-srun --mpi=pmi2} stasis launch "$@"
code=$?

# 7: it has ended with a checkpoint, so there is more to do. Slurm requeues by itself only what it has to
# kill.
stasis status
if [ $? -eq 7 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
