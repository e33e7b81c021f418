/* SPDX-License-Identifier: Apache-2.0
 *
 * Data sets as people plan with them: how many samples, how large, in how many
 * files. By a number, a name, or a description in YAML:
 *
 *     format: paradl-data/1
 *     name: imagenet
 *     samples: 1281167
 *     bytes: 110kB          of a sample in its file
 *     files: 1281167        0 or left out: so few that opening costs nothing
 *     stored: 150kB         of a sample in a store (default: bytes)
 *     load: 5ms             of a worker for a sample, that nothing hides
 *     exchange: 4ms         of a worker for a sample that it exchanges
 */
#include "data_priv.h"

#include <string.h>

/* Counts are the authors'; bytes: the archive's over its files for ImageNet,
 * the size of a record else. */
static const struct pdl_data_about known[] = {
    {"imagenet", 1281167, 1281167, 110e3, 150528 + 8, 0, 0},
    {"cifar10", 50000, 0, 3073, 3080, 0, 0},
    {"mnist", 60000, 0, 785, 792, 0, 0},
    {"fashion-mnist", 60000, 0, 785, 792, 0, 0},
};
enum { NKNOWN = sizeof known / sizeof known[0] };

static enum pdl_status read_numbers(const struct pdl_doc *d,
                                    struct pdl_data_about *out,
                                    struct pdl_err *err)
{
    const double large = 1e15;
    const struct {
        const char *key;
        enum pdl_unit unit;
        double *to;
    } all[] = {{"bytes", PDL_UNIT_BYTES, &out->bytes},
               {"stored", PDL_UNIT_BYTES, &out->stored_bytes},
               {"load", PDL_UNIT_SECONDS, &out->load_s},
               {"exchange", PDL_UNIT_SECONDS, &out->exchange_s}};
    enum pdl_status st = PDL_OK;

    for (size_t i = 0; i < sizeof all / sizeof all[0] && st == PDL_OK; i++) {
        const struct pdl_doc *x = pdl_doc_get(d, all[i].key);

        if (x)
            st = pdl_doc_num(x, all[i].unit, 0, large, all[i].to, err);
    }
    return st;
}

enum pdl_status pdl_data_about_read(pdl_arena *a, struct pdl_bytes in,
                                    const char *name,
                                    struct pdl_data_about *out,
                                    struct pdl_err *err)
{
    static const char *const keys[] = {"format", "name",     "samples",
                                       "bytes",  "files",    "stored",
                                       "load",   "exchange", NULL};
    const int64_t most = (int64_t)1 << 50;
    struct pdl_data_about x = {.name = name};
    const struct pdl_doc *d = NULL, *v;
    const char *format = "";
    enum pdl_status st = pdl_doc_yaml(a, in, name, &d, err);

    if (st != PDL_OK)
        return st;
    st = pdl_doc_only(d, keys, err);
    v = st == PDL_OK ? pdl_doc_get(d, "format") : NULL;
    if (v)
        st = pdl_doc_str(v, &format, err);
    if (st == PDL_OK && strcmp(format, "paradl-data/1") != 0)
        st = pdl_doc_fail(d, err,
                          "no description of a data set: 'format: "
                          "paradl-data/1' is missing");
    v = st == PDL_OK ? pdl_doc_get(d, "samples") : NULL;
    if (st == PDL_OK && !v)
        st = pdl_doc_fail(d, err, "samples: is missing");
    if (st == PDL_OK)
        st = pdl_doc_int(v, 1, most, &x.samples, err);
    if (st == PDL_OK && (v = pdl_doc_get(d, "files")))
        st = pdl_doc_int(v, 0, most, &x.files, err);
    if (st == PDL_OK && (v = pdl_doc_get(d, "name")))
        st = pdl_doc_str(v, &x.name, err);
    if (st == PDL_OK)
        st = read_numbers(d, &x, err);
    if (st != PDL_OK)
        return st;
    x.stored_bytes = x.stored_bytes > 0 ? x.stored_bytes : x.bytes;
    *out = x;
    return PDL_OK;
}

static bool is_file(const char *text)
{
    size_t n = strlen(text);

    return n > 5 && strcmp(text + n - 5, ".yaml") == 0;
}

enum pdl_status pdl_data_about(pdl_arena *a, const char *text,
                               struct pdl_data_about *out, struct pdl_err *err)
{
    enum { MOST = 1 << 20 };
    const char *copy = pdl_arena_strdup(a, text);
    struct pdl_suggest s;
    struct pdl_bytes in;
    int64_t n;
    enum pdl_status st;

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (pdl_int_parse(text, 1, INT64_MAX, &n, NULL) == PDL_OK) {
        *out = (struct pdl_data_about){.name = copy, .samples = n};
        return PDL_OK;
    }
    if (is_file(text)) {
        st = pdl_file_read(a, text, MOST, &in, err);
        return st == PDL_OK ? pdl_data_about_read(a, in, copy, out, err) : st;
    }
    pdl_suggest_init(&s, text);
    for (int i = 0; i < NKNOWN; i++) {
        if (strcmp(text, known[i].name) == 0) {
            *out = known[i];
            return PDL_OK;
        }
        pdl_suggest_try(&s, known[i].name);
    }
    pdl_say(err, "--dataset: '%.60s' is no number of samples, nor a data set",
            text);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(err, "imagenet, cifar10, mnist, fashion-mnist, or FILE.yaml");
    return PDL_EINVAL;
}
