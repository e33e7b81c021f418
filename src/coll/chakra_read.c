/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's file of a Chakra execution trace (Sridharan et al., 2023; schema
 * 1.0.0 of mlcommons/chakra): messages of protobuf, each after its length, the
 * first about the file and every other a node. A node waits for its data_deps;
 * ctrl_deps say who called whom, and nothing waits for that. */
#include "chakra.h"

#include "chakra.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MOST_NODES = 1 << 26, MOST_BYTES = 1 << 30, MOST_PEER = 1 << 22 };
static const int64_t most_size = (int64_t)1 << 48;
static const double longest_s = 1e12; /* beyond any run */

static const struct {
    int number;
    const char *name;
} collectives[] = {
    {0, "allreduce"}, {2, "allgather"},      {5, "broadcast"},
    {6, "alltoall"},  {7, "reduce-scatter"}, {8, "reduce-scatter"},
    {9, "barrier"},
};
enum { NCOLLECTIVES = sizeof collectives / sizeof collectives[0] };

const char *coll_chakra_collective(int number)
{
    for (int i = 0; i < NCOLLECTIVES; i++)
        if (collectives[i].number == number)
            return collectives[i].name;
    return NULL;
}

int coll_chakra_number(const char *collective)
{
    for (int i = 0; i < NCOLLECTIVES; i++)
        if (strcmp(collectives[i].name, collective) == 0)
            return collectives[i].number;
    return -1;
}

bool coll_chakra_reserve(pdl_arena *a, void *list, int64_t n, int64_t *cap,
                         size_t size)
{
    void *at;
    int64_t more = *cap ? 2 * *cap : 64;

    if (n < *cap)
        return true;
    if (n >= MOST_NODES)
        return false;
    memcpy(&at, list, sizeof at); /* of any type */
    at = pdl_arena_grow(a, at, (size_t)n, (size_t)more, size);
    memcpy(list, &at, sizeof at);
    *cap = at ? more : 0;
    return at != NULL;
}

enum pdl_status coll_chakra_no_room(const struct chakra_trace *t)
{
    return pdl_fail(t->err, PDL_ENOMEM, "no memory for the trace");
}

/* ---- messages ------------------------------------------------------------ */

struct reader {
    struct chakra_trace *t;
    struct chakra_rank *r;
    int rank;
    struct pdl_chakra_count *count;
    const uint8_t *at, *end;
    int64_t message;    /* the 0th is about the file */
    pdl_arena *scratch; /* of one message */
};

static enum pdl_status wrong(const struct reader *rd, const char *what)
{
    return pdl_fail(rd->t->err, PDL_EPARSE, "%s: message %" PRId64 " %s",
                    rd->r->name, rd->message, what);
}

static enum pdl_status wrong_node(const struct reader *rd,
                                  const struct chakra_node *n, const char *what)
{
    return pdl_fail(rd->t->err, PDL_EPARSE, "%s: node %" PRIu64 " %s",
                    rd->r->name, (uint64_t)n->id, what);
}

static enum pdl_status next_length(struct reader *rd, size_t *len)
{
    uint64_t v = 0;
    int shift = 0;

    for (; rd->at < rd->end && shift < 35; shift += 7) {
        uint8_t b = *rd->at++;

        v |= (uint64_t)(b & 0x7f) << shift;
        if (b & 0x80)
            continue;
        if (v > (uint64_t)(rd->end - rd->at))
            return wrong(rd, "is longer than the rest of the file");
        *len = (size_t)v;
        return PDL_OK;
    }
    return wrong(rd, "has no length: not a Chakra trace");
}

static void *scratch_alloc(void *arena, size_t size)
{
    return pdl_arena_alloc(arena, 1, size ? size : 1);
}

static void scratch_free(void *arena, void *p)
{
    (void)arena, (void)p;
}

/* ---- attributes ---------------------------------------------------------- */

static bool number_of(const Chakra__Attribute *a, double *real, int64_t *whole)
{
    switch (a->value_case) {
    case CHAKRA__ATTRIBUTE__VALUE_REAL:
        *real = a->real;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_REAL32:
        *real = (double)a->real32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_INT32:
        *whole = a->int32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_INT64:
        *whole = a->int64;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_UINT32:
        *whole = a->uint32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_UINT64:
        *whole = a->uint64 > INT64_MAX ? -1 : (int64_t)a->uint64;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_SINT32:
        *whole = a->sint32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_SINT64:
        *whole = a->sint64;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_FIXED32:
        *whole = a->fixed32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_FIXED64:
        *whole = a->fixed64 > INT64_MAX ? -1 : (int64_t)a->fixed64;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_SFIXED32:
        *whole = a->sfixed32;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_SFIXED64:
        *whole = a->sfixed64;
        break;
    case CHAKRA__ATTRIBUTE__VALUE_FLAG:
        *whole = a->flag;
        break;
    default:
        return false;
    }
    if (a->value_case == CHAKRA__ATTRIBUTE__VALUE_REAL ||
        a->value_case == CHAKRA__ATTRIBUTE__VALUE_REAL32)
        *whole = -1;
    else
        *real = (double)*whole;
    return true;
}

/* What attributes say of a node; -1 and NULL: nothing. */
struct said {
    int64_t type, size, tensor, from, to, tag, stream, host;
    double seconds;
    const char *group;
};

static void read_attribute(const Chakra__Attribute *a, struct said *said)
{
    const struct {
        const char *name;
        int64_t *at;
    } whole[] = {
        {"comm_type", &said->type},     {"comm_size", &said->size},
        {"tensor_size", &said->tensor}, {"comm_src", &said->from},
        {"comm_dst", &said->to},        {"comm_tag", &said->tag},
        {"stream", &said->stream},      {"is_cpu_op", &said->host},
    };
    int64_t n = -1;
    double x = -1;

    if (strcmp(a->name, "pg_name") == 0 &&
        a->value_case == CHAKRA__ATTRIBUTE__VALUE_TEXT && *a->text)
        said->group = a->text;
    if (!number_of(a, &x, &n))
        return;
    if (strcmp(a->name, CHAKRA_SECONDS) == 0)
        said->seconds = x;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (strcmp(a->name, whole[i].name) == 0)
            *whole[i].at = n;
}

/* ---- nodes --------------------------------------------------------------- */

static enum pdl_status time_of(struct reader *rd, const Chakra__Node *m,
                               const struct said *said, struct chakra_node *n)
{
    n->seconds = 1e-6 * (double)m->duration_micros;
    if (said->seconds >= 0)
        n->seconds = said->seconds;
    else if (m->duration_micros == 0)
        rd->count->untimed++;
    if (!(n->seconds <= longest_s))
        return wrong_node(rd, n, "takes longer than any run");
    return PDL_OK;
}

static enum pdl_status message_of(struct reader *rd, const struct said *said,
                                  struct chakra_node *n)
{
    bool sends = n->type == CHAKRA_SEND;
    int64_t own = sends ? said->from : said->to;
    int64_t peer = sends ? said->to : said->from;

    n->bytes = said->size >= 0 ? said->size : said->tensor;
    n->tag = said->tag >= 0 ? said->tag : 0;
    if (n->bytes < 0 || n->bytes > most_size)
        return wrong_node(rd, n, "is a message without comm_size");
    if (peer < 0)
        return wrong_node(rd, n,
                          sends ? "is a send without comm_dst"
                                : "is a receive without comm_src");
    if (own >= 0 && own != rd->rank)
        return wrong_node(rd, n, "is a message of another rank");
    if (peer >= rd->t->nranks)
        return pdl_fail(rd->t->err, PDL_EPARSE,
                        "%s: node %" PRIu64 " names rank %" PRId64 " of %d",
                        rd->r->name, (uint64_t)n->id, peer, rd->t->nranks);
    n->peer = (int)peer;
    rd->count->messages += sends;
    return PDL_OK;
}

static enum pdl_status collective_of(struct reader *rd, const struct said *said,
                                     struct chakra_node *n)
{
    n->bytes = said->size >= 0 ? said->size : said->tensor;
    n->coll = (int)(said->type >= 0 && said->type < 100 ? said->type : -1);
    if (!coll_chakra_collective(n->coll))
        return wrong_node(rd, n,
                          "is a collective other than all-reduce, all-gather, "
                          "reduce-scatter, all-to-all, broadcast and barrier");
    if (n->bytes < 0 && strcmp(coll_chakra_collective(n->coll), "barrier") == 0)
        n->bytes = 0;
    if (n->bytes < 0 || n->bytes > most_size)
        return wrong_node(rd, n, "is a collective without comm_size");
    if (said->group) {
        n->group = pdl_arena_strdup(rd->t->arena, said->group);
        if (!n->group)
            return coll_chakra_no_room(rd->t);
    }
    rd->count->collectives++;
    return PDL_OK;
}

/* Kernels of a stream follow each other; the host has streams of its own. */
static int64_t stream_of(const struct said *said, enum chakra_type type)
{
    int64_t stream = said->stream >= 0 ? said->stream : 0;

    if (type != CHAKRA_COMPUTE && said->stream < 0)
        return CHAKRA_NO_STREAM;
    return stream % CHAKRA_HOST_BIT + (said->host > 0 ? CHAKRA_HOST_BIT : 0);
}

static enum pdl_status kind_of(struct reader *rd, const Chakra__Node *m,
                               const struct said *said, struct chakra_node *n)
{
    switch (n->type) {
    case CHAKRA_METADATA:
        return PDL_OK;
    case CHAKRA_LOAD:
    case CHAKRA_STORE:
        return time_of(rd, m, said, n);
    case CHAKRA_COMPUTE:
        rd->count->computations++;
        return time_of(rd, m, said, n);
    case CHAKRA_SEND:
    case CHAKRA_RECV:
        return message_of(rd, said, n);
    case CHAKRA_COLLECTIVE:
        return collective_of(rd, said, n);
    }
    return wrong_node(rd, n, "has a type that Chakra has not");
}

static enum pdl_status add_node(struct reader *rd, const Chakra__Node *m)
{
    struct said said = {-1, -1, -1, -1, -1, -1, -1, -1, -1, NULL};
    struct chakra_rank *r = rd->r;
    struct chakra_node n = {.id = (int64_t)m->id,
                            .type = (enum chakra_type)m->type,
                            .peer = -1,
                            .coll = -1,
                            .event = -1,
                            .first_after = r->nafter,
                            .nafter = (int64_t)m->n_data_deps};
    enum pdl_status st = PDL_OK;

    if (m->inputs && strstr(m->name, "process_group:init") &&
        (st = coll_chakra_init_groups(rd->t, m->inputs->values, r->name)) !=
            PDL_OK)
        return st;
    for (size_t i = 0; i < m->n_attr; i++)
        read_attribute(m->attr[i], &said);
    if (said.host > 0 && n.type >= CHAKRA_SEND && n.type <= CHAKRA_COLLECTIVE)
        n.type = CHAKRA_COMPUTE; /* the call of what the device does later */
    n.stream = stream_of(&said, n.type);
    st = kind_of(rd, m, &said, &n);
    for (size_t i = 0; i < m->n_data_deps && st == PDL_OK; i++) {
        if (!coll_chakra_reserve(rd->t->arena, &r->after, r->nafter,
                                 &r->after_cap, sizeof *r->after))
            return coll_chakra_no_room(rd->t);
        r->after[r->nafter++] = (int64_t)m->data_deps[i];
    }
    if (st == PDL_OK && !coll_chakra_reserve(rd->t->arena, &r->nodes, r->n,
                                             &r->cap, sizeof *r->nodes))
        return coll_chakra_no_room(rd->t);
    if (st == PDL_OK)
        r->nodes[r->n++] = n;
    rd->count->nodes++;
    return st;
}

static enum pdl_status read_message(struct reader *rd, size_t len)
{
    ProtobufCAllocator alloc = {scratch_alloc, scratch_free, rd->scratch};
    Chakra__Node *m;
    enum pdl_status st = PDL_OK;

    pdl_arena_reset(rd->scratch);
    if (rd->message == 0) {
        if (!chakra__metadata__unpack(&alloc, len, rd->at))
            st = wrong(rd, "is not a Chakra trace's first");
    } else {
        m = chakra__node__unpack(&alloc, len, rd->at);
        st = m ? add_node(rd, m) : wrong(rd, "is no node, or too large");
    }
    rd->at += len;
    rd->message++;
    return st;
}

/* ---- what waits for what ------------------------------------------------- */

struct id {
    int64_t id, place;
};

static int by_id(const void *a, const void *b)
{
    const struct id *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static enum pdl_status find_waits(struct reader *rd, const struct id *ids)
{
    struct chakra_rank *r = rd->r;

    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->nodes[i].nafter; k++) {
            int64_t *after = &r->after[r->nodes[i].first_after + k];
            struct id key = {*after, 0};
            const struct id *at =
                bsearch(&key, ids, (size_t)r->n, sizeof key, by_id);

            if (!at)
                return pdl_fail(rd->t->err, PDL_EPARSE,
                                "%s: node %" PRIu64 " waits for %" PRIu64
                                ", which is not there",
                                r->name, (uint64_t)r->nodes[i].id,
                                (uint64_t)*after);
            *after = at->place;
        }
    return PDL_OK;
}

static enum pdl_status settle(struct reader *rd)
{
    struct chakra_rank *r = rd->r;
    struct id *ids = PDL_NEW(rd->t->arena, struct id, r->n + 1);

    if (!ids)
        return coll_chakra_no_room(rd->t);
    for (int64_t i = 0; i < r->n; i++)
        ids[i] = (struct id){r->nodes[i].id, i};
    if (r->n > 1)
        qsort(ids, (size_t)r->n, sizeof *ids, by_id);
    for (int64_t i = 1; i < r->n; i++)
        if (ids[i].id == ids[i - 1].id)
            return pdl_fail(rd->t->err, PDL_EPARSE,
                            "%s: node %" PRIu64 " is there twice", r->name,
                            (uint64_t)ids[i].id);
    return find_waits(rd, ids);
}

enum pdl_status coll_chakra_read(struct chakra_trace *t, int rank,
                                 struct pdl_bytes in, const char *name,
                                 struct pdl_chakra_count *count)
{
    struct reader rd = {
        .t = t, .r = &t->ranks[rank], .rank = rank, .count = count};
    struct pdl_bytes plain;
    enum pdl_status st =
        pdl_gunzip(t->arena, in, name, MOST_BYTES, &plain, t->err);

    if (st != PDL_OK)
        return st;
    rd.r->name = name;
    rd.at = (const uint8_t *)plain.data;
    rd.end = rd.at + plain.len;
    rd.scratch = pdl_arena_create((size_t)1 << 28);
    if (!rd.scratch)
        return coll_chakra_no_room(t);
    if (plain.len == 0)
        st = pdl_fail(t->err, PDL_EPARSE, "%s: is empty", name);
    while (rd.at < rd.end && st == PDL_OK) {
        size_t len = 0;

        st = next_length(&rd, &len);
        if (st == PDL_OK)
            st = read_message(&rd, len);
    }
    pdl_arena_destroy(rd.scratch);
    return st == PDL_OK ? settle(&rd) : st;
}
