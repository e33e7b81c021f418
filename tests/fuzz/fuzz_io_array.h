/* Reads every sample of an array that a parser accepted: inside the input, or
 * the sanitizer says so. */
#ifndef FUZZ_IO_ARRAY_H
#define FUZZ_IO_ARRAY_H

#include "io_priv.h"

#include <stdlib.h>
#include <string.h>

static inline void fuzz_array(const struct io_array *a)
{
    struct pdl_box box = {.ndims = a->rank};
    int64_t n = 1;
    float *x;

    for (int d = 0; d < a->rank; d++) {
        box.hi[d] = a->dim[d];
        n *= a->dim[d];
    }
    if (n > 1 << 20)
        return;
    x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; x && i < a->count; i++)
        io_array_read(a, i, &box, false, x);
    free(x);
    if (a->elem->integer)
        (void)io_array_max(a);
}

/* One line of message, or none at all. */
static inline void fuzz_message(enum pdl_status st, const struct pdl_err *err)
{
    if (st != PDL_OK && (!*err->msg || strchr(err->msg, '\n')))
        abort();
}

/* Every sample of a data set that was accepted. */
static inline void fuzz_samples(pdl_io *io)
{
    const struct pdl_dataset *d = pdl_io_describe(io);
    int64_t n = 0, m = 0;
    void *x;

    if (!pdl_field_elements(&d->input, &n) ||
        !pdl_field_elements(&d->target, &m) || n + m > 1 << 20)
        return;
    x = malloc((size_t)(n + m) * 4);
    for (int s = 0; x && s < d->nsplits; s++)
        for (int64_t i = 0; i < d->split[s].samples && i < 100; i++) {
            struct pdl_read r = {.split = s,
                                 .samples = &i,
                                 .nsamples = 1,
                                 .box = pdl_field_box(&d->input)};

            (void)pdl_io_input(io, &r, x, NULL);
            r.box = pdl_field_box(&d->target);
            (void)pdl_io_target(io, &r, x, NULL);
        }
    free(x);
}

/* Any bytes as a file of this format. */
static inline int fuzz_format(const struct io_format *format,
                              const uint8_t *data, size_t size)
{
    struct pdl_io_options opt = {.sequence = 4, .max_bytes = 1 << 24};
    struct pdl_bytes in = {(const char *)data, size};
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;
    enum pdl_status st = io_open_memory("x", in, format, &opt, &io, &err);

    fuzz_message(st, &err);
    if (st == PDL_OK)
        fuzz_samples(io);
    pdl_io_close(io);
    return 0;
}

#endif
