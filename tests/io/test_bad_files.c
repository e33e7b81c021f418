/* Files that are damaged, cut short or too large are refused in one line. */
#include "datasets.h"

static void refuse(const char *path, const struct pdl_io_options *opt,
                   enum pdl_status want, const char *words)
{
    struct pdl_err err = {"", ""};
    pdl_io *io = NULL;
    enum pdl_status st = pdl_io_open(path, opt, &io, &err);

    if (st != want || !strstr(err.msg, words))
        fail_msg("%s: %d '%s', not %d '%s'", path, st, err.msg, want, words);
    assert_null(io);
}

static void damaged_files_are_refused_in_one_line(void **state)
{
    size_t n = fx_idx(buf, 12, 5, 7);
    struct pdl_io_options tokens = {.format = "tokens", .sequence = 16};
    struct pdl_io_options cifar = {.format = "cifar"};

    (void)state;
    refuse(fx("nowhere"), NULL, PDL_EIO, "No such file");
    fx_folder("bad");
    refuse(fx("bad"), NULL, PDL_EPARSE, "no data set");
    fx_write("bad/train-images-idx3-ubyte", buf, n - 1);
    refuse(fx("bad"), NULL, PDL_EPARSE, "no file with its labels");
    fx_write("bad/train-labels-idx1-ubyte", buf, fx_idx(buf, 11, 0, 0));
    refuse(fx("bad"), NULL, PDL_EPARSE, "announces 420 bytes");
    fx_write("bad/train-images-idx3-ubyte", buf, fx_idx(buf, 12, 5, 7));
    refuse(fx("bad"), NULL, PDL_EPARSE, "12 inputs but 11 targets");
    fx_text("empty.bin", "");
    refuse(fx("empty.bin"), NULL, PDL_EPARSE, "no data set");
    fx_write("short.bin", "\1\0\2\0", 4);
    refuse(fx("short.bin"), &tokens, PDL_EPARSE, "a sample takes 17");
    fx_write("odd.bin", "\1\0\2\0\3", 5);
    refuse(fx("odd.bin"), &tokens, PDL_EPARSE, "no whole number of tokens");
    memset(buf, 11, 3073);
    fx_write("label.bin", buf, 3073);
    refuse(fx("label.bin"), &cifar, PDL_EPARSE, "no CIFAR file");
    fx_text("ragged.csv", "1,2,3\n4,5\n");
    refuse(fx("ragged.csv"), NULL, PDL_EPARSE, "ragged.csv:2:");
    fx_text("word.csv", "1,2,3\n4,x,6\n");
    refuse(fx("word.csv"), NULL, PDL_EPARSE, "'x' is not a number");
    refuse(fx("idx"), &(struct pdl_io_options){.format = "idxx"}, PDL_EINVAL,
           "'idxx'");
    refuse(fx("idx/train-labels-idx1-ubyte"), NULL, PDL_EPARSE, "one file");
    fx_write("x.h5", "\x89HDF\r\n\x1a\nrubbish", 15);
#ifdef PDL_HAVE_HDF5
    refuse(fx("x.h5"), NULL, PDL_EPARSE, "damaged HDF5");
    refuse(fx("flat.h5"), NULL, PDL_EPARSE, "no data set /x");
#else
    refuse(fx("x.h5"), NULL, PDL_ENOENV, "without HDF5");
#endif
}

/* The arena's limit bounds what a gzip bomb can cost. */
static void a_bomb_does_not_fill_memory(void **state)
{
    struct pdl_io_options opt = {.max_bytes = 1 << 20};
    gzFile f;

    (void)state;
    fx_folder("bomb");
    memset(buf, 0, sizeof buf);
    f = gzopen(fx("bomb/train-images-idx3-ubyte.gz"), "wb9");
    buf[2] = 8;
    buf[3] = 3;
    for (int i = 0; i < 8; i++)
        assert_true(gzwrite(f, buf, sizeof buf) > 0);
    gzclose(f);
    fx_write("bomb/train-labels-idx1-ubyte", buf, fx_idx(buf, 2, 0, 0));
    refuse(fx("bomb"), &opt, PDL_EPARSE, "inflates to more than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_refused_in_one_line),
        cmocka_unit_test(a_bomb_does_not_fill_memory),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
