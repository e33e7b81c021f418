/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files: numbers of 16 or 32 bits, little-endian, one after another, as
 * GPT trainers keep them (train.bin, val.bin), or with the header of 256
 * 32-bit words that llm.c writes (magic 20240520 for 16 bits, 20240801 for
 * 32; the third word is the count).
 *
 * Without that header the width is found from the content: read as 32-bit
 * numbers, the tokens of any vocabulary have small upper halves, while in a
 * file of 16-bit tokens these halves are tokens themselves. The vocabulary is
 * the largest token and one, unless the file is so long that looking would
 * take seconds. */
#include "io_priv.h"

#include <string.h>

enum { HEADER = 1024, LOOK = 1 << 16, MOST_UPPER = 16 };
static const size_t SCAN = (size_t)256 << 20;

static const struct {
    uint32_t magic;
    int width;
} headers[] = {{20240520, 2}, {20240801, 4}};

static uint32_t word(const char *p)
{
    const unsigned char *q = (const unsigned char *)p;

    return q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 |
           (uint32_t)q[3] << 24;
}

/* Removes the header; *width is 0 when there is none. */
static enum pdl_status strip(const pdl_io *io, struct pdl_bytes *part,
                             int *width, struct pdl_err *err)
{
    *width = 0;
    for (size_t i = 0; i < 2 && part->len >= HEADER; i++)
        if (word(part->data) == headers[i].magic) {
            *width = headers[i].width;
            if ((part->len - HEADER) / (size_t)*width != word(part->data + 8))
                return pdl_fail(err, PDL_EPARSE,
                                "%s: the header announces %u tokens, the file "
                                "has %zu",
                                io->path, word(part->data + 8),
                                (part->len - HEADER) / (size_t)*width);
            part->data += HEADER;
            part->len -= HEADER;
            return PDL_OK;
        }
    return PDL_OK;
}

static int find_width(struct pdl_bytes part)
{
    size_t n = part.len < LOOK ? part.len : LOOK;

    if (part.len % 4 != 0 || n == 0)
        return 2;
    for (size_t i = 0; i + 4 <= n; i += 4)
        if (word(part.data + i) >> 16 >= MOST_UPPER)
            return 2;
    return 4;
}

static uint32_t largest(struct pdl_bytes part, int width)
{
    const unsigned char *p = (const unsigned char *)part.data;
    uint32_t max = 0;

    for (size_t i = 0; i + (size_t)width <= part.len; i += (size_t)width) {
        uint32_t v = p[i] | (uint32_t)p[i + 1] << 8;

        if (width == 4)
            v |= (uint32_t)p[i + 2] << 16 | (uint32_t)p[i + 3] << 24;
        max = v > max ? v : max;
    }
    return max;
}

static enum pdl_status find_vocabulary(pdl_io *io, int width,
                                       const struct pdl_bytes *part, int n,
                                       struct pdl_err *err)
{
    uint32_t max = 0;

    for (int k = 0; k < n && io->opt.classes <= 0; k++) {
        uint32_t v = UINT16_MAX;

        if (part[k].len > SCAN && width == 4)
            return pdl_fail(err, PDL_EINVAL,
                            "%s: say how large the vocabulary is", io->path);
        if (part[k].len <= SCAN)
            v = largest(part[k], width);
        max = v > max ? v : max;
    }
    io->d.classes = io->opt.classes > 0 ? io->opt.classes : (int64_t)max + 1;
    return PDL_OK;
}

enum pdl_status io_tokens_open(pdl_io *io, const struct pdl_bytes *given,
                               int nparts, struct pdl_err *err)
{
    struct io_ids *ids = PDL_NEW(io->arena, struct io_ids, 1);
    struct pdl_bytes part[PDL_DATA_SPLITS];
    int width = 0;
    enum pdl_status st = PDL_OK;

    if (!ids)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    for (int k = 0; k < nparts && st == PDL_OK; k++) {
        part[k] = given[k];
        st = strip(io, &part[k], &width, err);
        if (width == 0)
            width = io->opt.token_bytes;
        if (width == 0)
            width = find_width(part[k]);
        if (st == PDL_OK && k > 0 && width != ids->width)
            st = pdl_fail(err, PDL_EPARSE,
                          "%s: tokens of %d bytes here, %d there", io->path,
                          ids->width, width);
        ids->width = width;
        if (st == PDL_OK &&
            ((width != 2 && width != 4) || part[k].len % (size_t)width != 0))
            st = pdl_fail(err, PDL_EPARSE,
                          "%s: %zu bytes are no whole number of tokens of %d",
                          io->path, part[k].len, width);
    }
    if (st == PDL_OK)
        st = find_vocabulary(io, width, part, nparts, err);
    return st == PDL_OK ? io_ids_open(io, ids, part, nparts, err) : st;
}

static bool tokens_probe(const struct io_source *src)
{
    if (src->folder)
        return io_has_file(src, "train.bin");
    return src->head.len >= 4 && io_has_suffix(src->path, ".bin");
}

static enum pdl_status tokens_open(pdl_io *io, const struct io_source *src,
                                   struct pdl_err *err)
{
    struct pdl_bytes part[PDL_DATA_SPLITS];
    int n;
    enum pdl_status st = io_ids_load(io, src, ".bin", part, &n, err);

    return st == PDL_OK ? io_tokens_open(io, part, n, err) : st;
}

const struct io_format io_format_tokens = {
    .pub = {"tokens", "token numbers of 16 or 32 bits (train.bin, val.bin)"},
    .probe = tokens_probe,
    .open = tokens_open,
};
