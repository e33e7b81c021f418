/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of JPEG files, a folder a class: DIR/train/CLASS/NAME.jpg and
 * DIR/val/CLASS/NAME.jpg (or test), or DIR/CLASS/NAME.jpg alone. Classes are
 * numbered in the order of their names, images come in the order of theirs. */
#include "images.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_CLASSES = 1 << 20 };

static bool is_jpeg(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot &&
           (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
}

struct names {
    char **name;
    int64_t n, room;
};

static void free_names(struct names *x)
{
    for (int64_t i = 0; i < x->n; i++)
        free(x->name[i]);
    free(x->name);
    *x = (struct names){NULL, 0, 0};
}

static bool add_name(struct names *x, const char *text)
{
    if (x->n == x->room) {
        int64_t room = x->room > 0 ? 2 * x->room : 64;
        char **more = realloc(x->name, (size_t)room * sizeof *more);

        if (!more)
            return false;
        x->name = more;
        x->room = room;
    }
    x->name[x->n] = strdup(text);
    if (!x->name[x->n])
        return false;
    x->n++;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_folder(const char *at, const struct dirent *e)
{
    char path[4096];
    struct stat sb;

    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return e->d_type == DT_DIR;
    return snprintf(path, sizeof path, "%s/%s", at, e->d_name) <
               (int)sizeof path &&
           stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

/* Folders, or images, of a folder, sorted; at most `most`. */
static enum pdl_status list(const char *path, bool folders, int64_t most,
                            struct names *out, struct pdl_err *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    bool ok = true;

    if (!d)
        return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
    while (ok && out->n < most && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' &&
            (folders ? is_folder(path, e) : is_jpeg(e->d_name)))
            ok = add_name(out, e->d_name);
    closedir(d);
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    if (out->n > 0)
        qsort(out->name, (size_t)out->n, sizeof *out->name, by_name);
    return PDL_OK;
}

/* Is there an image in a folder of this folder? A few are looked at. */
static bool has_classes(const char *path)
{
    enum { LOOK = 4 };
    struct names folders = {NULL, 0, 0};
    bool found = false;

    (void)list(path, true, LOOK, &folders, NULL);
    for (int64_t i = 0; i < folders.n && !found; i++) {
        struct names images = {NULL, 0, 0};
        char at[4096];

        if (snprintf(at, sizeof at, "%s/%s", path, folders.name[i]) <
            (int)sizeof at)
            (void)list(at, false, 1, &images, NULL);
        found = images.n > 0;
        free_names(&images);
    }
    free_names(&folders);
    return found;
}

static const char *const splits[] = {"train", "val", "test"};
enum { NSPLITS = sizeof splits / sizeof splits[0] };

static bool folder_probe(const struct io_source *src)
{
    char path[4096];

    if (!src->folder)
        return false;
    for (int i = 0; i < NSPLITS; i++)
        if (io_has_file(src, splits[i]) &&
            snprintf(path, sizeof path, "%s/%s", src->path, splits[i]) <
                (int)sizeof path &&
            has_classes(path))
            return true;
    return has_classes(src->path);
}

static enum pdl_status add_class(pdl_io *io, int split, const char *path,
                                 int32_t label, struct pdl_err *err)
{
    struct names images = {NULL, 0, 0};
    enum pdl_status st = list(path, false, INT64_MAX, &images, err);

    for (int64_t i = 0; i < images.n && st == PDL_OK; i++) {
        struct io_image x = {.path = io_join(io->arena, path, images.name[i]),
                             .label = label};

        st = x.path ? io_images_add(io, split, &x, err)
                    : pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    }
    free_names(&images);
    return st;
}

/* known: the classes of the first split, which the others may have too. */
static enum pdl_status add_split(pdl_io *io, const char *path, const char *name,
                                 struct names *known, struct pdl_err *err)
{
    struct names classes = {NULL, 0, 0};
    int split = io_split(io, strcmp(name, "val") == 0 ? "test" : name);
    bool first = known->n == 0;
    enum pdl_status st = list(path, true, MOST_CLASSES, &classes, err);

    for (int64_t i = 0; i < classes.n && st == PDL_OK; i++) {
        const char *at = io_join(io->arena, path, classes.name[i]);
        char **found;

        if (first && !add_name(known, classes.name[i]))
            st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
        found = known->n > 0
                    ? bsearch(&classes.name[i], known->name, (size_t)known->n,
                              sizeof *known->name, by_name)
                    : NULL;
        if (st == PDL_OK && !found)
            st = pdl_fail(err, PDL_EPARSE,
                          "%s/%s: a class that the training images lack", path,
                          classes.name[i]);
        if (st == PDL_OK)
            st = at ? add_class(io, split, at, (int32_t)(found - known->name),
                                err)
                    : pdl_fail(err, PDL_ENOMEM, "%s: out of memory", path);
    }
    free_names(&classes);
    return st;
}

static enum pdl_status folder_open(pdl_io *io, const struct io_source *src,
                                   struct pdl_err *err)
{
    struct names known = {NULL, 0, 0};
    bool any = false, test = false;
    enum pdl_status st = PDL_OK;

    if (!io_images_new(io, err))
        return PDL_ENOMEM;
    for (int i = 0; i < NSPLITS && st == PDL_OK; i++) {
        const char *path = io_join(io->arena, src->path, splits[i]);

        if (!path)
            st = pdl_fail(err, PDL_ENOMEM, "%s: out of memory", src->path);
        else if (io_has_file(src, splits[i]) && has_classes(path) &&
                 !(i > 0 && test)) {
            st = add_split(io, path, splits[i], &known, err);
            any = true;
            test |= i > 0;
        }
    }
    if (st == PDL_OK && !any)
        st = add_split(io, src->path, "train", &known, err);
    if (st == PDL_OK)
        st = io_images_describe(io, known.n, err);
    free_names(&known);
    return st;
}

const struct io_format io_format_images = {
    .pub = {"images", "folders of JPEG files, a folder a class"},
    .probe = folder_probe,
    .open = folder_open,
};
