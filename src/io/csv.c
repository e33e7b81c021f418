/* SPDX-License-Identifier: Apache-2.0
 *
 * Small tables of numbers: comma-separated rows, the last column the target,
 * one optional line of titles. Whole numbers >= 0 in the target are classes.
 *
 * Inputs are divided by their largest absolute value, so that pixels of any
 * depth lie in [0,1]. A square number of columns >= 16 is an image of one
 * channel (the 64 of digits: 8 x 8), any other number a vector; options.like
 * says otherwise. The share held back as "test" is chosen by a fixed
 * permutation, because such files are often sorted by class. */
#include "io_priv.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_COLUMNS = 1 << 20, MAX_LABEL = 1 << 20 };
static const double USUAL_HOLDOUT = 0.2;
static const uint64_t HOLDOUT_SEED = 1797; /* never changes: it names samples */

struct table {
    pdl_io *io;
    const char *p, *end;
    int64_t rows, columns, line;
    float *cell;
    struct pdl_err *err;
};

/* Counts lines that hold something, and the columns of the first. */
static void measure(struct table *t)
{
    const char *p = t->p;

    t->columns = 1;
    for (; p < t->end && *p != '\n'; p++)
        t->columns += *p == ',';
    for (p = t->p; p < t->end; p++) {
        const char *eol = memchr(p, '\n', (size_t)(t->end - p));

        if (!eol)
            eol = t->end;
        t->rows += eol > p && !(eol == p + 1 && *p == '\r');
        p = eol;
    }
}

static bool is_title(const struct table *t)
{
    const char *p = t->p;

    while (p < t->end && (*p == ' ' || *p == '"'))
        p++;
    return p < t->end && (isalpha((unsigned char)*p) || *p == '_' || *p == '#');
}

static void skip_line(struct table *t)
{
    const char *eol = memchr(t->p, '\n', (size_t)(t->end - t->p));

    t->p = eol ? eol + 1 : t->end;
    t->line++;
}

/* One cell; the text is copied because it need not end in a zero byte. */
static enum pdl_status read_cell(struct table *t, char stop, float *out)
{
    char text[40], *end;
    size_t n = 0;
    double v;

    while (t->p < t->end && *t->p != ',' && *t->p != '\n' && *t->p != '\r') {
        if (n + 1 >= sizeof text)
            break;
        text[n++] = *t->p++;
    }
    text[n] = '\0';
    v = pdl_strtod(text, &end);
    end += strspn(end, " ");
    if (n == 0 || *end || !isfinite(v) || fabs(v) > 1e30)
        return pdl_fail(t->err, PDL_EPARSE, "%s:%lld: '%s' is not a number",
                        t->io->path, (long long)t->line, text);
    if (stop == '\n' && t->p < t->end && *t->p == '\r')
        t->p++;
    if (t->p < t->end ? *t->p != stop : stop != '\n')
        return pdl_fail(t->err, PDL_EPARSE,
                        "%s:%lld: the line has not the %lld columns of the "
                        "first",
                        t->io->path, (long long)t->line, (long long)t->columns);
    t->p += t->p < t->end;
    *out = (float)v;
    return PDL_OK;
}

static enum pdl_status read_rows(struct table *t)
{
    enum pdl_status st = PDL_OK;

    for (int64_t r = 0; r < t->rows && st == PDL_OK; t->line++) {
        if (t->p < t->end && (*t->p == '\n' || *t->p == '\r')) {
            t->p++;
            continue;
        }
        for (int64_t c = 0; c < t->columns && st == PDL_OK; c++)
            st = read_cell(t, c + 1 < t->columns ? ',' : '\n',
                           &t->cell[r * t->columns + c]);
        r++;
    }
    return st;
}

/* ---- from cells to samples ---- */

static bool are_labels(const struct table *t)
{
    for (int64_t r = 0; r < t->rows; r++) {
        float v = t->cell[(r + 1) * t->columns - 1];

        if (v < 0 || v >= MAX_LABEL || v != floorf(v))
            return false;
    }
    return true;
}

static double largest(const struct table *t)
{
    double max = 0;

    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t c = 0; c + 1 < t->columns; c++)
            max = fmax(max, fabs((double)t->cell[r * t->columns + c]));
    return max > 0 ? max : 1;
}

/* Rows in the order of the splits: training, then those held back. */
static enum pdl_status reorder(struct table *t)
{
    size_t bytes = (size_t)t->columns * sizeof(float);
    float *to = pdl_arena_alloc(t->io->arena, (size_t)t->rows, bytes);
    struct pdl_order o;

    if (!to)
        return pdl_fail(t->err, PDL_ENOMEM, "%s: out of memory", t->io->path);
    pdl_order_begin(&o, pdl_shuffle_find("global", NULL), HOLDOUT_SEED, 0,
                    t->rows);
    for (int64_t r = 0; r < t->rows; r++)
        memcpy(to + r * t->columns, t->cell + pdl_order_at(&o, r) * t->columns,
               bytes);
    t->cell = to;
    return PDL_OK;
}

static enum pdl_status shape_of(struct table *t, struct io_array *a)
{
    const struct pdl_dataset *like = t->io->opt.like;
    int64_t n = t->columns - 1, side = (int64_t)lround(sqrt((double)n)), want;

    a->rank = 1;
    a->dim[0] = n;
    if (like) {
        a->rank = like->input.rank;
        memcpy(a->dim, like->input.dim, sizeof a->dim);
        if (a->rank < 1 || a->rank > PDL_DATA_RANK ||
            !pdl_prod64(a->dim, a->rank, &want) || want != n)
            return pdl_fail(t->err, PDL_EPARSE,
                            "%s: %lld columns of input do not make the shape "
                            "that is wanted",
                            t->io->path, (long long)n);
    } else if (n >= 16 && side * side == n) {
        a->rank = 3;
        a->dim[0] = 1;
        a->dim[1] = a->dim[2] = side;
    }
    for (int64_t d = a->rank - 1, step = sizeof(float); d >= 0; d--) {
        a->step[d] = step;
        step *= a->dim[d];
    }
    return PDL_OK;
}

static enum pdl_status add_rows(struct table *t, const char *split,
                                int64_t first, int64_t count, bool labels)
{
    struct io_array in = {.count = count}, target;
    enum pdl_status st = shape_of(t, &in);

    if (st != PDL_OK || count == 0)
        return st;
    in.at = (const unsigned char *)(t->cell + first * t->columns);
    in.stride = t->columns * (int64_t)sizeof(float);
    in.elem = io_elem_find("f32");
    in.scale = 1 / largest(t);
    target = in;
    target.at += in.stride - (int64_t)sizeof(float);
    target.rank = 0;
    target.scale = 1;
    target.elem = io_elem_find(labels ? "whole" : "f32");
    return io_segment_add(t->io, io_split(t->io, split), &in, &target, t->err);
}

enum pdl_status io_csv_open(pdl_io *io, struct pdl_bytes in,
                            struct pdl_err *err)
{
    struct table t = {io, in.data, in.data + in.len, 0, 0, 1, NULL, err};
    enum pdl_status st;
    int64_t held, cells;

    if (in.len == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: empty", io->path);
    if (is_title(&t))
        skip_line(&t);
    measure(&t);
    if (t.rows < 1 || t.columns < 2 || t.columns > MAX_COLUMNS)
        return pdl_fail(err, PDL_EPARSE, "%s: %lld rows of %lld columns",
                        io->path, (long long)t.rows, (long long)t.columns);
    /* a cell takes two bytes of text at least */
    if (!pdl_mul64(t.rows, t.columns, &cells) || cells > (int64_t)in.len)
        return pdl_fail(err, PDL_EPARSE,
                        "%s: some lines have not the %lld columns of the first",
                        io->path, (long long)t.columns);
    t.cell = PDL_NEW(io->arena, float, cells);
    if (!t.cell)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    st = read_rows(&t);
    if (st == PDL_OK)
        st = reorder(&t);
    if (st != PDL_OK)
        return st;
    held = io_holdout(io, t.rows, USUAL_HOLDOUT);
    st = add_rows(&t, "train", 0, t.rows - held, are_labels(&t));
    if (st == PDL_OK)
        st = add_rows(&t, "test", t.rows - held, held, are_labels(&t));
    return st == PDL_OK ? io_segments_describe(io, err) : st;
}

/* The first line that is no title holds numbers and a comma. */
static bool csv_probe(const struct io_source *src)
{
    struct table t = {.p = src->head.data};
    const char *p;
    bool comma = false;

    if (src->folder || src->head.len == 0)
        return false;
    t.end = t.p + src->head.len;
    if (is_title(&t))
        skip_line(&t);
    for (p = t.p; p < t.end && *p != '\n'; p++) {
        comma |= *p == ',';
        if (!strchr("0123456789+-.eE, \r", *p) || *p == '\0')
            return false;
    }
    return comma;
}

static enum pdl_status csv_open(pdl_io *io, const struct io_source *src,
                                struct pdl_err *err)
{
    struct pdl_bytes in;
    enum pdl_status st = io_load(io, src->path, &in, err);

    return st == PDL_OK ? io_csv_open(io, in, err) : st;
}

const struct io_format io_format_csv = {
    .pub = {"csv", "a table of numbers, the last column the label"},
    .probe = csv_probe,
    .open = csv_open,
};
