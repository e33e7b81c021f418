/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a checkpoint, written: JSON, described in
 * doc/formats/checkpoint.md. One rank's part and the whole manifest have the
 * same form. The second key is the XXH3 checksum of the text with the
 * checksum's digits as zeros. */
#include "ckpt_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const char SUM_KEY[] = "\"xxh3\": \"";
enum { DIGITS = 16 };

static void put_hex(struct pdl_json *j, uint64_t v)
{
    char text[DIGITS + 1];

    snprintf(text, sizeof text, "%016" PRIx64, v);
    pdl_json_str(j, text);
}

static void put_text(struct pdl_json *j, const char *key, const char *s)
{
    pdl_json_kstr(j, key, s ? s : "");
}

static void put_state(struct pdl_json *j, const struct pdl_ckpt_state *s)
{
    pdl_json_key(j, "state");
    pdl_json_object(j);
    pdl_json_kint(j, "step", s->step);
    pdl_json_kint(j, "epoch", s->epoch);
    pdl_json_kint(j, "batch", s->batch);
    pdl_json_key(j, "seed"); /* all 64 bits: no JSON number */
    put_hex(j, s->seed);
    pdl_json_kstr(j, "rng", "philox4x32-10");
    pdl_json_kint(j, "samples", s->samples);
    pdl_json_kint(j, "ranks", s->nranks);
    put_text(j, "model", s->model);
    put_text(j, "strategy", s->strategy);
    put_text(j, "optimizer", s->optimizer);
    put_text(j, "data", s->data);
    pdl_json_knum(j, "loss", s->loss);
    pdl_json_key(j, "scalars");
    pdl_json_object(j);
    for (int i = 0; i < s->nscalars; i++)
        pdl_json_knum(j, s->scalars[i].name, s->scalars[i].value);
    pdl_json_end(j);
    pdl_json_key(j, "settings");
    pdl_json_object(j);
    for (int i = 0; i < s->nsettings; i++)
        put_text(j, s->settings[i].name, s->settings[i].value);
    pdl_json_end(j);
    pdl_json_end(j);
}

static void put_ints(struct pdl_json *j, const char *key, const int64_t *v,
                     int n)
{
    pdl_json_key(j, key);
    pdl_json_flat(j);
    for (int i = 0; i < n; i++)
        pdl_json_int(j, v[i]);
    pdl_json_end(j);
}

static void put_shard(struct pdl_json *j, const struct io_shard *s)
{
    pdl_json_row(j);
    pdl_json_kint(j, "file", s->file);
    pdl_json_kint(j, "offset", s->offset);
    put_ints(j, "lo", s->box.lo, s->box.ndims);
    put_ints(j, "hi", s->box.hi, s->box.ndims);
    pdl_json_key(j, "sums");
    pdl_json_flat(j);
    for (int64_t i = 0; i < s->nchunks; i++)
        put_hex(j, s->sum[i]);
    pdl_json_end(j);
    pdl_json_end(j);
}

static void put_tensor(struct pdl_json *j, const struct io_tensor *t)
{
    pdl_json_object(j);
    pdl_json_kstr(j, "name", t->pub.name);
    pdl_json_kstr(j, "dtype", pdl_dtype_name(t->pub.dtype));
    put_ints(j, "shape", t->pub.dim, t->pub.rank);
    pdl_json_key(j, "shards");
    pdl_json_array(j);
    for (int i = 0; i < t->nshards; i++)
        put_shard(j, &t->shard[i]);
    pdl_json_end(j);
    pdl_json_end(j);
}

static void put_all(struct pdl_json *j, const struct pdl_ckpt *c)
{
    pdl_json_schema(j, "checkpoint");
    pdl_json_kstr(j, "xxh3", "0000000000000000");
    pdl_json_key(j, "run");
    put_hex(j, c->run);
    pdl_json_key(j, "owner");
    put_hex(j, c->owner);
    put_state(j, &c->state);
    pdl_json_kint(j, "chunk_bytes", c->chunk_bytes);
    pdl_json_key(j, "files");
    pdl_json_array(j);
    for (int i = 0; i < c->nfiles; i++) {
        pdl_json_row(j);
        pdl_json_kstr(j, "name", c->file[i].name);
        pdl_json_kint(j, "bytes", c->file[i].bytes);
        pdl_json_end(j);
    }
    pdl_json_end(j);
    pdl_json_key(j, "tensors");
    pdl_json_array(j);
    for (int i = 0; i < c->ntensors; i++)
        put_tensor(j, &c->tensor[i]);
    pdl_json_end(j);
    pdl_json_end(j);
}

enum pdl_status io_manifest_print(const struct pdl_ckpt *c, struct pdl_buf *out,
                                  struct pdl_err *err)
{
    struct pdl_json j;
    char digits[DIGITS + 1];
    char *at;

    pdl_json_init(&j, &out->sink);
    put_all(&j, c);
    at = out->sink.failed ? NULL : strstr(out->text, SUM_KEY);
    if (!at)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", c->path);
    snprintf(digits, sizeof digits, "%016" PRIx64,
             (uint64_t)XXH3_64bits(out->text, out->len));
    memcpy(at + strlen(SUM_KEY), digits, DIGITS);
    return PDL_OK;
}
