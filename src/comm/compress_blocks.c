/* SPDX-License-Identifier: Apache-2.0
 *
 * An allreduce of coded floats. Every rank owns a part of the vector: it gets
 * that part from all others, coded, decodes and adds them in the order of
 * ranks, codes the sum and gives it to all. So the bits are the same on every
 * rank and every transport, and a rank sends 2 (P-1)/P of its coded vector.
 *
 * What coding loses is kept: of its own gradient by each rank, of the sum by
 * the owner of the part, who has it among what it gives the next time (Tang et
 * al., DoubleSqueeze, ICML 2019, with one residual for both). */
#include "comm_compress.h"

#include <stdlib.h>
#include <string.h>

enum phase { LENGTHS, PARTS, SIZES, SUMS, DONE };
enum { TAG = 0x7000 };
/* Elements that stay in the cache while they are coded: whole blocks of all
 * codecs, so that pieces one after the other are what the whole would be. */
enum { PIECE = 4096 };

struct blocks {
    int n, me; /* ranks */
    enum phase phase;
    int64_t room;                           /* bytes of a coded part at most */
    uint8_t *give, *get;                    /* n coded parts each */
    int64_t *given, *got;                   /* their bytes */
    struct pdl_comm_message *sends, *recvs; /* n each */
    float *part, *sum;                      /* decoded; the whole sum */
};

static int64_t begin_of(const pdl_compress *x, int r)
{
    const struct blocks *b = x->own;

    return pdl_coll_chunk_begin(&(struct pdl_coll_buf){x->dim, b->n}, r);
}

static int64_t size_of(const pdl_compress *x, int r)
{
    return begin_of(x, r + 1) - begin_of(x, r);
}

static void destroy(pdl_compress *x)
{
    struct blocks *b = x->own;

    if (!b)
        return;
    free(b->give);
    free(b->get);
    free(b->given);
    free(b->got);
    free(b->sends);
    free(b->recvs);
    free(b->part);
    free(b->sum);
    free(b);
}

static enum pdl_status create(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own = calloc(1, sizeof *b);
    size_t n = (size_t)pdl_comm_size(x->comm);
    size_t part = (size_t)x->dim / n + 1;

    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    b->n = (int)n;
    b->me = pdl_comm_rank(x->comm);
    b->room = x->codec->room((int64_t)part);
    b->give = malloc(n * (size_t)b->room);
    b->get = malloc(n * (size_t)b->room);
    b->given = calloc(n, sizeof *b->given);
    b->got = calloc(n, sizeof *b->got);
    b->sends = calloc(n, sizeof *b->sends);
    b->recvs = calloc(n, sizeof *b->recvs);
    b->part = malloc(part * sizeof *b->part);
    b->sum = malloc((size_t)x->dim * sizeof *b->sum);
    if (!b->give || !b->get || !b->given || !b->got || !b->sends || !b->recvs ||
        !b->part || !b->sum)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for gradients");
    return PDL_OK;
}

/* Joins what was kept of n elements, codes them and keeps what that loses;
 * returns the bytes. */
static int64_t code(pdl_compress *x, const float *gradient, int64_t at,
                    int64_t n, uint8_t *to)
{
    float *kept = x->residual + at, decoded[PIECE];
    int64_t bytes;

    for (int64_t i = 0; i < n; i++)
        kept[i] += gradient[at + i];
    bytes = x->codec->encode(kept, n, to);
    x->codec->decode(to, bytes, n, decoded);
    for (int64_t i = 0; i < n; i++)
        kept[i] -= decoded[i];
    return bytes;
}

static void take(pdl_compress *x, const float *gradient)
{
    struct blocks *b = x->own;

    for (int r = 0; r < b->n; r++) {
        int64_t begin = begin_of(x, r), end = begin + size_of(x, r);
        uint8_t *to = b->give + r * b->room;

        b->given[r] = x->residual
                          ? 0
                          : x->codec->encode(gradient + begin, end - begin, to);
        for (int64_t at = begin; x->residual && at < end; at += PIECE)
            b->given[r] +=
                code(x, gradient, at, end - at < PIECE ? end - at : PIECE,
                     to + b->given[r]);
    }
}

/* One message to and from every other rank. */
static enum pdl_status exchange(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own;
    int n = 0;

    for (int r = 0; r < b->n; r++) {
        bool sums = b->phase == SIZES || b->phase == SUMS;
        bool sizes = b->phase == LENGTHS || b->phase == SIZES;
        int of = sums ? b->me : r;
        struct pdl_comm_message s = {r, TAG + (int)b->phase,
                                     b->give + of * b->room, b->given[of]};
        struct pdl_comm_message g = {r, TAG + (int)b->phase,
                                     b->get + r * b->room, b->got[r]};

        if (sizes) {
            s.data = &b->given[of];
            g.data = &b->got[r];
            s.bytes = g.bytes = sizeof b->got[r];
        }
        if (r == b->me)
            continue;
        x->sent += s.bytes;
        b->sends[n] = s;
        b->recvs[n++] = g;
    }
    return pdl_comm_start_exchange(x->comm, n, b->sends, n, b->recvs,
                                   &x->request, err);
}

/* Lengths of what comes are known without asking where they do not vary. */
static enum pdl_status start(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own;

    b->phase = LENGTHS;
    for (int r = 0; !x->codec->varies && r < b->n; r++) {
        b->got[r] = b->given[b->me];
        b->phase = PARTS;
    }
    return exchange(x, err);
}

static enum pdl_status wrong(struct pdl_err *err)
{
    return pdl_fail(err, PDL_EWRONG, "a compressed gradient cannot be read");
}

static bool lengths_fit(const struct blocks *b)
{
    bool fit = true;

    for (int r = 0; r < b->n; r++)
        fit = fit && (r == b->me || (b->got[r] >= 0 && b->got[r] <= b->room));
    return fit;
}

/* The parts of all ranks are added in their order and coded again. */
static enum pdl_status add_parts(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own;
    int64_t at = begin_of(x, b->me), n = size_of(x, b->me);
    float *sum = b->sum + at;

    for (int r = 0; r < b->n; r++) {
        bool own = r == b->me;
        const uint8_t *from = (own ? b->give : b->get) + r * b->room;
        float *to = r == 0 ? sum : b->part;

        if (!x->codec->decode(from, own ? b->given[r] : b->got[r], n, to))
            return wrong(err);
        for (int64_t i = 0; r > 0 && i < n; i++)
            sum[i] += b->part[i];
    }
    b->given[b->me] = x->codec->encode(sum, n, b->give + b->me * b->room);
    if (!x->residual)
        return PDL_OK;
    x->codec->decode(b->give + b->me * b->room, b->given[b->me], n, b->part);
    for (int64_t i = 0; i < n; i++)
        x->residual[at + i] += sum[i] - b->part[i];
    memcpy(sum, b->part, (size_t)n * sizeof *sum);
    return PDL_OK;
}

static enum pdl_status read_sums(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own;

    for (int r = 0; r < b->n; r++)
        if (r != b->me &&
            !x->codec->decode(b->get + r * b->room, b->got[r], size_of(x, r),
                              b->sum + begin_of(x, r)))
            return wrong(err);
    return PDL_OK;
}

static enum pdl_status next_phase(pdl_compress *x, struct pdl_err *err)
{
    struct blocks *b = x->own;
    enum pdl_status st = PDL_OK;

    switch (b->phase) {
    case LENGTHS:
    case SIZES:
        if (!lengths_fit(b))
            return wrong(err);
        b->phase = b->phase == LENGTHS ? PARTS : SUMS;
        return exchange(x, err);
    case PARTS:
        st = add_parts(x, err);
        b->phase = x->codec->varies ? SIZES : SUMS;
        for (int r = 0; b->phase == SUMS && r < b->n; r++)
            b->got[r] = x->codec->room(size_of(x, r));
        return st == PDL_OK ? exchange(x, err) : st;
    case SUMS:
        st = read_sums(x, err);
        b->phase = DONE;
        return st;
    case DONE:
        break;
    }
    return st;
}

static enum pdl_status go(pdl_compress *x, bool wait, bool *done,
                          struct pdl_err *err)
{
    struct blocks *b = x->own;
    enum pdl_status st = PDL_OK;

    while (b->phase != DONE) {
        st = comm_compress_settle(x, wait, done, err);
        if (st != PDL_OK || !*done)
            return st;
        st = next_phase(x, err);
        if (st != PDL_OK)
            return st;
    }
    *done = true;
    return PDL_OK;
}

static void put(pdl_compress *x, float *sum)
{
    const struct blocks *b = x->own;

    memcpy(sum, b->sum, (size_t)x->dim * sizeof *sum);
}

const struct comm_compressor comm_compress_blocks = {
    .create = create,
    .destroy = destroy,
    .take = take,
    .start = start,
    .go = go,
    .put = put,
};
