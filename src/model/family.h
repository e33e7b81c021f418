/* A family of networks as one line of text: how each quantity of a
 * transformer follows from the keys of a configuration. Readers of HF's
 * config.json and the zoo use the same language, so that a new family is one
 * row of a table.
 *
 *   row:   name, the row it builds on, and tokens separated by blanks
 *   token: field=expr | field (means field=1) | field?term
 *   expr:  key|key|...[?term]   the first key that is there and not null,
 *                               else the term; no term: the key is required
 *          :term                no key
 *   key:   name, name.name (nested), ^name (in the outermost map),
 *          !name (not), #name (entries of a list or map),
 *          name~text (1 if the text occurs in the value),
 *          name=text (1 if the value is the text),
 *          name{a,b} (term a if true, else term b)
 *   term:  number, field, or two of them joined by one of * / + -
 *
 * The last token of a field in a row counts, and a row goes before the rows it
 * builds on. A division must leave no remainder. field?term is what the
 * family's class supplies when a *nested* configuration leaves the key out
 * (published files do); at top level such a key is required, because there its
 * absence is a mistake. */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "paradl/base.h"

struct model_row {
    const char *name, *like, *text;
};

struct model_fields {
    const struct model_row *rows; /* ends with a NULL name */
    const struct model_row *row;
    const struct pdl_doc *map, *outer;
    bool nested; /* map is not the whole file */
    int depth;
    enum pdl_status status; /* the first failure sticks */
    struct pdl_err *err;
};

enum { MODEL_FIELD_MAX = 1 << 30 };

const struct model_row *model_row_find(const struct model_row *rows,
                                       const char *name);
/* Is there an expression for the field? */
bool model_field_known(const struct model_fields *f, const char *field);
/* The value of a field; 0 after a failure. A field without expression is a
 * mistake of ours. */
int64_t model_field(struct model_fields *f, const char *field);
/* The value of dec_heads if the family says it, else of heads. */
int64_t model_field_of(struct model_fields *f, const char *prefix,
                       const char *field);
/* The key that gave the field its value, and where; *at may become NULL. */
const char *model_field_key(struct model_fields *f, const char *field,
                            const struct pdl_doc **at);
/* The value of a key of the configuration (nested with dots, ^ for outer). */
const struct pdl_doc *model_field_doc(const struct model_fields *f,
                                      const char *key, size_t len);
/* Says what is wrong at the key of a field, and lets it stick. */
void model_field_fail(struct model_fields *f, const char *field,
                      const char *fmt, ...) PDL_PRINTF(3, 4);

#endif
