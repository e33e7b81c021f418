/* paradl/report.h - results as a page for people.
 *
 * A page is made from the JSON that a command prints with --json, and from
 * nothing else: what is shown can always be shown again from the saved file.
 * One HTML file, readable without a network and without scripts: charts are
 * SVG made here, every chart has its table, the data are inside. */
#ifndef PARADL_REPORT_H
#define PARADL_REPORT_H

#include "paradl/base.h"

PDL_BEGIN

enum { PDL_REPORT_MAX_BYTES = 5000000 }; /* of a page */

/* Writes the page for a result of `plan`, `collective compare` or `simulate`.
 * name is the file's, for messages ("name:line:col: ..."). Nothing is written
 * when it fails. Networks are drawn from their description; those that are
 * files (.xml) are not opened. */
enum pdl_status pdl_report_html(pdl_arena *a, struct pdl_bytes json,
                                const char *name, struct pdl_sink *out,
                                struct pdl_err *err);

/* The schemas that have a page ("plan"); NULL past the end. */
const char *pdl_report_schema_at(int i);

PDL_END
#endif
