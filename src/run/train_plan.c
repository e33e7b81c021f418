/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan that a run executes comes from a file: `paradl` has lowered,
 * checked and maybe priced it, and nothing is lowered here. */
#include "train_plan.h"
#include "run_priv.h"

#include <mpi.h>

#include <stdio.h>
#include <string.h>

enum { MAX_FILE = 1 << 29 };

/* Rank 0 reads; -1: it could not. */
static enum pdl_status read_bytes(pdl_arena *a, const char *path, bool mpi,
                                  struct pdl_bytes *in, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    char *copy = NULL;
    int64_t n = -1;
    int rank = 0;

    if (mpi)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        st = pdl_file_read(a, path, MAX_FILE, in, err);
        n = st == PDL_OK ? (int64_t)in->len : -1;
    }
    if (!mpi)
        return st;
    MPI_Bcast(&n, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (n < 0)
        return rank == 0
                   ? st
                   : pdl_fail(err, PDL_EIO, "%s: rank 0 cannot read it", path);
    copy = PDL_NEW(a, char, n + 1);
    if (!copy) {
        MPI_Abort(MPI_COMM_WORLD, EXIT_INPUT); /* the others would wait */
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    if (rank == 0)
        memcpy(copy, in->data, (size_t)n);
    MPI_Bcast(copy, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
    *in = (struct pdl_bytes){copy, (size_t)n};
    return PDL_OK;
}

static enum pdl_status check_hash(const char *path, const char *want,
                                  uint64_t hash, struct pdl_err *err)
{
    char text[17];

    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    if (!want || strcmp(want, text) == 0)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "%s: is another plan: hash %s, not %.40s", path,
             text, want);
    pdl_hint(err, "the file was changed after it was checked");
    return PDL_EINVAL;
}

enum pdl_status train_plan_read(pdl_arena *a, const char *path,
                                const char *hash, bool mpi,
                                struct train_plan *out, struct pdl_err *err)
{
    struct pdl_bytes in;
    struct pdl_buf text;
    enum pdl_status st = read_bytes(a, path, mpi, &in, err);

    if (st != PDL_OK)
        return st;
    out->hash = pdl_plan_hash(in);
    st = check_hash(path, hash, out->hash, err);
    if (st == PDL_OK)
        st = pdl_plan_read(a, in, path, NULL, &out->head, &out->plan, err);
    if (st == PDL_OK)
        st = pdl_plan_check(out->plan, err);
    if (st != PDL_OK)
        return st;
    pdl_buf_init(&text);
    pdl_strategy_print(out->plan->strategy, &text.sink);
    out->strategy = text.sink.failed ? NULL : pdl_arena_strdup(a, text.text);
    pdl_buf_free(&text);
    return out->strategy ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "out of memory");
}
