#!/bin/bash
# A run that takes longer than an allocation of Flux may: each job continues where the one before has stopped,
# and submits the next.
#
#   LINE='./app input' flux batch flux.sh
#
# Five minutes before its end the job freezes itself and ends.
#flux: --nslots=64
#flux: --time-limit=4h
#flux: --output=chain-{{id}}.out

export STASIS_CKPT_DIR=${STASIS_CKPT_DIR:-$PWD/ckpt}
# As `--time-limit` above.
export STASIS_TIME_LIMIT=${STASIS_TIME_LIMIT:-4h}
export STASIS_BEFORE_END=${STASIS_BEFORE_END:-5}
export STASIS_RESUME=1

${LAUNCH:-mpirun -n 64} stasis launch $LINE
code=$?

# 7: it has ended with a checkpoint, so there is more to do.
stasis status
if [ $? -eq 7 ]; then
    # A job is a Flux of its own, which ends with this script: the one above it takes the next job.
    exec flux --parent batch "$0"
fi
exit $code
