/* SPDX-License-Identifier: Apache-2.0
 *
 * Measurements over the steps of a run, as JSON lines, CSV, or events that
 * TensorBoard reads. A row is one
 * write to a file opened for appending, so that a process that dies leaves at
 * most one broken line. A run that resumes cuts that line and the rows of the
 * steps it is going to repeat, and goes on: the file ends up as if nothing had
 * happened. */
#include "paradl/io.h"

#include "ckpt_priv.h"
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OLD = 1 << 30 };

struct format {
    const char *suffix;
    /* bytes of the row at p and its step; 0: it is broken or cut off */
    int64_t (*row_at)(const char *p, const char *end, int64_t *step);
    void (*head)(const pdl_metrics *m, struct pdl_sink *out);
    void (*row)(const pdl_metrics *m, int64_t step, const double *v,
                struct pdl_sink *out);
};

struct pdl_metrics {
    const struct format *format;
    pdl_arena *arena;
    const char *path;
    const char **column;
    int ncolumns;
    int64_t last; /* step */
    int fd;
};

/* ---- JSON lines ---- */

static int64_t leading_number(const char *p)
{
    int64_t v = 0;

    if (*p < '0' || *p > '9')
        return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if (!pdl_mul64(v, 10, &v) || !pdl_add64(v, *p - '0', &v))
            return -1;
    return v;
}

static int64_t json_step(const char *line)
{
    static const char key[] = "{\"step\":";

    if (strncmp(line, key, sizeof key - 1) != 0)
        return -1;
    line += sizeof key - 1;
    return leading_number(line + strspn(line, " "));
}

static int64_t json_row_at(const char *p, const char *end, int64_t *step)
{
    const char *eol = memchr(p, '\n', (size_t)(end - p));

    *step = eol ? json_step(p) : -1;
    return *step < 0 ? 0 : eol + 1 - p;
}

static void json_head(const pdl_metrics *m, struct pdl_sink *out)
{
    (void)m;
    (void)out;
}

static void json_row(const pdl_metrics *m, int64_t step, const double *v,
                     struct pdl_sink *out)
{
    struct pdl_json j;

    pdl_json_init(&j, out);
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kint(&j, "step", step);
    for (int i = 0; i < m->ncolumns; i++)
        pdl_json_knum(&j, m->column[i], v[i]);
    pdl_json_end(&j); /* and the line */
}

/* ---- CSV ---- */

static void csv_head(const pdl_metrics *m, struct pdl_sink *out)
{
    pdl_puts(out, "step");
    for (int i = 0; i < m->ncolumns; i++)
        pdl_printf(out, ",%s", m->column[i]);
    pdl_puts(out, "\n");
}

static void csv_row(const pdl_metrics *m, int64_t step, const double *v,
                    struct pdl_sink *out)
{
    pdl_printf(out, "%" PRId64, step);
    for (int i = 0; i < m->ncolumns; i++) {
        struct pdl_json j; /* its shortest exact numbers */

        pdl_puts(out, ",");
        pdl_json_init(&j, out);
        if (isfinite(v[i]))
            pdl_json_num(&j, v[i]);
    }
    pdl_puts(out, "\n");
}

static int64_t csv_row_at(const char *p, const char *end, int64_t *step)
{
    const char *eol = memchr(p, '\n', (size_t)(end - p));

    *step = eol ? leading_number(p) : -1;
    return *step < 0 ? 0 : eol + 1 - p;
}

/* ---- events ---- */

static void events_head(const pdl_metrics *m, struct pdl_sink *out)
{
    (void)m;
    io_events_head(out);
}

static void events_row(const pdl_metrics *m, int64_t step, const double *v,
                       struct pdl_sink *out)
{
    io_events_row((const char *const *)m->column, m->ncolumns, step, v, out);
}

static const struct format formats[] = {
    {".jsonl", json_row_at, json_head, json_row},
    {".csv", csv_row_at, csv_head, csv_row},
    {".tfevents", io_events_record, events_head, events_row},
};

/* ---- opening ---- */

static const struct format *format_of(const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t m = strlen(formats[i].suffix);

        if (n > m && strcmp(path + n - m, formats[i].suffix) == 0)
            return &formats[i];
    }
    return NULL;
}

/* Whole lines of steps up to `resume`, in order; the first line may be the
 * titles, which must be ours. */
static enum pdl_status keep(pdl_metrics *m, struct pdl_bytes old,
                            int64_t resume, struct pdl_buf *out,
                            struct pdl_err *err)
{
    const char *p = old.data, *end = old.data + old.len;

    if (out->len > 0 && old.len > 0) {
        if (old.len < out->len || memcmp(old.data, out->text, out->len) != 0)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: an older file with other columns", m->path);
        p += out->len;
    }
    while (p < end) {
        int64_t step = -1, n = m->format->row_at(p, end, &step);

        if (n == 0 || step < 0 || step > resume || step < m->last)
            break;
        m->last = step;
        pdl_put(&out->sink, p, (size_t)n);
        p += n;
    }
    return PDL_OK;
}

static enum pdl_status start(pdl_metrics *m, int64_t resume,
                             struct pdl_err *err)
{
    struct pdl_bytes old = {"", 0};
    struct pdl_buf text;
    enum pdl_status st = PDL_OK;

    if (resume >= 0 && access(m->path, F_OK) == 0)
        st = pdl_file_read(m->arena, m->path, MAX_OLD, &old, err);
    if (st != PDL_OK)
        return st;
    pdl_buf_init(&text);
    m->format->head(m, &text.sink);
    st = keep(m, old, resume, &text, err);
    if (st == PDL_OK && text.sink.failed)
        st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", m->path);
    if (st == PDL_OK)
        st = pdl_file_write(m->path, text.len ? text.text : "", text.len, err);
    pdl_buf_free(&text);
    if (st != PDL_OK)
        return st;
    m->fd = open(m->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (m->fd < 0)
        return pdl_fail(err, PDL_EIO, "%s: %s", m->path, strerror(errno));
    return PDL_OK;
}

static bool copy_names(pdl_metrics *m, const char *path,
                       const char *const *columns)
{
    m->path = pdl_arena_strdup(m->arena, path);
    m->column = PDL_NEW(m->arena, const char *, m->ncolumns + 1);
    for (int i = 0; i < m->ncolumns && m->column; i++) {
        m->column[i] = pdl_arena_strdup(m->arena, columns[i]);
        if (!m->column[i])
            return false;
    }
    return m->path && m->column;
}

enum pdl_status pdl_metrics_open(const char *path, const char *const *columns,
                                 int ncolumns, int64_t resume_step,
                                 pdl_metrics **out, struct pdl_err *err)
{
    const struct format *f = format_of(path);
    pdl_metrics *m = f ? calloc(1, sizeof *m) : NULL;
    enum pdl_status st = PDL_ENOMEM;

    if (!f) {
        st = pdl_fail(err, PDL_EINVAL, "%s: an unknown kind of file", path);
        pdl_hint(err, "measurements go to *.jsonl, *.csv or *.tfevents");
        return st;
    }
    if (m) {
        m->format = f;
        m->fd = -1;
        m->last = -1;
        m->ncolumns = ncolumns;
        m->arena = pdl_arena_create((size_t)2 << 30);
    }
    if (m && m->arena && copy_names(m, path, columns))
        st = start(m, resume_step, err);
    else
        (void)pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    if (st != PDL_OK) {
        (void)pdl_metrics_close(m, NULL);
        return st;
    }
    *out = m;
    return PDL_OK;
}

/* One row, or none where the format has no such. */
static enum pdl_status append(pdl_metrics *m, int64_t step, struct pdl_buf *b,
                              struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (b->sink.failed)
        st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", m->path);
    else if (!io_write_all(m->fd, b->text, b->len))
        st = pdl_fail(err, PDL_EIO, "%s: %s", m->path, strerror(errno));
    else
        m->last = step;
    pdl_buf_free(b);
    return st;
}

static enum pdl_status in_order(const pdl_metrics *m, int64_t step,
                                struct pdl_err *err)
{
    if (step >= m->last)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL, "%s: step %lld after %lld", m->path,
                    (long long)step, (long long)m->last);
}

enum pdl_status pdl_metrics_add(pdl_metrics *m, int64_t step,
                                const double *values, struct pdl_err *err)
{
    enum pdl_status st = in_order(m, step, err);
    struct pdl_buf b;

    if (st != PDL_OK)
        return st;
    pdl_buf_init(&b);
    m->format->row(m, step, values, &b.sink);
    return append(m, step, &b, err);
}

enum pdl_status pdl_metrics_remark(pdl_metrics *m, int64_t step,
                                   const char *key, const char *text,
                                   const char *number, double value,
                                   struct pdl_err *err)
{
    enum pdl_status st = in_order(m, step, err);
    struct pdl_json j;
    struct pdl_buf b;

    if (st != PDL_OK || m->format->row != json_row)
        return st;
    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    j.compact = true;
    pdl_json_object(&j);
    pdl_json_kint(&j, "step", step);
    pdl_json_kstr(&j, key, text);
    pdl_json_knum(&j, number, value);
    pdl_json_end(&j);
    return append(m, step, &b, err);
}

enum pdl_status pdl_metrics_back(pdl_metrics *m, int64_t step,
                                 struct pdl_err *err)
{
    if (step >= m->last)
        return PDL_OK;
    close(m->fd);
    m->fd = -1;
    m->last = -1;
    return start(m, step, err);
}

int64_t pdl_metrics_last(const pdl_metrics *m)
{
    return m->last;
}

enum pdl_status pdl_metrics_close(pdl_metrics *m, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (!m)
        return st;
    if (m->fd >= 0 && close(m->fd) != 0)
        st = pdl_fail(err, PDL_EIO, "%s: %s", m->path, strerror(errno));
    pdl_arena_destroy(m->arena);
    free(m);
    return st;
}
