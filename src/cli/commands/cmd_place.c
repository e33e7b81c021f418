/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl place: the nodes the scheduler gave, and where the ranks of a strategy
 * best go on them, as a rankfile (Open MPI) or a host file of one line a rank
 * (Slurm's SLURM_HOSTFILE with --distribution=arbitrary, MPICH's -f). */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FILE = 16 << 20 };

struct options {
    struct cli_question q;
    const char *hosts, *switches, *rankfile, *hostfile;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_PLAN_OPTS,
    {"hosts", 0, PDL_OPT_TEXT, AT(hosts), "LIST", NULL,
     "the nodes, as Slurm writes them: gpu[001-004,010]"},
    {"switches", 0, PDL_OPT_TEXT, AT(switches), "FILE", NULL,
     "Slurm's topology.conf: which of them share a switch"},
    {"rankfile", 0, PDL_OPT_TEXT, AT(rankfile), "FILE", NULL,
     "write the placement for mpirun --rankfile"},
    {"hostfile", 0, PDL_OPT_TEXT, AT(hostfile), "FILE", NULL,
     "write it as one host a rank"},
    CLI_QUESTION_OPTS,
};
// clang-format on
#undef AT

struct place {
    pdl_arena *arena;
    const struct options *o;
    struct cli_job *j;
    struct pdl_hosts hosts;
    struct pdl_switches switches;
    int64_t *nodes;
    struct pdl_placement best;
    struct cli_notes notes; /* of the ranks as numbered */
    struct pdl_err *err;
};

/* ---- the nodes --------------------------------------------------------- */

/* Hosts of a switch are neighbours in the system, switch by switch. */
static enum pdl_status by_switch(struct place *x)
{
    const struct pdl_system *sys = &x->j->sys;
    int64_t group = sys->nlevels > 2 ? sys->levels[1].pes / sys->node.pes
                                     : INT64_C(1) << 20;
    int64_t *used = PDL_NEW(x->arena, int64_t, x->switches.n + 1);

    if (!used)
        return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < x->hosts.count; i++) {
        int64_t leaf = pdl_switches_find(&x->switches, x->hosts.names[i]);

        if (leaf < 0)
            return pdl_fail(x->err, PDL_EINVAL,
                            "%s: no switch has host '%.80s'", x->o->switches,
                            x->hosts.names[i]);
        if (used[leaf] == group)
            return pdl_fail(x->err, PDL_EINVAL,
                            "%s: more than the %lld hosts on switch '%.60s' "
                            "that %s has",
                            x->o->switches, (long long)group,
                            x->switches.leaf[leaf].name, sys->name);
        x->nodes[i] = leaf * group + used[leaf]++;
    }
    return PDL_OK;
}

static enum pdl_status find_nodes(struct place *x)
{
    struct pdl_bytes in;
    enum pdl_status st =
        pdl_hostlist_expand(x->arena, x->o->hosts, &x->hosts, x->err);

    if (st != PDL_OK)
        return st;
    x->nodes = PDL_NEW(x->arena, int64_t, x->hosts.count + 1);
    if (!x->nodes)
        return pdl_fail(x->err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < x->hosts.count; i++)
        x->nodes[i] = i;
    if (!x->o->switches)
        return PDL_OK;
    st = pdl_file_read(x->arena, x->o->switches, MOST_FILE, &in, x->err);
    if (st == PDL_OK)
        st = pdl_switches_read(x->arena, in, x->o->switches, &x->switches,
                               x->err);
    return st == PDL_OK ? by_switch(x) : st;
}

/* As many nodes as the PEs fill, and a system that has them all. */
static enum pdl_status make_room(struct place *x, int64_t *need)
{
    struct pdl_system *sys = &x->j->sys;
    int64_t last = 0;

    *need = (x->j->plan->mesh->pes + sys->node.pes - 1) / sys->node.pes;
    if (x->hosts.count < *need)
        return pdl_fail(x->err, PDL_EINVAL,
                        "%lld PEs fill %lld nodes, the list has %lld",
                        (long long)x->j->plan->mesh->pes, (long long)*need,
                        (long long)x->hosts.count);
    for (int64_t i = 0; i < x->hosts.count; i++)
        last = x->nodes[i] > last ? x->nodes[i] : last;
    return pdl_system_for_pes(x->arena, sys, (last + 1) * sys->node.pes,
                              x->err);
}

static enum pdl_status search(struct place *x)
{
    struct pdl_plan_options po = {
        .batch = x->o->q.batch,
        .split = pdl_framework_split(x->j->oracle.framework),
        .dtype = pdl_precision_storage(x->j->oracle.precision)};
    struct pdl_place_job job = {.model = x->j->model,
                                .system = &x->j->sys,
                                .strategy = &x->j->strategy,
                                .plan = &po,
                                .oracle = &x->j->oracle};
    enum pdl_status st = find_nodes(x);

    if (st == PDL_OK)
        st = cli_job_price(&x->o->q, x->o->q.strategy, x->j, x->err);
    if (st == PDL_OK)
        cli_job_notes(x->j, &x->notes);
    if (st == PDL_OK)
        st = pdl_speeds(x->arena, &x->j->sys, x->j->oracle.precision, &po,
                        x->err);
    if (st == PDL_OK)
        st = make_room(x, &job.nnodes);
    job.nodes = x->nodes;
    return st == PDL_OK ? pdl_place(x->arena, &job, &x->best, x->err) : st;
}

/* ---- the answer -------------------------------------------------------- */

static const char *host_of(const struct place *x, int64_t rank, int64_t *slot)
{
    int64_t per = x->j->sys.node.pes;
    int64_t pe = pdl_placed(&x->j->strategy, &x->best, rank);

    *slot = pe % per;
    return x->hosts.names[x->best.node[pe / per]];
}

static int write_file(const struct place *x, const char *path, bool ranks)
{
    struct pdl_buf b;
    int rc;

    if (!path)
        return EXIT_OK;
    pdl_buf_init(&b);
    for (int64_t r = 0; r < x->j->plan->mesh->pes; r++) {
        int64_t slot;
        const char *host = host_of(x, r, &slot);

        if (ranks)
            pdl_printf(&b.sink, "rank %lld=%s slot=%lld\n", (long long)r, host,
                       (long long)slot);
        else
            pdl_printf(&b.sink, "%s\n", host);
    }
    rc = cli_write(path, &b);
    pdl_buf_free(&b);
    return rc;
}

static void print(const struct place *x, bool json)
{
    struct pdl_buf mesh;
    struct pdl_json w;
    char a[32], b[32];

    pdl_buf_init(&mesh);
    pdl_strategy_print(&x->best.strategy, &mesh.sink);
    if (json) {
        pdl_json_init(&w, cli_out());
        pdl_json_schema(&w, "place");
        pdl_json_kint(&w, "pes", x->j->plan->mesh->pes);
        pdl_json_knum(&w, "given_s", x->best.given_s);
        pdl_json_knum(&w, "step_s", x->best.step_s);
        pdl_json_kstr(&w, "mesh", mesh.text ? mesh.text : "");
        pdl_json_kint(&w, "tried", x->best.tried);
        pdl_json_key(&w, "nodes");
        pdl_json_array(&w);
        for (int64_t k = 0; k * x->j->sys.node.pes < x->j->plan->mesh->pes; k++)
            pdl_json_str(&w, x->hosts.names[x->best.node[k]]);
        pdl_json_end(&w);
        cli_notes_json(&w, &x->notes);
        pdl_json_end(&w);
    } else {
        pdl_printf(
            cli_out(),
            "%lld placements of %s on %s\n"
            "  ranks as numbered   %10s a step\n"
            "  best                %10s a step, %.1f %% less\n"
            "  its order of axes   %s\n  its nodes          ",
            (long long)x->best.tried, x->o->q.strategy, x->j->sys.name,
            pdl_unit_format(x->best.given_s, PDL_UNIT_SECONDS, a, sizeof a),
            pdl_unit_format(x->best.step_s, PDL_UNIT_SECONDS, b, sizeof b),
            100 * (1 - x->best.step_s / x->best.given_s),
            mesh.text ? mesh.text : "");
        for (int64_t k = 0; k * x->j->sys.node.pes < x->j->plan->mesh->pes; k++)
            pdl_printf(cli_out(), " %s", x->hosts.names[x->best.node[k]]);
        pdl_puts(cli_out(), "\n");
        cli_notes_text(&x->notes);
    }
    pdl_buf_free(&mesh);
}

static int place(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct pdl_err err = {"", ""};
    struct place x = {.o = &o, .err = &err};
    enum pdl_status st;
    int rc;

    if (!o.q.system || !o.q.strategy || o.q.batch < 1 || !o.hosts) {
        pdl_fail(&err, PDL_EINVAL,
                 "place needs --system, --strategy, --batch and --hosts");
        pdl_hint(&err, "see 'paradl place --help'");
        return cli_usage(&err);
    }
    o.q.model = args->pos[0];
    x.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    x.j = x.arena ? PDL_NEW(x.arena, struct cli_job, 1) : NULL;
    st = x.j ? cli_job_open(&o.q, x.j, &err)
             : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = search(&x);
    if (st != PDL_OK) {
        rc = cli_fail(st, &err);
    } else {
        print(&x, args->json);
        rc = write_file(&x, o.rankfile, true);
        if (rc == EXIT_OK)
            rc = write_file(&x, o.hostfile, false);
    }
    cli_job_close(x.j);
    pdl_arena_destroy(x.arena);
    return rc;
}

const struct pdl_cmd cli_place = {
    .name = "place",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "where the ranks of a strategy best go on given nodes",
    .text = "Prices every order of the strategy's axes on the nodes the "
            "scheduler gave, and orders of these nodes where some share a "
            "switch (--switches), and writes the best as a rankfile or a host "
            "file. Ranks keep the numbers that the strategy's own order gives "
            "them. The order given is among those tried.",
    .example = "paradl place gpt2 --system dgx-a100 --strategy "
               "data=16 --batch 16 --hosts a,b",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = place,
};
