/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl train: checks the command line, lowers and checks the plan and writes
 * it once; starts paradl-run, which reads it, on as many ranks as the plan has,
 * and looks after it (supervise.c). */
#include "cli/questions/decide.h"
#include "cli/questions/supervise.h"

#include "options/evaluate_options.h" /* of src/run */
#include "options/train_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RANKS = 100000, MAX_THREADS = 4096, RESTARTS = 3 };

/* ---- the plan ---------------------------------------------------------- */

/* What the oracle would take for it: state variables of a weight. */
static const char *like_optimizer(const char *name)
{
    return name && (strncmp(name, "adam", 4) == 0 || !strncmp(name, "lamb", 4))
               ? "adam"
               : "sgd";
}

/* Of a site, where there are several. */
static enum pdl_status set_batch(const struct train_options *o, pdl_job *j,
                                 struct pdl_err *err)
{
    int64_t batch = o->batch > 0 ? o->batch : 32;
    struct train_site_options s;
    enum pdl_status st = train_sites_read(o->sites, &s, err);

    if (st == PDL_OK && batch % s.sites != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "--batch %lld is no multiple of %lld sites",
                        (long long)batch, (long long)s.sites);
    return st == PDL_OK ? cli_set_count(j, "batch", batch / s.sites, err) : st;
}

static enum pdl_status set_up(const struct pdl_args *args, pdl_job *j,
                              struct pdl_err *err)
{
    const struct train_options *o = args->opts;
    char serial[64];
    const struct {
        const char *name, *value;
    } texts[] = {{"strategy", o->strategy ? o->strategy : serial},
                 {"model", args->npos ? args->pos[0] : NULL},
                 {"dim", o->dim},
                 {"precision", o->precision ? o->precision : "fp32"},
                 {"optimizer", like_optimizer(o->optimizer)},
                 {"loss", o->mean_squares          ? "mean-squares"
                          : o->label_smoothing > 0 ? "smoothed"
                                                   : "cross-entropy"}};
    enum pdl_status st = PDL_OK;

    if (o->plan)
        return pdl_job_set(j, "plan", o->plan, err);
    snprintf(serial, sizeof serial, "data=%lld",
             (long long)(o->ranks > 0 ? o->ranks : 1));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && st == PDL_OK; i++)
        st = pdl_job_set(j, texts[i].name, texts[i].value, err);
    if (st == PDL_OK)
        st = set_batch(o, j, err);
    if (st == PDL_OK)
        st = cli_set_flag(j, "allow-empty", o->allow_empty, err);
    return st;
}

/* A file may leave sizes open: what is trained has none. */
static enum pdl_status all_known(const struct pdl_model *m, struct pdl_err *err)
{
    for (int i = 0; i < m->ntensors && m->nunbound == 0; i++)
        if (m->tensors[i].kind == PDL_TENSOR_INPUT &&
            pdl_tensor_elements(&m->tensors[i]) == 0) {
            pdl_fail(err, PDL_EINVAL, "%s: input %.60s: a size is not known",
                     m->name, m->tensors[i].name);
            pdl_hint(err, "--dim NAME=N binds a symbolic dimension");
            return PDL_EINVAL;
        }
    if (m->nunbound == 0)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%s: the size of %.60s is not known", m->name,
             m->unbound[0]);
    pdl_hint(err, "--dim %.60s=N", m->unbound[0]);
    return PDL_EINVAL;
}

/* What may be written instead of an operator of a file. */
static void say_instead(const char *op, struct pdl_err *err)
{
    static const char batch[] =
        "the batch stays first; rows i of each sample of x are x.gather(1, i)";
    static const char rows[] =
        "rows i of each sample of x are x.gather(1, i), i counted from it";
    static const struct {
        const char *op, *instead;
    } ways[] = {
        {"Flatten", batch},
        {"Reshape", batch},
        {"Transpose", batch},
        {"Gather", rows},
        {"GatherND", rows},
        {"GatherElements", rows},
        {"CumSum", "along a stored axis that is not the batch it runs"},
    };

    for (size_t i = 0; op && i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].op, op) == 0)
            pdl_hint(err, "%s", ways[i].instead);
}

/* What an imported graph has and nobody can run is said before anything is made
 * of its results: they would be taken for classes. */
static enum pdl_status all_run(const struct pdl_model *m, struct pdl_err *err)
{
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_node *n = &m->nodes[i];

        if (!(n->op->flags & PDL_OP_UNKNOWN))
            continue;
        pdl_fail(err, PDL_EINVAL, "%s: %s: the runtime has no kernel for %s",
                 m->name, n->name, n->source_op ? n->source_op : "it");
        say_instead(n->source_op, err);
        return PDL_EINVAL;
    }
    return PDL_OK;
}

/* Of weights that come from there the ranks say it. */
static void say_inexact(const struct pdl_model *m,
                        const struct train_options *o)
{
    if (m->inexact && !o->load)
        fprintf(stderr, "paradl: %s: not as in its file: %s\n", m->name,
                m->inexact);
}

/* Lowers, checks and writes the plan; how many ranks it is for. */
static enum pdl_status write_plan(const struct pdl_args *args, const char *path,
                                  char hash[17], int64_t *ranks,
                                  struct pdl_err *err)
{
    const struct train_options *o = args->opts;
    struct train_site_options sites;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_job *j = pdl_job_create();
    enum pdl_status st = a && j ? set_up(args, j, err)
                                : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK && cli_decides(args))
        st = cli_decide(a, args, j, err);
    if (st == PDL_OK)
        st = pdl_job_lower(j, err);
    if (st == PDL_OK)
        st = all_known(pdl_job_plan(j)->model, err);
    if (st == PDL_OK)
        st = all_run(pdl_job_plan(j)->model, err);
    if (st == PDL_OK) {
        say_inexact(pdl_job_plan(j)->model, o);
        st = cli_handover_plan(j, path, hash, err);
    }
    if (st == PDL_OK)
        st = train_sites_read(o->sites, &sites, err);
    if (st == PDL_OK)
        *ranks = pdl_job_plan(j)->mesh->pes * sites.sites;
    pdl_job_destroy(j);
    pdl_arena_destroy(a);
    if (st == PDL_OK && o->ranks > 0 && o->ranks != *ranks)
        return pdl_fail(err, PDL_EINVAL,
                        "-n %lld, but the strategy is for %lld ranks",
                        (long long)o->ranks, (long long)*ranks);
    if (st == PDL_OK && *ranks > MAX_RANKS)
        return pdl_fail(err, PDL_EINVAL, "%lld ranks are too many to start",
                        (long long)*ranks);
    return st;
}

/* --emit: the plan is all that is wanted. */
static int emit(const struct pdl_args *args)
{
    const struct train_options *o = args->opts;
    struct pdl_err err = {"", ""};
    char hash[17] = "";
    int64_t ranks = 0;
    enum pdl_status st = write_plan(args, o->emit, hash, &ranks, &err);
    struct pdl_json w;

    if (st != PDL_OK)
        return cli_fail(st, &err);
    if (!args->json) {
        pdl_printf(cli_out(), "%s: a plan for %lld ranks, hash %s\n", o->emit,
                   (long long)ranks, hash);
        return EXIT_OK;
    }
    pdl_json_init(&w, cli_out());
    pdl_json_schema(&w, "train-plan");
    pdl_json_kstr(&w, "plan", o->emit);
    pdl_json_kint(&w, "ranks", ranks);
    pdl_json_kstr(&w, "hash", hash);
    pdl_json_end(&w);
    return EXIT_OK;
}

/* ---- what does not go together, or nowhere ----------------------------- */

/* Options that mean nothing without another; `with` as it is written. */
static enum pdl_status check_company(const struct pdl_args *args,
                                     struct pdl_err *err)
{
    const struct train_options *o = args->opts;
    const char *how = o->schedule ? o->schedule : "constant";
    bool falls = strcmp(how, "cosine") == 0 || strcmp(how, "polynomial") == 0;
    const struct {
        const char *name, *with;
        bool there;
    } rules[] = {
        {"resume", "--checkpoint DIR", o->checkpoint != NULL},
        {"every", "--checkpoint DIR", o->checkpoint != NULL},
        {"keep", "--checkpoint DIR", o->checkpoint != NULL},
        {"restarts", "--checkpoint DIR", o->checkpoint != NULL},
        {"beside", "--checkpoint DIR", o->checkpoint != NULL},
        {"resume-anyway", "--resume", o->resume},
        {"lr-every", "--schedule step", strcmp(how, "step") == 0},
        {"lr-gamma", "--schedule step", strcmp(how, "step") == 0},
        {"lr-last", "--schedule cosine or polynomial", falls},
        {"samples", "--data synthetic",
         o->data && strcmp(o->data, "synthetic") == 0},
        {"strategy", "MODEL", o->plan == NULL},
        {"batch", "MODEL", o->plan == NULL},
        {"precision", "MODEL", o->plan == NULL},
        {"dim", "MODEL", o->plan == NULL},
        {"system", "--memory SIZE", o->memory > 0},
        {"log-every", "--json", args->json},
        {"grad-norm", "--json or --log", args->json || o->log},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!rules[i].there && pdl_opt_given(&cli_train, args, rules[i].name))
            return pdl_fail(err, PDL_EINVAL, "--%s is for %s", rules[i].name,
                            rules[i].with);
    return PDL_OK;
}

static bool is_scale(const char *text)
{
    double x = 0;

    return strcmp(text, "dynamic") == 0 ||
           (pdl_unit_parse(text, PDL_UNIT_NONE, &x, NULL) == PDL_OK && x > 0 &&
            x < 1e30);
}

/* What sites do not go with. */
static enum pdl_status check_sites(const struct pdl_args *args,
                                   struct pdl_err *err)
{
    static const char *const none[] = {
        "checkpoint", "ema",   "store",   "hide",    "shuffle", "on-nan",
        "spike",      "trace", "timings", "outputs", "size"};
    const struct train_options *o = args->opts;
    struct train_site_options s;

    for (size_t i = 0; o->sites && i < sizeof none / sizeof none[0]; i++)
        if (pdl_opt_given(&cli_train, args, none[i]))
            return pdl_fail(err, PDL_EINVAL, "--%s does not go with --sites",
                            none[i]);
    return train_sites_read(o->sites, &s, err);
}

static enum pdl_status check_values(const struct pdl_args *args,
                                    struct pdl_err *err)
{
    const struct train_options *o = args->opts;
    enum { MOST = 1 << 20 }; /* checkpoints */

    if (o->memory < 1 && pdl_opt_given(&cli_train, args, "memory"))
        return pdl_fail(err, PDL_EINVAL, "--memory: more than 0 bytes");
    if (o->warmup < 0)
        return pdl_fail(err, PDL_EINVAL, "--warmup: steps are not negative");
    if (o->lr_last < 0)
        return pdl_fail(err, PDL_EINVAL, "--lr-last: a rate is not negative");
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        return pdl_fail(err, PDL_EINVAL,
                        "--label-smoothing: from 0 to below 1");
    if (o->threads > MAX_THREADS)
        return pdl_fail(err, PDL_EINVAL, "--threads: at most %d",
                        (int)MAX_THREADS);
    if (o->keep > MOST)
        return pdl_fail(err, PDL_EINVAL, "--keep: at most %d", (int)MOST);
    if (o->on_nan && strcmp(o->on_nan, "rollback") == 0 && !o->checkpoint)
        return pdl_fail(err, PDL_EINVAL,
                        "--on-nan rollback is for --checkpoint DIR");
    if (o->ema >= 1)
        return pdl_fail(err, PDL_EINVAL, "--ema: above 0 and below 1");
    if (o->spike > 0 && o->spike <= 1)
        return pdl_fail(err, PDL_EINVAL, "--spike: above 1");
    if (o->ranks > MAX_RANKS)
        return pdl_fail(err, PDL_EINVAL, "-n: from 1 to %d", (int)MAX_RANKS);
    if (o->loss_scale && !is_scale(o->loss_scale))
        return pdl_fail(err, PDL_EINVAL,
                        "--loss-scale: '%.40s' is no positive number, nor "
                        "'dynamic'",
                        o->loss_scale);
    return PDL_OK;
}

static enum pdl_status check_folder(const char *path, struct pdl_err *err)
{
    struct stat sb;

    if (path && !*path)
        return pdl_fail(err, PDL_EINVAL, "--checkpoint: no name of a folder");
    if (path && stat(path, &sb) == 0 && !S_ISDIR(sb.st_mode))
        return pdl_fail(err, PDL_EIO, "%s: is no folder", path);
    return PDL_OK;
}

static enum pdl_status check_files(const struct train_options *o,
                                   struct pdl_err *err)
{
    const struct {
        const char *path, *ending;
    } out[] = {{o->trace, NULL},
               {o->timings, NULL},
               {o->save, ".safetensors"},
               {o->outputs, ".safetensors"}};
    enum pdl_status st = check_folder(o->checkpoint, err);

    for (size_t i = 0; i < sizeof out / sizeof out[0] && st == PDL_OK; i++)
        st = cli_check_output(out[i].path, out[i].ending, err);
    return st;
}

/* ---- running --------------------------------------------------------- */

/* The ranks get the plan that is written here, and its hash. */
static int hand_over(const struct pdl_cmd *cmd, struct pdl_args args,
                     const struct cli_handover *h)
{
    struct train_options *o = args.opts;
    pdl_arena *a = pdl_arena_create(1 << 16);
    const char *plan = a ? cli_handover_file(h, a, "train.plan") : NULL;
    struct pdl_err err = {"", ""};
    char hash[17];
    int64_t ranks = 1;
    enum pdl_status st = plan ? write_plan(&args, plan, hash, &ranks, &err)
                              : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    int rc;

    if (st == PDL_OK) {
        args.npos = 0;
        o->plan = plan;
        o->plan_hash = hash;
        o->progress = o->progress || (cli_progress() && !args.json);
        o->virtual_ranks = o->virtual_ranks || ranks == 1;
        rc = cli_supervise(
            &(struct cli_supervised){
                .cmd = cmd,
                .args = &args,
                .ranks = o->virtual_ranks ? 0 : ranks,
                .checkpoint = o->checkpoint,
                .resume = cmd == &cli_train ? &o->resume : NULL,
                .restarts = o->restarts > 0 ? o->restarts : RESTARTS},
            h);
    } else {
        rc = cli_fail(st, &err);
    }
    pdl_arena_destroy(a);
    return rc;
}

/* What goes together, then the run. */
static int begin(const struct pdl_args *args)
{
    struct train_options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct cli_handover h;
    enum pdl_status st = check_company(args, &err);
    int rc;

    if (st == PDL_OK)
        st = check_sites(args, &err);
    if (st == PDL_OK)
        st = check_values(args, &err);
    if (st != PDL_OK)
        return cli_usage(&err);
    if (o->emit)
        return emit(args);
    st = check_files(o, &err);
    if (st == PDL_OK)
        st = cli_handover_open(&h, &err);
    if (st != PDL_OK)
        return cli_fail(st, &err);
    rc = hand_over(&cli_train, *args, &h);
    cli_handover_close(&h);
    return rc;
}

static int train(const struct pdl_args *args)
{
    const struct train_options *o = args->opts;
    struct pdl_err err = {"", ""};

    if ((!o->data && !o->emit) || (args->npos == 0) == (o->plan == NULL)) {
        pdl_fail(&err, PDL_EINVAL,
                 "train needs MODEL (or --plan FILE) and --data");
        pdl_hint(&err, "see 'paradl train --help'");
        return cli_usage(&err);
    }
    return begin(args);
}

/* train --plan FILE by another name; its options are the end of train's. */
static int run_plan(const struct pdl_args *given)
{
    struct pdl_args args = *given;
    struct train_options *o = args.opts;

    args.given[1] =
        given->given[1] << TRAIN_WHAT | given->given[0] >> (64 - TRAIN_WHAT);
    args.given[0] <<= TRAIN_WHAT;
    args.npos = 0;
    o->plan = given->pos[0];
    o->data = o->data ? o->data : "synthetic";
    return begin(&args);
}

const struct pdl_cmd cli_train = {
    .name = "train",
    .args = "MODEL",
    .max_pos = 1,
    .summary = "trains a network, on one rank or many, as the plan says",
    .text =
        "Lowers the model and the strategy to a plan and runs it on P ranks: "
        "MPI processes, or threads of one process with --virtual. Weights, "
        "the order of samples and dropout depend on the seed alone, so that "
        "every strategy trains the same network (batch norm is of each data "
        "rank's own samples unless bn=sync), and a checkpoint is taken "
        "up again by any number of ranks. A rank that dies means a restart "
        "from the last checkpoint; on SIGINT and SIGTERM the state is saved. "
        "--json prints one line a step and the summary last. Under Slurm, "
        "'srun paradl-run train --plan FILE' takes the same options and a "
        "plan that --emit wrote.",
    .example = "paradl train lenet5 --data synthetic --batch 8 --steps 2",
    .opts = train_opts,
    .nopts = NTRAIN_OPTS,
    .opts_size = sizeof(struct train_options),
    .run = train,
};

const struct pdl_cmd cli_plan_run = {
    .name = "plan run",
    .args = "FILE",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "trains as a plan file says",
    .text =
        "Trains the network of a plan file, as 'paradl plan --emit' or "
        "'paradl project --emit' wrote it, on as many ranks as it has; the "
        "same as 'paradl train --plan FILE', except that --data is 'synthetic' "
        "unless it is given. The model, the strategy, the batch and the "
        "precision are those of the file.",
    .example = "paradl plan run lenet5.plan --virtual --steps 2",
    .opts = train_opts + TRAIN_WHAT,
    .nopts = NTRAIN_OPTS - TRAIN_WHAT,
    .opts_size = sizeof(struct train_options),
    .run = run_plan,
};

static enum pdl_status check_evaluate(const struct train_options *o, int npos,
                                      struct pdl_err *err)
{
    if (!o->data || (npos == 0) == (o->plan == NULL)) {
        pdl_fail(err, PDL_EINVAL,
                 "evaluate needs MODEL (or --plan FILE) and --data");
        pdl_hint(err, "see 'paradl evaluate --help'");
        return PDL_EINVAL;
    }
    if (o->checkpoint && o->load)
        return pdl_fail(err, PDL_EINVAL,
                        "weights of --checkpoint or of --weights, not both");
    if (o->ranks > MAX_RANKS || o->threads > MAX_THREADS)
        return pdl_fail(err, PDL_EINVAL, "--%s: at most %d",
                        o->ranks > MAX_RANKS ? "ranks" : "threads",
                        (int)(o->ranks > MAX_RANKS ? MAX_RANKS : MAX_THREADS));
    return PDL_OK;
}

static int evaluate(const struct pdl_args *args)
{
    const struct train_options *o = args->opts;
    struct pdl_err err = {"", ""};
    struct cli_handover h;
    enum pdl_status st;
    int rc;

    if (check_evaluate(o, args->npos, &err) != PDL_OK)
        return cli_usage(&err);
    if (!o->checkpoint && !o->load && !args->quiet)
        fprintf(stderr, "paradl: neither --checkpoint nor --weights: the "
                        "weights are those that training begins with\n");
    st = cli_handover_open(&h, &err);
    if (st != PDL_OK)
        return cli_fail(st, &err);
    rc = hand_over(&cli_evaluate, *args, &h);
    cli_handover_close(&h);
    return rc;
}

const struct pdl_cmd cli_evaluate = {
    .name = "evaluate",
    .args = "MODEL",
    .max_pos = 1,
    .summary = "loss, perplexity and accuracy of trained weights",
    .text =
        "Runs the test split of a data set through a network, on one rank "
        "or many, with the weights of a checkpoint or of a file: the mean "
        "loss of a sample, of text its exponential (perplexity), and the "
        "share of right answers. Without either it is what the weights "
        "that training begins with get. Nothing is written and nothing locked: "
        "the run that writes the checkpoints may go on. Inputs are "
        "normalised as in training, by the training split.",
    .example = "paradl evaluate lenet5 --data synthetic --test-samples 8",
    .opts = evaluate_opts,
    .nopts = NEVALUATE_OPTS,
    .opts_size = sizeof(struct train_options),
    .run = evaluate,
};
