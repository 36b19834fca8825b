//#Ranks: 3
//#Environment: STASIS_WINDOWS=library
//#Cut: hold
//#Shows: the same as fence.c, with windows of the MPI library, as where ranks are on several nodes
//#Variant: create
//#Variant: allocate
//#Variant: dynamic
//#Variant: open
#include "fence.c"
