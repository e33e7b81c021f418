/* The batches that paradl train reads, for other programs: tokens and next
 * tokens of STEPS batches as 32-bit integers on standard output.
 *   peer_train_batches DATA SEQUENCE BATCH STEPS SEED */
#include "paradl/io.h"

#include <stdio.h>
#include <stdlib.h>

static enum pdl_status copy_out(pdl_loader *l, int64_t steps, int64_t values,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < steps && st == PDL_OK; i++) {
        struct pdl_batch b;

        st = pdl_loader_next(l, &b, err);
        if (st == PDL_OK &&
            (fwrite(b.input, 4, (size_t)values, stdout) != (size_t)values ||
             fwrite(b.target, 4, (size_t)values, stdout) != (size_t)values))
            st = pdl_fail(err, PDL_ENOENV, "cannot write");
    }
    return st;
}

int main(int argc, char **argv)
{
    struct pdl_err err = {"", ""};
    struct pdl_io_options how = {.sequence = argc > 2 ? atoll(argv[2]) : 0};
    struct pdl_loader_options o = {.input = true, .target = true};
    pdl_loader *l = NULL;
    pdl_io *io = NULL;
    enum pdl_status st;

    if (argc != 6)
        return 3;
    st = pdl_io_open(argv[1], &how, &io, &err);
    if (st == PDL_OK) {
        const struct pdl_dataset *d = pdl_io_describe(io);

        o.io = io;
        o.split = pdl_dataset_split(d, "train");
        o.shuffle = pdl_shuffle_find("global", NULL);
        o.batch = o.hi = atoll(argv[3]);
        o.seed = strtoull(argv[5], NULL, 10);
        o.input_box = pdl_field_box(&d->input);
        o.target_box = pdl_field_box(&d->target);
        st = pdl_loader_create(&o, &l, &err);
    }
    if (st == PDL_OK)
        st = copy_out(l, atoll(argv[4]), o.batch * how.sequence, &err);
    if (st != PDL_OK)
        fprintf(stderr, "%s\n", err.msg);
    pdl_loader_destroy(l);
    pdl_io_close(io);
    return st == PDL_OK ? 0 : 4;
}
