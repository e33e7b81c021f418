/* Our own format: what is written reads back the same, what is wrong is
 * refused with its place. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void same_shape(const struct pdl_tensor *a, const struct pdl_tensor *b)
{
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->kind, b->kind);
}

static void same_layers(const struct pdl_model *a, const struct pdl_model *b)
{
    assert_int_equal(a->nnodes, b->nnodes);
    for (int i = 0; i < a->nnodes; i++) {
        const struct pdl_node *x = &a->nodes[i], *y = &b->nodes[i];

        assert_string_equal(x->name, y->name);
        assert_ptr_equal(x->op, y->op);
        assert_memory_equal(&x->attr, &y->attr, sizeof x->attr);
        assert_int_equal(pdl_node_repeat(a, i), pdl_node_repeat(b, i));
        assert_int_equal(x->nin, y->nin);
        assert_int_equal(x->nweights, y->nweights);
        assert_int_equal(x->nout, y->nout);
        for (int k = 0; k < x->nin; k++)
            same_shape(&a->tensors[x->in[k]], &b->tensors[y->in[k]]);
        for (int k = 0; k < x->nweights; k++)
            same_shape(&a->tensors[x->weights[k]], &b->tensors[y->weights[k]]);
        for (int k = 0; k < x->nout; k++)
            same_shape(&a->tensors[x->out[k]], &b->tensors[y->out[k]]);
    }
}

/* write, read, compare, write again, compare the text */
static void round_trip(const struct pdl_model *m)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *back = NULL;
    struct pdl_model_totals t, u;
    struct pdl_err err = {"", ""};
    struct pdl_buf one, two;

    pdl_buf_init(&one);
    pdl_buf_init(&two);
    pdl_model_yaml_write(m, &one.sink);
    assert_false(one.sink.failed);
    if (pdl_model_yaml(a, (struct pdl_bytes){one.text, one.len}, "x.yaml",
                       &back, &err) != PDL_OK ||
        pdl_model_check(back, &err) != PDL_OK)
        fail_msg("%s: %s\n%s", m->name, err.msg, one.text);
    same_layers(m, back);
    assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
    assert_int_equal(pdl_model_totals(back, &u, NULL), PDL_OK);
    assert_memory_equal(&t, &u, sizeof t);
    assert_string_equal(m->name, back->name);
    assert_string_equal(m->kind, back->kind);
    assert_string_equal(m->source, back->source);
    assert_int_equal(m->tokens, back->tokens);
    assert_int_equal(m->source_nodes, back->source_nodes);
    assert_int_equal(m->nunknown, back->nunknown);
    assert_int_equal(m->nunbound, back->nunbound);
    pdl_model_yaml_write(back, &two.sink);
    assert_string_equal(one.text, two.text);
    pdl_buf_free(&one);
    pdl_buf_free(&two);
    pdl_arena_destroy(a);
}

static void every_network_of_the_zoo_survives_the_round_trip(void **state)
{
    const struct pdl_zoo_entry *e;

    (void)state;
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;

        assert_int_equal(pdl_zoo_build(a, e->name, &m, NULL), PDL_OK);
        round_trip(m);
        pdl_arena_destroy(a);
    }
}

/* Two layers with one name, weights tied forwards and backwards, a tensor
 * called like a layer, names a terminal or YAML would trip over, an operator
 * nobody knows, outputs in unusual types. */
static void awkward_networks_survive_the_round_trip(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_build *b = pdl_build_begin(a, "null");
    int64_t dim[] = {4, 8}, square[] = {8, 8};
    struct pdl_attr eight = {.features = 8, .no_bias = true};
    struct pdl_attr odd = {.features = 2,
                           .kernel = {3},
                           .pad = {1},
                           .pad_end = {0},
                           .scale = 1.0 / 3};
    struct pdl_tensor outs[2] = {
        {.name = "a\"b\\c\x01\xc3\xa9\xff", .rank = 1, .dim = {5}},
        {.dtype = PDL_I64, .rank = 0}};
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_BF16, 2, dim), y, w;
    const struct pdl_model *m = NULL;

    (void)state;
    pdl_build_tensor(b, "fc", PDL_TENSOR_BUFFER, PDL_I64, 1, dim);
    w = pdl_build_tensor(b, "late.weight", PDL_TENSOR_WEIGHT, PDL_BF16, 2,
                         square);
    y = pdl_build_node(b, &(struct pdl_build_spec){.op = "linear",
                                                   .name = "early",
                                                   .attr = &eight,
                                                   .in = &x,
                                                   .nin = 1,
                                                   .weights = &w,
                                                   .nweights = 1});
    y = pdl_build_node(b, &(struct pdl_build_spec){.op = "linear",
                                                   .name = "late",
                                                   .attr = &eight,
                                                   .in = &y,
                                                   .nin = 1,
                                                   .weights = &w,
                                                   .nweights = 1});
    y = pdl_build_op(b, "linear", "fc", &eight, &y, 1);
    pdl_build_repeat(b, 1000000000000, 7, y);
    w = pdl_build_tensor(b, "block{i}.extra", PDL_TENSOR_WEIGHT, PDL_F32, 1,
                         dim);
    y = pdl_build_op(b, "linear", "block{i}", &eight, &y, 1);
    y = pdl_build_repeat_end(b, y);
    y = pdl_build_op(b, "relu", "same", NULL, &y, 1);
    y = pdl_build_op(b, "relu", "same", NULL, &y, 1);
    y = pdl_build_op(b, "conv", "same", &odd, &x, 1);
    y = pdl_build_op(b, "conv", "same", &odd, &x, 1);
    pdl_build_node(b, &(struct pdl_build_spec){.op = "other",
                                               .name = "- odd: [",
                                               .source_op = "Odd::Op",
                                               .in = &y,
                                               .nin = 1,
                                               .out = outs,
                                               .nout = 2});
    pdl_build_op(b, "constant", "", &(struct pdl_attr){.ndims = 0}, NULL, 0);
    pdl_build_unknown(b, "Odd::Op");
    pdl_build_unbound(b, "seq");
    pdl_build_unbound(b, "past seq");
    pdl_build_meta(b, "other", "", 77, 12);
    assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
    assert_int_equal(pdl_model_check(m, NULL), PDL_OK);
    round_trip(m);
    pdl_arena_destroy(a);
}

static void a_network_can_be_written_by_hand(void **state)
{
    static const char text[] = "format: paradl-model/1\n"
                               "inputs: [{name: image, shape: [1, 28, 28]}]\n"
                               "layers:\n"
                               "- {op: conv, name: c, features: 6, kernel: 5, "
                               "pad: 2}\n"
                               "- {op: relu, name: r}\n"
                               "- {op: flatten, name: f}\n"
                               "- {op: linear, name: fc, features: 10}\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;

    (void)state;
    assert_int_equal(
        pdl_model_yaml(a, (struct pdl_bytes){text, sizeof text - 1},
                       "hand.yaml", &m, NULL),
        PDL_OK);
    assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
    assert_int_equal(t.parameters, 6 * 26 + 6 * 28 * 28 * 10 + 10);
    assert_int_equal(t.forward_flops, 2 * 784 * 6 * 25 + 2 * 4704 * 10);
    round_trip(m);
    pdl_arena_destroy(a);
}

#define HEAD "format: paradl-model/1\ninputs: [{name: x, shape: [3, 8, 8]}]\n"

static const struct {
    const char *text, *msg, *hint;
} cases[] = {
    {"", "m.yaml: the file is empty", ""},
    {"[1]\n",
     "m.yaml:1:1: expected a model, 'format: paradl-model/1' and 'layers'", ""},
    {"layers: []\n", "m.yaml:1:1: needs 'format'",
     "its first line is 'format: paradl-model/1'"},
    {"format: paradl-model/9\n",
     "m.yaml:1:9: format: 'paradl-model/9', but this reads paradl-model/1", ""},
    {HEAD "layer: []\n", "m.yaml:3:1: unknown key 'layer'",
     "did you mean 'layers'?"},
    {HEAD, "m.yaml:1:1: needs 'layers'", ""},
    {HEAD "layers: 7\n", "m.yaml:3:9: layers: expected a list of layers", ""},
    {HEAD "layers: [relu]\n",
     "m.yaml:3:10: expected a layer, {op: ..., name: ...}", ""},
    {HEAD "layers:\n- {op: relu}\n", "m.yaml:4:3: needs 'name'", ""},
    {HEAD "layers:\n- {op: rleu, name: r}\n",
     "m.yaml:4:3: r: no operator 'rleu'", "did you mean 'relu'?"},
    {HEAD "layers:\n- {op: relu, name: r, in: [z]}\n",
     "m.yaml:4:28: no tensor or layer 'z' so far", ""},
    {HEAD "layers:\n- {op: conv, name: c, kernl: 3}\n",
     "m.yaml:4:23: unknown key 'kernl'", "did you mean 'kernel'?"},
    {HEAD "layers:\n- {op: conv, name: c, kernel: three}\n",
     "m.yaml:4:31: kernel: 'three' is not a whole number", ""},
    {HEAD "layers:\n- {op: conv, name: c, kernel: 9, features: 4}\n",
     "m.yaml:4:3: c (conv): the kernel reaches 9, but the padded input is "
     "only 8",
     ""},
    {HEAD "layers:\n- {op: conv, name: c, kernel: [1, 1, 1, 1]}\n",
     "m.yaml:4:31: kernel: more than 3 entries", ""},
    {HEAD "layers:\n- {op: relu, name: x, out: [{name: x, shape: [1]}]}\n",
     "m.yaml:4:3: x (relu): the output is [3,8,8], but [1] was given", ""},
    {HEAD "layers:\n- {op: relu, name: r, out: [{name: x, shape: [3, 8, "
          "8]}]}\n",
     "m.yaml:4:3: two tensors are called 'x'", ""},
    {HEAD "layers:\n- {op: relu, name: r, bias: no}\n",
     "m.yaml:4:29: bias: 'no' is not true or false", ""},
    {HEAD "layers:\n- repeat: 0\n  layers: []\n",
     "m.yaml:4:11: repeat: 0 is outside 1 to 9223372036854775807", ""},
    {HEAD "layers:\n- repeat: 2\n  layers: []\n",
     "m.yaml:4:3: a repeated block must end with a tensor it makes", ""},
    {HEAD "layers:\n- repeat: 2\n  layers:\n"
          "  - {op: flatten, name: f}\n",
     "m.yaml:4:3: a repeated block begins with [3,8,8] but ends with [192]",
     ""},
    {HEAD "layers:\n- repeat: 2\n  layers:\n  - repeat: 2\n"
          "    layers: []\n",
     "m.yaml:6:5: a repeated block inside another", ""},
    {HEAD "layers:\n- repeat: 2\n  layers:\n  - {op: relu, name: a}\n"
          "  - {op: relu, name: b}\n- {op: add, name: c, in: [a, b]}\n",
     "m.yaml:8:3: c (add): reads 'a.y' inside a repeated block", ""},
    {"format: paradl-model/1\ninputs: [{name: x, shape: [3037000500, "
     "3037000500]}]\nlayers: []\n",
     "m.yaml:2:10: x: [3037000500,3037000500] is no shape, or too large", ""},
    {"format: paradl-model/1\ninputs: [{name: x, dtype: f23, shape: "
     "[3]}]\nlayers: []\n",
     "m.yaml:2:27: dtype: no 'f23'", "did you mean 'f32'?"},
    {"format: paradl-model/1\nlayers:\n- {op: relu, name: r}\n",
     "m.yaml:3:3: needs 'in': nothing stands before", ""},
};

static void what_is_wrong_is_said_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in = {cases[i].text, strlen(cases[i].text)};
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_model_yaml(a, in, "m.yaml", &m, &err), PDL_EPARSE);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        assert_null(m);
        pdl_arena_destroy(a);
    }
}

/* Every arena size from nothing to enough: never a crash, and the one status
 * for it until it succeeds. */
static void too_little_memory_is_an_error_at_every_size(void **state)
{
    struct pdl_buf text;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    enum pdl_status st = PDL_ENOMEM;

    (void)state;
    pdl_buf_init(&text);
    assert_int_equal(pdl_zoo_build(a, "lenet", &m, NULL), PDL_OK);
    pdl_model_yaml_write(m, &text.sink);
    pdl_arena_destroy(a);
    for (size_t limit = 0; st != PDL_OK; limit += 61) {
        a = pdl_arena_create(limit);
        m = NULL;
        st = pdl_model_yaml(a, (struct pdl_bytes){text.text, text.len},
                            "m.yaml", &m, NULL);
        assert_true(st == PDL_OK || st == PDL_ENOMEM);
        assert_true((st == PDL_OK) == (m != NULL));
        assert_true(limit < 1 << 20);
        pdl_arena_destroy(a);
    }
    pdl_buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_of_the_zoo_survives_the_round_trip),
        cmocka_unit_test(awkward_networks_survive_the_round_trip),
        cmocka_unit_test(a_network_can_be_written_by_hand),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(too_little_memory_is_an_error_at_every_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
