/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain text, a token a byte: the vocabulary is the bytes that occur in the
 * training part, in their order (65 of them in Tiny Shakespeare). Text of
 * other scripts works too, as bytes of UTF-8. */
#include "io_priv.h"

#include <string.h>

enum { SAMPLE = 4096 };

enum pdl_status io_text_open(pdl_io *io, const struct pdl_bytes *part,
                             int nparts, struct pdl_err *err)
{
    struct io_ids *ids = PDL_NEW(io->arena, struct io_ids, 1);
    bool seen[256] = {false};
    int n = 0;

    if (!ids)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", io->path);
    for (int k = 0; k < nparts; k++)
        for (size_t i = 0; i < part[k].len; i++)
            seen[(unsigned char)part[k].data[i]] = true;
    for (int b = 0; b < 256; b++)
        if (seen[b])
            ids->map[b] = (unsigned char)n++;
    ids->width = 1;
    ids->mapped = true;
    io->d.classes = io->opt.classes > n ? io->opt.classes : n;
    return io_ids_open(io, ids, part, nparts, err);
}

static bool text_probe(const struct io_source *src)
{
    if (src->folder)
        return io_has_file(src, "train.txt");
    for (size_t i = 0; i < src->head.len && i < SAMPLE; i++) {
        unsigned char c = (unsigned char)src->head.data[i];

        if (c < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f')
            return false;
    }
    return src->head.len > 0;
}

static enum pdl_status text_open(pdl_io *io, const struct io_source *src,
                                 struct pdl_err *err)
{
    struct pdl_bytes part[PDL_DATA_SPLITS];
    int n;
    enum pdl_status st = io_ids_load(io, src, ".txt", part, &n, err);

    return st == PDL_OK ? io_text_open(io, part, n, err) : st;
}

const struct io_format io_format_text = {
    .pub = {"text", "plain text, a token a byte"},
    .probe = text_probe,
    .open = text_open,
};
