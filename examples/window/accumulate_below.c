//#Shows: the same as accumulate.c, with windows of the MPI library, as where ranks are on several nodes
//#Environment: STASIS_WINDOWS=library
//#Cut: hold
//#Compare: none
#include "accumulate.c"
