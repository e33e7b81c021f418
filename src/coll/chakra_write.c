/* SPDX-License-Identifier: Apache-2.0
 *
 * Chakra execution traces, written: schema 1.0.0, with the attributes that
 * its feeder reads, each in the type it reads them in. */
#include "chakra.h"

#include "chakra.pb-c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_ATTRIBUTES = 8 };

/* A length, and the message. */
static enum pdl_status put(const ProtobufCMessage *m, struct pdl_sink *out,
                           struct pdl_err *err)
{
    size_t len = protobuf_c_message_get_packed_size(m), rest = len;
    uint8_t *bytes = malloc(len ? len : 1);
    char head[10];
    size_t n = 0;

    if (!bytes)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    do {
        head[n++] = (char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        rest >>= 7;
    } while (rest);
    protobuf_c_message_pack(m, bytes);
    pdl_put(out, head, n);
    pdl_put(out, (const char *)bytes, len);
    free(bytes);
    return out->failed ? pdl_fail(err, PDL_ENOMEM, "out of memory") : PDL_OK;
}

enum pdl_status pdl_chakra_begin(struct pdl_sink *out, struct pdl_err *err)
{
    Chakra__Metadata m = CHAKRA__METADATA__INIT;
    char version[] = "1.0.0";

    m.version = version;
    return put(&m.base, out, err);
}

/* ---- attributes ---------------------------------------------------------- */

struct attributes {
    Chakra__Attribute list[MOST_ATTRIBUTES], *at[MOST_ATTRIBUTES];
    size_t n;
};

/* The generated members are not const; nobody writes through them. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static Chakra__Attribute *attribute(struct attributes *a, const char *name,
                                    Chakra__Attribute__ValueCase kind)
{
    Chakra__Attribute *new = &a->list[a->n];

    chakra__attribute__init(new);
    new->name = text(name);
    new->value_case = kind;
    a->at[a->n++] = new;
    return new;
}

static void add_int64(struct attributes *a, const char *name, int64_t v)
{
    attribute(a, name, CHAKRA__ATTRIBUTE__VALUE_INT64)->int64 = v;
}

static void add_int32(struct attributes *a, const char *name, int64_t v)
{
    attribute(a, name, CHAKRA__ATTRIBUTE__VALUE_INT32)->int32 = (int32_t)v;
}

static void add_message(struct attributes *a, const struct pdl_chakra_node *n)
{
    bool sends = n->kind == PDL_CHAKRA_SEND;

    add_int64(a, "comm_size", n->bytes);
    add_int32(a, "comm_src", sends ? n->rank : n->peer);
    add_int32(a, "comm_dst", sends ? n->peer : n->rank);
    add_int32(a, "comm_tag", n->tag);
}

static enum pdl_status add_attributes(struct attributes *a,
                                      const struct pdl_chakra_node *n,
                                      struct pdl_err *err)
{
    attribute(a, "is_cpu_op", CHAKRA__ATTRIBUTE__VALUE_FLAG)->flag = false;
    if (n->stream >= 0)
        add_int64(a, "stream", n->stream);
    if (n->kind == PDL_CHAKRA_COMPUTE)
        attribute(a, CHAKRA_SECONDS, CHAKRA__ATTRIBUTE__VALUE_REAL)->real =
            n->seconds;
    if (n->kind == PDL_CHAKRA_SEND || n->kind == PDL_CHAKRA_RECV)
        add_message(a, n);
    if (n->kind != PDL_CHAKRA_COLLECTIVE)
        return PDL_OK;
    if (coll_chakra_number(n->collective) < 0)
        return pdl_fail(err, PDL_EINVAL, "Chakra's traces have no %s",
                        n->collective);
    add_int64(a, "comm_type", coll_chakra_number(n->collective));
    add_int64(a, "comm_size", n->bytes);
    if (n->group)
        attribute(a, "pg_name", CHAKRA__ATTRIBUTE__VALUE_TEXT)->text =
            text(n->group);
    return PDL_OK;
}

static const int types[] = {CHAKRA_METADATA, CHAKRA_COMPUTE, CHAKRA_SEND,
                            CHAKRA_RECV, CHAKRA_COLLECTIVE};

enum pdl_status pdl_chakra_put(const struct pdl_chakra_node *n,
                               struct pdl_sink *out, struct pdl_err *err)
{
    Chakra__Node m = CHAKRA__NODE__INIT;
    struct attributes a = {.n = 0};
    enum pdl_status st = add_attributes(&a, n, err);

    if (st != PDL_OK)
        return st;
    m.id = (uint64_t)n->id;
    m.name = text(n->name);
    m.type = types[n->kind];
    m.start_time_micros = (uint64_t)llround(n->start_s * 1e6);
    m.duration_micros = (uint64_t)llround(n->seconds * 1e6);
    m.n_attr = a.n;
    m.attr = a.at;
    m.n_data_deps = (size_t)n->nafter;
    m.data_deps = malloc((size_t)(n->nafter + 1) * sizeof *m.data_deps);
    if (!m.data_deps)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < n->nafter; i++)
        m.data_deps[i] = (uint64_t)n->after[i];
    st = put(&m.base, out, err);
    free(m.data_deps);
    return st;
}

/* ---- traffic ------------------------------------------------------------- */

/* Operation i is up to three nodes: 3i computes, or says what all of it waits
 * for; 3i + 1 sends and 3i + 2 receives. */
enum { OF_OP = 3 };

/* The nodes that end an operation; how many. */
static int ends_of(const struct pdl_traffic *t, int rank, int64_t i,
                   int64_t *out)
{
    struct pdl_traffic_op op;
    int n = 0;

    t->op(t->ctx, rank, i, &op);
    if (op.send_to >= 0)
        out[n++] = OF_OP * i + 1;
    if (op.recv_from >= 0)
        out[n++] = OF_OP * i + 2;
    if (n == 0)
        out[n++] = OF_OP * i;
    return n;
}

static enum pdl_status put_messages(const struct pdl_traffic_op *op, int rank,
                                    int64_t i, struct pdl_chakra_node *n,
                                    struct pdl_sink *out, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    n->seconds = 0;
    n->stream = -1;
    n->rank = rank;
    if (op->send_to >= 0) {
        n->id = OF_OP * i + 1;
        n->kind = PDL_CHAKRA_SEND;
        n->name = "send";
        n->peer = op->send_to;
        n->bytes = op->send_bytes;
        st = pdl_chakra_put(n, out, err);
    }
    if (op->recv_from >= 0 && st == PDL_OK) {
        n->id = OF_OP * i + 2;
        n->kind = PDL_CHAKRA_RECV;
        n->name = "receive";
        n->peer = op->recv_from;
        n->bytes = op->recv_bytes;
        st = pdl_chakra_put(n, out, err);
    }
    return st;
}

/* What nothing orders may be done at once: a computation has a stream of its
 * own. */
static enum pdl_status put_op(const struct pdl_traffic *t, int rank, int64_t i,
                              struct pdl_sink *out, struct pdl_err *err)
{
    int64_t after[2 * PDL_STEP_AFTER];
    struct pdl_chakra_node n = {
        .id = OF_OP * i, .name = "wait", .stream = -1, .after = after};
    struct pdl_traffic_op op;
    enum pdl_status st = PDL_OK;

    t->op(t->ctx, rank, i, &op);
    for (int k = 0; k < op.nafter; k++)
        n.nafter += ends_of(t, rank, op.after[k], after + n.nafter);
    if (op.compute_s > 0) {
        n.kind = PDL_CHAKRA_COMPUTE;
        n.name = "compute";
        n.seconds = op.compute_s;
        n.stream = i;
    }
    if (op.compute_s > 0 || (op.send_to < 0 && op.recv_from < 0)) {
        st = pdl_chakra_put(&n, out, err);
        n.nafter = 1;
        after[0] = n.id;
    }
    return st == PDL_OK ? put_messages(&op, rank, i, &n, out, err) : st;
}

enum pdl_status pdl_coll_write_chakra(const struct pdl_traffic *t, int rank,
                                      struct pdl_sink *out, struct pdl_err *err)
{
    int64_t n = t->nops(t->ctx, rank);
    enum pdl_status st = pdl_chakra_begin(out, err);

    for (int64_t i = 0; i < n && st == PDL_OK; i++)
        st = put_op(t, rank, i, out, err);
    return st;
}
