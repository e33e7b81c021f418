/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of array files, one with inputs and one with targets for each
 * split, told apart by their names: MNIST's train-images-idx3-ubyte.gz and
 * t10k-labels-idx1-ubyte.gz, NumPy's x_train.npy and y_test.npy. */
#include "io_priv.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word, *split;
} split_words[] = {
    {"train", "train"}, {"t10k", "test"}, {"test", "test"},
    {"valid", "val"},   {"val", "val"},
};

static const char *const input_words[] = {"images", "image", "data",
                                          "inputs", "input", "x"};
static const char *const target_words[] = {"labels", "label",   "targets",
                                           "target", "classes", "y"};

/* A word between two places that are no letters. */
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = name; *p; p++)
        if (strncasecmp(p, word, n) == 0 &&
            (p == name || !isalpha((unsigned char)p[-1])) &&
            !isalpha((unsigned char)p[n]))
            return true;
    return false;
}

static const char *split_name(const char *file)
{
    for (size_t i = 0; i < sizeof split_words / sizeof split_words[0]; i++)
        if (has_word(file, split_words[i].word))
            return split_words[i].split;
    return "train";
}

static bool has_any(const char *name, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has_word(name, words[i]))
            return true;
    return false;
}

static bool is_input(const char *name)
{
    return has_any(name, input_words,
                   sizeof input_words / sizeof input_words[0]);
}

static bool is_target(const char *name)
{
    return has_any(name, target_words,
                   sizeof target_words / sizeof target_words[0]);
}

typedef enum pdl_status parser(struct pdl_bytes in, const char *name,
                               struct io_array *out, struct pdl_err *err);

static enum pdl_status load(pdl_io *io, const struct io_source *src, int i,
                            parser *parse, struct io_array *out,
                            struct pdl_err *err)
{
    const char *path = io_join(io->arena, src->path, src->name[i]);
    struct pdl_bytes in;
    enum pdl_status st;

    if (!path)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", src->path);
    st = io_load(io, path, &in, err);
    return st == PDL_OK ? parse(in, path, out, err) : st;
}

/* The targets that go with the inputs of a split. */
static int partner(const struct io_source *src, const char *suffix,
                   const char *split)
{
    for (int i = 0; i < src->nnames; i++)
        if (strstr(src->name[i], suffix) && is_target(src->name[i]) &&
            strcmp(split_name(src->name[i]), split) == 0)
            return i;
    return -1;
}

static enum pdl_status add_pair(pdl_io *io, const struct io_source *src, int i,
                                const char *suffix, parser *parse,
                                struct pdl_err *err)
{
    const char *name = split_name(src->name[i]);
    struct io_array input = {0}, target = {0};
    int j = partner(src, suffix, name);
    enum pdl_status st;

    if (j < 0)
        return pdl_fail(err, PDL_EPARSE, "%s/%s: no file with its labels",
                        src->path, src->name[i]);
    if (pdl_dataset_split(&io->d, name) >= 0)
        return pdl_fail(err, PDL_EPARSE, "%s/%s: a second file of '%s'",
                        src->path, src->name[i], name);
    st = load(io, src, i, parse, &input, err);
    if (st == PDL_OK)
        st = load(io, src, j, parse, &target, err);
    if (st != PDL_OK)
        return st;
    return io_segment_add(io, io_split(io, name), &input, &target, err);
}

enum pdl_status io_pairs_open(pdl_io *io, const struct io_source *src,
                              const char *suffix, parser *parse,
                              struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (!src->folder) {
        st = pdl_fail(err, PDL_EPARSE, "%s: one file of a data set", src->path);
        pdl_hint(err, "give the folder that holds inputs and labels");
        return st;
    }
    /* training first: it is split 0 everywhere */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < src->nnames && st == PDL_OK; i++) {
            const char *name = src->name[i];
            bool train = strcmp(split_name(name), "train") == 0;

            if (strstr(name, suffix) && is_input(name) && train == (pass == 0))
                st = add_pair(io, src, i, suffix, parse, err);
        }
    return st == PDL_OK ? io_segments_describe(io, err) : st;
}
