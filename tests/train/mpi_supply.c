/* Samples in the stores of real ranks: at the beginning of every epoch each one
 * is in exactly one store and has the bytes of the source, shares are balanced,
 * files are no larger than said; also after files were lost, bits flipped, runs
 * went back to an older epoch, or went on with another deal of the workers. */
#include "train/exec/supply.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks, failures;
static char dir[64];

static void expect(bool ok, const char *what, int64_t a, int64_t b)
{
    if (ok)
        return;
    failures++;
    fprintf(stderr, "rank %d: %s (%lld, %lld)\n", rank, what, (long long)a,
            (long long)b);
}

static void must(enum pdl_status st, const struct pdl_err *err)
{
    if (st == PDL_OK)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, err->msg);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

struct run {
    pdl_comm *comm;
    pdl_io *io;
    pdl_sampler *sampler;
    struct train_supply s;
    int64_t samples, workers;
    int copies; /* ranks that have the same workers */
    double q;
};

static void open_sampler(struct run *r, const char *deal)
{
    struct pdl_sampler_options o = {.samples = r->samples,
                                    .batch = r->workers,
                                    .epochs = 8,
                                    .workers = r->workers,
                                    .seed = 5,
                                    .deal = deal,
                                    .hide = "kakurenbo:f=0.2"};
    struct pdl_err err = {"", ""};

    must(pdl_sampler_create(&o, &r->sampler, &err), &err);
    pdl_sampler_next(r->sampler);
}

/* Workers in runs, as a plan deals them; `turn` gives other ranks more. */
static void open_supply(struct run *r, int turn)
{
    struct pdl_err err = {"", ""};

    r->s = (struct train_supply){
        .source = r->io, .split = 0, .sampler = r->sampler, .threads = 1};
    must(train_supply_deal(&r->s, NULL, r->comm, &err), &err);
    for (int k = 0; k < ranks; k++) {
        int groups = ranks / r->copies, at = (k + turn) % ranks / r->copies;

        r->s.first[k] = r->workers * at / groups;
        r->s.last[k] = r->workers * (at + 1) / groups;
    }
    must(train_supply_open(&r->s, dir, r->comm, &err), &err);
}

/* ---- what must be true ---- */

static void check_bytes(struct run *r, int64_t sample)
{
    char *a = malloc((size_t)r->s.record_bytes);
    char *b = malloc((size_t)r->s.record_bytes);
    struct pdl_err err = {"", ""};

    must(pdl_store_get(r->s.store, sample, a, &err), &err);
    must(pdl_store_encode(r->s.store, r->io, 0, sample, b, &err), &err);
    expect(memcmp(a, b, (size_t)r->s.record_bytes) == 0, "other bytes", sample,
           0);
    free(a);
    free(b);
}

static void check_size(struct run *r)
{
    int64_t mine = r->s.last[rank] - r->s.first[rank], slots = 0;
    int64_t moves = pdl_sampler_moves(r->sampler);
    struct stat sb;

    for (int64_t w = r->s.first[rank]; w < r->s.last[rank]; w++)
        slots += pdl_sampler_slots(r->sampler, w);
    expect(moves <= (int64_t)(r->q * (double)(r->samples / r->workers) + 1e-9),
           "more moves than q", moves, 0);
    if (!r->s.store)
        return;
    expect(stat(r->s.path, &sb) == 0, "no file", 0, 0);
    expect(
        sb.st_size == 8192 + (slots + mine * moves) * (r->s.record_bytes + 16),
        "another size", sb.st_size, slots);
    expect((int64_t)sb.st_blocks * 512 <= sb.st_size + 4096,
           "more on the disk than in the file", sb.st_blocks * 512, sb.st_size);
}

/* After settle at the beginning of an epoch. */
static void check_epoch(struct run *r)
{
    int32_t *has = calloc((size_t)r->samples, sizeof *has);
    int64_t mine = 0, least = r->samples / r->workers;

    for (int64_t i = 0; i < r->samples && r->s.store; i++)
        has[i] = pdl_store_has(r->s.store, i);
    for (int64_t w = r->s.first[rank]; w < r->s.last[rank]; w++)
        for (int64_t i = 0; i < pdl_sampler_slots(r->sampler, w); i++, mine++) {
            int64_t x = pdl_sampler_slot(r->sampler, w, i);

            expect(has[x] == 1, "a sample is not with its worker", x, w);
            if (mine % 17 == 0 && has[x])
                check_bytes(r, x);
        }
    for (int64_t w = r->s.first[rank]; w < r->s.last[rank]; w++)
        expect(pdl_sampler_slots(r->sampler, w) - least <= 1, "not balanced", w,
               least);
    if (r->s.store)
        expect(pdl_store_count(r->s.store) == mine, "more than its own",
               pdl_store_count(r->s.store), mine);
    MPI_Allreduce(MPI_IN_PLACE, has, (int)r->samples, MPI_INT32_T, MPI_SUM,
                  MPI_COMM_WORLD);
    for (int64_t i = 0; i < r->samples; i++)
        expect(has[i] == r->copies, "not in exactly one store", i, has[i]);
    check_size(r);
    free(has);
}

/* ---- epochs ---- */

static void see(struct run *r)
{
    for (int64_t i = 0; i < r->samples; i++) {
        struct pdl_rng4 x = pdl_philox(3, (uint64_t)i, 1);

        pdl_sampler_saw(r->sampler, i, (double)x.v[0] * 1e-10, x.v[1] & 1);
    }
}

/* All steps of an epoch from `from` on; the samples of each are there. */
static void run_epoch(struct run *r, int64_t from, int64_t to)
{
    int64_t batches = pdl_sampler_batches(r->sampler), n = r->workers;
    struct pdl_err err = {"", ""};

    for (int64_t b = from; b < to && b < batches; b++) {
        must(train_supply_step(&r->s, b, &err), &err);
        for (int64_t w = r->s.first[rank]; w < r->s.last[rank]; w++) {
            int64_t x = pdl_sampler_at(r->sampler, b * n + w);

            expect(pdl_store_has(r->s.store, x), "not there to train", x, w);
        }
    }
}

static void end_epoch(struct run *r)
{
    const int64_t *again;
    int64_t n;
    struct pdl_err err = {"", ""};

    see(r);
    n = pdl_sampler_refresh(r->sampler, &again);
    for (int64_t i = 0; i < n; i++) {
        int64_t w = i % r->workers, x = again[i] < 0 ? ~again[i] : again[i];

        if (w >= r->s.first[rank] && w < r->s.last[rank])
            expect(pdl_store_has(r->s.store, x), "not there to look at", x, w);
    }
    must(train_supply_end(&r->s, &err), &err);
    pdl_sampler_next(r->sampler);
    must(train_supply_settle(&r->s, 0, &err), &err);
    check_epoch(r);
}

static void wipe(void)
{
    char path[128];

    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/rank-%d.store", dir, rank);
    unlink(path);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void whole_runs(struct run *r, int64_t workers, double q,
                       const char *how)
{
    struct pdl_err err = {"", ""};
    char deal[64];

    r->workers = workers;
    r->q = q;
    snprintf(deal, sizeof deal, "%s:q=%g", how, q);
    wipe();
    open_sampler(r, deal);
    open_supply(r, 0);
    must(train_supply_settle(&r->s, 0, &err), &err);
    check_epoch(r);
    for (int e = 0; e < 3; e++) {
        int64_t source = r->s.from_source, others = r->s.from_ranks;

        run_epoch(r, 0, INT64_MAX);
        end_epoch(r);
        expect(r->s.from_source == source, "read again", e, source);
        expect(r->s.from_ranks == others, "did not come when due", e, others);
    }
    train_supply_close(&r->s);
    pdl_sampler_destroy(r->sampler);
}

/* ---- accidents ---- */

static void flip(const char *path, int64_t at)
{
    FILE *f = fopen(path, "r+b");
    int x = EOF;

    if (!f || fseek(f, at, SEEK_SET) != 0 || (x = fgetc(f)) == EOF)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fseek(f, at, SEEK_SET);
    fputc(x ^ 1, f);
    fclose(f);
}

/* Stops in the middle of an epoch, something happens, goes on. */
static void stop_and_go_on(struct run *r, int accident)
{
    int64_t half = pdl_sampler_batches(r->sampler) / 2, lost = 0;
    struct pdl_err err = {"", ""};
    char path[4096];

    run_epoch(r, 0, half);
    must(train_supply_settle(&r->s, half, &err), &err);
    snprintf(path, sizeof path, "%s", r->s.path);
    train_supply_close(&r->s);
    MPI_Barrier(MPI_COMM_WORLD);
    if (accident == 1 && rank == ranks - 1)
        unlink(path);
    if (accident == 2 && rank == 0)
        flip(path, 8192 + 3);
    MPI_Barrier(MPI_COMM_WORLD);
    open_supply(r, accident == 3);
    must(train_supply_settle(&r->s, half, &err), &err);
    lost = r->s.from_source + r->s.from_ranks;
    if (accident == 0)
        expect(lost == 0, "fetched though all was there", lost, 0);
    run_epoch(r, half, INT64_MAX);
    end_epoch(r);
}

/* The stores are an epoch ahead of the checkpoint. */
static void go_back(struct run *r, const char *deal)
{
    struct pdl_err err = {"", ""};

    pdl_sampler_destroy(r->sampler);
    open_sampler(r, deal);
    r->s.sampler = r->sampler;
    must(train_supply_settle(&r->s, 0, &err), &err);
    check_epoch(r);
    expect(r->s.from_source == 0, "from the source, not from ranks",
           r->s.from_source, 0);
}

static void accidents(struct run *r)
{
    struct pdl_err err = {"", ""};

    r->workers = ranks;
    r->q = 0.5;
    for (int what = 0; what < 4; what++) {
        wipe();
        open_sampler(r, "partial:q=0.5");
        open_supply(r, 0);
        must(train_supply_settle(&r->s, 0, &err), &err);
        stop_and_go_on(r, what);
        r->s.from_source = 0;
        if (what == 0)
            go_back(r, "partial:q=0.5");
        train_supply_close(&r->s);
        pdl_sampler_destroy(r->sampler);
    }
}

int main(int argc, char **argv)
{
    struct run r = {.copies = 1};
    struct pdl_err err = {"", ""};
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(dir, sizeof dir, "/tmp/paradl-supply-XXXXXX");
    if (rank == 0 && !mkdtemp(dir))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, MPI_COMM_WORLD);
    must(pdl_comm_create(MPI_COMM_WORLD, NULL, &r.comm, &err), &err);
    must(pdl_io_open("digits", NULL, &r.io, &err), &err);
    r.samples = pdl_io_describe(r.io)->split[0].samples;
    for (int64_t m = ranks; m <= 64; m = m < 10 ? m + 1 : m * 2 - 3)
        whole_runs(&r, m, m % 2 ? 0.3 : 1, m % 3 ? "partial" : "pair");
    whole_runs(&r, 64, 0, "partial");
    r.copies = ranks % 2 ? 1 : 2;
    whole_runs(&r, 8, 0.6, "partial");
    r.copies = 1;
    accidents(&r);
    wipe();
    if (rank == 0)
        rmdir(dir);
    pdl_io_close(r.io);
    pdl_comm_destroy(r.comm);
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all > 0;
}
