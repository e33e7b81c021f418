/* What 'paradl plan --per-layer' says besides the plans. */
#ifndef CLI_LAYERS_H
#define CLI_LAYERS_H

#include "cli/output/projection.h"

void cli_layers_json(struct pdl_json *w, const struct pdl_layers_result *l);
void cli_layers_text(pdl_arena *a, const struct pdl_layers_result *l,
                     const struct cli_job *j, const struct cli_question *q);

#endif
