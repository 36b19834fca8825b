//#Ranks: 2
//#Modes: plain, continue
//#Cut: refused 801
//#Shows: managed memory on a GPU, which the driver does not save: the checkpoint is refused and the job runs on
#define MANAGED 1
#include "iterate.c"
