/* A program that goes from phase to phase as the test tells it. */
#ifndef PHASES_H
#define PHASES_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
    exit(3);
}

/* Says that the program is here, and waits until it may go on. */
static void phase(int number)
{
    char at[16], go[16];
    struct timespec pause = {0, 1000000};
    snprintf(at, sizeof at, "at.%d", number);
    snprintf(go, sizeof go, "go.%d", number);
    close(open(at, O_CREAT | O_WRONLY, 0644));
    while (access(go, F_OK) != 0)
        nanosleep(&pause, NULL);
}

#endif
