/* paradl serve: questions from a form, jobs that answer them, pages. */
#ifndef SERVE_PRIV_H
#define SERVE_PRIV_H

#include "cli/cli_priv.h"

struct cli_serve_options {
    const char *address;
    int64_t port, max_upload;
    double seconds;
};
typedef int cli_server(const struct cli_serve_options *o);
extern cli_server *cli_serve_with; /* NULL: there is none (the library) */
cli_server cli_serve_http;         /* http.c */

/* ---- what is asked (form.c) ------------------------------------------- */

enum cli_serve_field {
    SERVE_MODEL,
    SERVE_SYSTEM,
    SERVE_PES,
    SERVE_BATCH,
    SERVE_PRECISION,
    SERVE_NFIELDS
};
enum { SERVE_TEXT = 200 };
extern const char *const cli_serve_fields[SERVE_NFIELDS]; /* names */

struct cli_serve_form {
    char text[SERVE_NFIELDS][SERVE_TEXT];
    char file_name[SERVE_TEXT]; /* as the browser says; "": none */
    struct pdl_buf file;
    bool too_large;
};
/* Is it a question that may be answered: built-in names, no paths, bounds? */
enum pdl_status cli_serve_check(const struct cli_serve_form *f,
                                struct pdl_err *err);
/* What an uploaded file is called here, by its ending; NULL: none of ours. */
const char *cli_serve_file(const char *name);

/* ---- jobs (jobs.c) ----------------------------------------------------- */

enum serve_state { SERVE_RUNNING, SERVE_DONE, SERVE_FAILED };
enum { SERVE_KEPT = 16, SERVE_AT_ONCE = 2, SERVE_ID = 32 };

struct cli_serve_job;
void cli_serve_jobs_open(double seconds);
void cli_serve_jobs_close(void); /* cancels and waits */
/* Starts one; NULL and a reason: too many run, no memory. */
struct cli_serve_job *cli_serve_start(const struct cli_serve_form *f,
                                      struct pdl_err *err);
/* By its id; NULL: there is none (any more). */
struct cli_serve_job *cli_serve_find(const char *id);
const char *cli_serve_id(const struct cli_serve_job *j);
void cli_serve_cancel(struct cli_serve_job *j);
enum serve_state cli_serve_state(const struct cli_serve_job *j);
/* Of a job that has ended; they live as long as it. */
const char *cli_serve_page(const struct cli_serve_job *j, size_t *len);
const char *cli_serve_json(const struct cli_serve_job *j, size_t *len);
void cli_serve_status(const struct cli_serve_job *j, struct pdl_sink *out);

/* ---- pages (pages.c) ----------------------------------------------------- */

extern const char cli_serve_style[], cli_serve_script[];
/* why: what was wrong with the last question; NULL: nothing. */
void cli_serve_form_page(const struct cli_serve_form *f,
                         const struct pdl_err *why, struct pdl_sink *out);
void cli_serve_job_page(const struct cli_serve_job *j, struct pdl_sink *out);
void cli_serve_escape(struct pdl_sink *out, const char *text);

#endif
