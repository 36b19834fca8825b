/* The death of a rank in the programs for MPI Stages. */
#ifndef DIE_ONCE_H
#define DIE_ONCE_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* The file that exists once a rank has died. */
static inline void path_of_death(char *path, size_t room, const char *dir)
{
    snprintf(path, room, "%s/died", dir);
}

/* Dies, the first time that it is called with this directory. */
static inline void die_once(const char *dir)
{
    char path[4096];
    path_of_death(path, sizeof path, dir);
    if (open(path, O_CREAT | O_EXCL | O_WRONLY, 0644) >= 0)
        raise(SIGKILL);
}

#endif
