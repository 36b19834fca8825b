//#Ranks: 2
//#Mpi: openmpi
//#Environment: OMPI_MCA_io=romio321
//#Cut: after 5 to 20 lines of steps with step
//#Kill: later
//#Modes: plain, continue, restart, migrate
//#Compare: lines of stdout with OK, bytes of field.dat, bytes of sized.dat
//#Timeout: 180
//#Shows: the same by the ROMIO that Open MPI brings along
#include "overwritten.c"
