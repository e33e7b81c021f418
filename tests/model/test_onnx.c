/* The ONNX reader on real files: counts as published, the same network as the
 * zoo's, FLOPs by hand. Large files are read from the shared data where that
 * is present. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA   PDL_SOURCE_DIR "/tests/data/onnx/"
#define SHARED PDL_SOURCE_DIR "/../shared/data/onnx/"

struct loaded {
    pdl_arena *arena;
    const struct pdl_model *model;
    struct pdl_model_totals t;
};

static struct loaded load(const char *path, const char *dims)
{
    struct pdl_model_options opt = {.dims = dims};
    struct loaded l = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
    struct pdl_bytes in = {NULL, 0};
    struct pdl_err err = {"", ""};

    if (pdl_file_map(path, &in, &err) != PDL_OK ||
        pdl_model_onnx(l.arena, in, path, &opt, &l.model, &err) != PDL_OK ||
        pdl_model_check(l.model, &err) != PDL_OK ||
        pdl_model_totals(l.model, &l.t, &err) != PDL_OK)
        fail_msg("%s: %s", path, err.msg);
    pdl_file_unmap(&in); /* nothing of the model may live in the file */
    return l;
}

/* One row of golden_counts.tsv: the columns after the name are the last
 * three numbers wanted, `skip` columns further on. */
static bool golden_row(const char *folder, const char *line, int skip)
{
    char file[256], path[1024];
    long long nodes, parameters, buffers;
    struct loaded l;
    int n;

    n = skip ? sscanf(line, "%255[^\t]\t%*d\t%lld\t%lld\t%lld", file, &nodes,
                      &parameters, &buffers)
             : sscanf(line, "%255[^\t]\t%lld\t%lld\t%lld", file, &nodes,
                      &parameters, &buffers);
    if (n != 4)
        return false;
    snprintf(path, sizeof path, "%s%s", folder, file);
    l = load(path, NULL);
    if (l.model->source_nodes != nodes || l.t.parameters != parameters ||
        l.t.buffers != buffers)
        fail_msg("%s: %lld nodes, %lld parameters, %lld buffers", file,
                 (long long)l.model->source_nodes, (long long)l.t.parameters,
                 (long long)l.t.buffers);
    pdl_arena_destroy(l.arena);
    return true;
}

static int golden_file(const char *folder, int skip)
{
    char path[1024], line[1024];
    FILE *f;
    int rows = 0;

    snprintf(path, sizeof path, "%sgolden_counts.tsv", folder);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        rows += golden_row(folder, line, skip);
    if (f)
        fclose(f);
    return rows;
}

static void counts_are_exact(void **state)
{
    (void)state;
    assert_int_equal(golden_file(DATA, 0), 14);
}

static void counts_of_the_large_files_are_exact(void **state)
{
    (void)state;
    if (access(SHARED "golden_counts.tsv", R_OK) != 0) {
        print_message("skipped: no shared ONNX data beside the sources\n");
        skip();
    }
    assert_true(golden_file(SHARED, 1) >= 22);
}

/* ---- the same network twice ------------------------------------------- */

static bool same_shape(const struct pdl_tensor *a, const struct pdl_tensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

/* The first difference between two lists of layers; NULL: none. */
static const char *difference(const struct pdl_model *a,
                              const struct pdl_model *b, char *buf, size_t size)
{
    for (int i = 0; i < a->nnodes && i < b->nnodes; i++) {
        const struct pdl_node *x = &a->nodes[i], *y = &b->nodes[i];
        bool same = strcmp(x->name, y->name) == 0 && x->op == y->op &&
                    x->nweights == y->nweights && x->nin == y->nin;

        for (int k = 0; k < x->nweights && same; k++)
            same = same_shape(&a->tensors[x->weights[k]],
                              &b->tensors[y->weights[k]]);
        for (int k = 0; k < x->nin && same; k++)
            same = same_shape(&a->tensors[x->in[k]], &b->tensors[y->in[k]]);
        if (!same ||
            !same_shape(&a->tensors[x->out[0]], &b->tensors[y->out[0]]) ||
            pdl_node_parameters(a, i) != pdl_node_parameters(b, i)) {
            snprintf(buf, size, "layer %d: %s (%s) and %s (%s)", i, x->name,
                     x->op->name, y->name, y->op->name);
            return buf;
        }
    }
    return a->nnodes == b->nnodes ? NULL : "number of layers";
}

static struct loaded zoo(const char *spec)
{
    struct loaded l = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)};

    assert_int_equal(pdl_zoo_build(l.arena, spec, &l.model, NULL), PDL_OK);
    assert_int_equal(pdl_model_totals(l.model, &l.t, NULL), PDL_OK);
    return l;
}

static void resnet50_is_the_zoos_layer_by_layer(void **state)
{
    struct loaded file = load(DATA "resnet50.onnx", NULL);
    struct loaded ours = zoo("resnet50"), other = zoo("resnet50:stride=1x1");
    char buf[256];
    const char *d = difference(file.model, ours.model, buf, sizeof buf);

    (void)state;
    if (d)
        fail_msg("%s", d);
    assert_int_equal(file.t.forward_flops, INT64_C(8178368512));
    assert_int_equal(file.t.forward_flops, ours.t.forward_flops);
    /* the comparison sees a stride that moved */
    assert_non_null(difference(file.model, other.model, buf, sizeof buf));
    pdl_arena_destroy(file.arena);
    pdl_arena_destroy(ours.arena);
    pdl_arena_destroy(other.arena);
}

static void totals_agree_with_the_zoo(void **state)
{
    static const char *const pairs[][2] = {
        {"mobilenet_v2.onnx", "mobilenet-v2"},
        {"vgg16.onnx", "vgg16"},
        {"light_vgg19.onnx", "vgg19"},
        {"light_resnet50.onnx", "resnet50"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[512];
        struct loaded file, ours;

        snprintf(path, sizeof path, "%s%s", DATA, pairs[i][0]);
        file = load(path, NULL);
        ours = zoo(pairs[i][1]);
        assert_int_equal(file.t.parameters, ours.t.parameters);
        assert_int_equal(file.t.buffers, ours.t.buffers);
        assert_int_equal(file.t.forward_flops, ours.t.forward_flops);
        pdl_arena_destroy(file.arena);
        pdl_arena_destroy(ours.arena);
    }
}

/* ---- transformers by hand --------------------------------------------- */

/* Layers of width h over t tokens: projections 4 h^2, feed-forward 2 h f, and
 * the two t x t products, two FLOPs per multiply-add. */
static int64_t encoder(int64_t layers, int64_t t, int64_t h, int64_t f)
{
    return layers * (2 * t * (4 * h * h + 2 * h * f) + 4 * t * t * h);
}

static void transformers_have_the_flops_of_the_formula(void **state)
{
    const int64_t h = 768;
    struct loaded gpt = load(DATA "gpt2_124m_seq1024.onnx", NULL);
    struct loaded bert = load(DATA "bert_base_seq512.onnx", NULL);

    (void)state;
    assert_int_equal(gpt.t.forward_flops,
                     encoder(12, 1024, h, 4 * h) + 2 * 1024 * h * 50257);
    assert_int_equal(bert.t.forward_flops,
                     encoder(12, 512, h, 4 * h) + 2 * h * h);
    assert_int_equal(gpt.model->tokens, 1024);
    assert_string_equal(gpt.model->kind, "transformer");
    pdl_arena_destroy(gpt.arena);
    pdl_arena_destroy(bert.arena);
}

static void vit_has_the_flops_of_the_formula(void **state)
{
    const int64_t h = 768, t = 197;
    struct loaded l;

    (void)state;
    if (access(SHARED "gen/vit_b_16.onnx", R_OK) != 0) {
        print_message("skipped: no shared ONNX data beside the sources\n");
        skip();
    }
    l = load(SHARED "gen/vit_b_16.onnx", NULL);
    assert_int_equal(
        l.t.forward_flops,
        encoder(12, t, h, 4 * h) + 2 * 196 * h * 3 * 16 * 16 + 2 * h * 1000);
    pdl_arena_destroy(l.arena);
}

static int count_op(const struct pdl_model *m, const char *op)
{
    int n = 0;

    for (int i = 0; i < m->nnodes; i++)
        n += strcmp(m->nodes[i].op->name, op) == 0;
    return n;
}

/* Written out in nine and five operators each; none is left over. */
static void norms_and_gelus_are_put_together(void **state)
{
    struct loaded l = load(DATA "bert_base_seq512.onnx", NULL);

    (void)state;
    assert_int_equal(count_op(l.model, "layer_norm"), 25);
    assert_int_equal(count_op(l.model, "gelu"), 12);
    assert_int_equal(count_op(l.model, "reduce_mean"), 0);
    assert_int_equal(count_op(l.model, "erf"), 0);
    assert_int_equal(count_op(l.model, "linear"), 4 * 12 + 1);
    assert_int_equal(count_op(l.model, "matmul"), 2 * 12);
    pdl_arena_destroy(l.arena);
}

/* Layers hold all parameters of a network whose weights all have a layer. */
static void parameters_belong_to_layers(void **state)
{
    static const char *const files[] = {"resnet50.onnx", "vgg16.onnx",
                                        "mobilenet_v2.onnx",
                                        "bert_base_seq512.onnx"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        struct loaded l;
        int64_t sum = 0;

        snprintf(path, sizeof path, "%s%s", DATA, files[i]);
        l = load(path, NULL);
        for (int k = 0; k < l.model->nnodes; k++)
            sum += pdl_node_parameters(l.model, k);
        assert_int_equal(sum, l.t.parameters);
        pdl_arena_destroy(l.arena);
    }
}

static void unbound_names_are_listed_and_can_be_bound(void **state)
{
    struct loaded l;

    (void)state;
    if (access(SHARED "ort_bert_toy_optimized.onnx", R_OK) != 0) {
        print_message("skipped: no shared ONNX data beside the sources\n");
        skip();
    }
    l = load(SHARED "ort_bert_toy_optimized.onnx", NULL);
    assert_int_equal(l.model->nunbound, 1);
    assert_string_equal(l.model->unbound[0], "max_seq_len_in_batch");
    pdl_arena_destroy(l.arena);
    l = load(SHARED "ort_bert_toy_optimized.onnx", "max_seq_len_in_batch=128");
    assert_int_equal(l.model->nunbound, 0);
    /* 5 layers of width 32, feed-forward 128, pooler, 2 + 2 + ... outputs */
    assert_true(l.t.forward_flops > encoder(5, 128, 32, 32));
    pdl_arena_destroy(l.arena);
}

/* Our own format holds the whole network. */
static void an_imported_model_survives_our_own_format(void **state)
{
    static const char *const files[] = {"resnet50.onnx", "ext_mlp.onnx",
                                        "gpt2_124m_seq1024.onnx"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        struct pdl_buf text;
        struct loaded l;
        const struct pdl_model *back = NULL;
        struct pdl_model_totals t;
        struct pdl_err err = {"", ""};

        snprintf(path, sizeof path, "%s%s", DATA, files[i]);
        l = load(path, NULL);
        pdl_buf_init(&text);
        pdl_model_yaml_write(l.model, &text.sink);
        if (pdl_model_yaml(l.arena, (struct pdl_bytes){text.text, text.len},
                           "back.yaml", &back, &err) != PDL_OK)
            fail_msg("%s: %s", files[i], err.msg);
        assert_int_equal(pdl_model_totals(back, &t, &err), PDL_OK);
        assert_int_equal(t.parameters, l.t.parameters);
        assert_int_equal(t.buffers, l.t.buffers);
        assert_int_equal(t.forward_flops, l.t.forward_flops);
        pdl_buf_free(&text);
        pdl_arena_destroy(l.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(counts_of_the_large_files_are_exact),
        cmocka_unit_test(resnet50_is_the_zoos_layer_by_layer),
        cmocka_unit_test(totals_agree_with_the_zoo),
        cmocka_unit_test(transformers_have_the_flops_of_the_formula),
        cmocka_unit_test(vit_has_the_flops_of_the_formula),
        cmocka_unit_test(norms_and_gelus_are_put_together),
        cmocka_unit_test(parameters_belong_to_layers),
        cmocka_unit_test(unbound_names_are_listed_and_can_be_bound),
        cmocka_unit_test(an_imported_model_survives_our_own_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
