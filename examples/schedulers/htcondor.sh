#!/bin/bash
# The executable of htcondor.sub, which gives it the job's number as JOB and the program's folder as `work`.

# A checkpoint names the program and its files by their paths, and HTCondor's folder has another path each time. So
# `work` is moved to a path that stays, and back in the end.
scratch=$PWD
place=${PLACE:-/tmp}/chain-$JOB
mv -T work "$place" && cd "$place" || exit 1
trap 'mv -T "$place" "$scratch/work"' EXIT

export STASIS_CKPT_DIR=$scratch/ckpt
export STASIS_RESUME=1

${LAUNCH:-mpirun -n 8} stasis launch "$@" &
# The signal is not passed on to mpirun: a second after that Open MPI's kills all ranks.
trap 'stasis checkpoint --stop' TERM
wait $!
# The first wait ends with the signal, the second one with mpirun.
wait $!
code=$?

# 7: it has ended with a checkpoint, and 85 says so to HTCondor.
stasis status
if [ $? -eq 7 ]; then
    exit 85
fi
exit $code
