//#Ranks: 3
//#Mpi: openmpi, mpich
//#Preload: tools/messages.c
//#Environment: STASIS_REDUCE=all STASIS_REDUCE_VISIBLE=yes
//#Flags: -pthread
//#Compare: none
//#Shows: a profiler in LD_PRELOAD sees the messages of reduced collective operations with --reduce-visible, as many as there are, before and after the cut and across it
//#Variant: between; cut=hold
//#Variant: started; cut=hold
//#Variant: persistent; cut=hold; mpi=mpich
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
#define TREE 0
#include "reduced.h"
