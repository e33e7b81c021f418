/* SPDX-License-Identifier: Apache-2.0
 *
 * --memory of train: blocks are decided by the code that `paradl project
 * --offload auto` has, on the plan that is run. The oracle's memory is that of
 * the plan; the runtime has workspaces and copies in other orders beside it. So
 * it is asked what each plan takes (paradl-run train --size), and the decision
 * gets as much less room until the plan fits.
 *
 * The rates are those of --system ('paradl calibrate' writes this machine's, a
 * GPU's are among the built-in ones), and for copies what the device measures;
 * else guessed for a host, with the rate at which its memory, or --far, takes
 * copies measured now. */
#include "cli/questions/decide.h"

#include "cli/output/projection.h"
#include "options/train_options.h" /* of src/run */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* SPARE: part of the host's memory that is left to others */
enum { TRIES = 8, SPARE = 32 };

/* Of one core, guessed; how copies do is measured. */
static const char GUESSED[] = "name: here\n"
                              "title: guessed for this host\n"
                              "nodes: 1\n"
                              "pe:\n"
                              "  name: core\n"
                              "  arch: cpu\n"
                              "  peak: {fp64: 15GFLOP/s, fp32: 30GFLOP/s,"
                              " bf16: 30GFLOP/s}\n"
                              "  memory: 1GiB\n"
                              "  memory_bandwidth: 10GB/s\n"
                              "node:\n"
                              "  pes: 1024\n"
                              "  links: {type: memory, shape: switch,"
                              " bandwidth: 2GB/s, latency: 1us}\n"
                              "  host:\n"
                              "    memory_bandwidth: 10GB/s\n"
                              "    pcie_bandwidth: 5GB/s\n"
                              "network:\n"
                              "  levels: []\n";

struct decision {
    pdl_arena *a;
    const struct pdl_args *args;
    const struct train_options *o;
    pdl_job *j;
    struct cli_handover h;
    struct pdl_system sys;
    const char *plain; /* the strategy as it was asked for */
    int64_t taken;     /* by the runtime, for the last plan asked about */
    double copy_rate, update_rate; /* of the device and its host, measured by
                                      them; 0: not known */
    int64_t host_left;             /* for one rank */
};

bool cli_decides(const struct pdl_args *args)
{
    const struct train_options *o = args->opts;
    const char *s = o->strategy ? o->strategy : "";

    return o->memory > 0 && !o->plan && !strstr(s, "recompute=") &&
           !strstr(s, "offload=act") && !strstr(s, "pipe=") &&
           !strstr(s, "swap=") && !strchr(s, ';');
}

/* ---- rates ------------------------------------------------------------- */

enum { SAMPLE = 32 << 20 };

static bool whole(ssize_t (*move)(int, void *, size_t, off_t), int fd, char *at)
{
    for (int64_t done = 0; done < SAMPLE;) {
        ssize_t n = move(fd, at + done, (size_t)(SAMPLE - done), (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += n;
    }
    return true;
}

static ssize_t put_bytes(int fd, void *at, size_t n, off_t where)
{
    return pwrite(fd, at, n, where);
}

static ssize_t get_bytes(int fd, void *at, size_t n, off_t where)
{
    return pread(fd, at, n, where);
}

static double thread_s(void)
{
    struct timespec t = {0, 0};

    (void)!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes a second each way through a file, as the runtime moves them from the
 * second step on, and the part of that in which a processor is busy. */
struct file_rates {
    double out, in, busy;
};

static bool try_file(int fd, char *at, struct file_rates *r)
{
    double start, middle, end, busy;

    if (posix_fallocate(fd, 0, SAMPLE) != 0 || !whole(put_bytes, fd, at))
        return false;
    busy = thread_s();
    start = pdl_clock_s();
    if (!whole(put_bytes, fd, at))
        return false;
    middle = pdl_clock_s();
    if (!whole(get_bytes, fd, at))
        return false;
    end = pdl_clock_s();
    if (!(start < middle && middle < end))
        return false;
    *r = (struct file_rates){SAMPLE / (middle - start), SAMPLE / (end - middle),
                             fmin(1, (thread_s() - busy) / (end - start))};
    return true;
}

/* False: it cannot be written. The run will say why. */
static bool file_rates(const char *where, char *at, struct file_rates *r)
{
    char path[4096];
    bool ok;
    int fd;

    if (snprintf(path, sizeof path, "%s/paradl-far.XXXXXX", where) >=
        (int)sizeof path)
        return false;
    fd = mkstemp(path);
    if (fd < 0)
        return false;
    (void)!unlink(path);
    ok = try_file(fd, at, r);
    close(fd);
    return ok;
}

static double copy_rate(char *at)
{
    double best = 0;

    for (int i = 0; i < 3; i++) {
        double start = pdl_clock_s(), s;

        memcpy(at + SAMPLE, at, SAMPLE);
        s = pdl_clock_s() - start;
        best = s > 0 && SAMPLE / s > best ? SAMPLE / s : best;
    }
    return best;
}

/* Of a copy's time what computing lacks: where every processor computes, those
 * that move a file are taken from its threads. */
static double taken_by_files(const struct decision *d, double busy)
{
    int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t ranks = pdl_job_plan(d->j)->mesh->pes, threads = d->o->threads;
    const double none = 1e-9; /* 0: nothing is known */

    if (threads < 1)
        threads = processors > ranks ? processors / ranks : 1;
    return ranks * threads < processors ? none
                                        : fmax(none, busy / (double)threads);
}

/* What this host's memory, or --far, takes. */
static void measure(struct decision *d)
{
    char *at = malloc((size_t)2 * SAMPLE);
    struct pdl_host *h = &d->sys.node.host;
    struct file_rates r;
    double rate;

    if (!at)
        return;
    memset(at, 1, (size_t)2 * SAMPLE);
    if (d->o->far && file_rates(d->o->far, at, &r)) {
        h->out_bytes_per_s = r.out;
        h->pcie_bytes_per_s = r.in;
        h->copy_interference = taken_by_files(d, r.busy);
    } else if (!d->o->far && (rate = copy_rate(at)) > 0) {
        h->pcie_bytes_per_s = rate;
    }
    free(at);
}

static int64_t used_pes(const struct decision *d)
{
    int64_t ranks = pdl_job_plan(d->j)->mesh->pes, node = d->sys.node.pes;

    return ranks < node ? ranks : node;
}

/* What the device and its host have measured; --emit is for a machine that may
 * be another than this one, which has as much memory as --system says. */
static void take_measured(struct decision *d)
{
    struct pdl_host *h = &d->sys.node.host;
    double used = (double)used_pes(d);
    int64_t left = d->host_left - d->host_left / SPARE;

    if (d->copy_rate > 0)
        h->pcie_bytes_per_s = d->copy_rate;
    if (d->update_rate > 0 && (!(h->memory_bytes_per_s > 0) ||
                               used * d->update_rate < h->memory_bytes_per_s))
        h->memory_bytes_per_s = used * d->update_rate;
    if (!d->o->emit && left > 0 &&
        (h->memory_bytes == 0 || left < h->memory_bytes))
        h->memory_bytes = left;
}

static enum pdl_status machine(struct decision *d, struct pdl_err *err)
{
    bool gpu = d->o->device && (strncmp(d->o->device, "cuda", 4) == 0 ||
                                strcmp(d->o->device, "auto") == 0);
    enum pdl_status st;

    if (!d->o->system && gpu) {
        pdl_fail(err, PDL_EINVAL, "--memory decides by the rates of a GPU");
        pdl_hint(err, "--system dgx-h200, say; 'paradl system list' has them");
        return PDL_EINVAL;
    }
    st = d->o->system
             ? pdl_system_open(d->a, d->o->system, &d->sys, err)
             : pdl_system_read(d->a,
                               (struct pdl_bytes){GUESSED, sizeof GUESSED - 1},
                               "here", &d->sys, err);
    d->sys.node.host.out_bytes_per_s = 0;
    if (st != PDL_OK)
        return st;
    if (!gpu ||
        (!(d->copy_rate > 0) && !(d->sys.node.host.pcie_bytes_per_s > 0)))
        measure(d);
    take_measured(d);
    d->sys.pe.memory_usable = 1;
    return st;
}

/* ---- what the runtime takes -------------------------------------------- */

static enum pdl_status read_rate(const struct pdl_doc *root, const char *key,
                                 double *out, struct pdl_err *err)
{
    const struct pdl_doc *x = pdl_doc_get(root, key);

    return x ? pdl_doc_num(x, PDL_UNIT_NONE, 0, 1e15, out, err) : PDL_OK;
}

static enum pdl_status read_size(struct decision *d, const struct pdl_buf *text,
                                 struct pdl_err *err)
{
    const struct pdl_doc *root, *x;
    enum pdl_status st =
        pdl_doc_json(d->a, (struct pdl_bytes){text->text, text->len},
                     "paradl-run", &root, err);

    if (st != PDL_OK)
        return st;
    st = read_rate(root, "copy_bytes_per_s", &d->copy_rate, err);
    if (st == PDL_OK)
        st = read_rate(root, "update_bytes_per_s", &d->update_rate, err);
    x = pdl_doc_get(root, "host_left_bytes");
    if (st == PDL_OK && x)
        st = pdl_doc_int(x, 0, INT64_MAX, &d->host_left, err);
    if (st != PDL_OK)
        return st;
    x = pdl_doc_get(root, "most_bytes");
    return x ? pdl_doc_int(x, 0, INT64_MAX, &d->taken, err)
             : pdl_fail(err, PDL_EPARSE, "paradl-run: says no size");
}

/* Of the job's plan. */
static enum pdl_status ask_size(struct decision *d, struct pdl_err *err)
{
    const char *path = cli_handover_file(&d->h, d->a, "sized.plan");
    char hash[17];
    struct train_options t = *d->o;
    struct pdl_args args = {.opts = &t, .json = true};
    struct pdl_buf text;
    enum pdl_status st = path ? cli_handover_plan(d->j, path, hash, err)
                              : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st != PDL_OK)
        return st;
    t = (struct train_options){.data = "synthetic",
                               .plan = path,
                               .plan_hash = hash,
                               .size = true,
                               .virtual_ranks = true,
                               .backend = d->o->backend,
                               .device = d->o->device,
                               .optimizer = d->o->optimizer,
                               .threads = d->o->threads,
                               .mean_squares = d->o->mean_squares,
                               .clip = d->o->clip,
                               .log = NULL,
                               .loss_scale = d->o->loss_scale,
                               .grad_norm = d->o->log || d->o->grad_norm,
                               .samples = 1};
    pdl_buf_init(&text);
    st = cli_capture_mute(&cli_train, &args, 0, &text, err);
    if (st == PDL_OK)
        st = read_size(d, &text, err);
    pdl_buf_free(&text);
    return st;
}

/* ---- deciding ---------------------------------------------------------- */

static enum pdl_status with(struct decision *d, const char *strategy,
                            int64_t room, struct pdl_err *err)
{
    enum pdl_status st;

    d->sys.pe.memory_bytes = room;
    pdl_job_use_system(d->j, &d->sys);
    st = pdl_job_set(d->j, "strategy", strategy, err);
    return st == PDL_OK ? pdl_job_price(d->j, err) : st;
}

static enum pdl_status no_room(const struct decision *d, int64_t least,
                               struct pdl_err *err)
{
    char a[32], b[32];

    if (least <= d->o->memory) {
        pdl_fail(
            err, PDL_EINVAL,
            "--memory %s leaves more to wait on the host than its %s",
            pdl_unit_format((double)d->o->memory, PDL_UNIT_BYTES, b, sizeof b),
            pdl_unit_format((double)d->sys.node.host.memory_bytes,
                            PDL_UNIT_BYTES, a, sizeof a));
        pdl_hint(err, "more --memory, a smaller batch, or zero=3 of several "
                      "ranks");
        return PDL_EINVAL;
    }
    pdl_fail(
        err, PDL_EINVAL,
        "whatever is made again or waits, a rank needs %s and more, "
        "--memory is %s",
        pdl_unit_format((double)least, PDL_UNIT_BYTES, a, sizeof a),
        pdl_unit_format((double)d->o->memory, PDL_UNIT_BYTES, b, sizeof b));
    pdl_hint(err, "a smaller batch needs less, as does zero=3 of several "
                  "ranks");
    return PDL_EINVAL;
}

static enum pdl_status look(struct decision *d, const char *strategy,
                            int64_t room, struct pdl_err *err)
{
    enum pdl_status st = with(d, strategy, room, err);

    return st == PDL_OK ? ask_size(d, err) : st;
}

/* Both as the runtime has them: its host has more than what the plan names. */
static bool is_fine(const struct decision *d, const struct pdl_projection *x)
{
    int64_t host = d->sys.node.host.memory_bytes, all;

    return d->taken <= d->o->memory &&
           (host <= 0 ||
            (pdl_mul64(x->host_bytes, used_pes(d), &all) && all <= host));
}

/* Decisions with less room until the runtime's plan fits, and then with as much
 * as it still fits with. */
static enum pdl_status decide(struct decision *d, const char *strategy,
                              bool *fits, int64_t *least, struct pdl_err *err)
{
    int64_t high = d->o->memory, low = 0, room = high;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < TRIES && st == PDL_OK; i++) {
        const struct pdl_projection *x;
        int64_t less;

        st = look(d, strategy, room, err);
        if (st != PDL_OK)
            break;
        x = pdl_job_projection(d->j);
        *least = *least == 0 || d->taken < *least ? d->taken : *least;
        *(is_fine(d, x) ? &low : &high) = room;
        if (low == 0 && !x->feasible)
            break; /* nothing smaller is known */
        less = d->o->memory - (d->taken - x->peak_bytes);
        if (low > 0 && (low == d->o->memory || high - low < high / 32))
            break;
        room = low > 0                   ? low + (high - low) / 2
               : less > 0 && less < high ? less
                                         : high - high / 16;
    }
    *fits = low > 0;
    return st == PDL_OK && low > 0 && room != low ? look(d, strategy, low, err)
                                                  : st;
}

/* Guessed rates foretell no step. */
static void say_rates(const struct decision *d)
{
    const struct pdl_host *h = &d->sys.node.host;
    char in[32], out[64] = "", step[64] = "", takes[32], most[32], t[32];

    pdl_unit_format(h->pcie_bytes_per_s, PDL_UNIT_BYTES_S, in, sizeof in);
    if (h->out_bytes_per_s > 0)
        snprintf(
            out, sizeof out, "%s out, ",
            pdl_unit_format(h->out_bytes_per_s, PDL_UNIT_BYTES_S, t, sizeof t));
    if (d->o->system)
        snprintf(step, sizeof step, ", by which a step takes %s",
                 pdl_unit_format(pdl_job_projection(d->j)->step_s,
                                 PDL_UNIT_SECONDS, t, sizeof t));
    cli_say(
        2,
        "  decided by the rates of %s, copies %s%s%s%s; the plan takes %s "
        "on a rank, --memory is %s",
        d->sys.name, out, in, *out ? " in" : "", step,
        pdl_unit_format((double)d->taken, PDL_UNIT_BYTES, takes, sizeof takes),
        pdl_unit_format((double)d->o->memory, PDL_UNIT_BYTES, most,
                        sizeof most));
}

static void say(const struct decision *d, bool decided)
{
    struct cli_job j = {.job = d->j};
    char a[32];

    if (d->args->json || d->args->quiet)
        return;
    if (!decided) {
        cli_say(2,
                "--memory: the plan takes %s on a rank, nothing is to be "
                "decided",
                pdl_unit_format((double)d->taken, PDL_UNIT_BYTES, a, sizeof a));
        return;
    }
    cli_job_take(&j);
    cli_outofcore_text(&j);
    say_rates(d);
}

/* The optimizer goes to the host where activations are not enough. */
static enum pdl_status go(struct decision *d, struct pdl_err *err)
{
    int may_host = !d->o->far && !(d->o->ema > 0) &&
                   !strstr(d->plain, "offload=optimizer");
    int64_t least = 0;
    bool fits = false;
    enum pdl_status st = pdl_job_lower(d->j, err);

    if (st != PDL_OK || ask_size(d, NULL) != PDL_OK)
        return st; /* what is wrong the run says */
    if (d->taken <= d->o->memory) {
        say(d, false);
        return PDL_OK;
    }
    st = machine(d, err);
    if (!may_host && !strstr(d->plain, "offload=optimizer"))
        d->sys.node.host.memory_bytes_per_s = 0; /* nor layer by layer */
    for (int host = 0; host <= may_host && st == PDL_OK && !fits; host++) {
        const char *s = pdl_arena_printf(d->a, "%s%s,swap=karma", d->plain,
                                         host ? ",offload=optimizer" : "");

        st = s ? decide(d, s, &fits, &least, err)
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    if (st == PDL_OK && !fits)
        st = no_room(d, least, err);
    if (st == PDL_OK)
        say(d, true);
    return st;
}

enum pdl_status cli_decide(pdl_arena *a, const struct pdl_args *args,
                           pdl_job *j, struct pdl_err *err)
{
    struct decision *d = PDL_NEW(a, struct decision, 1);
    const char *plain = pdl_arena_strdup(a, pdl_job_get(j, "strategy"));
    enum pdl_status st;

    if (!d || !plain)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *d = (struct decision){
        .a = a, .args = args, .o = args->opts, .j = j, .plain = plain};
    st = cli_handover_open(&d->h, err);
    if (st != PDL_OK)
        return st;
    st = go(d, err);
    cli_handover_close(&d->h);
    return st;
}
