#!/bin/bash
# A run that takes longer than an allocation of PBS may: each job continues where the one before has stopped,
# and submits the next.
#
#   qsub -v 'LINE=./app input' pbs.sh
#
# Five minutes before its end the job freezes itself and ends.
#PBS -N chain
#PBS -l select=2:ncpus=32:mpiprocs=32
#PBS -l walltime=04:00:00
#PBS -j oe

cd "${PBS_O_WORKDIR:-.}" || exit 1
export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$PWD/ckpt}
# As `walltime` above: PBS does not tell the end of a job in its environment.
export STASIS_TIME_LIMIT=${STASIS_TIME_LIMIT:-4h}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_RESUME=1
export LAUNCH=${LAUNCH:-mpirun -n 64}

$LAUNCH stasis launch $LINE
code=$?

# 7: it has ended with a checkpoint, so there is more to do. A program that fails is not tried again.
stasis status
if [ $? -eq 7 ]; then
    # By their names alone: in a value a comma would end it. Without them the next job would look elsewhere for
    # checkpoints than this one.
    exec qsub -v LINE,LAUNCH,STASIS_CKPT_DIR,STASIS_TIME_LIMIT,STASIS_BEFORE_END "$0"
fi
exit $code
