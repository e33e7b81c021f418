/* Lines and words of plan files. The first failure sticks; later calls do
 * nothing and return nothing. */
#ifndef PLAN_LEX_H
#define PLAN_LEX_H

#include "paradl/base.h"

struct plan_lex {
    pdl_arena *arena;
    const char *file;
    struct pdl_err *err;
    enum pdl_status status;
    const char *next, *end;       /* what is left of the file */
    const char *start, *at, *eol; /* the line, the place in it, its end */
    int line;
};

void plan_lex_init(struct plan_lex *x, pdl_arena *a, struct pdl_bytes in,
                   const char *file, struct pdl_err *err);
/* To the next line that is neither blank nor a comment; false: no more. */
bool plan_lex_line(struct plan_lex *x);
/* Fails at the place reached: "file:line:col: ...". */
void plan_lex_fail(struct plan_lex *x, const char *fmt, ...) PDL_PRINTF(2, 3);
void plan_lex_hint(struct plan_lex *x, const char *fmt, ...) PDL_PRINTF(2, 3);

bool plan_lex_more(struct plan_lex *x); /* skips blanks; anything left? */
bool plan_lex_is(const struct plan_lex *x, const char *text); /* next is */
bool plan_lex_take(struct plan_lex *x, const char *text); /* is: steps over */
void plan_lex_need(struct plan_lex *x, const char *text); /* or fails */
/* A word up to a blank, or a quoted one; "" after a failure. `rest`: all up to
 * the end of the line. */
const char *plan_lex_word(struct plan_lex *x, bool rest);
int64_t plan_lex_int(struct plan_lex *x, int64_t min, int64_t max);
void plan_lex_done(struct plan_lex *x); /* the line must end here */

#endif
