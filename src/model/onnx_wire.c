/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire walk: one pass over the protobuf encoding of an ONNX file that
 * copies what onnx.proto names and leaves out the rest, above all the weights.
 *
 * Why: protobuf-c copies every bytes field and every unknown field, so a file
 * of 400 MB would cost 800 MB. Here a payload is skipped by its length and its
 * pages of the mapped file are never touched. Small payloads (KEEP bytes) stay:
 * shapes, axes and indices live there.
 *
 * The copy is never longer than the original: a message keeps the width of its
 * length, padded (a varint may carry leading zero groups). Depth is bounded,
 * because the unpacker behind this recurses without a limit of its own.
 *
 * Source: the protobuf encoding guide; field numbers of the ONNX format. */
#include "onnx_priv.h"

#include <sys/mman.h>

enum { KEEP = 4096, MAX_DEPTH = 200 };

enum msg {
    M_NONE,
    M_MODEL,
    M_GRAPH,
    M_NODE,
    M_ATTR,
    M_TENSOR,
    M_SPARSE,
    M_VALUE,
    M_TYPE,
    M_TYPE_TENSOR,
    M_SHAPE,
    M_DIM,
    M_OPSET,
    M_FUNCTION,
    M_ENTRY,
};

enum wire { W_VARINT = 0, W_64 = 1, W_LEN = 2, W_32 = 5 };

/* REPEATED scalars may come packed, PAYLOAD may be left out. */
enum { ONE = 0, REPEATED = 1, PAYLOAD = 3 };

struct field {
    enum msg in;
    uint32_t number;
    enum wire wire;
    int flags;
    enum msg child; /* M_NONE: copied as it is */
};

// clang-format off
static const struct field fields[] = {
    {M_MODEL, 1, W_VARINT, ONE, M_NONE},   {M_MODEL, 2, W_LEN, ONE, M_NONE},
    {M_MODEL, 7, W_LEN, ONE, M_GRAPH},     {M_MODEL, 8, W_LEN, ONE, M_OPSET},
    {M_MODEL, 25, W_LEN, ONE, M_FUNCTION},
    {M_GRAPH, 1, W_LEN, ONE, M_NODE},      {M_GRAPH, 2, W_LEN, ONE, M_NONE},
    {M_GRAPH, 5, W_LEN, ONE, M_TENSOR},    {M_GRAPH, 11, W_LEN, ONE, M_VALUE},
    {M_GRAPH, 12, W_LEN, ONE, M_VALUE},    {M_GRAPH, 13, W_LEN, ONE, M_VALUE},
    {M_GRAPH, 15, W_LEN, ONE, M_SPARSE},
    {M_NODE, 1, W_LEN, ONE, M_NONE},       {M_NODE, 2, W_LEN, ONE, M_NONE},
    {M_NODE, 3, W_LEN, ONE, M_NONE},       {M_NODE, 4, W_LEN, ONE, M_NONE},
    {M_NODE, 5, W_LEN, ONE, M_ATTR},       {M_NODE, 7, W_LEN, ONE, M_NONE},
    {M_ATTR, 1, W_LEN, ONE, M_NONE},       {M_ATTR, 2, W_32, ONE, M_NONE},
    {M_ATTR, 3, W_VARINT, ONE, M_NONE},    {M_ATTR, 4, W_LEN, PAYLOAD, M_NONE},
    {M_ATTR, 5, W_LEN, ONE, M_TENSOR},     {M_ATTR, 6, W_LEN, ONE, M_GRAPH},
    {M_ATTR, 7, W_32, PAYLOAD, M_NONE},    {M_ATTR, 8, W_VARINT, PAYLOAD, M_NONE},
    {M_ATTR, 9, W_LEN, PAYLOAD, M_NONE},   {M_ATTR, 11, W_LEN, ONE, M_GRAPH},
    {M_ATTR, 20, W_VARINT, ONE, M_NONE},   {M_ATTR, 21, W_LEN, ONE, M_NONE},
    {M_ATTR, 22, W_LEN, ONE, M_SPARSE},
    {M_TENSOR, 1, W_VARINT, REPEATED, M_NONE}, {M_TENSOR, 2, W_VARINT, ONE, M_NONE},
    {M_TENSOR, 4, W_32, PAYLOAD, M_NONE},  {M_TENSOR, 5, W_VARINT, PAYLOAD, M_NONE},
    {M_TENSOR, 6, W_LEN, PAYLOAD, M_NONE}, {M_TENSOR, 7, W_VARINT, PAYLOAD, M_NONE},
    {M_TENSOR, 8, W_LEN, ONE, M_NONE},     {M_TENSOR, 9, W_LEN, PAYLOAD, M_NONE},
    {M_TENSOR, 10, W_64, PAYLOAD, M_NONE}, {M_TENSOR, 11, W_VARINT, PAYLOAD, M_NONE},
    {M_TENSOR, 13, W_LEN, ONE, M_ENTRY},   {M_TENSOR, 14, W_VARINT, ONE, M_NONE},
    {M_SPARSE, 1, W_LEN, ONE, M_TENSOR},   {M_SPARSE, 2, W_LEN, ONE, M_TENSOR},
    {M_SPARSE, 3, W_VARINT, REPEATED, M_NONE},
    {M_VALUE, 1, W_LEN, ONE, M_NONE},      {M_VALUE, 2, W_LEN, ONE, M_TYPE},
    {M_TYPE, 1, W_LEN, ONE, M_TYPE_TENSOR},
    {M_TYPE_TENSOR, 1, W_VARINT, ONE, M_NONE}, {M_TYPE_TENSOR, 2, W_LEN, ONE, M_SHAPE},
    {M_SHAPE, 1, W_LEN, ONE, M_DIM},
    {M_DIM, 1, W_VARINT, ONE, M_NONE},     {M_DIM, 2, W_LEN, ONE, M_NONE},
    {M_OPSET, 1, W_LEN, ONE, M_NONE},      {M_OPSET, 2, W_VARINT, ONE, M_NONE},
    {M_FUNCTION, 1, W_LEN, ONE, M_NONE},   {M_FUNCTION, 4, W_LEN, ONE, M_NONE},
    {M_FUNCTION, 5, W_LEN, ONE, M_NONE},   {M_FUNCTION, 6, W_LEN, ONE, M_NONE},
    {M_FUNCTION, 7, W_LEN, ONE, M_NODE},   {M_FUNCTION, 9, W_LEN, ONE, M_OPSET},
    {M_FUNCTION, 10, W_LEN, ONE, M_NONE},  {M_FUNCTION, 11, W_LEN, ONE, M_ATTR},
    {M_ENTRY, 1, W_LEN, ONE, M_NONE},      {M_ENTRY, 2, W_LEN, ONE, M_NONE},
};
// clang-format on

struct walk {
    const uint8_t *data;
    const char *name;
    struct pdl_buf *out;
    struct pdl_err *err;
    size_t given_up; /* pages before this are no longer needed */
};

/* One field on the wire. */
struct item {
    size_t start, payload, end; /* tag, what follows the length, next */
    int len_bytes;              /* width of the length */
    uint32_t number;
    enum wire wire;
};

/* What a tensor has kept and lost so far. */
struct loss {
    size_t kept, dropped;
    uint32_t field;
};

static enum pdl_status bad(const struct walk *w, size_t at, const char *what)
{
    return pdl_fail(w->err, PDL_EPARSE, "%s: byte %zu: %s", w->name, at, what);
}

static bool varint(const uint8_t *p, size_t *at, size_t end, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 70; shift += 7) {
        uint8_t b;

        if (*at >= end)
            return false;
        b = p[(*at)++];
        if (shift == 63 && b > 1)
            return false;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* Reads the tag and finds the field's end, without touching its payload. */
static enum pdl_status next_item(const struct walk *w, size_t at, size_t end,
                                 struct item *it)
{
    uint64_t tag, len = 0;
    size_t start = at, before;

    if (!varint(w->data, &at, end, &tag))
        return bad(w, start, "truncated or malformed tag");
    *it = (struct item){.start = start,
                        .number = (uint32_t)(tag >> 3),
                        .wire = (enum wire)(tag & 7)};
    if (tag > UINT32_MAX || it->number == 0)
        return bad(w, start, "not a valid field number");
    before = at;
    switch (it->wire) {
    case W_VARINT:
        if (!varint(w->data, &at, end, &len))
            return bad(w, start, "truncated or overlong number");
        it->payload = before;
        it->end = at;
        return PDL_OK;
    case W_LEN:
        if (!varint(w->data, &at, end, &len))
            return bad(w, start, "truncated or malformed length");
        it->len_bytes = (int)(at - before);
        break;
    case W_32:
        len = 4;
        break;
    case W_64:
        len = 8;
        break;
    default:
        return bad(w, start, "wire type that ONNX does not use");
    }
    if (len > end - at)
        return bad(w, start, "field reaches past the end of its message");
    it->payload = at;
    it->end = at + (size_t)len;
    return PDL_OK;
}

static const struct field *find_field(enum msg in, uint32_t number)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].in == in && fields[i].number == number)
            return &fields[i];
    return NULL;
}

static void put_varint(struct walk *w, uint64_t v, int width)
{
    uint8_t b[10];
    int n = 0;

    do {
        b[n++] = (uint8_t)(v & 0x7f);
        v >>= 7;
    } while (v || n < width);
    for (int i = 0; i + 1 < n; i++)
        b[i] |= 0x80;
    pdl_put(&w->out->sink, (const char *)b, (size_t)n);
}

/* Overwrites a length that was reserved with put_varint(0, width). */
static void patch_length(struct walk *w, size_t at, size_t len, int width)
{
    if (w->out->sink.failed)
        return;
    for (int i = 0; i < width; i++, len >>= 7)
        w->out->text[at + (size_t)i] =
            (char)((len & 0x7f) | (i + 1 < width ? 0x80 : 0));
}

static void copy_item(struct walk *w, const struct item *it)
{
    put_varint(w, (uint64_t)it->number << 3 | (uint64_t)it->wire, 1);
    if (it->wire == W_LEN)
        put_varint(w, it->end - it->payload, 1);
    pdl_put(&w->out->sink, (const char *)w->data + it->payload,
            it->end - it->payload);
}

/* A payload stays when it is small and nothing of the tensor is lost yet. */
static void payload_item(struct walk *w, const struct item *it, struct loss *l)
{
    size_t len = it->end - it->payload;

    if (l->dropped || l->kept + len > KEEP) {
        l->dropped += len;
        l->field = it->number;
        return;
    }
    l->kept += len;
    copy_item(w, it);
}

static void put_loss(struct walk *w, const struct loss *l)
{
    if (!l->dropped)
        return;
    put_varint(w, (uint64_t)ONNX_DROPPED_BYTES << 3, 1);
    put_varint(w, l->dropped, 1);
    put_varint(w, (uint64_t)ONNX_DROPPED_FIELD << 3, 1);
    put_varint(w, l->field, 1);
}

static bool wire_fits(const struct field *f, enum wire got)
{
    return got == f->wire || (got == W_LEN && (f->flags & REPEATED));
}

/* A fault on one byte of a mapped file brings in its neighbours too: over
 * thousands of tensors that adds up to the whole file. What has been walked is
 * handed back to the kernel, which may refuse; the bytes stay valid. */
static void give_up(struct walk *w, size_t at)
{
    enum { STRIDE = 8 << 20 };
    uintptr_t page = 4095, from, to;

    if (at < w->given_up + STRIDE)
        return;
    from = ((uintptr_t)w->data + w->given_up + page) & ~page;
    to = ((uintptr_t)w->data + at) & ~page;
    w->given_up = at;
#ifdef MADV_PAGEOUT
    if (to > from)
        (void)madvise((void *)from, to - from, MADV_PAGEOUT);
#endif
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by MAX_DEPTH
static enum pdl_status message(struct walk *w, enum msg m, size_t at,
                               size_t end, int depth)
{
    struct loss loss = {0};

    if (depth > MAX_DEPTH)
        return bad(w, at, "graphs are nested too deeply");
    while (at < end) {
        struct item it;
        const struct field *f;
        enum pdl_status st = next_item(w, at, end, &it);

        if (st)
            return st;
        at = it.end;
        give_up(w, it.start);
        f = find_field(m, it.number);
        if (!f)
            continue;
        if (!wire_fits(f, it.wire))
            return bad(w, it.start, "field of the wrong type");
        if (f->flags == PAYLOAD) {
            payload_item(w, &it, &loss);
        } else if (f->child == M_NONE) {
            copy_item(w, &it);
        } else {
            int width = it.len_bytes > 5 ? 5 : it.len_bytes;
            size_t mark;

            put_varint(w, (uint64_t)it.number << 3 | W_LEN, 1);
            mark = w->out->len;
            put_varint(w, 0, width);
            st = message(w, f->child, it.payload, it.end, depth + 1);
            if (st)
                return st;
            patch_length(w, mark, w->out->len - mark - (size_t)width, width);
        }
        if (w->out->sink.failed)
            return pdl_fail(w->err, PDL_ENOMEM, "%s: out of memory", w->name);
    }
    put_loss(w, &loss);
    return PDL_OK;
}

enum pdl_status model_onnx_strip(struct pdl_bytes in, const char *name,
                                 struct pdl_buf *out, struct pdl_err *err)
{
    static const char lfs[] = "version https://git-lfs";
    struct walk w = {
        .data = (const uint8_t *)in.data, .name = name, .out = out, .err = err};

    if (in.len == 0)
        return pdl_fail(err, PDL_EPARSE, "%s: the file is empty", name);
    if (in.len > sizeof lfs && memcmp(in.data, lfs, sizeof lfs - 1) == 0) {
        pdl_say(err, "%s: a Git LFS pointer, not the file itself", name);
        pdl_hint(err, "git lfs pull");
        return PDL_EPARSE;
    }
    return message(&w, M_MODEL, 0, in.len, 0);
}
