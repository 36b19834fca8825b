/* The profiler as a library to preload (examples/profile). */
#include "../profile/profiler.h"
