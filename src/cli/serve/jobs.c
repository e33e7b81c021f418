/* SPDX-License-Identifier: Apache-2.0
 *
 * Searches that a form asked for, each in a thread of its own, a few at a time;
 * the last ones are kept until others need their place. A job is looked at by
 * the thread of the server alone; its own thread says by `state` that it has
 * ended, after which nothing of it changes. */
#include "serve_priv.h"

#include "paradl/model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MAX_WORDS = 24 };

struct cli_serve_job {
    char id[SERVE_ID + 1];
    pthread_t thread;
    atomic_int state;
    pdl_answer *plan, *page; /* the search, and the page of its result */
    struct pdl_buf result;
    char folder[64], path[96];
    char text[SERVE_NFIELDS][SERVE_TEXT], seconds[32];
};

static struct {
    struct cli_serve_job *job[SERVE_KEPT];
    int next;
    double seconds;
} jobs;

/* ---- one job ------------------------------------------------------------ */

static void discard(struct cli_serve_job *j)
{
    pdl_answer_destroy(j->plan);
    pdl_answer_destroy(j->page);
    pdl_buf_free(&j->result);
    free(j);
}

static void forget(struct cli_serve_job *j)
{
    if (!j)
        return;
    pdl_answer_cancel(j->plan);
    pthread_join(j->thread, NULL);
    discard(j);
}

static void drop_file(struct cli_serve_job *j)
{
    if (!j->folder[0])
        return;
    unlink(j->path);
    rmdir(j->folder);
    j->folder[0] = '\0';
}

/* Layers written out: what a search needs memory for, and time between two
 * looks at the clock. */
static bool is_too_deep(struct cli_serve_job *j)
{
    enum { MOST = 50000 };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_err err;
    int64_t n = 0, more;

    if (a && pdl_model_load(a, j->path, NULL, &m, NULL) == PDL_OK)
        for (int i = 0; i < m->nsegments && n <= MOST; i++)
            n = pdl_mul64(m->segments[i].nnodes, m->segments[i].repeat, &more)
                    ? n + more
                    : MOST + 1;
    pdl_arena_destroy(a);
    if (n <= MOST) /* what cannot be loaded is the search's to say */
        return false;
    pdl_fail(&err, PDL_EINVAL, "the network has more than %d layers", MOST);
    pdl_hint(&err, "ask 'paradl plan' on a command line");
    cli_answer_fail(j->plan, &err);
    return true;
}

/* The result without where the file was: that is nobody's business, and the
 * commands in it are for who has the file. */
static int keep_result(struct cli_serve_job *j)
{
    const char *at = pdl_answer_text(j->plan), *found;
    size_t n = strlen(j->folder);

    while (n > 0 && (found = strstr(at, j->folder))) {
        pdl_put(&j->result.sink, at, (size_t)(found - at));
        at = found + n + (found[n] == '/');
    }
    pdl_puts(&j->result.sink, at);
    if (j->result.sink.failed)
        return EXIT_ENV;
    return pdl_ask_page(j->page, j->result.text, j->result.len);
}

static void *search(void *ctx)
{
    struct cli_serve_job *j = ctx;
    const char *words[MAX_WORDS] = {"plan",      j->path,
                                    "--system",  j->text[SERVE_SYSTEM],
                                    "--pes",     j->text[SERVE_PES],
                                    "--batch",   j->text[SERVE_BATCH],
                                    "--seconds", j->seconds,
                                    "--details", "--json"};
    int n = 12, rc;

    if (j->text[SERVE_PRECISION][0]) {
        words[n++] = "--precision";
        words[n++] = j->text[SERVE_PRECISION];
    }
    rc = is_too_deep(j) ? EXIT_INPUT : pdl_ask_command(j->plan, n, words);
    if (rc == EXIT_OK || rc == EXIT_NO)
        rc = keep_result(j);
    drop_file(j);
    atomic_store(&j->state, rc == EXIT_OK ? SERVE_DONE : SERVE_FAILED);
    return NULL;
}

/* Nobody guesses the id of another's job. */
static bool make_id(char id[SERVE_ID + 1])
{
    unsigned char random[SERVE_ID / 2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(id + 2 * i, 3, "%02x", random[i]);
    return true;
}

/* A model by its name, or the file in a folder that only we can read. */
static enum pdl_status keep_model(struct cli_serve_job *j,
                                  const struct cli_serve_form *f,
                                  struct pdl_err *err)
{
    enum pdl_status st;

    if (!f->file_name[0]) {
        snprintf(j->path, sizeof j->path, "%.*s", (int)sizeof j->path - 1,
                 f->text[SERVE_MODEL]);
        return PDL_OK;
    }
    snprintf(j->folder, sizeof j->folder, "/tmp/paradl-serve-XXXXXX");
    if (!mkdtemp(j->folder)) {
        j->folder[0] = '\0';
        return pdl_fail(err, PDL_ENOENV, "no room for the file");
    }
    snprintf(j->path, sizeof j->path, "%s/%s", j->folder,
             cli_serve_file(f->file_name));
    st = pdl_file_write(j->path, f->file.text ? f->file.text : "", f->file.len,
                        err);
    if (st != PDL_OK)
        drop_file(j);
    return st;
}

/* ---- all of them --------------------------------------------------------- */

void cli_serve_jobs_open(double seconds)
{
    jobs.seconds = seconds;
}

void cli_serve_jobs_close(void)
{
    for (int i = 0; i < SERVE_KEPT; i++) {
        forget(jobs.job[i]);
        jobs.job[i] = NULL;
    }
}

static int running(void)
{
    int n = 0;

    for (int i = 0; i < SERVE_KEPT; i++)
        n += jobs.job[i] && cli_serve_state(jobs.job[i]) == SERVE_RUNNING;
    return n;
}

static struct cli_serve_job *make(const struct cli_serve_form *f,
                                  struct pdl_err *err)
{
    struct cli_serve_job *j = calloc(1, sizeof *j);

    pdl_fail(err, PDL_ENOMEM, "no memory for this question");
    if (!j)
        return NULL;
    memcpy(j->text, f->text, sizeof j->text);
    snprintf(j->seconds, sizeof j->seconds, "%.3gs", jobs.seconds);
    pdl_buf_init(&j->result);
    j->plan = pdl_answer_create();
    j->page = pdl_answer_create();
    if (j->plan && j->page && make_id(j->id) &&
        keep_model(j, f, err) == PDL_OK &&
        pthread_create(&j->thread, NULL, search, j) == 0)
        return j;
    drop_file(j);
    discard(j);
    return NULL;
}

/* The oldest goes; those that run are never more than have room. */
static void keep(struct cli_serve_job *j)
{
    while (jobs.job[jobs.next] &&
           cli_serve_state(jobs.job[jobs.next]) == SERVE_RUNNING)
        jobs.next = (jobs.next + 1) % SERVE_KEPT;
    forget(jobs.job[jobs.next]);
    jobs.job[jobs.next] = j;
    jobs.next = (jobs.next + 1) % SERVE_KEPT;
}

struct cli_serve_job *cli_serve_start(const struct cli_serve_form *f,
                                      struct pdl_err *err)
{
    struct cli_serve_job *j;

    if (running() >= SERVE_AT_ONCE) {
        pdl_fail(err, PDL_ENOENV, "%d searches run already", SERVE_AT_ONCE);
        pdl_hint(err, "wait for one to end, or cancel it");
        return NULL;
    }
    j = make(f, err);
    if (j)
        keep(j);
    return j;
}

struct cli_serve_job *cli_serve_find(const char *id)
{
    for (int i = 0; i < SERVE_KEPT; i++)
        if (jobs.job[i] && strcmp(jobs.job[i]->id, id) == 0)
            return jobs.job[i];
    return NULL;
}

const char *cli_serve_id(const struct cli_serve_job *j)
{
    return j->id;
}

void cli_serve_cancel(struct cli_serve_job *j)
{
    pdl_answer_cancel(j->plan);
}

enum serve_state cli_serve_state(const struct cli_serve_job *j)
{
    return (enum serve_state)atomic_load(&j->state);
}

const char *cli_serve_page(const struct cli_serve_job *j, size_t *len)
{
    *len = pdl_answer_size(j->page);
    return pdl_answer_text(j->page);
}

const char *cli_serve_json(const struct cli_serve_job *j, size_t *len)
{
    *len = j->result.len;
    return j->result.text;
}

static const char *without_folder(const struct cli_serve_job *j,
                                  const char *message)
{
    const char *name = strrchr(j->path, '/');
    size_t n = name ? (size_t)(name - j->path) + 1 : 0;

    return n > 0 && strncmp(message, j->path, n) == 0 ? message + n : message;
}

void cli_serve_status(const struct cli_serve_job *j, struct pdl_sink *out)
{
    static const char *const names[] = {[SERVE_RUNNING] = "running",
                                        [SERVE_DONE] = "done",
                                        [SERVE_FAILED] = "failed"};
    enum serve_state state = cli_serve_state(j);
    const pdl_answer *bad = *pdl_answer_message(j->page) ? j->page : j->plan;
    int64_t done, total;
    struct pdl_json w;

    pdl_answer_progress(j->plan, &done, &total);
    pdl_json_init(&w, out);
    pdl_json_schema(&w, "serve-job");
    pdl_json_kstr(&w, "state", names[state]);
    pdl_json_kint(&w, "done", done);
    pdl_json_kint(&w, "total", total);
    if (state == SERVE_FAILED) {
        pdl_json_kstr(&w, "message",
                      without_folder(j, pdl_answer_message(bad)));
        pdl_json_kstr(&w, "hint", pdl_answer_hint(bad));
    }
    pdl_json_end(&w);
}
