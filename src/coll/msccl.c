/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a job as the XML that MSCCL's runtime loads (Cowan et al., ASPLOS
 * 2023): one <tb> for every peer a rank sends to, one for every peer it
 * receives from and one for local copies; a step there waits for one other
 * step (depid, deps), so further waits become "nop" steps before it.
 *
 * Messages are cut into single chunks, because the two sides may cut theirs
 * differently. MSCCL knows one size of chunk: jobs whose buffers have chunks
 * of different sizes are refused. */
#include "coll_priv.h"

#include <inttypes.h>

/* One side of one chunk of a step, in a thread block. */
struct line {
    const char *type;
    int src_buf, dst_buf;
    int64_t src, dst;
};

struct block {
    int send, recv; /* peers; -1 */
    int64_t next;   /* steps written */
    int64_t *last;  /* of each step of the program: its last line here, +1 */
    struct pdl_buf text;
};

struct writer {
    const struct pdl_coll_job *job;
    pdl_arena *arena;
    struct pdl_err *err;
    struct block *blocks;
    int nblocks, cap;
    int64_t nsteps;
};

/* Every block of a rank that a step has lines in. */
static struct block *block_for(struct writer *w, int send, int recv)
{
    struct block *b;

    for (int i = 0; i < w->nblocks; i++)
        if (w->blocks[i].send == send && w->blocks[i].recv == recv)
            return &w->blocks[i];
    if (w->nblocks == w->cap)
        return NULL;
    b = &w->blocks[w->nblocks++];
    b->send = send;
    b->recv = recv;
    b->next = 0;
    b->last = PDL_NEW(w->arena, int64_t, w->nsteps + 1);
    pdl_buf_init(&b->text);
    return b->last ? b : NULL;
}

static const char *buf_name(const struct pdl_coll_job *job, int buf)
{
    if (buf == 0)
        return "i";
    return buf == job->alg->collective->result ? "o" : "s";
}

/* Scratch buffers follow each other in one. */
static int64_t buf_base(const struct pdl_coll_job *job, int buf)
{
    int64_t at = 0;

    if (buf == 0 || buf == job->alg->collective->result)
        return 0;
    for (int b = 1; b < buf; b++)
        if (b != job->alg->collective->result)
            at += job->buf[b].chunks;
    return at;
}

static void write_line(struct writer *w, struct block *b, const struct line *l,
                       int dep_block, int64_t dep_step)
{
    pdl_printf(
        &b->text.sink,
        "      <step s=\"%" PRId64 "\" type=\"%s\" srcbuf=\"%s\" "
        "srcoff=\"%" PRId64 "\" dstbuf=\"%s\" dstoff=\"%" PRId64
        "\" cnt=\"%d\" depid=\"%d\" deps=\"%" PRId64 "\" hasdep=\"1\"/>\n",
        b->next++, l->type, buf_name(w->job, l->src_buf),
        l->src + buf_base(w->job, l->src_buf), buf_name(w->job, l->dst_buf),
        l->dst + buf_base(w->job, l->dst_buf), l->type[0] != 'n', dep_block,
        dep_step);
}

/* Waits, with one nop each, for what step s of the program waits for. */
static void write_waits(struct writer *w, struct block *b, int64_t s)
{
    const struct line nop = {"nop", 0, 0, 0, 0};

    for (int i = 0; i < w->nblocks; i++)
        if (&w->blocks[i] != b && w->blocks[i].last[s] > 0)
            write_line(w, b, &nop, i, w->blocks[i].last[s] - 1);
}

/* Writes the chunks of a step's send (or, given in, of a local copy). */
static void write_side(struct writer *w, struct block *b, int64_t s,
                       const struct pdl_step *step, const char *type)
{
    bool local = type[0] == 'c' || (type[0] == 'r' && type[1] == 'e');
    bool sends = type[0] == 's';
    struct coll_cursor in = {0, 0, 0}, out = {0, 0, 0};
    struct line l = {.type = type};

    for (;;) {
        bool more = true;

        if (sends || local)
            more = coll_next(w->job, step->send, step->nsend, &out, &l.src_buf,
                             &l.src);
        if (more && !sends)
            more = coll_next(w->job, step->recv, step->nrecv, &in, &l.dst_buf,
                             &l.dst);
        if (!more)
            break;
        if (sends) {
            l.dst_buf = l.src_buf;
            l.dst = l.src;
        } else if (!local) {
            l.src_buf = l.dst_buf;
            l.src = l.dst;
        }
        write_line(w, b, &l, -1, -1);
    }
    b->last[s] = b->next;
}

/* Does the step receive into a chunk that it sends? */
static bool overlaps(const struct pdl_coll_job *job,
                     const struct pdl_step *step)
{
    struct coll_cursor out = {0, 0, 0};
    int64_t a, b;
    int from, to;

    while (coll_next(job, step->send, step->nsend, &out, &from, &a)) {
        struct coll_cursor in = {0, 0, 0};

        while (coll_next(job, step->recv, step->nrecv, &in, &to, &b))
            if (from == to && a == b)
                return true;
    }
    return false;
}

static enum pdl_status write_step(struct writer *w, int rank, int64_t s)
{
    struct pdl_step step;
    struct block *out = NULL, *in = NULL;
    bool adds;

    pdl_coll_step(w->job, rank, s, &step);
    adds = step.act == PDL_ACT_REDUCE;
    if (step.send_to == rank || (step.send_to < 0 && step.recv_from < 0))
        out = block_for(w, -1, -1);
    else if (step.send_to >= 0)
        out = block_for(w, step.send_to, -1);
    if (step.recv_from >= 0 && step.recv_from != rank)
        in = block_for(w, -1, step.recv_from);
    if (!out && !in)
        return pdl_fail(w->err, PDL_ENOMEM, "no memory for the program");
    for (int i = 0; out && i < step.nafter; i++)
        write_waits(w, out, step.after[i]);
    if (out && step.send_to == rank)
        write_side(w, out, s, &step, adds ? "re" : "cpy");
    else if (out && step.send_to >= 0)
        write_side(w, out, s, &step, "s");
    if (out && step.send_to < 0)
        out->last[s] = out->next; /* a join: its nops */
    for (int i = 0; in && i < step.nafter; i++)
        write_waits(w, in, step.after[i]);
    if (in) {
        if (out && overlaps(w->job, &step))
            write_waits(w, in, s); /* the send comes before the receive */
        write_side(w, in, s, &step, adds ? "rrc" : "r");
    }
    return PDL_OK;
}

static enum pdl_status write_rank(struct writer *w, int rank,
                                  struct pdl_sink *out)
{
    const struct pdl_coll_job *job = w->job;
    int result = job->alg->collective->result;
    int64_t scratch = 0;
    enum pdl_status st = PDL_OK;

    for (int b = 1; b < job->nbufs; b++)
        scratch += b == result ? 0 : job->buf[b].chunks;
    w->nblocks = 0;
    w->nsteps = pdl_coll_nsteps(job, rank);
    for (int64_t s = 0; st == PDL_OK && s < w->nsteps; s++)
        st = write_step(w, rank, s);
    pdl_printf(out,
               "  <gpu id=\"%d\" i_chunks=\"%" PRId64 "\" o_chunks=\"%" PRId64
               "\" s_chunks=\"%" PRId64 "\">\n",
               rank, job->buf[0].chunks, job->buf[result].chunks, scratch);
    for (int i = 0; i < w->nblocks; i++) {
        struct block *b = &w->blocks[i];

        pdl_printf(out,
                   "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" "
                   "chan=\"0\">\n",
                   i, b->send, b->recv);
        if (b->text.text)
            pdl_put(out, b->text.text, b->text.len);
        pdl_puts(out, "    </tb>\n");
        if (b->text.sink.failed)
            out->failed = true;
        pdl_buf_free(&b->text);
    }
    pdl_puts(out, "  </gpu>\n");
    return st;
}

enum pdl_status pdl_coll_print_msccl(const struct pdl_coll_job *job,
                                     struct pdl_sink *out, struct pdl_err *err)
{
    struct writer w = {.job = job, .err = err, .cap = 2 * job->nranks + 1};
    enum pdl_status st = PDL_OK;

    for (int b = 1; b < job->nbufs; b++)
        if (job->buf[b].count * job->buf[0].chunks !=
            job->buf[0].count * job->buf[b].chunks)
            return pdl_fail(err, PDL_EINVAL,
                            "%s: MSCCL has one size of chunk, buffer %d "
                            "another than buffer 0",
                            job->alg->name, b);
    w.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    w.blocks = w.arena ? PDL_NEW(w.arena, struct block, w.cap) : NULL;
    if (!w.blocks)
        st = pdl_fail(err, PDL_ENOMEM, "no memory for the program");
    pdl_printf(out,
               "<algo name=\"%s\" nchunksperloop=\"%" PRId64
               "\" nchannels=\"1\" proto=\"Simple\" ngpus=\"%d\" coll=\"%s\" "
               "inplace=\"%d\">\n",
               job->alg->name, job->buf[0].chunks, job->nranks,
               job->alg->collective->name, job->alg->collective->result == 0);
    for (int r = 0; st == PDL_OK && r < job->nranks; r++)
        st = write_rank(&w, r, out);
    pdl_puts(out, "</algo>\n");
    pdl_arena_destroy(w.arena);
    return st;
}
