/* ONNX files that are wrong: each is refused in one line, or read, but never
 * crashes, hangs or takes memory without bound. */
#include "onnx_make.h"

#include <setjmp.h>
#include <cmocka.h>
#include <unistd.h>

#define DATA PDL_SOURCE_DIR "/tests/data/onnx/"

static enum pdl_status read_bytes(const char *data, size_t len,
                                  struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create((size_t)64 << 20);
    char *exact = malloc(len + 1); /* no zero byte behind it */
    const struct pdl_model *m = NULL;
    struct pdl_bytes in = {exact, len};
    struct pdl_model_totals t;
    enum pdl_status st;

    memcpy(exact, data, len);
    exact = realloc(exact, len ? len : 1);
    in.data = exact;
    *err = (struct pdl_err){"", ""};
    st = pdl_model_onnx(a, in, "bad.onnx", NULL, &m, err);
    if (st == PDL_OK) {
        struct pdl_err check = {"", ""};

        if (pdl_model_check(m, &check) != PDL_OK)
            fail_msg("%s", check.msg);
        pdl_model_totals(m, &t, &check);
    } else {
        assert_true(err->msg[0] != '\0' && !strchr(err->msg, '\n'));
    }
    free(exact);
    pdl_arena_destroy(a);
    return st;
}

/* Expects PDL_EPARSE and a message with these words. */
static void refused(struct pdl_buf *file, const char *words)
{
    struct pdl_err err;
    enum pdl_status st =
        read_bytes(file->text ? file->text : "", file->len, &err);

    if (st != PDL_EPARSE || !strstr(err.msg, words))
        fail_msg("status %d, '%s', wanted '%s'", (int)st, err.msg, words);
    pdl_buf_free(file);
}

static void refused_graph(struct pdl_buf *g, const char *words)
{
    struct pdl_buf m;

    om_model(&m, g, 13);
    refused(&m, words);
}

/* x times w, the weight as written by `weight`. */
static void small(struct pdl_buf *g)
{
    pdl_buf_init(g);
    om_node(g, "MatMul x,w -> y");
    om_value(g, 11, "x", OM_F32, "N,7");
    om_value(g, 12, "y", OM_F32, "");
}

static void nothing_and_noise_are_refused(void **state)
{
    static const char *const texts[] = {"", "{\"a\": 1}", "\x08", "\x08\x07",
                                        "version https://git-lfs\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pdl_err err;

        assert_int_equal(read_bytes(texts[i], strlen(texts[i]), &err),
                         PDL_EPARSE);
    }
}

static void a_file_cut_anywhere_is_refused_or_read(void **state)
{
    struct pdl_bytes in;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int refused_count = 0;

    (void)state;
    assert_int_equal(pdl_file_read(a, DATA "ext_mlp.onnx", 1 << 20, &in, NULL),
                     PDL_OK);
    for (size_t n = 0; n < in.len; n++) {
        struct pdl_err err;

        refused_count += read_bytes(in.data, n, &err) == PDL_EPARSE;
    }
    assert_true(refused_count > (int)in.len / 2);
    pdl_arena_destroy(a);
}

/* Every bit of a small file, and some of a larger one. */
static void flipped_bits_do_no_harm(void **state)
{
    static const char *const files[] = {DATA "ext_mlp.onnx",
                                        DATA "light_bvlc_alexnet.onnx"};

    (void)state;
    for (int f = 0; f < 2; f++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in;
        char *copy;

        assert_int_equal(pdl_file_read(a, files[f], 1 << 20, &in, NULL),
                         PDL_OK);
        copy = malloc(in.len);
        memcpy(copy, in.data, in.len);
        for (size_t bit = 0; bit < 8 * in.len; bit += f ? 37 : 1) {
            struct pdl_err err;

            copy[bit / 8] ^= (char)(1 << bit % 8);
            read_bytes(copy, in.len, &err);
            copy[bit / 8] ^= (char)(1 << bit % 8);
        }
        free(copy);
        pdl_arena_destroy(a);
    }
}

static void impossible_dimensions_are_refused(void **state)
{
    static const struct {
        int64_t dim[3];
        const char *words;
    } rows[] = {
        {{-1, 7, 1}, "negative"},
        {{INT64_MIN, 1, 1}, "negative"},
        {{INT64_MAX, 2, 2}, "more elements"},
        {{INT64_C(1) << 40, INT64_C(1) << 40, 1}, "more elements"},
        {{7, 5, 1}, "length of its shape"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pdl_buf g, t;

        small(&g);
        pdl_buf_init(&t);
        for (int k = 0; k < 3; k++)
            om_number(&t, 1, rows[i].dim[k]);
        om_number(&t, 2, OM_F32);
        om_text(&t, 8, "w");
        om_text(&t, 9, "1234");
        om_into(&g, 5, &t);
        refused_graph(&g, rows[i].words);
    }
}

/* Weights too large to add up are refused in words, too. */
static void totals_beyond_counting_are_an_error(void **state)
{
    struct pdl_buf g, m;
    struct pdl_err err;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *model = NULL;
    struct pdl_model_totals t;
    enum pdl_status st;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Mul x,u -> h");
    om_node(&g, "Mul h,w -> y");
    om_value(&g, 11, "x", OM_F32, "1,1");
    om_value(&g, 11, "u", OM_F32, "1,9000000000000000000");
    om_value(&g, 11, "w", OM_F32, "1,9000000000000000000");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    st = pdl_model_onnx(a, (struct pdl_bytes){m.text, m.len}, "big.onnx", NULL,
                        &model, &err);
    if (st == PDL_OK)
        st = pdl_model_totals(model, &t, &err);
    assert_true(st == PDL_EPARSE || st == PDL_EINVAL);
    pdl_buf_free(&m);
    pdl_arena_destroy(a);
}

static void cycles_and_missing_inputs_are_refused(void **state)
{
    struct pdl_buf g;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Add x,b -> a");
    om_node(&g, "Relu a -> b");
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "b", OM_F32, "");
    refused_graph(&g, "cycle");
    pdl_buf_init(&g);
    om_node(&g, "Relu y -> y");
    om_value(&g, 12, "y", OM_F32, "");
    refused_graph(&g, "cycle");
    small(&g);
    refused_graph(&g, "reads 'w'");
    pdl_buf_init(&g);
    om_value(&g, 12, "y", OM_F32, "");
    refused_graph(&g, "made by no node");
}

static void names_given_twice_are_refused(void **state)
{
    struct pdl_buf g;

    (void)state;
    small(&g);
    om_tensor(&g, "w", OM_F32, "7,3", NULL);
    om_tensor(&g, "w", OM_F32, "7,3", NULL);
    refused_graph(&g, "defined twice");
    small(&g);
    om_tensor(&g, "w", OM_F32, "7,3", NULL);
    om_node(&g, "Relu x -> y");
    refused_graph(&g, "defined twice");
    small(&g);
    om_tensor(&g, "w", OM_F32, "7,3", NULL);
    om_value(&g, 11, "x", OM_F32, "N,7");
    refused_graph(&g, "defined twice");
}

static void names_with_nul_bytes_are_refused(void **state)
{
    struct pdl_buf g, n;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&n);
    om_bytes(&n, 2, "a\0b", 3);
    om_text(&n, 4, "Constant");
    om_into(&g, 1, &n);
    refused_graph(&g, "NUL");
    pdl_buf_init(&g);
    pdl_buf_init(&n);
    om_bytes(&n, 4, "Re\0lu", 5);
    om_into(&g, 1, &n);
    refused_graph(&g, "NUL");
}

static void deep_nesting_is_refused(void **state)
{
    struct pdl_buf inner, outer, n;

    (void)state;
    pdl_buf_init(&inner);
    om_value(&inner, 12, "c", OM_F32, "");
    for (int i = 0; i < 300; i++) {
        pdl_buf_init(&outer);
        om_open(&n, "If c -> y");
        om_body(&n, "then_branch", &inner);
        om_into(&outer, 1, &n);
        inner = outer;
        inner.sink.ctx = &inner;
    }
    refused_graph(&inner, "nested too deeply");
}

/* Functions that call functions twice: 2^40 nodes from a few hundred bytes. */
static void functions_that_explode_are_refused(void **state)
{
    struct pdl_buf g, m;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "f:F0 x -> y");
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    for (int i = 0; i < 40; i++) {
        struct pdl_buf f;
        char line[64], name[16];

        pdl_buf_init(&f);
        snprintf(name, sizeof name, "F%d", i);
        om_text(&f, 1, name);
        om_text(&f, 10, "f");
        om_text(&f, 4, "a");
        om_text(&f, 5, "c");
        for (int k = 0; k < 2; k++) {
            struct pdl_buf n;

            snprintf(line, sizeof line, "f:F%d %s -> %s", i + 1, k ? "b" : "a",
                     k ? "c" : "b");
            om_open(&n, i == 39 ? (k ? "Relu b -> c" : "Relu a -> b") : line);
            om_into(&f, 7, &n);
        }
        om_into(&m, 25, &f);
    }
    {
        struct pdl_err err;
        enum pdl_status st = read_bytes(m.text, m.len, &err);

        assert_true(st == PDL_EPARSE || st == PDL_ENOMEM);
        pdl_buf_free(&m);
    }
}

static void a_function_that_calls_itself_is_refused(void **state)
{
    struct pdl_buf g, m, f, n;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "f:F x -> y");
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    pdl_buf_init(&f);
    om_text(&f, 1, "F");
    om_text(&f, 10, "f");
    om_text(&f, 4, "a");
    om_text(&f, 5, "b");
    om_open(&n, "f:F a -> b");
    om_into(&f, 7, &n);
    om_into(&m, 25, &f);
    refused(&m, "nested too deeply");
}

static void overlong_numbers_are_refused(void **state)
{
    static const char *const starts[] = {
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",     /* tag */
        "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", /* value */
        "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",         /* length */
        "\x3a\xff\xff\xff\xff\x0f",
    };

    (void)state;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        struct pdl_err err;

        assert_int_equal(read_bytes(starts[i], strlen(starts[i]), &err),
                         PDL_EPARSE);
    }
}

/* Attributes with sizes no network has leave shapes unknown, nothing more. */
static void wild_attributes_are_survived(void **state)
{
    static const char *const nodes[] = {
        "Conv x,w -> y | strides=0,0",
        "Conv x,w -> y | dilations=9223372036854775807,9223372036854775807",
        "Conv x,w -> y | group=-3 kernel_shape=-1,5",
        "Conv x,w -> y | pads=1,2,3",
        "ConvTranspose x,w -> y | output_padding=9223372036854775807,1",
        "MaxPool x -> y | kernel_shape=99,99",
        "Transpose x -> y | perm=0,0,0,0",
        "Transpose x -> y | perm=0,1,2,9",
        "Squeeze x -> y | axes=9,-9",
        "Unsqueeze x -> y | axes=9,-9,3,3,3,3,3",
        "Concat x,w -> y | axis=77",
        "Split x -> y,z | axis=-77 split=1,2",
        "Flatten x -> y | axis=-9",
        "Einsum x,w -> y | equation=abcdefghijklmn,->>-",
        "DepthToSpace x -> y | blocksize=0",
        "Gather x,w -> y | axis=5",
        "com.microsoft:Attention x,w -> y | num_heads=0",
        "com.microsoft:MultiHeadAttention x -> y | num_heads=-1",
        "Attention x,x,x -> y | q_num_heads=9223372036854775807",
        "LSTM x,w,w -> y | hidden_size=-5",
        "Resize x,_,_,_ -> y | axes=9,9",
        "TopK x,w -> y,z | axis=9",
    };

    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        struct pdl_buf g, m;
        struct pdl_err err;

        pdl_buf_init(&g);
        om_node(&g, nodes[i]);
        om_tensor(&g, "w", OM_F32, "4,3,3,3", NULL);
        om_value(&g, 11, "x", OM_F32, "1,3,8,8");
        om_value(&g, 12, "y", OM_F32, "");
        om_model(&m, &g, 9);
        if (read_bytes(m.text, m.len, &err) != PDL_OK)
            fail_msg("%s: %s", nodes[i], err.msg);
        pdl_buf_free(&m);
    }
}

/* A short file that asks for much: it is the arena that says no. */
static void memory_is_bounded(void **state)
{
    struct pdl_buf g, m;
    pdl_arena *a = pdl_arena_create((size_t)1 << 20);
    const struct pdl_model *model = NULL;
    struct pdl_err err = {"", ""};

    (void)state;
    pdl_buf_init(&g);
    for (int i = 0; i < 100000; i++)
        om_bytes(&g, 1, "", 0);
    om_model(&m, &g, 13);
    assert_true(pdl_model_onnx(a, (struct pdl_bytes){m.text, m.len},
                               "nodes.onnx", NULL, &model, &err) != PDL_OK);
    assert_true(err.msg[0] != '\0');
    pdl_buf_free(&m);
    pdl_arena_destroy(a);
}

/* Starved of memory at every size, it fails cleanly until it is enough. */
static void every_allocation_may_fail(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes in;
    bool done = false;
    int failures = 0;

    (void)state;
    assert_int_equal(pdl_file_read(a, DATA "ext_mlp.onnx", 1 << 20, &in, NULL),
                     PDL_OK);
    for (size_t limit = 256; !done && limit < (size_t)4 << 20;
         limit += limit / 64 + 64) {
        pdl_arena *tight = pdl_arena_create(limit);
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        done = pdl_model_onnx(tight, in, "m.onnx", NULL, &m, &err) == PDL_OK;
        failures += !done;
        assert_true(done || err.msg[0] != '\0');
        pdl_arena_destroy(tight);
    }
    assert_true(done && failures > 10);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_and_noise_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused_or_read),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(impossible_dimensions_are_refused),
        cmocka_unit_test(totals_beyond_counting_are_an_error),
        cmocka_unit_test(cycles_and_missing_inputs_are_refused),
        cmocka_unit_test(names_given_twice_are_refused),
        cmocka_unit_test(names_with_nul_bytes_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(functions_that_explode_are_refused),
        cmocka_unit_test(a_function_that_calls_itself_is_refused),
        cmocka_unit_test(overlong_numbers_are_refused),
        cmocka_unit_test(wild_attributes_are_survived),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
