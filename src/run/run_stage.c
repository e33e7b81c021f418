/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run data stage: the samples that ranks have at the beginning of a run,
 * into their stores. Who has what is the sampler's to say, as in training. */
#include "run_priv.h"
#include "options/data_options.h"
#include "paradl/io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct stage {
    const struct data_options *o;
    pdl_arena *arena;
    pdl_io *io;
    pdl_sampler *sampler;
    int split;
    int64_t ranks, put, there, file_bytes;
};

static enum pdl_status read_labels(struct stage *s, int32_t **out,
                                   struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    int64_t n = d->split[s->split].samples;
    int64_t *ids = PDL_NEW(s->arena, int64_t, n);
    struct pdl_read r = {
        .split = s->split, .nsamples = n, .box = pdl_field_box(&d->target)};

    if (!d->target.integer || d->target.rank != 0)
        return PDL_OK; /* the sampler says what it misses */
    *out = PDL_NEW(s->arena, int32_t, n);
    if (!ids || !*out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for labels");
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    r.samples = ids;
    return pdl_io_target(s->io, &r, *out, err);
}

static enum pdl_status open_sampler(struct stage *s, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(s->io);
    const char *deal = s->o->shuffle ? s->o->shuffle : "local";
    struct pdl_sampler_options o = {
        .samples = d->split[s->split].samples,
        .batch = 1,
        .workers = s->ranks,
        .seed = (uint64_t)s->o->seed,
        .deal = deal,
    };
    const char *workers = strstr(deal, "workers=");
    int32_t *labels = NULL;
    enum pdl_status st = PDL_OK;

    /* a batch that any number of workers divides */
    o.batch = workers ? strtoll(workers + 8, NULL, 10) : s->ranks;
    o.batch = o.batch > 0 ? o.batch : 1;
    if (s->ranks > o.samples)
        return pdl_fail(err, PDL_EINVAL, "%lld ranks, but %lld samples",
                        (long long)s->ranks, (long long)o.samples);
    if (strstr(deal, "place=class"))
        st = read_labels(s, &labels, err);
    o.labels = labels;
    if (st == PDL_OK)
        st = pdl_sampler_create(&o, &s->sampler, err);
    if (st != PDL_OK)
        return st;
    pdl_sampler_next(s->sampler);
    if (pdl_sampler_workers(s->sampler) < 2 && s->ranks > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "--shuffle %s: every rank reads every sample, there "
                        "is nothing to store",
                        deal);
    return PDL_OK;
}

/* A rank has the samples of a run of workers; all, when there is one. */
static int64_t list_rank(struct stage *s, int64_t rank, int64_t **out,
                         int64_t *moves)
{
    int64_t m = pdl_sampler_workers(s->sampler), n = 0;
    int64_t from = m * rank / s->ranks, to = m * (rank + 1) / s->ranks;
    int64_t all = pdl_io_describe(s->io)->split[s->split].samples;

    *moves = (to - from) * pdl_sampler_moves(s->sampler);
    *out = malloc((size_t)all * sizeof **out);
    if (!*out)
        return -1;
    for (int64_t w = from; w < to; w++)
        for (int64_t i = 0; i < pdl_sampler_slots(s->sampler, w); i++)
            (*out)[n++] = m > 1 ? pdl_sampler_slot(s->sampler, w, i) : i;
    return n;
}

static enum pdl_status stage_rank(struct stage *s, int64_t rank,
                                  struct pdl_err *err)
{
    struct pdl_store_fill f = {.source = s->io,
                               .split = s->split,
                               .threads = (int)s->o->threads,
                               .cancel = run_stop_asked()};
    struct pdl_store_info info;
    pdl_store *store = NULL;
    int64_t *ids = NULL, moves;
    char path[4096];
    enum pdl_status st;

    if (f.threads < 1)
        f.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    f.n = list_rank(s, rank, &ids, &moves);
    f.samples = ids;
    if (snprintf(path, sizeof path, "%s/rank-%lld.store", s->o->store,
                 (long long)rank) >= (int)sizeof path)
        st = pdl_fail(err, PDL_EINVAL, "--store: the name is too long");
    else if (f.n < 0)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    else
        st = pdl_store_open(path, s->io, s->split, f.n + moves, &store, err);
    if (st == PDL_OK)
        st = pdl_store_fill(store, &f, err);
    if (st == PDL_OK)
        st = pdl_store_sync(store, err);
    if (st == PDL_OK) {
        pdl_store_describe(store, &info);
        s->put += f.put;
        s->there += info.count;
        s->file_bytes += info.file_bytes;
    }
    pdl_store_close(store);
    free(ids);
    return st;
}

static enum pdl_status stage_all(struct stage *s, const char *path,
                                 struct pdl_err *err)
{
    struct pdl_io_options opt = {.sequence = s->o->sequence,
                                 .side = s->o->side};
    int64_t only = -1;
    enum pdl_status st = PDL_OK;

    if (s->o->only)
        st = pdl_int_parse(s->o->only, 0, s->ranks - 1, &only, err);
    if (st == PDL_OK)
        st = pdl_io_open(path, &opt, &s->io, err);
    if (st != PDL_OK)
        return st;
    s->split = pdl_dataset_split(pdl_io_describe(s->io), "train");
    s->split = s->split < 0 ? 0 : s->split;
    st = open_sampler(s, err);
    if (st == PDL_OK && mkdir(s->o->store, 0777) != 0 && errno != EEXIST)
        st = pdl_fail(err, PDL_EIO, "%s: %s", s->o->store, strerror(errno));
    for (int64_t r = 0; r < s->ranks && st == PDL_OK; r++)
        if (only < 0 || r == only)
            st = stage_rank(s, r, err);
    return st;
}

static int stage(const struct pdl_args *args)
{
    struct stage s = {.o = args->opts,
                      .arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
    double from = pdl_clock_s();
    struct pdl_err err = {"", ""};
    struct pdl_json w;
    enum pdl_status st;

    s.ranks = s.o->ranks > 0 ? s.o->ranks : 1;
    run_catch_signals();
    st = s.arena ? stage_all(&s, args->pos[0], &err)
                 : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    pdl_sampler_destroy(s.sampler);
    pdl_io_close(s.io);
    pdl_arena_destroy(s.arena);
    if (st != PDL_OK)
        return st == PDL_EINTR ? EXIT_INTR : run_fail(st, &err);
    if (!args->json) {
        pdl_printf(run_out(),
                   "%s: %lld samples in stores of %lld ranks, %lld of them "
                   "new\n",
                   s.o->store, (long long)s.there,
                   (long long)(s.o->only ? 1 : s.ranks), (long long)s.put);
        return EXIT_OK;
    }
    pdl_json_init(&w, run_out());
    pdl_json_schema(&w, "data-stage");
    pdl_json_kstr(&w, "store", s.o->store);
    pdl_json_kint(&w, "ranks", s.ranks);
    pdl_json_kint(&w, "samples", s.there);
    pdl_json_kint(&w, "staged", s.put);
    pdl_json_kint(&w, "file_bytes", s.file_bytes);
    pdl_json_knum(&w, "wall_s", pdl_clock_s() - from);
    pdl_json_end(&w);
    return EXIT_OK;
}

// clang-format off
const struct pdl_cmd run_data_stage = {
    .name = "data stage", .args = "PATH", .min_pos = 1, .max_pos = 1,
    .summary = "samples into the stores of ranks",
    .text = "See paradl data stage, which starts this.",
    .example = "paradl-run 'data stage' --help",
    .opts = data_stage_opts, .nopts = NDATA_STAGE_OPTS,
    .opts_size = sizeof(struct data_options), .run = stage,
};
// clang-format on
