#!/bin/bash
# A run that takes longer than an allocation may: each allocation continues where the one before has
# stopped, and submits the next.
#
#   sbatch chain.sh ./app input
#
# Five minutes before its end the job freezes itself and ends. How it is launched is said by LAUNCH: with
# MPICH and its kin `srun --mpi=pmi2`, with Open MPI `srun --mpi=pmix`, or with either its own mpirun.
#SBATCH --job-name=chain
#SBATCH --ntasks=4
#SBATCH --time=04:00:00
#SBATCH --output=chain-%j.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$SLURM_SUBMIT_DIR/ckpt}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_RESUME=1

${LAUNCH:-srun --mpi=pmi2} stasis launch "$@"
code=$?

# 7: it has ended with a checkpoint, so there is more to do. A program that fails is not tried again.
stasis status
if [ $? -eq 7 ]; then
    exec sbatch --ntasks="$SLURM_NTASKS" "$0" "$@"
fi
exit $code
