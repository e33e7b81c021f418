/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a program from text (see text.c). Words and numbers may stand on any
 * line; "#" begins a comment. Every number is checked, so that a program that
 * was read can be simulated without a proof; whether it is right is the
 * verifier's business. */
#include "coll_priv.h"
#include "coll_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#define MAX_CHUNKS ((int64_t)1 << 31)
#define MAX_COUNT  ((int64_t)1 << 50)
enum { MAX_RANKS = 1 << 16 };

/* The first failure sticks: p moves to the end and later reads do nothing. */
struct reader {
    const char *p, *end, *file;
    int line;
    const char *bol; /* where the line begins */
    pdl_arena *arena;
    struct pdl_err *err;
    enum pdl_status st;
    struct pdl_coll_program *prog;
    int rank; /* whose steps are read; -1 before the first */
    int64_t cap;
};

static void bad(struct reader *rd, const char *what)
{
    if (rd->st != PDL_OK)
        return;
    rd->st = pdl_fail(rd->err, PDL_EPARSE, "%s:%d:%d: %s", rd->file, rd->line,
                      (int)(rd->p - rd->bol) + 1, what);
    rd->p = rd->end;
}

static void skip(struct reader *rd)
{
    while (rd->p < rd->end) {
        if (*rd->p == '#') {
            while (rd->p < rd->end && *rd->p != '\n')
                rd->p++;
        } else if (*rd->p == '\n') {
            rd->bol = ++rd->p;
            rd->line++;
        } else if (isspace((unsigned char)*rd->p)) {
            rd->p++;
        } else {
            return;
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* Takes the word when it is next. */
static bool take(struct reader *rd, const char *word)
{
    size_t n = strlen(word);

    skip(rd);
    if ((size_t)(rd->end - rd->p) < n || memcmp(rd->p, word, n) != 0)
        return false;
    if (is_word(word[n - 1]) && rd->p + n < rd->end && is_word(rd->p[n]))
        return false;
    rd->p += n;
    return true;
}

static void need(struct reader *rd, const char *word)
{
    char text[64];

    if (take(rd, word))
        return;
    snprintf(text, sizeof text, "expected '%s'", word);
    bad(rd, text);
}

static const char *name(struct reader *rd)
{
    const char *from;
    char *copy;

    skip(rd);
    from = rd->p;
    while (rd->p < rd->end && is_word(*rd->p))
        rd->p++;
    if (rd->p == from || rd->p - from > 63) {
        bad(rd, "expected a name");
        return "";
    }
    copy = pdl_arena_strndup(rd->arena, from, (size_t)(rd->p - from));
    if (!copy) {
        rd->st = pdl_fail(rd->err, PDL_ENOMEM, "%s: too large", rd->file);
        rd->p = rd->end;
        return "";
    }
    return copy;
}

static int64_t number(struct reader *rd, int64_t min, int64_t max)
{
    bool minus = false;
    const char *from;
    int64_t v = 0;

    skip(rd);
    from = rd->p;
    if (rd->p < rd->end && *rd->p == '-') {
        minus = true;
        rd->p++;
    }
    for (; rd->p < rd->end && isdigit((unsigned char)*rd->p); rd->p++)
        v = v > ((int64_t)1 << 58) ? v : 10 * v + (*rd->p - '0');
    if (rd->p == from + minus) {
        bad(rd, "expected a number");
        return min;
    }
    v = minus ? -v : v;
    if (v < min || v > max) {
        bad(rd, "the number is out of range");
        return min;
    }
    return v;
}

/* ---- the head ------------------------------------------------------------ */

static void read_density(struct reader *rd)
{
    char text[64];
    size_t n = 0;

    skip(rd);
    while (rd->p < rd->end && n + 1 < sizeof text &&
           (isalnum((unsigned char)*rd->p) || strchr(".+-", *rd->p)))
        text[n++] = *rd->p++;
    text[n] = '\0';
    if (pdl_unit_parse(text, PDL_UNIT_NONE, &rd->prog->density, NULL) !=
            PDL_OK ||
        !(rd->prog->density >= 0 && rd->prog->density <= 1))
        bad(rd, "the density is from 0 to 1");
}

static void read_param(struct reader *rd)
{
    const char *key = name(rd);
    int64_t v;

    need(rd, "=");
    v = number(rd, 0, (int64_t)1 << 40);
    for (int i = 0; i < COLL_NPARAMS; i++)
        if (strcmp(coll_params[i].name, key) == 0) {
            memcpy((char *)&rd->prog->params + coll_params[i].offset, &v,
                   sizeof v);
            return;
        }
    bad(rd, "no parameter of that name");
}

static void read_buffer(struct reader *rd)
{
    struct pdl_coll_program *prog = rd->prog;
    struct pdl_coll_buf *buf;

    if (prog->nbufs == PDL_COLL_BUFS) {
        bad(rd, "too many buffers");
        return;
    }
    number(rd, prog->nbufs, prog->nbufs);
    buf = &prog->buf[prog->nbufs];
    need(rd, ":");
    buf->count = number(rd, 0, MAX_COUNT);
    need(rd, "elements");
    buf->chunks = number(rd, 1, MAX_CHUNKS);
    need(rd, "chunks");
    if (rd->st == PDL_OK)
        prog->nbufs++;
}

/* The collective's own numbers must make sense for its definition. */
static void check_head(struct reader *rd)
{
    const struct pdl_coll_program *prog = rd->prog;
    const struct pdl_collective *coll = prog->alg.collective;
    const struct pdl_coll_params *p = &prog->params;
    int64_t chunks = prog->buf[0].chunks, faces = p->z > 1   ? 6
                                                  : p->y > 1 ? 4
                                                             : 2;

    if (rd->st != PDL_OK)
        return;
    if (prog->nbufs <= coll->result)
        bad(rd, "a buffer is missing");
    else if (coll->result > 0 && (prog->buf[1].chunks != chunks ||
                                  prog->buf[1].count != prog->buf[0].count))
        bad(rd, "buffers 0 and 1 differ");
    else if ((coll == &coll_reduce_scatter || coll == &coll_allgather ||
              coll == &coll_alltoall) &&
             chunks % prog->nranks != 0)
        bad(rd, "the chunks are not a multiple of the ranks");
    else if (coll == &coll_broadcast && p->root >= prog->nranks)
        bad(rd, "no such root");
    else if (coll == &coll_halo &&
             (p->x < 1 || p->x > MAX_RANKS || p->y > MAX_RANKS ||
              p->z > MAX_RANKS || p->y < 1 || p->z < 1 ||
              p->x * p->y * p->z != prog->nranks || chunks != faces))
        bad(rd, "the grid does not fit the ranks or the faces");
}

static void read_head(struct reader *rd)
{
    struct pdl_coll_program *prog = rd->prog;
    const struct pdl_collective *coll;
    const char *alg;
    bool sparse = false;

    need(rd, "collective");
    coll = pdl_collective_find(name(rd));
    if (!coll) {
        bad(rd, "no such collective");
        return;
    }
    alg = name(rd);
    need(rd, "ranks");
    prog->nranks = (int)number(rd, 1, MAX_RANKS);
    need(rd, "element");
    prog->elem_bytes = (int)number(rd, 1, 64);
    if (take(rd, "sparse")) {
        sparse = true;
        read_density(rd);
    }
    while (take(rd, "param"))
        read_param(rd);
    while (take(rd, "buffer"))
        read_buffer(rd);
    if (rd->st == PDL_OK && prog->nbufs == 0)
        bad(rd, "expected 'buffer'");
    coll_program_alg(prog, coll, alg, sparse);
    check_head(rd);
}

/* ---- steps --------------------------------------------------------------- */

static void read_spans(struct reader *rd, struct pdl_span *spans, int *n)
{
    do {
        struct pdl_span *s = &spans[*n];

        if (*n == PDL_STEP_SPANS) {
            bad(rd, "too many spans");
            return;
        }
        *s = (struct pdl_span){.run = 1, .n = 1};
        s->buf = (int)number(rd, 0, rd->prog->nbufs - 1);
        need(rd, "[");
        s->first = number(rd, 0, MAX_CHUNKS);
        if (take(rd, ":"))
            s->run = number(rd, 1, MAX_CHUNKS);
        if (take(rd, "*")) {
            s->n = number(rd, 1, MAX_CHUNKS);
            need(rd, "/");
            s->stride = number(rd, -MAX_CHUNKS, MAX_CHUNKS);
        }
        need(rd, "]");
        if (s->n == 1)
            s->stride = 0;
        ++*n;
    } while (take(rd, "+"));
}

static int read_peer(struct reader *rd, const char *word, int *terms)
{
    int peer;

    need(rd, word);
    peer = (int)number(rd, 0, rd->prog->nranks - 1);
    if (take(rd, "terms"))
        *terms = (int)number(rd, 1, rd->prog->nranks);
    return peer;
}

static void read_step(struct reader *rd, struct pdl_step *step)
{
    coll_blank(step);
    if (take(rd, "send")) {
        read_spans(rd, step->send, &step->nsend);
        step->send_to = read_peer(rd, "to", &step->send_terms);
    }
    if (take(rd, "add")) {
        step->act = PDL_ACT_REDUCE;
        read_spans(rd, step->recv, &step->nrecv);
        step->recv_from = read_peer(rd, "from", &step->recv_terms);
    } else if (take(rd, "recv")) {
        read_spans(rd, step->recv, &step->nrecv);
        step->recv_from = read_peer(rd, "from", &step->recv_terms);
    }
    if (step->send_to < 0 && step->recv_from < 0)
        need(rd, "join");
    if (!take(rd, "after"))
        return;
    do {
        if (step->nafter == PDL_STEP_AFTER) {
            bad(rd, "a step waits for at most four");
            return;
        }
        step->after[step->nafter++] = number(rd, 0, INT64_MAX);
    } while (take(rd, ","));
}

static struct pdl_step *room(struct reader *rd)
{
    struct pdl_coll_program *prog = rd->prog;
    int64_t n = prog->nsteps[rd->rank];

    if (n == rd->cap) {
        int64_t cap = n ? 2 * n : 4;
        struct pdl_step *grown =
            pdl_arena_grow(rd->arena, prog->steps[rd->rank], (size_t)n,
                           (size_t)cap, sizeof *grown);

        if (!grown) {
            rd->st = pdl_fail(rd->err, PDL_ENOMEM, "%s: too large", rd->file);
            rd->p = rd->end;
            return NULL;
        }
        prog->steps[rd->rank] = grown;
        rd->cap = cap;
    }
    return &prog->steps[rd->rank][n];
}

/* "rank N", or a step of the rank that is open. */
static void read_body(struct reader *rd)
{
    struct pdl_coll_program *prog = rd->prog;
    struct pdl_coll_job job;
    struct pdl_step *step;
    struct pdl_err why = {"", ""};
    int64_t s;

    if (take(rd, "rank")) {
        rd->rank = (int)number(rd, rd->rank + 1, prog->nranks - 1);
        rd->cap = 0;
        return;
    }
    if (rd->rank < 0) {
        bad(rd, "expected 'rank'");
        return;
    }
    s = prog->nsteps[rd->rank];
    number(rd, s, s);
    need(rd, ":");
    step = rd->st == PDL_OK ? room(rd) : NULL;
    if (!step)
        return;
    read_step(rd, step);
    pdl_coll_program_job(prog, &job);
    if (rd->st == PDL_OK &&
        coll_check_step(&job, rd->rank, s, step, &why) != PDL_OK)
        bad(rd, why.msg);
    prog->nsteps[rd->rank]++;
}

enum pdl_status pdl_coll_parse(pdl_arena *a, struct pdl_bytes text,
                               const char *file, struct pdl_coll_program **out,
                               struct pdl_err *err)
{
    struct reader rd = {.p = text.data,
                        .end = text.data + text.len,
                        .file = file,
                        .line = 1,
                        .bol = text.data,
                        .arena = a,
                        .err = err,
                        .rank = -1};

    rd.prog = PDL_NEW(a, struct pdl_coll_program, 1);
    if (!rd.prog)
        return pdl_fail(err, PDL_ENOMEM, "%s: too large", file);
    read_head(&rd);
    if (rd.st == PDL_OK) {
        rd.prog->nsteps = PDL_NEW(a, int64_t, rd.prog->nranks);
        rd.prog->steps = PDL_NEW(a, struct pdl_step *, rd.prog->nranks);
        if (!rd.prog->nsteps || !rd.prog->steps)
            return pdl_fail(err, PDL_ENOMEM, "%s: too large", file);
    }
    for (skip(&rd); rd.st == PDL_OK && rd.p < rd.end; skip(&rd))
        read_body(&rd);
    if (rd.st == PDL_OK)
        *out = rd.prog;
    return rd.st;
}
