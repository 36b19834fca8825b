/* What a program may do with the stand-in for CUDA's driver (cuda.c). */
#ifndef CUDA_STANDIN_H
#define CUDA_STANDIN_H

#include <stddef.h>
#include <stdint.h>

enum { STANDIN_CELLS = 64 };

int cuInit(unsigned flags);
/* Adds to a cell of the GPU's memory and returns its content. */
uint64_t standin_add(uint32_t cell, uint64_t value);

/* Memory of the GPU. */
void *standin_alloc(size_t bytes);

#endif
