/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl validate: projected against measured. */
#include "cli/questions/measured.h"
#include "cli/commands/validate_collective.h"
#include "cli/commands/validate_here.h"

#include <string.h>

struct options {
    const char *measured, *select, *system, *without, *congestion, *report;
    const char *leave_out;
    bool ablate;
    struct cli_collective_options c;
    struct cli_here_options here;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"measured", 0, PDL_OPT_TEXT, AT(measured), "FILE", NULL,
     "measured runs (paradl.runs/1) or layer times (paradl.layers/1)"},
    {"select", 0, PDL_OPT_TEXT, AT(select), "KEY=VALUE,...", NULL,
     "rows to take: , is and, | is or, values are globs"},
    {"system", 0, PDL_OPT_TEXT, AT(system), "SYSTEM", NULL,
     "project on this system instead of the one each run names"},
    {"without", 0, PDL_OPT_TEXT, AT(without), "EFFECT,...", NULL,
     "leave out named effects of the model"},
    {"ablate", 0, PDL_OPT_FLAG, AT(ablate), NULL, NULL,
     "also the accuracy without each effect, one at a time"},
    {"leave-out", 0, PDL_OPT_TEXT, AT(leave_out), "CAMPAIGN", NULL,
     "intervals as if nothing of that campaign were known"},
    {"congestion", 0, PDL_OPT_TEXT, AT(congestion), "LOW..HIGH", NULL,
     "factor on network time by other jobs, as a range"},
    {"collective", 0, PDL_OPT_TEXT, AT(c.collective), "COLLECTIVE",
     "allreduce|reduce-scatter|allgather|alltoall|broadcast",
     "measure this here and compare it with --system and its simulation"},
    {"ranks", 'n', PDL_OPT_COUNT, AT(c.ranks), "P", NULL,
     "with MODEL or --collective: number of ranks (2)"},
    {"strategy", 0, PDL_OPT_TEXT, AT(here.strategy), "STRATEGY", NULL,
     "with MODEL: how to parallelise (data=P)"},
    {"batch", 0, PDL_OPT_COUNT, AT(here.batch), "B", NULL,
     "with MODEL: samples of one step (32)"},
    {"steps", 0, PDL_OPT_COUNT, AT(here.steps), "N", NULL,
     "with MODEL: steps, from 2 on (8; 48 on a device, whose clock settles)"},
    {"precision", 0, PDL_OPT_TEXT, AT(here.precision), "NAME", "fp32|bf16",
     "with MODEL: of the arithmetic (fp32)"},
    {"device", 0, PDL_OPT_TEXT, AT(here.device), "NAME", NULL,
     "with MODEL: where it runs: cpu (default), cuda, cuda:1"},
    {"cpu-times", 0, PDL_OPT_FLAG, AT(here.cpu_times), NULL, NULL,
     "with MODEL: local operations by CPU time, where other work runs here"},
    {"dim", 0, PDL_OPT_TEXT, AT(here.dim), "NAME=N,...", NULL,
     "with MODEL: bind symbolic dimensions"},
    {"size", 's', PDL_OPT_TEXT, AT(c.size), "BYTES[..BYTES]", NULL,
     "with --collective: sizes, each twice the one before (1536..48MiB)"},
    {"algorithm", 'a', PDL_OPT_TEXT, AT(c.algorithm), "ALGORITHM", NULL,
     "with --collective: this one instead of the best"},
    {"seconds", 0, PDL_OPT_TIME, AT(c.seconds), "TIME", NULL,
     "with --collective: for each size (0.3s)"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "with MODEL or --measured: also write a page with charts"},
};
// clang-format on
#undef AT

static int measured(const struct options *o, bool json, const char *command,
                    struct pdl_buf *page)
{
    struct cli_measured m = {.file = o->measured,
                             .select = o->select,
                             .system = o->system,
                             .schema = "",
                             .without = o->without,
                             .congestion = o->congestion,
                             .leave_out = o->leave_out,
                             .command = command,
                             .ablate = o->ablate};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc;

    m.a = pdl_arena_create(PDL_ARENA_DEFAULT);
    st = m.a ? cli_measured_open(&m, &err)
             : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st != PDL_OK)
        rc = cli_fail(st, &err);
    else if (strcmp(m.schema, "paradl.layers/1") == 0)
        rc = cli_validate_layers(&m, json, page);
    else
        rc = cli_validate_runs(&m, json, page);
    pdl_arena_destroy(m.a);
    return rc;
}

static int collective(const struct options *o, bool json)
{
    struct cli_collective_options c = o->c;

    c.system = o->system;
    return cli_validate_collective(&c, json);
}

static int here(const struct options *o, const struct pdl_args *args,
                const char *command, struct pdl_buf *page)
{
    struct cli_here_options h = o->here;

    h.command = command;
    h.model = args->pos[0];
    h.system = o->system;
    h.ranks = o->c.ranks;
    return cli_validate_here(&h, args->json, page);
}

/* What is measured says which options mean something. */
static enum pdl_status sensible(const struct pdl_args *args,
                                const struct options *o, struct pdl_err *err)
{
    enum { FILE_ = 1, HERE = 2, COLLECTIVE = 4 };
    static const struct {
        const char *name;
        int with;
    } some[] = {
        {"measured", FILE_},     {"select", FILE_},
        {"without", FILE_},      {"ablate", FILE_},
        {"congestion", FILE_},   {"leave-out", FILE_},
        {"strategy", HERE},      {"batch", HERE},
        {"steps", HERE},         {"precision", HERE},
        {"device", HERE},        {"cpu-times", HERE},
        {"dim", HERE},           {"ranks", HERE | COLLECTIVE},
        {"size", COLLECTIVE},    {"algorithm", COLLECTIVE},
        {"seconds", COLLECTIVE}, {"report", FILE_ | HERE},
    };
    int what = o->c.collective ? COLLECTIVE : args->npos > 0 ? HERE : FILE_;
    const char *said = what == COLLECTIVE ? "--collective"
                       : what == HERE     ? "MODEL"
                                          : "--measured";

    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        if (!(some[i].with & what) &&
            pdl_opt_given(&cli_validate, args, some[i].name))
            return pdl_fail(err, PDL_EINVAL, "--%s does not go with %s",
                            some[i].name, said);
    if (what == HERE && o->here.steps == 1)
        return pdl_fail(err, PDL_EINVAL,
                        "--steps: from 2: the first is not measured");
    return PDL_OK;
}

static int validate(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct pdl_buf page, line;
    int rc;

    if ((args->npos > 0 || o->measured || o->c.collective) &&
        sensible(args, o, &err) != PDL_OK) {
        pdl_hint(&err, "see 'paradl validate --help'");
        return cli_usage(&err);
    }
    if (o->c.collective)
        return collective(o, args->json);
    if (args->npos == 0 && !o->measured) {
        pdl_fail(&err, PDL_EINVAL,
                 "validate needs MODEL, --measured FILE or --collective NAME");
        pdl_hint(&err, "see 'paradl validate --help'");
        return cli_usage(&err);
    }
    if (cli_check_output(o->report, NULL, &err) != PDL_OK)
        return cli_fail(PDL_EIO, &err);
    pdl_buf_init(&page);
    pdl_buf_init(&line);
    cli_command_line(&cli_validate, args, &line.sink);
    rc = args->npos > 0
             ? here(o, args, line.text, o->report ? &page : NULL)
             : measured(o, args->json, line.text, o->report ? &page : NULL);
    if (rc == EXIT_OK && o->report)
        rc = cli_report(&page, o->report);
    pdl_buf_free(&line);
    pdl_buf_free(&page);
    return rc;
}

const struct pdl_cmd cli_validate = {
    .name = "validate",
    .args = "[MODEL]",
    .max_pos = 1,
    .summary = "projected times against measured ones",
    .text = "Projects every run or layer of a file of measurements and prints "
            "how far the projection is off, by group: accuracy is 1 - |p - m| "
            "/ m; bias is the median of p / m - 1. With --collective it runs "
            "the collective on this machine, on sizes between those that "
            "'paradl calibrate' measures, and prints beside the measured time "
            "what the system's file says and what the simulation of the same "
            "program on the system's network gives.",
    .example = "paradl validate --measured runs.json",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = validate,
};
