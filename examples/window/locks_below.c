//#Ranks: 4
//#Environment: STASIS_WINDOWS=library
//#Shows: the same as locks.c, with windows of the MPI library, as where ranks are on several nodes
//#Cut: hold
//#Variant: held
//#Variant: waited_for
//#Variant: contended; ranks=6
//#Variant: all
//#Variant: requests
#include "locks.c"
