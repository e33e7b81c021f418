/* Weights in and out: our own round trip in one file and many, and a second
 * implementation in another language on both sides. */
#include "fixtures.h"

#include <zlib.h>

#define PEER "python3 " PDL_SOURCE_DIR "/tests/io/safetensors_peer.py "

static float conv[2 * 3 * 4], bias[7];
static double wide[5];
static unsigned char mask[3];
static uint16_t half[6 * 2];

static const struct pdl_shard tensors[] = {
    {"mask", PDL_U8, 1, {3}, {0}, mask},
    {"conv.weight", PDL_F32, 3, {2, 3, 4}, {0}, conv},
    {"half", PDL_BF16, 2, {6, 2}, {0}, half},
    {"wide \"w\"", PDL_F64, 1, {5}, {0}, wide},
    {"conv.bias", PDL_F32, 1, {7}, {0}, bias},
    {"step", PDL_F32, 0, {0}, {0}, bias},
};
enum { N = sizeof tensors / sizeof tensors[0] };
static const size_t bytes[N] = {3, 96, 24, 40, 28, 4};

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++)
        conv[i] = (float)i / 3;
    for (int i = 0; i < 7; i++)
        bias[i] = (float)-i;
    for (int i = 0; i < 5; i++)
        wide[i] = i * 1e100;
    for (int i = 0; i < 12; i++)
        half[i] = (uint16_t)(i * 999);
    memcpy(mask, "\1\0\1", 3);
    fx_begin();
    return 0;
}

static int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

static pdl_weights *open_ok(const char *path)
{
    struct pdl_err err = {"", ""};
    pdl_weights *w = NULL;

    if (pdl_weights_open(path, &w, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return w;
}

static struct pdl_box whole(const struct pdl_ckpt_tensor *t)
{
    struct pdl_box b = {.ndims = t->rank};

    memcpy(b.hi, t->dim, sizeof t->dim);
    return b;
}

static void check_all(const char *path)
{
    pdl_weights *w = open_ok(path);

    assert_int_equal(pdl_weights_count(w), N);
    for (int k = 0; k < N; k++) {
        int i = pdl_weights_find(w, tensors[k].name);
        const struct pdl_ckpt_tensor *t = pdl_weights_tensor(w, i);
        unsigned char got[128];
        struct pdl_box b;

        assert_non_null(t);
        assert_true(t->dtype == tensors[k].dtype && t->rank == tensors[k].rank);
        assert_int_equal(t->bytes, bytes[k]);
        b = whole(t);
        assert_int_equal(pdl_weights_read(w, i, &b, got, NULL), PDL_OK);
        assert_memory_equal(got, tensors[k].data, bytes[k]);
    }
    assert_int_equal(pdl_weights_find(w, "nobody"), -1);
    pdl_weights_close(w);
}

static void one_file_comes_back(void **state)
{
    (void)state;
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), tensors, N, NULL, NULL), PDL_OK);
    check_all(fx("m.safetensors"));
    assert_true(access(fx("m.safetensors.tmp"), F_OK) != 0);
}

static void many_files_come_back_by_their_index(void **state)
{
    struct pdl_weights_options opt = {.max_file_bytes = 100};

    (void)state;
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), tensors, N, &opt, NULL), PDL_OK);
    assert_true(access(fx("m-00001-of-00002.safetensors"), R_OK) == 0);
    assert_true(access(fx("m-00002-of-00002.safetensors"), R_OK) == 0);
    check_all(fx("m.safetensors.index.json"));
}

static enum pdl_status give(void *ctx, int i, void *dst, struct pdl_err *err)
{
    int *calls = ctx;

    (void)err;
    ++*calls;
    memcpy(dst, tensors[i].data, bytes[i]);
    return PDL_OK;
}

static void tensors_can_be_asked_for_one_at_a_time(void **state)
{
    int calls = 0;
    struct pdl_weights_options opt = {.fill = give, .ctx = &calls};
    struct pdl_shard none[N];

    (void)state;
    memcpy(none, tensors, sizeof none);
    for (int i = 0; i < N; i++)
        none[i].data = NULL;
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), none, N, &opt, NULL), PDL_OK);
    assert_int_equal(calls, N);
    check_all(fx("m.safetensors"));
}

static void any_box_is_read(void **state)
{
    struct pdl_rng r = {.key = 1};
    pdl_weights *w;
    int i;

    (void)state;
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), tensors, N, NULL, NULL), PDL_OK);
    w = open_ok(fx("m.safetensors"));
    i = pdl_weights_find(w, "conv.weight");
    for (int k = 0; k < 500; k++) {
        struct pdl_box b = {.ndims = 3};
        float got[24], *p = got;

        for (int d = 0; d < 3; d++) {
            b.lo[d] = (int64_t)pdl_rng_below(&r, (uint64_t)tensors[1].dim[d]);
            b.hi[d] =
                b.lo[d] + (int64_t)pdl_rng_below(
                              &r, (uint64_t)(tensors[1].dim[d] - b.lo[d] + 1));
        }
        assert_int_equal(pdl_weights_read(w, i, &b, got, NULL), PDL_OK);
        for (int64_t x = b.lo[0]; x < b.hi[0]; x++)
            for (int64_t y = b.lo[1]; y < b.hi[1]; y++)
                for (int64_t z = b.lo[2]; z < b.hi[2]; z++)
                    assert_true(*p++ == conv[(x * 3 + y) * 4 + z]);
    }
    pdl_weights_close(w);
}

/* ---- a second implementation ---- */

static bool have_python(void)
{
    if (system("python3 -c pass >/dev/null 2>&1") == 0)
        return true;
    print_message("skipped: no python3\n");
    return false;
}

static void python_reads_what_we_write(void **state)
{
    static const char *const meta[] = {"format", "pt", "step", "12", NULL};
    struct pdl_weights_options opt = {.metadata = meta};
    char command[512], got[1024] = "", want[1024];
    FILE *p;
    int n;

    (void)state;
    if (!have_python())
        skip();
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), tensors, N, &opt, NULL), PDL_OK);
    snprintf(command, sizeof command, PEER "read %s", fx("m.safetensors"));
    p = popen(command, "r");
    assert_non_null(p);
    (void)!fread(got, 1, sizeof got - 1, p);
    assert_int_equal(pclose(p), 0);
    n = snprintf(want, sizeof want,
                 "meta format=pt\nmeta step=12\n"
                 "wide \"w\" F64 [5] %08lx\nconv.weight F32 [2, 3, 4] %08lx\n"
                 "conv.bias F32 [7] %08lx\nstep F32 [] %08lx\n"
                 "half BF16 [6, 2] %08lx\nmask U8 [3] %08lx\n",
                 crc32(0, (void *)wide, 40), crc32(0, (void *)conv, 96),
                 crc32(0, (void *)bias, 28), crc32(0, (void *)bias, 4),
                 crc32(0, (void *)half, 24), crc32(0, mask, 3));
    assert_true(n > 0);
    assert_string_equal(got, want);
}

static void we_read_what_python_writes(void **state)
{
    struct pdl_box b = {2, {1, 1}, {3, 3}};
    char command[512];
    float x[4];
    pdl_weights *w;

    (void)state;
    if (!have_python())
        skip();
    snprintf(command, sizeof command, PEER "write %s", fx("p.safetensors"));
    assert_int_equal(system(command), 0);
    w = open_ok(fx("p.safetensors"));
    assert_int_equal(
        pdl_weights_read(w, pdl_weights_find(w, "layer.x"), &b, x, NULL),
        PDL_OK);
    assert_true(x[0] == 5 && x[1] == 6 && x[2] == 9 && x[3] == 10);
    pdl_weights_close(w);
}

/* ---- what is wrong ---- */

static void refuse(const char *path, const char *words)
{
    struct pdl_err err = {"", ""};
    pdl_weights *w = NULL;

    assert_int_not_equal(pdl_weights_open(path, &w, &err), PDL_OK);
    if (!strstr(err.msg, words))
        fail_msg("'%s' without '%s'", err.msg, words);
    assert_null(w);
}

static void wrong_files_are_refused(void **state)
{
    struct pdl_weights_options opt = {.max_file_bytes = 100};
    struct pdl_shard twice[2] = {tensors[0], tensors[0]};

    (void)state;
    assert_int_equal(pdl_weights_write(fx("m.bin"), tensors, N, NULL, NULL),
                     PDL_EINVAL);
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), twice, 2, NULL, NULL),
        PDL_EINVAL);
    assert_int_equal(
        pdl_weights_write(fx("no/m.safetensors"), tensors, N, NULL, NULL),
        PDL_EIO);
    assert_int_equal(
        pdl_weights_write(fx("m.safetensors"), tensors, N, &opt, NULL), PDL_OK);
    assert_int_equal(truncate(fx("m-00002-of-00002.safetensors"), 100), 0);
    refuse(fx("m.safetensors.index.json"), "m-00002-of-00002.safetensors");
    assert_int_equal(unlink(fx("m-00002-of-00002.safetensors")), 0);
    refuse(fx("m.safetensors.index.json"), "No such file");
    fx_text("i.json", "{\"weight_map\": {\"a\": \"../x\"}}");
    refuse(fx("i.json"), "outside this folder");
    fx_text("j.json", "[1]");
    refuse(fx("j.json"), "no weight_map");
    fx_text("k.json",
            "{\"weight_map\": {\"a\": \"m-00001-of-00002.safetensors\"}}");
    refuse(fx("k.json"), "'a' is in none of the files");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(one_file_comes_back),
        T(many_files_come_back_by_their_index),
        T(tensors_can_be_asked_for_one_at_a_time),
        T(any_box_is_read),
        T(python_reads_what_we_write),
        T(we_read_what_python_writes),
        T(wrong_files_are_refused),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
