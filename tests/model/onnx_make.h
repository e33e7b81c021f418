/* Writes small ONNX files for tests: the protobuf encoding by hand, so that
 * wrong ones can be written too. Every function appends to a buffer; a graph
 * is a buffer, and so is a node or a tensor before it goes into one. */
#ifndef TESTS_ONNX_MAKE_H
#define TESTS_ONNX_MAKE_H

#include "paradl/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OM_F32 = 1, OM_U8 = 2, OM_I8 = 3, OM_I32 = 6, OM_I64 = 7, OM_BOOL = 9 };

static inline void om_varint(struct pdl_buf *b, uint64_t v)
{
    do {
        char c = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

        pdl_put(&b->sink, &c, 1);
        v >>= 7;
    } while (v);
}

static inline void om_number(struct pdl_buf *b, int field, int64_t v)
{
    om_varint(b, (uint64_t)field << 3);
    om_varint(b, (uint64_t)v);
}

static inline void om_float(struct pdl_buf *b, int field, float v)
{
    om_varint(b, (uint64_t)field << 3 | 5);
    pdl_put(&b->sink, (const char *)&v, sizeof v);
}

static inline void om_bytes(struct pdl_buf *b, int field, const void *p,
                            size_t n)
{
    om_varint(b, (uint64_t)field << 3 | 2);
    om_varint(b, n);
    pdl_put(&b->sink, p, n);
}

static inline void om_text(struct pdl_buf *b, int field, const char *s)
{
    om_bytes(b, field, s, strlen(s));
}

/* Puts a finished message into another and frees it. */
static inline void om_into(struct pdl_buf *b, int field, struct pdl_buf *msg)
{
    om_bytes(b, field, msg->text ? msg->text : "", msg->len);
    pdl_buf_free(msg);
}

/* "2,3" as numbers; -1 ends. */
static inline int om_dims(const char *text, int64_t *out)
{
    int n = 0;

    for (const char *p = text; *p && n < 16;) {
        char *end;

        out[n++] = strtoll(p, &end, 10);
        p = *end == ',' ? end + 1 : end;
    }
    return n;
}

static inline int64_t om_elements(const char *dims)
{
    int64_t d[16], n = 1;
    int rank = om_dims(dims, d);

    for (int i = 0; i < rank; i++)
        n *= d[i];
    return n;
}

/* A tensor with zero bytes as data, or with the whole numbers given. */
static inline void om_tensor_message(struct pdl_buf *t, const char *name,
                                     int type, const char *dims,
                                     const char *ints)
{
    int64_t d[16], v[16];
    int rank = om_dims(dims, d);
    size_t bytes = type == OM_I64                     ? 8
                   : type == OM_F32 || type == OM_I32 ? 4
                                                      : 1;

    for (int i = 0; i < rank; i++)
        om_number(t, 1, d[i]);
    om_number(t, 2, type);
    om_text(t, 8, name);
    if (ints) {
        int n = om_dims(ints, v);
        float f[16];

        for (int i = 0; i < n; i++)
            f[i] = (float)v[i];
        if (type == OM_F32)
            om_bytes(t, 9, f, (size_t)n * sizeof *f);
        else
            om_bytes(t, 9, v, (size_t)n * sizeof *v);
    } else {
        size_t n = (size_t)om_elements(dims) * bytes;
        char *zero = calloc(n + 1, 1);

        om_bytes(t, 9, zero, n);
        free(zero);
    }
}

static inline void om_tensor(struct pdl_buf *g, const char *name, int type,
                             const char *dims, const char *ints)
{
    struct pdl_buf t;

    pdl_buf_init(&t);
    om_tensor_message(&t, name, type, dims, ints);
    om_into(g, 5, &t);
}

/* An input (11), an output (12) or a value_info (13); "N,3" names a
 * dimension. */
static inline void om_value(struct pdl_buf *g, int field, const char *name,
                            int type, const char *dims)
{
    struct pdl_buf v, t, tt, s;

    pdl_buf_init(&v);
    pdl_buf_init(&t);
    pdl_buf_init(&tt);
    pdl_buf_init(&s);
    om_text(&v, 1, name);
    om_number(&tt, 1, type);
    for (const char *p = dims; *p;) {
        size_t n = strcspn(p, ",");
        struct pdl_buf d;

        pdl_buf_init(&d);
        if (*p == '-' || (*p >= '0' && *p <= '9'))
            om_number(&d, 1, strtoll(p, NULL, 10));
        else
            om_bytes(&d, 2, p, n);
        om_into(&s, 1, &d);
        p += n + (p[n] == ',');
    }
    om_into(&tt, 2, &s);
    om_into(&t, 1, &tt);
    om_into(&v, 2, &t);
    om_into(g, field, &v);
}

/* "Conv x,w,b -> y | strides=2,2 group=1 auto_pad=SAME_UPPER"; attributes are
 * integers, lists of them (a comma), floats (a point), or texts. The node stays open:
 * more may be added before om_into(g, 1, &n). "com.microsoft:Op" has a domain. */
static inline void om_open(struct pdl_buf *n, const char *text)
{
    char line[512], *arrow, *bar, *op = line, *ins, *colon;

    pdl_buf_init(n);
    snprintf(line, sizeof line, "%s", text);
    bar = strstr(line, " | ");
    if (bar)
        *bar = '\0';
    arrow = strstr(line, " -> ");
    if (arrow)
        *arrow = '\0';
    ins = strchr(op, ' ');
    if (ins)
        *ins++ = '\0';
    colon = strchr(op, ':');
    if (colon) {
        *colon = '\0';
        om_text(n, 7, op);
        op = colon + 1;
    }
    om_text(n, 4, op);
    for (int side = 0; side < 2; side++) {
        char *p = side ? (arrow ? arrow + 4 : NULL) : ins;

        while (p) {
            char *comma = strchr(p, ',');

            if (comma)
                *comma = '\0';
            om_text(n, side ? 2 : 1, strcmp(p, "_") ? p : "");
            p = comma ? comma + 1 : NULL;
        }
    }
    for (char *p = bar ? bar + 3 : NULL; p && *p;) {
        char *space = strchr(p, ' '), *eq;
        struct pdl_buf a;
        int64_t v[16];
        int count;

        if (space)
            *space = '\0';
        eq = strchr(p, '=');
        pdl_buf_init(&a);
        *eq++ = '\0';
        om_text(&a, 1, p);
        if (*eq != '-' && (*eq < '0' || *eq > '9')) {
            om_text(&a, 4, eq);
        } else if (strchr(eq, '.')) {
            om_float(&a, 2, strtof(eq, NULL));
        } else {
            count = om_dims(eq, v);
            for (int i = 0; i < count; i++)
                om_number(&a, strchr(eq, ',') ? 8 : 3, v[i]);
        }
        om_into(n, 5, &a);
        p = space ? space + 1 : NULL;
    }
}

static inline void om_node(struct pdl_buf *g, const char *text)
{
    struct pdl_buf n;

    om_open(&n, text);
    om_into(g, 1, &n);
}

/* Adds a subgraph as an attribute of an open node. */
static inline void om_body(struct pdl_buf *n, const char *attr,
                           struct pdl_buf *graph)
{
    struct pdl_buf a;

    pdl_buf_init(&a);
    om_text(&a, 1, attr);
    om_into(&a, 6, graph);
    om_into(n, 5, &a);
}

/* Adds a tensor as an attribute of an open node. */
static inline void om_attr_tensor(struct pdl_buf *n, const char *attr, int type,
                                  const char *dims, const char *ints)
{
    struct pdl_buf a, t;

    pdl_buf_init(&a);
    pdl_buf_init(&t);
    om_text(&a, 1, attr);
    om_tensor_message(&t, "", type, dims, ints);
    om_into(&a, 5, &t);
    om_into(n, 5, &a);
}

/* The file around a graph; the graph is freed. */
static inline void om_model(struct pdl_buf *m, struct pdl_buf *graph, int opset)
{
    struct pdl_buf o;

    pdl_buf_init(m);
    pdl_buf_init(&o);
    om_number(m, 1, 8);
    om_number(&o, 2, opset);
    om_into(m, 8, &o);
    om_into(m, 7, graph);
}

#endif
