//#Shows: a profiler that is linked into the program sees its calls
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
#include "profiler.h"

#include "program.h"
