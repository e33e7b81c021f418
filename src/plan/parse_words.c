/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of a plan file's parts have in common: places of messages,
 * names, ids, and the comparison of what a line says with what it must. */
#include "parse.h"

#include <stdio.h>
#include <string.h>

void plan_read_no_memory(struct plan_text_reader *r)
{
    if (r->x.status == PDL_OK)
        r->x.status = pdl_fail(r->x.err, PDL_ENOMEM,
                               "%s: the plan is too large", r->x.file);
}

struct plan_line plan_read_line(const struct plan_text_reader *r)
{
    return (struct plan_line){r->x.start, r->x.start, r->x.eol, r->x.line, 0};
}

void plan_read_go_to(struct plan_text_reader *r, const struct plan_line *line)
{
    r->x.line = line->line;
    r->x.start = r->x.at = line->start;
    r->x.eol = line->eol;
}

bool plan_read_section(struct plan_text_reader *r, const char *word)
{
    if (!plan_lex_line(&r->x))
        plan_lex_fail(&r->x, "the file ends too early");
    if (plan_lex_take(&r->x, word) && (r->x.at == r->x.eol || *r->x.at == ' '))
        return true;
    r->x.at = r->x.start;
    plan_lex_fail(&r->x, "expected '%s'", word);
    return false;
}

bool plan_read_begins(struct plan_text_reader *r, const char *word)
{
    size_t n = strlen(word);

    return plan_lex_is(&r->x, word) &&
           (r->x.at + n == r->x.eol || r->x.at[n] == ' ');
}

void plan_read_place(struct plan_text_reader *r, enum pdl_status st,
                     const struct pdl_err *inner)
{
    if (st == PDL_OK || r->x.status != PDL_OK)
        return;
    plan_lex_fail(&r->x, "%s", inner->msg);
    if (*inner->hint)
        plan_lex_hint(&r->x, "%s", inner->hint);
    if (st == PDL_ENOMEM)
        r->x.status = st;
}

void plan_read_compare(struct plan_text_reader *r, const struct pdl_buf *want,
                       const struct plan_line *have)
{
    size_t n = (size_t)(have->eol - have->at), k = 0;
    char text[80];

    if (r->x.status != PDL_OK)
        return;
    if (want->sink.failed) {
        plan_read_no_memory(r);
        return;
    }
    while (k < n && k < want->len && have->at[k] == want->text[k])
        k++;
    if (k == n && k == want->len)
        return;
    r->x.line = have->line;
    r->x.start = have->start;
    r->x.at = have->at + k;
    /* the place in the line it really is on */
    for (const char *p = have->at; p < have->at + k; p++)
        if (*p == '\n') {
            r->x.line++;
            r->x.start = p + 1;
        }
    snprintf(text, sizeof text, "%.*s",
             (int)(want->text ? strcspn(want->text + k, "\n") : 0),
             want->text ? want->text + k : "");
    plan_lex_fail(&r->x, "does not agree with the plan: expected '%.60s'",
                  text);
}

uint32_t plan_read_factors(struct plan_text_reader *r)
{
    uint32_t set = 0;

    do {
        int64_t f;

        plan_lex_need(&r->x, "a");
        f = plan_lex_int(&r->x, 0, r->mesh->nfactors - 1);
        if (r->x.status == PDL_OK && set >> f)
            plan_lex_fail(&r->x, "factors must be in order");
        if (r->x.status == PDL_OK)
            set |= UINT32_C(1) << f;
    } while (plan_lex_take(&r->x, "*"));
    return set;
}

int plan_read_name(struct plan_text_reader *r, const struct plan_names *n,
                   const char *what)
{
    const char *start, *name;
    int i;

    if (plan_lex_take(&r->x, "#"))
        return (int)plan_lex_int(&r->x, 0, n->count - 1);
    start = r->x.at;
    name = plan_lex_word(&r->x, false);
    i = r->x.status == PDL_OK ? plan_names_find(n, name) : -1;
    if (i < 0 && r->x.status == PDL_OK) {
        r->x.at = start;
        plan_lex_fail(&r->x, "%s has no %s '%.80s'", r->model->name, what,
                      name);
    }
    return i;
}

int plan_read_word(const char *word, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return -1;
}

/* An id must be the next one: no gaps, no doubles, nothing huge. */
void plan_read_id(struct plan_text_reader *r, const char *sign, int next)
{
    int64_t id;

    plan_lex_need(&r->x, sign);
    id = plan_lex_int(&r->x, 0, INT64_MAX);
    if (r->x.status == PDL_OK && id != next) {
        r->x.at = r->x.start;
        plan_lex_fail(&r->x, "%s%lld stands where %s%d must", sign,
                      (long long)id, sign, next);
        plan_lex_hint(&r->x, "ids are 0, 1, 2 ... without gaps");
    }
}

int plan_read_round(struct plan_text_reader *r)
{
    if (!r->p.roll || !plan_lex_more(&r->x) || !plan_lex_take(&r->x, "round="))
        return -1;
    return (int)plan_lex_int(&r->x, 0, 1 << 22);
}
