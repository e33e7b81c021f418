/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of paradl train reads: the ids that its loader gets from a
 * sampler, epoch after epoch, losses of samples made up in a way that the test
 * in Python makes up too.
 *   batches SHUFFLE HIDE SAMPLES BATCH EPOCHS RANKS MICROS SEED */
#include "paradl/io.h"

#include <stdio.h>
#include <stdlib.h>

struct run {
    struct pdl_sampler_options o;
    int64_t ranks;
    pdl_io *io;
    pdl_sampler *sampler;
};

/* The samples of every batch of the epoch, as one rank's loader has them. */
static enum pdl_status print_rank(const struct run *r, int64_t rank,
                                  struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(r->io);
    int64_t micros = r->o.micros, per = r->o.batch / micros / r->ranks;
    struct pdl_loader_options l = {
        .io = r->io,
        .split = pdl_dataset_split(d, "train"),
        .sampler = r->sampler,
        .batch = r->o.batch,
        .lo = rank * per,
        .hi = (rank + 1) * per,
        .micros = micros,
        .target = true,
        .target_box = pdl_field_box(&d->target),
        .last_step = pdl_sampler_batches(r->sampler)};
    pdl_loader *loader = NULL;
    enum pdl_status st = pdl_loader_create(&l, &loader, err);

    for (int64_t i = 0; i < l.last_step && st == PDL_OK; i++) {
        struct pdl_batch b;

        st = pdl_loader_next(loader, &b, err);
        printf("%lld %lld:", (long long)rank, (long long)i);
        for (int64_t k = 0; st == PDL_OK && k < b.nsamples; k++)
            printf(" %lld", (long long)b.samples[k]);
        putchar('\n');
    }
    pdl_loader_destroy(loader);
    return st;
}

/* Trained, or looked at because they were hidden. */
static void see(const struct run *r, int64_t epoch)
{
    const int64_t *hidden;
    int64_t n = pdl_sampler_hidden(r->sampler, &hidden);
    int64_t trained = pdl_sampler_batches(r->sampler) * r->o.batch;

    for (int64_t i = 0; i < trained + n; i++) {
        int64_t s =
            i < trained ? pdl_sampler_at(r->sampler, i) : hidden[i - trained];

        if (i < trained || pdl_sampler_refreshes(r->sampler))
            pdl_sampler_saw(r->sampler, s,
                            (double)((s * 37 + epoch * 11) % 101) / 50,
                            (s + epoch) % 3 != 0);
    }
}

static enum pdl_status run(struct run *r, struct pdl_err *err)
{
    struct pdl_dataset like = {.name = "made up",
                               .format = "synthetic",
                               .input = {.rank = 1, .dim = {1}},
                               .target = {.integer = true},
                               .classes = 2,
                               .nsplits = 1,
                               .split = {{"train", r->o.samples}}};
    struct pdl_io_options how = {.like = &like};
    enum pdl_status st = pdl_io_open("synthetic", &how, &r->io, err);

    if (st == PDL_OK)
        st = pdl_sampler_create(&r->o, &r->sampler, err);
    for (int64_t e = 0; e < r->o.epochs && st == PDL_OK; e++) {
        pdl_sampler_next(r->sampler);
        printf("epoch %lld rate %.17g\n", (long long)e,
               pdl_sampler_rate(r->sampler));
        for (int64_t k = 0; k < r->ranks && st == PDL_OK; k++)
            st = print_rank(r, k, err);
        see(r, e);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct pdl_err err = {"usage: see the file", ""};
    enum pdl_status st = PDL_EINVAL;
    struct run r = {.io = NULL};

    if (argc == 9) {
        r.o = (struct pdl_sampler_options){.deal = argv[1],
                                           .hide = argv[2],
                                           .samples = atoll(argv[3]),
                                           .batch = atoll(argv[4]),
                                           .epochs = atoll(argv[5]),
                                           .workers = atoll(argv[6]),
                                           .micros = atoll(argv[7]),
                                           .seed = strtoull(argv[8], NULL, 10)};
        r.ranks = r.o.workers;
        st = run(&r, &err);
    }
    pdl_sampler_destroy(r.sampler);
    pdl_io_close(r.io);
    if (st != PDL_OK)
        fprintf(stderr, "%s\n", err.msg);
    return st == PDL_OK ? 0 : 1;
}
