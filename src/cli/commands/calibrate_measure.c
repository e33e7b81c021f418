/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting paradl-run to measure, and reading what it prints: the machine on
 * as many ranks as the node has PEs, then the collectives on each number of
 * ranks, each a start of its own, as training will start them. In several
 * rounds, so that whatever disturbs the machine for a while disturbs each
 * number of ranks once; the least of the times counts. More ranks than
 * processors are measured once. */
#include "cli/commands/cli_calibrate.h"

#include "options/bench_options.h" /* of src/run */
#include "options/calibrate_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct pdl_cmd machine_cmd = {
    .name = "calibrate",
    .opts = run_calibrate_opts,
    .nopts = RUN_CALIBRATE_NOPTS,
    .opts_size = sizeof(struct run_calibrate_options),
};

static enum pdl_status parse(struct cli_measurement *m,
                             const struct pdl_buf *text,
                             const struct pdl_doc **out, struct pdl_err *err)
{
    char *copy =
        pdl_arena_strndup(m->a, text->text ? text->text : "", text->len);

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    return pdl_doc_json(m->a, (struct pdl_bytes){copy, text->len},
                        "measurement", out, err);
}

static enum pdl_status measure_machine(const struct cli_calibrate_options *o,
                                       bool quiet, struct cli_measurement *m,
                                       struct pdl_err *err)
{
    struct run_calibrate_options opts = {.seconds = o->seconds,
                                         .threads = o->threads,
                                         .device = o->device,
                                         .progress = !quiet && cli_progress()};
    struct pdl_args args = {.opts = &opts};
    struct pdl_buf text;
    enum pdl_status st;

    pdl_buf_init(&text);
    st = cli_capture(&machine_cmd, &args, o->ranks, &text, err);
    if (st == PDL_OK)
        st = parse(m, &text, &m->machine, err);
    pdl_buf_free(&text);
    return st;
}

static enum pdl_status measure_collective(const struct cli_calibrate_options *o,
                                          struct cli_measurement *m, int i,
                                          int round, struct pdl_err *err)
{
    const struct cli_bench_runs *b = &m->bench[i];
    struct bench_options opts = {
        .ranks = b->ranks, .size = b->sizes, .seconds = o->seconds / 4};
    struct pdl_args args = {
        .opts = &opts, .npos = 1, .pos = {b->collective}, .json = true};
    struct pdl_buf text;
    enum pdl_status st;

    cli_bench_as_trained(&opts, b->collective);
    pdl_buf_init(&text);
    st = cli_capture(&cli_bench, &args, b->ranks, &text, err);
    if (st == PDL_OK)
        st = parse(m, &text, &m->bench[i].round[round], err);
    pdl_buf_free(&text);
    return st;
}

/* Up to what does not fit the caches: activations of a layer are as large, and
 * what bytes take within them says nothing of it. Weights alone are broadcast,
 * at the start. */
static const struct {
    const char *name, *sizes;
} collectives[] = {
    {"allreduce", "1KiB..64MiB"}, {"reduce-scatter", "1KiB..64MiB"},
    {"allgather", "1KiB..64MiB"}, {"alltoall", "1KiB..64MiB"},
    {"broadcast", "1KiB..16MiB"},
};
/* More ranks than processors, each with buffers of its own, take long; and
 * beyond the caches a byte takes what it takes. */
static const char crowded_sizes[] = "1KiB..4MiB";
enum { NCOLLECTIVES = sizeof collectives / sizeof collectives[0] };

static bool wanted(const struct cli_calibrate_options *o, const char *name)
{
    return !o->collective || strcmp(o->collective, name) == 0;
}

/* Powers of two, all PEs, and one more than there are processors: there the
 * ranks begin to wait for each other's time, and times take a step. */
static void choose_ranks(const struct cli_calibrate_options *o,
                         struct cli_measurement *m)
{
    int64_t crowded = sysconf(_SC_NPROCESSORS_ONLN) + 1;
    int room = sizeof m->bench / sizeof m->bench[0];

    for (int k = 0; k < NCOLLECTIVES; k++)
        for (int64_t n = wanted(o, collectives[k].name) ? 2 : o->most + 1;
             n <= o->most && m->nbench < room; n++)
            if ((n & (n - 1)) == 0 || n == o->ranks || n == crowded)
                m->bench[m->nbench++] = (struct cli_bench_runs){
                    .collective = collectives[k].name,
                    .sizes =
                        n >= crowded ? crowded_sizes : collectives[k].sizes,
                    .ranks = n,
                    .rounds = n >= crowded ? 1 : (int)o->rounds};
}

static void say(bool quiet, const char *what, int64_t ranks)
{
    if (!quiet)
        fprintf(stderr, "paradl: measuring %s on %" PRId64 " ranks\n", what,
                ranks);
}

enum pdl_status cli_measure(const struct cli_calibrate_options *o, bool quiet,
                            struct cli_measurement *m, struct pdl_err *err)
{
    enum pdl_status st;

    if (!o->device)
        say(quiet, "memory, operators and messages", o->ranks);
    st = measure_machine(o, quiet, m, err);
    if (!o->device)
        choose_ranks(o, m);
    for (int round = 0; round < o->rounds; round++)
        for (int i = 0; st == PDL_OK && i < m->nbench; i++) {
            if (round >= m->bench[i].rounds)
                continue;
            if (round == 0)
                say(quiet, m->bench[i].collective, m->bench[i].ranks);
            st = measure_collective(o, m, i, round, err);
        }
    return st;
}
