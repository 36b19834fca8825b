/* What the examples of guard pages (MADV_GUARD_INSTALL) share: the C library of Debian 12 has no names for the advice,
 * and an access is tried. */
#ifndef GUARD_PAGE_H
#define GUARD_PAGE_H

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

enum { PAGE = 4096, INSTALL = 102, REMOVE = 103, ACCESS = PROT_READ | PROT_WRITE };

static sigjmp_buf back;

/* The handler of SIGSEGV. */
static void faults(int signal) { siglongjmp(back, signal); }

static int is_guard(volatile char *page)
{
    if (sigsetjmp(back, 1) != 0)
        return 1;
    (void)*page;
    return 0;
}

#endif
