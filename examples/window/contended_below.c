//#Ranks: 4
//#Environment: STASIS_WINDOWS=library
//#Mpi: openmpi
//#Cut: loop
//#Timeout: 120
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: the same as contended.c, with windows of the MPI library, as where ranks are on several nodes
#include "contended.c"
