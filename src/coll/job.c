/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: an algorithm at a size. Steps, spans and the bytes they stand for. */
#include "coll_priv.h"

#include <inttypes.h>
#include <math.h>

/* Large enough for any machine, small enough that chunk * count cannot leave
 * 128 bits nor a sum of spans 64. */
#define MAX_COUNT ((int64_t)1 << 50)
#define MAX_RANKS (1 << 22)

static enum pdl_status check_sizes(const struct pdl_coll_job *job,
                                   struct pdl_err *err)
{
    if (job->nranks < 1 || job->nranks > MAX_RANKS)
        return pdl_fail(err, PDL_EINVAL, "%d ranks: from 1 to %d", job->nranks,
                        MAX_RANKS);
    if (job->count < 0 || job->count > MAX_COUNT)
        return pdl_fail(err, PDL_EINVAL, "%" PRId64 " elements are too many",
                        job->count);
    if (job->elem_bytes < 1 || job->elem_bytes > 64)
        return pdl_fail(err, PDL_EINVAL, "elements of %d bytes",
                        job->elem_bytes);
    if (!(job->density >= 0 && job->density <= 1))
        return pdl_fail(err, PDL_EINVAL, "density %g is not within 0 to 1",
                        job->density);
    return PDL_OK;
}

enum pdl_status pdl_coll_setup(struct pdl_coll_job *job, struct pdl_err *err)
{
    struct pdl_err why = {"", ""};
    enum pdl_status st = check_sizes(job, err);

    if (st != PDL_OK)
        return st;
    st = job->alg->setup(job, &why);
    if (st != PDL_OK) {
        pdl_say(err, "%s/%s: %s", job->alg->collective->name, job->alg->name,
                why.msg);
        if (*why.hint)
            pdl_hint(err, "%s", why.hint);
    }
    return st;
}

enum pdl_status pdl_coll_job_make(const char *collective, const char *spec,
                                  int nranks, int64_t count, int elem_bytes,
                                  struct pdl_coll_job *job, struct pdl_err *err)
{
    struct pdl_coll_job made = {
        .nranks = nranks, .count = count, .elem_bytes = elem_bytes};
    enum pdl_status st = pdl_alg_parse(collective, spec, &made, err);

    if (st == PDL_OK)
        st = pdl_coll_setup(&made, err);
    if (st == PDL_OK)
        *job = made;
    return st;
}

int64_t pdl_coll_nsteps(const struct pdl_coll_job *job, int rank)
{
    return job->alg->nsteps(job, rank);
}

void pdl_coll_step(const struct pdl_coll_job *job, int rank, int64_t s,
                   struct pdl_step *out)
{
    coll_blank(out);
    job->alg->step(job, rank, s, out);
    /* one way to write one step */
    if (out->recv_from < 0)
        out->act = PDL_ACT_COPY;
    for (int i = 0; i < out->nsend; i++)
        if (out->send[i].n == 1)
            out->send[i].stride = 0;
    for (int i = 0; i < out->nrecv; i++)
        if (out->recv[i].n == 1)
            out->recv[i].stride = 0;
}

int64_t pdl_coll_chunk_begin(const struct pdl_coll_buf *buf, int64_t c)
{
    int64_t each = buf->count / buf->chunks, rest = buf->count % buf->chunks;

    /* floor(c*count/chunks); rest < chunks, so c*rest stays in 64 bits */
    return c * each + c * rest / buf->chunks;
}

int64_t pdl_coll_span_chunks(const struct pdl_span *spans, int n)
{
    int64_t total = 0;

    for (int i = 0; i < n; i++)
        total += spans[i].run * spans[i].n;
    return total;
}

/* Elements of `run` chunks from c on, which may pass the end once or more. */
static int64_t run_count(const struct pdl_coll_buf *buf, int64_t c, int64_t run)
{
    int64_t total = run / buf->chunks * buf->count;

    run %= buf->chunks;
    c = coll_mod(c, buf->chunks);
    if (c + run <= buf->chunks)
        return total + pdl_coll_chunk_begin(buf, c + run) -
               pdl_coll_chunk_begin(buf, c);
    return total + buf->count - pdl_coll_chunk_begin(buf, c) +
           pdl_coll_chunk_begin(buf, c + run - buf->chunks);
}

int64_t pdl_coll_span_count(const struct pdl_coll_job *job,
                            const struct pdl_span *spans, int n)
{
    int64_t total = 0;

    for (int i = 0; i < n; i++) {
        const struct pdl_span *s = &spans[i];
        const struct pdl_coll_buf *buf = &job->buf[s->buf];

        if (buf->count % buf->chunks == 0) {
            total += s->run * s->n * (buf->count / buf->chunks);
            continue;
        }
        for (int64_t k = 0; k < s->n; k++)
            total += run_count(buf, s->first + k * s->stride, s->run);
    }
    return total;
}

/* comm.md 2: u is the share of non-zeros in the union; SUM goes dense when
 * the lengths of its two operands add up to half of the chunk. The stream's
 * length word is 4 bytes, an index is 4. */
static double filled(double q, int terms)
{
    return 1 - pow(1 - q, terms);
}

static bool goes_dense(int elem_bytes, double q, int terms)
{
    double most = elem_bytes / (4.0 + elem_bytes);

    return filled(q, terms) >= most ||
           (terms > 1 && filled(q, terms - 1) + q >= most);
}

static double pairs_bytes(int64_t count, int elem_bytes, double q, int terms)
{
    return 4 + (4.0 + elem_bytes) * filled(q, terms) * (double)count;
}

int64_t pdl_coll_factors(int64_t rows, int64_t cols, int64_t rank)
{
    int64_t least = rows < cols ? rows : cols;
    int64_t r = rank < least ? rank : least;

    return 2.0 * (double)r * (double)(rows + cols) < (double)rows * (double)cols
               ? r
               : 0;
}

double pdl_coll_sparse_bytes(int64_t count, int elem_bytes, double q, int terms)
{
    return goes_dense(elem_bytes, q, terms)
               ? 4 + (double)elem_bytes * (double)count
               : pairs_bytes(count, elem_bytes, q, terms);
}

bool coll_is_pairs(const struct pdl_coll_job *job, int terms)
{
    return job->alg->sparse && job->density > 0 && job->density < 1 &&
           terms > 0 &&
           (job->alg->pairs ||
            !goes_dense(job->elem_bytes, job->density, terms));
}

static int64_t message_bytes(const struct pdl_coll_job *job, int64_t count,
                             int terms)
{
    if (coll_is_pairs(job, terms))
        return (int64_t)llround(
            pairs_bytes(count, job->elem_bytes, job->density, terms));
    if (job->alg->sparse && job->density > 0 && job->density < 1 && terms > 0)
        return 4 + count * job->elem_bytes;
    return count * job->elem_bytes;
}

int64_t pdl_coll_send_bytes(const struct pdl_coll_job *job,
                            const struct pdl_step *step)
{
    return message_bytes(job, pdl_coll_span_count(job, step->send, step->nsend),
                         step->send_terms);
}

int64_t pdl_coll_recv_bytes(const struct pdl_coll_job *job,
                            const struct pdl_step *step)
{
    return message_bytes(job, pdl_coll_span_count(job, step->recv, step->nrecv),
                         step->recv_terms);
}

bool coll_next(const struct pdl_coll_job *job, const struct pdl_span *spans,
               int n, struct coll_cursor *at, int *buf, int64_t *chunk)
{
    const struct pdl_span *s;

    if (at->span >= n)
        return false;
    s = &spans[at->span];
    *buf = s->buf;
    *chunk = coll_mod(s->first + at->run * s->stride + at->i,
                      job->buf[s->buf].chunks);
    if (++at->i == s->run) {
        at->i = 0;
        if (++at->run == s->n) {
            at->run = 0;
            at->span++;
        }
    }
    return true;
}
