/* The tables of names (naming_tables.c) and what reads them (naming.c). */
#ifndef MODEL_NAMING_H
#define MODEL_NAMING_H

#include "paradl/model.h"

struct model_naming_row {
    const char *ours, *theirs, *how;
};

struct pdl_naming {
    const char *style, *name, *summary;
    const char *types;  /* model_types of config.json, by blanks */
    const char *prefix; /* of theirs; a file of the bare model lacks it */
    const struct model_naming_row *rows, *more; /* end with a NULL */
};
extern const struct pdl_naming model_namings[]; /* ends with a NULL name */

#endif
