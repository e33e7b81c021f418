/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a job as the XML that MSCCL's runtime loads (Cowan et al., ASPLOS
 * 2023; Azure/msccl-executor-nccl): thread blocks (<tb>), each with one peer it
 * sends to, or one it receives from, or none for local copies. A step there
 * waits for one step of another block (depid, deps); further waits are "nop"
 * steps right before it, which count as steps.
 *
 * What two ranks send each other is cut where either side's chunks are not
 * neighbours. Neither side knows the other's block, so both take the channel
 * by the distance of the ranks and the number of the line between them: a block
 * has so few lines, and a channel so few blocks, that the runtime takes them.
 *
 * In place, an allgather's buffer is the output and a reduce-scatter's the
 * input. MSCCL knows one size of chunk: other jobs are refused. */
#include "coll_priv.h"

#include <inttypes.h>
#include <string.h>

/* The runtime's tables; LINES leaves a block room for nops. */
enum { STEPS = 64, PEERS = 32, CHANNELS = 32, COUNT = 71, LINES = 8 };
enum { BLOCKS = 127 }; /* of a GPU: what a wait can name */

static const struct {
    const char *ours, *theirs;
    const char *buffer;       /* what buffer 0 is */
    bool parts_in, parts_out; /* a rank gives, or gets, its block only */
} names[] = {
    {"allreduce", "allreduce", "i", false, false},
    {"reduce-scatter", "reducescatter", "i", false, true},
    {"allgather", "allgather", "o", true, false},
    {"broadcast", "broadcast", "i", false, false},
    {"alltoall", "alltoall", "i", false, false},
};
enum { NNAMES = sizeof names / sizeof names[0] };

/* Chunks that lie together on both sides. */
struct line {
    const char *type;
    int src_buf, dst_buf;
    int64_t src, dst, count;
};

struct block {
    int send, recv, channel; /* peers; -1 */
    int64_t next;            /* steps written */
    int64_t *seen;           /* of each block: steps waited for, +1 */
    int64_t *last; /* of each step of the program: its last line here, +1 */
    struct pdl_buf text;
};

struct wait {
    int block;
    int64_t step;
};

struct writer {
    const struct pdl_coll_job *job;
    int name, rank;
    pdl_arena *arena;
    struct pdl_err *err;
    struct block *blocks;
    int nblocks, channels;
    int64_t nsteps;
    int64_t *sent, *received;       /* messages with each rank so far */
    int64_t *lines_to, *lines_from; /* lines */
    struct wait *waits;
    int nwaits;
    int64_t *mark, marks; /* of the rank's steps: last looked at for */
};

static enum pdl_status no_memory(struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "no memory for the program");
}

/* ---- blocks -------------------------------------------------------------- */

static struct block *new_block(struct writer *w, int send, int recv,
                               int channel)
{
    struct block *b;

    if (w->nblocks == BLOCKS) {
        pdl_fail(w->err, PDL_EINVAL,
                 "%s: rank %d has more than %d thread blocks, which MSCCL's "
                 "runtime does not take",
                 w->job->alg->name, w->rank, BLOCKS);
        return NULL;
    }
    b = &w->blocks[w->nblocks++];
    *b = (struct block){.send = send, .recv = recv, .channel = channel};
    b->last = PDL_NEW(w->arena, int64_t, w->nsteps + 1);
    b->seen = PDL_NEW(w->arena, int64_t, BLOCKS);
    pdl_buf_init(&b->text);
    if (!b->last || !b->seen) {
        no_memory(w->err);
        return NULL;
    }
    return b;
}

static struct block *block_for(struct writer *w, int send, int recv,
                               int channel)
{
    for (int i = 0; i < w->nblocks; i++)
        if (w->blocks[i].send == send && w->blocks[i].recv == recv &&
            w->blocks[i].channel == channel)
            return &w->blocks[i];
    return new_block(w, send, recv, channel);
}

/* Of line n between two ranks, the same on both. */
static int channel_of(const struct writer *w, int from, int to, int64_t n)
{
    int p = w->job->nranks, groups = (p + PEERS - 1) / PEERS;

    return (int)(n / LINES) * groups + (int)coll_mod(to - from, p) / PEERS;
}

/* ---- buffers ------------------------------------------------------------- */

static const char *buf_name(const struct writer *w, int buf)
{
    if (buf == 0)
        return names[w->name].buffer;
    return buf == w->job->alg->collective->result ? "o" : "s";
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

/* ---- waits --------------------------------------------------------------- */

static bool is_join(const struct pdl_step *step)
{
    return step->send_to < 0 && step->recv_from < 0;
}

static void add_wait(struct writer *w, int block, int64_t step)
{
    for (int i = 0; i < w->nwaits; i++)
        if (w->waits[i].block == block) {
            if (w->waits[i].step < step)
                w->waits[i].step = step;
            return;
        }
    w->waits[w->nwaits++] = (struct wait){block, step};
}

/* Block b waits for what a step did in others; not again for what it has
 * waited for. */
static void wait_for_step(struct writer *w, const struct block *b, int64_t s)
{
    for (int i = 0; i < w->nblocks; i++)
        if (&w->blocks[i] != b && w->blocks[i].last[s] > b->seen[i])
            add_wait(w, i, w->blocks[i].last[s] - 1);
}

/* The same for step s or, where that only joins others, for those. Each is
 * looked at once. */
static void wait_for(struct writer *w, const struct block *b, int64_t s)
{
    int64_t pending = 1;

    w->marks++;
    for (w->mark[s] = w->marks; pending > 0; s--) {
        struct pdl_step step;

        if (w->mark[s] != w->marks)
            continue;
        pending--;
        wait_for_step(w, b, s);
        pdl_coll_step(w->job, w->rank, s, &step);
        for (int i = 0; is_join(&step) && i < step.nafter; i++) {
            pending += w->mark[step.after[i]] != w->marks;
            w->mark[step.after[i]] = w->marks;
        }
    }
}

/* ---- lines --------------------------------------------------------------- */

static void put_step(struct writer *w, struct block *b, const struct line *l,
                     struct wait wait)
{
    pdl_printf(&b->text.sink,
               "      <step s=\"%" PRId64 "\" type=\"%s\" srcbuf=\"%s\" "
               "srcoff=\"%" PRId64 "\" dstbuf=\"%s\" dstoff=\"%" PRId64
               "\" cnt=\"%" PRId64 "\" depid=\"%d\" deps=\"%" PRId64
               "\" hasdep=\"%d\"/>\n",
               b->next++, l->type, buf_name(w, l->src_buf),
               l->src + buf_base(w->job, l->src_buf), buf_name(w, l->dst_buf),
               l->dst + buf_base(w->job, l->dst_buf), l->count, wait.block,
               wait.step, l->count > 0);
}

/* With its waits: the last is its own, those before it are nops. */
static void put_line(struct writer *w, struct block *b, int64_t s,
                     const struct line *l)
{
    const struct line nop = {.type = "nop"};
    struct wait last = {-1, -1};

    for (int i = 0; i < w->nwaits; i++)
        b->seen[w->waits[i].block] = w->waits[i].step + 1;
    for (int i = 0; i + 1 < w->nwaits; i++)
        put_step(w, b, &nop, w->waits[i]);
    if (w->nwaits > 0)
        last = w->waits[w->nwaits - 1];
    put_step(w, b, l, last);
    b->last[s] = b->next;
}

/* The next chunks that lie together in both lists; false at the end. */
struct pair {
    const struct pdl_span *a, *b;
    int na, nb;
    struct coll_cursor at, bt;
    int next_a_buf, next_b_buf;
    int64_t next_a, next_b;
    bool more;
};

static void advance(const struct pdl_coll_job *job, struct pair *p)
{
    p->more = coll_next(job, p->a, p->na, &p->at, &p->next_a_buf, &p->next_a) &&
              coll_next(job, p->b, p->nb, &p->bt, &p->next_b_buf, &p->next_b);
}

static struct pair pair_of(const struct pdl_coll_job *job,
                           const struct pdl_step *from,
                           const struct pdl_step *to)
{
    struct pair p = {
        .a = from->send, .na = from->nsend, .b = to->recv, .nb = to->nrecv};

    advance(job, &p);
    return p;
}

static bool next_run(const struct pdl_coll_job *job, struct pair *p,
                     struct line *l)
{
    if (!p->more)
        return false;
    l->src_buf = p->next_a_buf;
    l->dst_buf = p->next_b_buf;
    l->src = p->next_a;
    l->dst = p->next_b;
    l->count = 0;
    do {
        l->count++;
        advance(job, p);
    } while (p->more && l->count < COUNT && p->next_a_buf == l->src_buf &&
             p->next_b_buf == l->dst_buf && p->next_a == l->src + l->count &&
             p->next_b == l->dst + l->count);
    return true;
}

/* The peer's step with message n to (or from) this rank; an empty one if there
 * is none. */
static void peers_step(const struct writer *w, int peer, int64_t n, bool sends,
                       struct pdl_step *out)
{
    int64_t steps = pdl_coll_nsteps(w->job, peer);

    for (int64_t s = 0; s < steps; s++) {
        pdl_coll_step(w->job, peer, s, out);
        if (w->rank == (sends ? out->send_to : out->recv_from) && n-- == 0)
            return;
    }
    *out = (struct pdl_step){.send_to = -1, .recv_from = -1};
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

/* What block b waits for before step s, if s has nothing in it yet. */
static void gather_waits(struct writer *w, const struct block *b, int64_t s,
                         const struct pdl_step *step, bool own)
{
    w->nwaits = 0;
    if (b->last[s] > 0)
        return;
    for (int i = 0; i < step->nafter; i++)
        wait_for(w, b, step->after[i]);
    if (own)
        wait_for(w, b, s);
}

static enum pdl_status write_send(struct writer *w, int64_t s,
                                  const struct pdl_step *step)
{
    int to = step->send_to;
    struct line l = {.type = "s"};
    struct pdl_step theirs;
    struct pair p;

    peers_step(w, to, w->sent[to]++, false, &theirs);
    p = pair_of(w->job, step, &theirs);
    while (next_run(w->job, &p, &l)) {
        struct block *b =
            block_for(w, to, -1, channel_of(w, w->rank, to, w->lines_to[to]++));

        if (!b)
            return PDL_EINVAL;
        l.dst_buf = l.src_buf;
        l.dst = l.src;
        gather_waits(w, b, s, step, false);
        put_line(w, b, s, &l);
    }
    return PDL_OK;
}

static enum pdl_status write_receive(struct writer *w, int64_t s,
                                     const struct pdl_step *step)
{
    int from = step->recv_from;
    struct line l = {.type = step->act == PDL_ACT_REDUCE ? "rrc" : "r"};
    bool after_send = step->send_to >= 0 && overlaps(w->job, step);
    struct pdl_step theirs;
    struct pair p;

    peers_step(w, from, w->received[from]++, true, &theirs);
    p = pair_of(w->job, &theirs, step);
    while (next_run(w->job, &p, &l)) {
        struct block *b = block_for(
            w, -1, from, channel_of(w, from, w->rank, w->lines_from[from]++));

        if (!b)
            return PDL_EINVAL;
        l.src_buf = l.dst_buf;
        l.src = l.dst;
        gather_waits(w, b, s, step, after_send);
        put_line(w, b, s, &l);
    }
    return PDL_OK;
}

static enum pdl_status write_local(struct writer *w, int64_t s,
                                   const struct pdl_step *step)
{
    struct line l = {.type = step->act == PDL_ACT_REDUCE ? "re" : "cpy"};
    struct block *b = block_for(w, -1, -1, 0);
    struct pair p = pair_of(w->job, step, step);

    if (!b)
        return PDL_EINVAL;
    while (next_run(w->job, &p, &l)) {
        gather_waits(w, b, s, step, false);
        put_line(w, b, s, &l);
    }
    return PDL_OK;
}

static enum pdl_status write_step(struct writer *w, int64_t s)
{
    enum pdl_status st = PDL_OK;
    struct pdl_step step;

    pdl_coll_step(w->job, w->rank, s, &step);
    if (step.send_to == w->rank)
        return write_local(w, s, &step);
    if (step.send_to >= 0)
        st = write_send(w, s, &step);
    if (st == PDL_OK && step.recv_from >= 0)
        st = write_receive(w, s, &step);
    return st;
}

/* ---- ranks --------------------------------------------------------------- */

static enum pdl_status check_block(struct writer *w, const struct block *b)
{
    if (b->next > STEPS)
        return pdl_fail(w->err, PDL_EINVAL,
                        "%s: rank %d has a thread block of %" PRId64
                        " steps, MSCCL's runtime takes %d",
                        w->job->alg->name, w->rank, b->next, STEPS);
    if (b->channel >= CHANNELS)
        return pdl_fail(w->err, PDL_EINVAL,
                        "%s: rank %d needs channel %d, MSCCL's runtime has %d",
                        w->job->alg->name, w->rank, b->channel, CHANNELS);
    if (b->channel >= w->channels)
        w->channels = b->channel + 1;
    return PDL_OK;
}

static void put_rank(struct writer *w, struct pdl_sink *out)
{
    const struct pdl_coll_job *job = w->job;
    int result = job->alg->collective->result;
    int64_t in = job->buf[0].chunks, got = job->buf[result].chunks, scratch = 0;

    for (int b = 1; b < job->nbufs; b++)
        scratch += b == result ? 0 : job->buf[b].chunks;
    in /= names[w->name].parts_in ? job->nranks : 1;
    got /= names[w->name].parts_out ? job->nranks : 1;
    pdl_printf(out,
               "  <gpu id=\"%d\" i_chunks=\"%" PRId64 "\" o_chunks=\"%" PRId64
               "\" s_chunks=\"%" PRId64 "\">\n",
               w->rank, in, got, scratch);
    for (int i = 0; i < w->nblocks; i++) {
        struct block *b = &w->blocks[i];

        pdl_printf(out,
                   "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n",
                   i, b->send, b->recv, b->channel);
        if (b->text.text)
            pdl_put(out, b->text.text, b->text.len);
        pdl_puts(out, "    </tb>\n");
        if (b->text.sink.failed)
            out->failed = true;
    }
    pdl_puts(out, "  </gpu>\n");
}

static enum pdl_status write_rank(struct writer *w, struct pdl_sink *out)
{
    size_t each = (size_t)w->job->nranks * sizeof *w->sent;
    enum pdl_status st = PDL_OK;

    w->nblocks = 0;
    w->nsteps = pdl_coll_nsteps(w->job, w->rank);
    w->mark = PDL_NEW(w->arena, int64_t, w->nsteps + 1);
    if (!w->mark)
        return no_memory(w->err);
    memset(w->sent, 0, each);
    memset(w->received, 0, each);
    memset(w->lines_to, 0, each);
    memset(w->lines_from, 0, each);
    for (int64_t s = 0; st == PDL_OK && s < w->nsteps; s++)
        st = write_step(w, s);
    for (int i = 0; st == PDL_OK && i < w->nblocks; i++)
        st = check_block(w, &w->blocks[i]);
    if (st == PDL_OK)
        put_rank(w, out);
    for (int i = 0; i < w->nblocks; i++)
        pdl_buf_free(&w->blocks[i].text);
    return st;
}

/* ---- the whole ----------------------------------------------------------- */

static enum pdl_status check_job(const struct pdl_coll_job *job, int *name,
                                 struct pdl_err *err)
{
    const char *collective = job->alg->collective->name;

    for (*name = 0; *name < NNAMES; (*name)++)
        if (strcmp(names[*name].ours, collective) == 0)
            break;
    if (*name == NNAMES)
        return pdl_fail(err, PDL_EINVAL, "MSCCL has no %s", collective);
    for (int b = 1; b < job->nbufs; b++)
        if (job->buf[b].count * job->buf[0].chunks !=
            job->buf[0].count * job->buf[b].chunks)
            return pdl_fail(err, PDL_EINVAL,
                            "%s: MSCCL has one size of chunk, buffer %d "
                            "another than buffer 0",
                            job->alg->name, b);
    return PDL_OK;
}

static bool make_room(struct writer *w)
{
    int p = w->job->nranks;

    w->arena = pdl_arena_create((size_t)8 << 30);
    if (!w->arena)
        return false;
    w->blocks = PDL_NEW(w->arena, struct block, BLOCKS);
    w->waits = PDL_NEW(w->arena, struct wait, BLOCKS);
    w->sent = PDL_NEW(w->arena, int64_t, p);
    w->received = PDL_NEW(w->arena, int64_t, p);
    w->lines_to = PDL_NEW(w->arena, int64_t, p);
    w->lines_from = PDL_NEW(w->arena, int64_t, p);
    return w->blocks && w->waits && w->sent && w->received && w->lines_to &&
           w->lines_from;
}

enum pdl_status pdl_coll_print_msccl(const struct pdl_coll_job *job,
                                     struct pdl_sink *out, struct pdl_err *err)
{
    struct writer w = {.job = job, .err = err, .channels = 1};
    bool in_place = job->alg->collective->result == 0;
    enum pdl_status st = check_job(job, &w.name, err);
    struct pdl_buf ranks;

    pdl_buf_init(&ranks);
    if (st == PDL_OK && !make_room(&w))
        st = no_memory(err);
    for (; st == PDL_OK && w.rank < job->nranks; w.rank++)
        st = write_rank(&w, &ranks.sink);
    if (st == PDL_OK) {
        pdl_printf(out,
                   "<algo name=\"%s\" nchunksperloop=\"%" PRId64
                   "\" nchannels=\"%d\" proto=\"Simple\" ngpus=\"%d\" "
                   "coll=\"%s\" inplace=\"%d\" outofplace=\"%d\" "
                   "minBytes=\"0\" maxBytes=\"0\">\n",
                   job->alg->name, job->buf[0].chunks, w.channels, job->nranks,
                   names[w.name].theirs, in_place, !in_place);
        pdl_put(out, ranks.text ? ranks.text : "", ranks.len);
        pdl_puts(out, "</algo>\n");
    }
    out->failed = out->failed || ranks.sink.failed;
    pdl_buf_free(&ranks);
    pdl_arena_destroy(w.arena);
    return st;
}
