#!/bin/bash
# A run that takes longer than an allocation of Grid Engine may: Grid Engine puts the job back into the queue when it
# exits with 99.
#
#   LINE='./app input' qsub -v LINE sge.sh
#
# Five minutes before its end the job freezes itself and ends. The parallel environment (here `mpi`) has a name of its
# site: `qconf -spl` lists them.
#$ -N chain
#$ -S /bin/bash
#$ -cwd
#$ -j y
#$ -r y
#$ -pe mpi 64
#$ -l h_rt=04:00:00

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$PWD/ckpt}
# As `h_rt` above.
export STASIS_TIME_LIMIT=${STASIS_TIME_LIMIT:-4h}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_RESUME=1

${LAUNCH:-mpirun -n $NSLOTS} stasis launch $LINE
code=$?

# 7: it has ended with a checkpoint, so there is more to do.
stasis status
if [ $? -eq 7 ]; then
    exit 99
fi
exit $code
