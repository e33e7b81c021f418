/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event files: TFRecords of Event messages. A record is the
 * length (8 bytes), its masked CRC-32C, the message, its masked CRC-32C; a
 * message has the wall clock (field 1), the step (2) and either the version
 * of the format (3) or a summary (5) of values {tag (1), simple_value (2)}.
 * Layout: tensorflow/core/lib/io/record_writer.h, util/event.proto. */
#include "events.h"

#include <string.h>
#include <time.h>

/* Castagnoli's polynomial, bits reversed; a row is a few hundred bytes. */
uint32_t io_crc32c(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint32_t c = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ UINT32_C(0x82f63b78) : c >> 1;
    }
    return ~c;
}

static uint32_t masked(const void *data, size_t n)
{
    uint32_t c = io_crc32c(data, n);

    return (c >> 15 | c << 17) + UINT32_C(0xa282ead8);
}

/* ---- writing ---------------------------------------------------------- */

static void put_bytes(struct pdl_sink *out, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) {
        char c = (char)(v >> 8 * i & 0xff);

        pdl_put(out, &c, 1);
    }
}

static void put_varint(struct pdl_sink *out, uint64_t v)
{
    do {
        put_bytes(out, v > 127 ? (v & 127) | 128 : v, 1);
        v >>= 7;
    } while (v > 0);
}

static void put_text(struct pdl_sink *out, int field, const char *text,
                     size_t n)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, n);
    pdl_put(out, text, n);
}

static void put_event(struct pdl_sink *out, const struct pdl_buf *b)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(b->len >> 8 * i & 0xff);
    pdl_put(out, (const char *)length, 8);
    put_bytes(out, masked(length, 8), 4);
    pdl_put(out, b->text, b->len);
    put_bytes(out, masked(b->text, b->len), 4);
    out->failed = out->failed || b->sink.failed;
}

static void begin(struct pdl_buf *b, int64_t step)
{
    struct timespec now = {0, 0};
    double wall;
    uint64_t bits;

    timespec_get(&now, TIME_UTC);
    wall = step < 0 ? 0 : (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &wall, sizeof bits);
    pdl_buf_init(b);
    put_varint(&b->sink, 1 << 3 | 1);
    put_bytes(&b->sink, bits, 8);
    put_varint(&b->sink, 2 << 3 | 0);
    put_varint(&b->sink, step < 0 ? 0 : (uint64_t)step);
}

/* The same bytes every time: a file is known by them. */
void io_events_head(struct pdl_sink *out)
{
    static const char version[] = "brain.Event:2";
    struct pdl_buf b;

    begin(&b, -1);
    put_text(&b.sink, 3, version, sizeof version - 1);
    put_event(out, &b);
    pdl_buf_free(&b);
}

void io_events_row(const char *const *tag, int n, int64_t step, const double *v,
                   struct pdl_sink *out)
{
    struct pdl_buf b, all, one;

    begin(&b, step);
    pdl_buf_init(&all);
    for (int i = 0; i < n; i++) {
        float f = (float)v[i];
        uint32_t bits;

        memcpy(&bits, &f, sizeof bits);
        pdl_buf_init(&one);
        put_text(&one.sink, 1, tag[i], strlen(tag[i]));
        put_varint(&one.sink, 2 << 3 | 5);
        put_bytes(&one.sink, bits, 4);
        put_text(&all.sink, 1, one.text ? one.text : "", one.len);
        all.sink.failed = all.sink.failed || one.sink.failed;
        pdl_buf_free(&one);
    }
    put_text(&b.sink, 5, all.text ? all.text : "", all.len);
    b.sink.failed = b.sink.failed || all.sink.failed;
    put_event(out, &b);
    pdl_buf_free(&all);
    pdl_buf_free(&b);
}

/* ---- reading what was written ----------------------------------------- */

static uint64_t get_bytes(const char *p, int n)
{
    uint64_t v = 0;

    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

int64_t io_events_record(const char *p, const char *end, int64_t *step)
{
    uint64_t n;
    int shift = 0;

    if (end - p < 16 || get_bytes(p + 8, 4) != masked(p, 8))
        return 0;
    n = get_bytes(p, 8);
    if (n > (uint64_t)(end - p - 16) || n < 11 ||
        get_bytes(p + 12 + n, 4) != masked(p + 12, n) || p[21] != (2 << 3))
        return 0;
    *step = 0;
    for (uint64_t i = 10; i < n && shift < 63; i++, shift += 7) {
        unsigned char c = (unsigned char)p[12 + i];

        *step |= (int64_t)(c & 127) << shift;
        if (c < 128)
            break;
    }
    return (int64_t)n + 16;
}
