/* Shared by the printer and the parser of programs. */
#ifndef COLL_TEXT_H
#define COLL_TEXT_H

#include "coll_priv.h"

enum { COLL_NPARAMS = 12 };

extern const struct coll_param {
    const char *name;
    size_t offset; /* into struct pdl_coll_params */
} coll_params[COLL_NPARAMS];

/* Makes a list of steps an algorithm (program.c). */
void coll_program_alg(struct pdl_coll_program *prog,
                      const struct pdl_collective *collective, const char *name,
                      bool sparse);

#endif
