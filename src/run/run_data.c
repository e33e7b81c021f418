/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run data: what a data set or a store of samples is, samples into
 * stores, and whether every one can be read. One process, no MPI. */
#include "run_priv.h"
#include "options/data_options.h"
#include "paradl/io.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_STORES = 65536 };

/* ---- what is there ---------------------------------------------------- */

struct stores {
    char **path;
    int n;
};

static int by_number(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return strlen(x) != strlen(y) ? (strlen(x) < strlen(y) ? -1 : 1)
                                  : strcmp(x, y);
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

/* The files of stores at a path; none: it is a data set. */
static enum pdl_status find_stores(pdl_arena *a, const char *path,
                                   struct stores *out, struct pdl_err *err)
{
    struct stat sb;
    struct dirent *e;
    DIR *d;

    out->path = PDL_NEW(a, char *, MOST_STORES);
    out->n = 0;
    if (!out->path)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (stat(path, &sb) != 0)
        return PDL_OK;
    if (S_ISREG(sb.st_mode) && ends_in(path, ".store"))
        out->path[out->n++] = pdl_arena_strdup(a, path);
    d = S_ISDIR(sb.st_mode) ? opendir(path) : NULL;
    while (d && (e = readdir(d)) != NULL && out->n < MOST_STORES)
        if (ends_in(e->d_name, ".store"))
            out->path[out->n++] = pdl_arena_printf(a, "%s/%s", path, e->d_name);
    if (d)
        closedir(d);
    for (int i = 0; i < out->n; i++)
        if (!out->path[i])
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    qsort(out->path, (size_t)out->n, sizeof *out->path, by_number);
    return PDL_OK;
}

static void print_shape(const struct pdl_field *f)
{
    struct pdl_sink *out = run_out();

    for (int d = 0; d < f->rank; d++)
        pdl_printf(out, "%s%lld", d ? " x " : "", (long long)f->dim[d]);
    pdl_printf(out, "%s %s", f->rank ? "" : "one",
               f->integer ? "whole" : "real");
}

static void json_shape(struct pdl_json *w, const char *key,
                       const struct pdl_field *f)
{
    pdl_json_key(w, key);
    pdl_json_flat(w);
    for (int d = 0; d < f->rank; d++)
        pdl_json_int(w, f->dim[d]);
    pdl_json_end(w);
}

/* ---- show ------------------------------------------------------------- */

static enum pdl_status open_set(const char *path, const struct data_options *o,
                                pdl_io **out, struct pdl_err *err)
{
    struct pdl_io_options opt = {.sequence = o->sequence, .side = o->side};

    if (strcmp(path, "synthetic") == 0)
        return pdl_fail(err, PDL_EINVAL,
                        "synthetic samples are made for a model, there is "
                        "nothing to see");
    return pdl_io_open(path, &opt, out, err);
}

static void show_set(const struct pdl_dataset *d, bool json)
{
    struct pdl_sink *out = run_out();
    struct pdl_json w;

    if (!json) {
        pdl_printf(out, "%s: %s", d->name, d->format);
        if (d->classes > 0)
            pdl_printf(out, ", %lld %s", (long long)d->classes,
                       d->input.integer ? "tokens" : "classes");
        pdl_puts(out, "\n  input   ");
        print_shape(&d->input);
        pdl_puts(out, "\n  target  ");
        print_shape(&d->target);
        for (int i = 0; i < d->nsplits; i++)
            pdl_printf(out, "\n  %-7s %lld samples", d->split[i].name,
                       (long long)d->split[i].samples);
        pdl_puts(out, "\n");
        return;
    }
    pdl_json_init(&w, out);
    pdl_json_schema(&w, "data-show");
    pdl_json_kstr(&w, "data", d->name);
    pdl_json_kstr(&w, "format", d->format);
    pdl_json_kint(&w, "classes", d->classes);
    json_shape(&w, "input", &d->input);
    json_shape(&w, "target", &d->target);
    pdl_json_key(&w, "splits");
    pdl_json_array(&w);
    for (int i = 0; i < d->nsplits; i++) {
        pdl_json_row(&w);
        pdl_json_kstr(&w, "name", d->split[i].name);
        pdl_json_kint(&w, "samples", d->split[i].samples);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_end(&w);
}

static void show_store(const char *path, const struct pdl_store_info *s,
                       struct pdl_json *w)
{
    struct pdl_sink *out = run_out();

    if (!w) {
        pdl_printf(out, "%s: %lld of %lld samples of '%s' (%s)\n", path,
                   (long long)s->count, (long long)s->samples, s->split,
                   s->format);
        pdl_printf(out, "  room for %lld, %lld bytes each (%s), ",
                   (long long)s->capacity, (long long)s->record_bytes, s->elem);
        print_shape(&s->input);
        pdl_puts(out, "\n");
        return;
    }
    pdl_json_row(w);
    pdl_json_kstr(w, "path", path);
    pdl_json_kint(w, "version", s->version);
    pdl_json_kint(w, "count", s->count);
    pdl_json_kint(w, "capacity", s->capacity);
    pdl_json_kint(w, "samples", s->samples);
    pdl_json_kint(w, "record_bytes", s->record_bytes);
    pdl_json_kint(w, "file_bytes", s->file_bytes);
    pdl_json_end(w);
}

static enum pdl_status show_stores(const struct stores *all, bool json,
                                   struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    struct pdl_json w;

    pdl_json_init(&w, run_out());
    if (json) {
        pdl_json_schema(&w, "data-show");
        pdl_json_key(&w, "stores");
        pdl_json_array(&w);
    }
    for (int i = 0; i < all->n && st == PDL_OK; i++) {
        struct pdl_store_info info;
        pdl_store *s = NULL;

        st = pdl_store_open(all->path[i], NULL, 0, 0, &s, err);
        if (st != PDL_OK)
            break;
        pdl_store_describe(s, &info);
        show_store(all->path[i], &info, json ? &w : NULL);
        pdl_store_close(s);
    }
    if (json) {
        pdl_json_end(&w);
        pdl_json_end(&w);
    }
    return st;
}

static int show(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct stores all = {NULL, 0};
    pdl_io *io = NULL;
    enum pdl_status st = a ? find_stores(a, args->pos[0], &all, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK && all.n > 0) {
        st = show_stores(&all, args->json, &err);
    } else if (st == PDL_OK) {
        st = open_set(args->pos[0], args->opts, &io, &err);
        if (st == PDL_OK)
            show_set(pdl_io_describe(io), args->json);
    }
    pdl_io_close(io);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : run_fail(st, &err);
}

/* ---- check ------------------------------------------------------------ */

struct verdict {
    int64_t samples, bad;
    struct pdl_err first;
};

static void judge(struct verdict *v, enum pdl_status st,
                  const struct pdl_err *err)
{
    v->samples++;
    if (st != PDL_OK && v->bad++ == 0)
        v->first = *err;
}

static enum pdl_status check_stores(const struct stores *all, struct verdict *v,
                                    struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < all->n; i++) {
        struct pdl_store_info info;
        pdl_store *s = NULL;

        st = pdl_store_open(all->path[i], NULL, 0, 0, &s, err);
        if (st != PDL_OK)
            return st;
        pdl_store_describe(s, &info);
        for (int64_t k = 0; k < info.capacity; k++) {
            int64_t x = pdl_store_at(s, k);
            struct pdl_err one = {"", ""};

            if (x >= 0)
                judge(v, pdl_store_check(s, x, &one), &one);
        }
        pdl_store_close(s);
    }
    return st;
}

static enum pdl_status check_set(const pdl_io *io, struct verdict *v,
                                 struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    struct pdl_box in = pdl_field_box(&d->input),
                   out = pdl_field_box(&d->target);
    int64_t n = pdl_box_volume(&in) + pdl_box_volume(&out);
    float *x = malloc((size_t)n * sizeof *x);

    if (!x)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int s = 0; s < d->nsplits; s++)
        for (int64_t i = 0; i < d->split[s].samples; i++) {
            struct pdl_read r = {
                .split = s, .samples = &i, .nsamples = 1, .box = in};
            struct pdl_err one = {"", ""};
            enum pdl_status st = pdl_io_input(io, &r, x, &one);

            r.box = out;
            if (st == PDL_OK)
                st = pdl_io_target(io, &r, x, &one);
            judge(v, st, &one);
        }
    free(x);
    return PDL_OK;
}

static int conclude(const struct verdict *v, bool json)
{
    struct pdl_sink *out = run_out();
    struct pdl_json w;

    if (json) {
        pdl_json_init(&w, out);
        pdl_json_schema(&w, "data-check");
        pdl_json_kint(&w, "samples", v->samples);
        pdl_json_kint(&w, "damaged", v->bad);
        pdl_json_kstr(&w, "first", v->bad ? v->first.msg : NULL);
        pdl_json_end(&w);
    } else if (v->bad == 0) {
        pdl_printf(out, "%lld samples, all whole\n", (long long)v->samples);
    } else {
        pdl_printf(out, "%lld of %lld samples are damaged; the first:\n%s\n",
                   (long long)v->bad, (long long)v->samples, v->first.msg);
    }
    return v->bad ? EXIT_NO : EXIT_OK;
}

static int check(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct verdict v = {.samples = 0};
    struct stores all = {NULL, 0};
    pdl_io *io = NULL;
    enum pdl_status st = a ? find_stores(a, args->pos[0], &all, &err)
                           : pdl_fail(&err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK && all.n > 0) {
        st = check_stores(&all, &v, &err);
    } else if (st == PDL_OK) {
        st = open_set(args->pos[0], args->opts, &io, &err);
        if (st == PDL_OK)
            st = check_set(io, &v, &err);
    }
    pdl_io_close(io);
    pdl_arena_destroy(a);
    return st == PDL_OK ? conclude(&v, args->json) : run_fail(st, &err);
}

// clang-format off
const struct pdl_cmd run_data_show = {
    .name = "data show", .args = "PATH", .min_pos = 1, .max_pos = 1,
    .summary = "what a data set or a store is",
    .text = "See paradl data show, which starts this.",
    .example = "paradl-run 'data show' --help",
    .opts = data_opts, .nopts = NDATA_OPTS,
    .opts_size = sizeof(struct data_options), .run = show,
};

const struct pdl_cmd run_data_check = {
    .name = "data check", .args = "PATH", .min_pos = 1, .max_pos = 1,
    .summary = "reads every sample",
    .text = "See paradl data check, which starts this.",
    .example = "paradl-run 'data check' --help",
    .opts = data_opts, .nopts = NDATA_OPTS,
    .opts_size = sizeof(struct data_options), .run = check,
};
// clang-format on
