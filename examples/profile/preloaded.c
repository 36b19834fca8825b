//#Shows: a profiler in LD_PRELOAD sees the program's calls, and only these, before the cut and after
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
//#Preload: tools/profiler.c
//#Variant: program
//#Variant: exec; modes=plain,migrate
#include "program.h"
