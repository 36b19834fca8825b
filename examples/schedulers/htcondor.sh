#!/bin/bash
# The executable of htcondor.sub.
export STASIS_CKPT_DIR=ckpt
export STASIS_SIGNAL=TERM
export STASIS_RESUME=1

# The signal is for mpirun, which passes it on.
${LAUNCH:-mpirun -n 8} stasis launch "$@" &
trap 'kill -TERM $!' TERM
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
