#!/bin/bash
# A run that takes longer than an allocation of LSF may: LSF puts the job back into the queue when it exits with 99.
#
#   LINE='./app input' bsub < lsf.sh
#
# Five minutes before its end the job freezes itself and ends.
#BSUB -J chain
#BSUB -n 64
#BSUB -W 4:00
#BSUB -Q 99
#BSUB -o chain-%J.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$PWD/ckpt}
# As `-W` above.
export STASIS_TIME_LIMIT=${STASIS_TIME_LIMIT:-4h}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_RESUME=1

${LAUNCH:-mpirun -n 64} stasis launch $LINE
code=$?

# 7: it has ended with a checkpoint, so there is more to do.
stasis status
if [ $? -eq 7 ]; then
    exit 99
fi
exit $code
