/* The answer of `paradl design`, for people, as JSON and as a table. */
#ifndef CLI_OUTPUT_DESIGN_H
#define CLI_OUTPUT_DESIGN_H

#include "cli/cli_priv.h"

#include "paradl/design.h"

void cli_design_text(pdl_arena *a, const struct pdl_designs *d, int top);
void cli_design_json(struct pdl_json *w, const struct pdl_designs *d);
/* One line a design, with a title. */
void cli_design_csv(struct pdl_sink *out, const struct pdl_designs *d);
/* Why nothing was left, in one line. */
void cli_design_none(const struct pdl_designs *d, struct pdl_err *err);

#endif
