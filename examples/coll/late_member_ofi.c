//#Ranks: 3
//#Shows: as late_member, over MPICH's other network: libfabric
//#Cut: hold
//#Mpi: mpich-5
//#Lower: own
//#Modes: plain, continue, restart
//#Environment: MPIR_CVAR_CH4_NETMOD=ofi
//#Variant: barrier
//#Variant: allreduce
//#Variant: bcast
#include "late_member.c"
