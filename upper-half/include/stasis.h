/* Asking Stasis for a checkpoint from inside a program: where the step of an iteration is done, say.
 *
 * There is nothing to link, and nothing to undo: a program that Stasis does not run is told so, and
 * otherwise runs as ever. Without this file: whatever opens /proc/stasis/checkpoint has asked. */
#ifndef STASIS_H
#define STASIS_H

#include <fcntl.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Asks for a checkpoint of the whole job and goes on: it is taken as soon as all ranks can, wherever
 * they are by then. One rank may ask, or all: what all ask for within ten seconds is one checkpoint.
 * Returns 1, or 0 where the process is not a rank that Stasis runs. */
static inline int stasis_checkpoint(void)
{
    int asking = open("/proc/stasis/checkpoint", O_WRONLY | O_CLOEXEC);
    if (asking < 0)
        return 0;
    close(asking);
    return 1;
}

#ifdef __cplusplus
}
#endif

#endif
