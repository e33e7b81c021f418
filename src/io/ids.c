/* SPDX-License-Identifier: Apache-2.0
 *
 * Language data: one long sequence of token numbers for each split, cut into
 * samples of T tokens. Sample i reads items [i*T, i*T + T) and shall predict
 * [i*T + 1, i*T + T + 1): neighbours share one item, none is lost but a tail
 * shorter than a sample. Files stay mapped; a token is checked when it is
 * read. */
#include "io_priv.h"

#include <string.h>

static const double USUAL_HOLDOUT = 0.1; /* the end of the text */

static enum pdl_status read_ids(const pdl_io *io, int split, int64_t from,
                                int64_t n, int32_t *dst, struct pdl_err *err)
{
    const struct io_ids *ids = io->state;
    const unsigned char *p = ids->at[split] + from * ids->width;

    for (int64_t i = 0; i < n; i++, p += ids->width) {
        uint32_t v = p[0];

        if (ids->mapped)
            v = ids->map[v];
        for (int b = 1; b < ids->width; b++)
            v |= (uint32_t)p[b] << (8 * b);
        if (v >= io->d.classes)
            return pdl_fail(err, PDL_EPARSE,
                            "%s: token %u at place %lld of '%s'; the "
                            "vocabulary has %lld",
                            io->path, v, (long long)(from + i),
                            io->d.split[split].name, (long long)io->d.classes);
        dst[i] = (int32_t)v;
    }
    return PDL_OK;
}

static enum pdl_status ids_input(const pdl_io *io, int split, int64_t sample,
                                 const struct pdl_box *box, void *dst,
                                 struct pdl_err *err)
{
    return read_ids(io, split, sample * io->opt.sequence + box->lo[0],
                    box->hi[0] - box->lo[0], dst, err);
}

static enum pdl_status ids_target(const pdl_io *io, int split, int64_t sample,
                                  const struct pdl_box *box, void *dst,
                                  struct pdl_err *err)
{
    return read_ids(io, split, sample * io->opt.sequence + box->lo[0] + 1,
                    box->hi[0] - box->lo[0], dst, err);
}

static const struct io_ops ids_ops = {.input = ids_input, .target = ids_target};

/* False when the items are too few for one sample. */
static bool add_split(pdl_io *io, struct io_ids *ids, const char *name,
                      const unsigned char *at, int64_t items)
{
    int64_t samples = (items - 1) / io->opt.sequence;
    int s;

    if (items < 1 || samples < 1)
        return false;
    s = io_split(io, name);
    ids->at[s] = at;
    io->d.split[s].samples = samples;
    return true;
}

enum pdl_status io_ids_open(pdl_io *io, struct io_ids *ids,
                            const struct pdl_bytes *part, int nparts,
                            struct pdl_err *err)
{
    const unsigned char *at = (const unsigned char *)part[0].data;
    struct pdl_field f = {true, 1, {io->opt.sequence}};
    int64_t items = (int64_t)part[0].len / ids->width, held = 0;

    if (nparts == 1 && items > 0)
        held = io_holdout(io, items, USUAL_HOLDOUT);
    if (!add_split(io, ids, "train", at, items - held))
        return pdl_fail(err, PDL_EPARSE,
                        "%s: %lld tokens to train on; a sample takes %lld",
                        io->path, (long long)(items - held),
                        (long long)io->opt.sequence + 1);
    if (nparts == 1)
        (void)add_split(io, ids, "test", at + (items - held) * ids->width,
                        held);
    else if (!add_split(io, ids, "test", (const unsigned char *)part[1].data,
                        (int64_t)part[1].len / ids->width))
        return pdl_fail(err, PDL_EPARSE,
                        "%s: too few tokens to test; a sample takes %lld",
                        io->path, (long long)io->opt.sequence + 1);
    io->d.input = io->d.target = f;
    io->ops = &ids_ops;
    io->state = ids;
    return PDL_OK;
}

enum pdl_status io_ids_load(pdl_io *io, const struct io_source *src,
                            const char *suffix, struct pdl_bytes *part,
                            int *nparts, struct pdl_err *err)
{
    static const char *const names[] = {"train", "test", "val"};
    enum pdl_status st = PDL_OK;

    *nparts = 0;
    if (!src->folder) {
        *nparts = 1;
        return io_load(io, src->path, part, err);
    }
    for (int i = 0; i < 3 && st == PDL_OK && *nparts < 2; i++) {
        const char *file =
            pdl_arena_printf(io->arena, "%s%s", names[i], suffix);

        if (!file)
            return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", src->path);
        if (io_has_file(src, file)) {
            const char *path = io_join(io->arena, src->path, file);

            if (!path)
                return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", file);
            st = io_load(io, path, &part[(*nparts)++], err);
        }
    }
    if (st == PDL_OK && *nparts == 0)
        st = pdl_fail(err, PDL_EPARSE, "%s: no train%s", src->path, suffix);
    return st;
}
