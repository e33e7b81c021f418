/* A graph that an exporter wrote is the family that it is: GPT-2 with attention
 * in pieces, Llama with norms and rotary positions in pieces and keys repeated,
 * BERT; one product that is wider, or another order of norms, and it is
 * none. */
#include "paradl/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct pdl_model *load(pdl_arena *a, const char *file)
{
    const struct pdl_model *m = NULL;
    struct pdl_err err = {"", ""};
    char path[512];

    snprintf(path, sizeof path, PDL_SOURCE_DIR "/tests/data/onnx/%s", file);
    if (pdl_model_load(a, path, NULL, &m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return m;
}

static const struct pdl_model *family(pdl_arena *a, const struct pdl_model *m)
{
    const struct pdl_model *f = NULL;

    assert_int_equal(pdl_model_family(a, m, &f, NULL), PDL_OK);
    return f;
}

static void exported_transformers_are_their_families(void **st)
{
    static const struct {
        const char *file, *zoo;
    } cases[] = {{"gpt2_124m_seq1024.onnx", "gpt2"},
                 {"llama_2_layers.onnx",
                  "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,gated=1,"
                  "vocab=48,seq=16,tied=0"},
                 {"bert_base_post_seq512.onnx", "bert-base"}};

    (void)st;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *f = family(a, load(a, cases[i].file)), *z;
        struct pdl_model_totals x, y;

        assert_int_equal(pdl_zoo_build(a, cases[i].zoo, &z, NULL), PDL_OK);
        if (!f)
            fail_msg("%s is not recognised", cases[i].file);
        assert_int_equal(pdl_model_totals(f, &x, NULL), PDL_OK);
        assert_int_equal(pdl_model_totals(z, &y, NULL), PDL_OK);
        assert_int_equal(x.parameters, y.parameters);
        assert_int_equal(x.forward_flops, y.forward_flops);
        assert_int_equal(f->nnodes, z->nnodes);
        assert_int_equal(f->nsegments, z->nsegments);
        pdl_arena_destroy(a);
    }
}

static void others_are_none(void **st)
{
    static const char *const files[] = {"resnet50.onnx", "vgg16.onnx",
                                        "mobilenet_v2.onnx",
                                        /* an encoder, norms first */
                                        "bert_base_seq512.onnx"};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)st;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_null(family(a, load(a, files[i])));
    pdl_arena_destroy(a);
}

/* Each is another network, by one node. */
static void check_each(const char *file, int products)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = load(a, file);
    struct pdl_node *nodes = PDL_NEW(a, struct pdl_node, m->nnodes);
    struct pdl_model other = *m;
    int changed = 0;

    other.nodes = nodes;
    for (int i = 0; i < m->nnodes; i++) {
        memcpy(nodes, m->nodes, (size_t)m->nnodes * sizeof *nodes);
        if (pdl_op_id(m->nodes[i].op) != PDL_ID_LINEAR)
            continue;
        nodes[i].attr.features += 64;
        changed++;
        if (family(a, &other))
            fail_msg("%s is wider, and nobody saw it", nodes[i].name);
    }
    assert_int_equal(changed, products);
    pdl_arena_destroy(a);
}

static void one_node_makes_the_difference(void **st)
{
    (void)st;
    check_each("gpt2_124m_seq1024.onnx", 4 * 12 + 1);
    check_each("llama_2_layers.onnx", 7 * 2 + 1);
    check_each("bert_base_post_seq512.onnx", 6 * 12 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exported_transformers_are_their_families),
        cmocka_unit_test(others_are_none),
        cmocka_unit_test(one_node_makes_the_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
