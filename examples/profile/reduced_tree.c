//#Ranks: 3
//#Mpi: openmpi, mpich
//#Preload: tools/messages.c
//#Environment: STASIS_REDUCE=tree:all STASIS_REDUCE_VISIBLE=yes
//#Flags: -pthread
//#Compare: none
//#Shows: the same for algorithms with trees
//#Variant: between; cut=hold
//#Variant: started; cut=hold
//#Variant: persistent; cut=hold; mpi=mpich
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
#define TREE 1
#include "reduced.h"
