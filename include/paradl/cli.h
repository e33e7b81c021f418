/* paradl/cli.h - the commands of the program as functions.
 *
 * What `paradl COMMAND ...` would print, as text in memory: for programs in
 * other languages and for servers. With "--json" the text is the object that
 * doc/formats describes. Everything is behind a pointer, so that whoever binds
 * to it need not know the layout of a structure.
 *
 *     const char *const words[] = {"plan", "gpt2", "--system", "dgx-a100",
 *                                  "--pes", "8", "--batch", "64", "--json"};
 *     pdl_answer *a = pdl_answer_create();
 *     if (pdl_ask_command(a, 9, words) == 0)
 *         puts(pdl_answer_text(a));
 *
 * Nothing is printed and no signal is caught. Commands that start ranks
 * (train, evaluate, diff-run, bench, and what measures this machine) are
 * refused: they are the program's.
 * Threads: different answers may be asked by different threads at the same
 * time; one answer by one thread at a time, but for pdl_answer_cancel and
 * pdl_answer_progress. */
#ifndef PARADL_CLI_H
#define PARADL_CLI_H

#include "paradl/base.h"
#include "paradl/job.h"

PDL_BEGIN

typedef struct pdl_answer pdl_answer;

pdl_answer *pdl_answer_create(void);    /* NULL: out of memory */
void pdl_answer_destroy(pdl_answer *a); /* NULL is allowed */

/* Words as after "paradl" on a command line; the exit code of the program: 0
 * success, 1 the answer is no (it is there all the same), 2 wrong usage, 3 bad
 * input, 4 the environment lacks something, 5 internal error, 130 cancelled. */
int pdl_ask_command(pdl_answer *a, int argc, const char *const *argv);

/* The same codes; a setting of a job by its name, and its projection as the
 * object that `project --json` prints: whole, or without what must be priced
 * again (the interval, limits and gains) and without gamma, by
 * pdl_job_project. What the job holds is held. */
int pdl_ask_set(pdl_answer *a, pdl_job *j, const char *name, const char *value);
int pdl_ask_project(pdl_answer *a, pdl_job *j, bool whole);
/* The page of a result (its JSON), as `paradl report` writes it. */
int pdl_ask_page(pdl_answer *a, const char *json, size_t len);

/* Of the last question; "" for none. They live until the next one. */
const char *pdl_answer_text(const pdl_answer *a);
size_t pdl_answer_size(const pdl_answer *a);       /* of the text */
const char *pdl_answer_notes(const pdl_answer *a); /* what stderr would have */
const char *pdl_answer_message(const pdl_answer *a); /* "file:line:col: what" */
const char *pdl_answer_hint(const pdl_answer *a);

/* From any thread. What is asked now, or else next, ends soon with 130. */
void pdl_answer_cancel(pdl_answer *a);
/* How much of a search is done, of how much (0: not known). */
void pdl_answer_progress(const pdl_answer *a, int64_t *done, int64_t *total);

PDL_END
#endif
