/* Layers that exporters spell out become one; what only looks like them does
 * not. Batch norms of a file that stores equal values once have their own
 * weights. */
#include "onnx_make.h"

#include "paradl/plan.h"

#include <math.h>
#include <setjmp.h>
#include <cmocka.h>

struct row {
    const char *what;
    const char *nodes[10]; /* x -> y; s is a stored scalar */
    const char *outputs[2];
    const char *op; /* that they become; NULL: they stay */
    int count;      /* nodes of the model */
};

// clang-format off
static const struct row rows[] = {
    {"x sigmoid(x)", {"Sigmoid x -> g", "Mul x,g -> y"}, {"y"}, "silu", 1},
    {"sigmoid(x) x", {"Sigmoid x -> g", "Mul g,x -> y"}, {"y"}, "silu", 1},
    {"x hard_sigmoid(x)",
     {"HardSigmoid x -> g | alpha=0.16666667", "Mul x,g -> y"}, {"y"},
     "hard_swish", 1},
    {"another line than hard_swish has",
     {"HardSigmoid x -> g", "Mul x,g -> y"}, {"y"}, NULL, 2},
    {"the gate is read elsewhere, too",
     {"Sigmoid x -> g", "Mul x,g -> y"}, {"y", "g"}, NULL, 2},
    {"the gate is of something else",
     {"Relu x -> r", "Sigmoid r -> g", "Mul x,g -> y"}, {"y"}, NULL, 3},
    {"GELU by tanh, halved last, a cube of products",
     {"Mul x,x -> q", "Mul x,q -> c", "Mul c,s -> b", "Add x,b -> u",
      "Mul u,s -> v", "Tanh v -> t", "Add t,s -> g", "Mul x,g -> p",
      "Mul p,s -> y"}, {"y"}, "gelu", 1},
    {"GELU by tanh, halved first, a power",
     {"Mul x,s -> h", "Pow x,s -> c", "Mul c,s -> b", "Add x,b -> u",
      "Mul u,s -> v", "Tanh v -> t", "Add t,s -> g", "Mul h,g -> y"}, {"y"},
     "gelu", 1},
    {"another function in the place of tanh",
     {"Mul x,s -> h", "Pow x,s -> c", "Mul c,s -> b", "Add x,b -> u",
      "Mul u,s -> v", "Relu v -> t", "Add t,s -> g", "Mul h,g -> y"}, {"y"},
     NULL, 8},
    {"the cube of another value",
     {"Relu x -> r", "Mul x,s -> h", "Pow r,s -> c", "Mul c,s -> b",
      "Add x,b -> u", "Mul u,s -> v", "Tanh v -> t", "Add t,s -> g",
      "Mul h,g -> y"}, {"y"}, NULL, 9},
};
// clang-format on

static pdl_arena *arena;

static const struct pdl_model *read_model(struct pdl_buf *g)
{
    struct pdl_model_options opt = {.dims = NULL};
    struct pdl_err err = {"", ""};
    const struct pdl_model *m = NULL;
    struct pdl_buf file;

    om_model(&file, g, 17);
    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    if (pdl_model_onnx(arena, (struct pdl_bytes){file.text, file.len},
                       "test.onnx", &opt, &m, &err) != PDL_OK ||
        pdl_model_check(m, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_buf_free(&file);
    return m;
}

static int count_op(const struct pdl_model *m, const char *op)
{
    int n = 0;

    for (int i = 0; i < m->nnodes; i++)
        n += strcmp(m->nodes[i].op->name, op) == 0;
    return n;
}

static void what_is_spelled_out_is_one_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        const struct pdl_model *m;
        struct pdl_buf g;

        pdl_buf_init(&g);
        for (int k = 0; k < 10 && r->nodes[k]; k++)
            om_node(&g, r->nodes[k]);
        om_tensor(&g, "s", OM_F32, "", "3");
        om_value(&g, 11, "x", OM_F32, "N,3,4,4");
        for (int k = 0; k < 2 && r->outputs[k]; k++)
            om_value(&g, 12, r->outputs[k], OM_F32, "");
        m = read_model(&g);
        print_message("%s\n", r->what);
        assert_int_equal(m->nnodes, r->count);
        assert_int_equal(r->op ? count_op(m, r->op) : 0, r->op ? 1 : 0);
        pdl_arena_destroy(arena);
    }
}

/* Two norms of 3 channels: 12 parameters and 12 buffers, or, where the file
 * tells scale from variance, what it stores. */
static void batch_norms_of_merged_values_are_their_own(void **state)
{
    static const struct {
        const char *first, *second;
        int64_t parameters, buffers;
    } cases[] = {
        {"BatchNormalization x,one,nil,nil,one -> h",
         "BatchNormalization h,one,nil,nil,one -> y", 12, 12},
        {"BatchNormalization x,one,nil,m,v -> h",
         "BatchNormalization h,one,nil,m,v -> y", 6, 6},
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pdl_err err = {"", ""};
        struct pdl_model_totals t;
        const struct pdl_model *m;
        struct pdl_buf g;

        pdl_buf_init(&g);
        om_node(&g, cases[i].first);
        om_node(&g, cases[i].second);
        om_tensor(&g, "one", OM_F32, "3", NULL);
        om_tensor(&g, "nil", OM_F32, "3", NULL);
        if (i == 1) {
            om_tensor(&g, "m", OM_F32, "3", NULL);
            om_tensor(&g, "v", OM_F32, "3", NULL);
        }
        om_value(&g, 11, "x", OM_F32, "N,3,4,4");
        om_value(&g, 12, "y", OM_F32, "");
        m = read_model(&g);
        assert_int_equal(pdl_model_totals(m, &t, &err), PDL_OK);
        assert_int_equal(t.parameters, cases[i].parameters);
        assert_int_equal(t.buffers, cases[i].buffers);
        pdl_arena_destroy(arena);
    }
}

/* Swin's positions: a stored table of indices into a stored table. */
static void a_table_of_indices_can_be_planned(void **state)
{
    struct pdl_plan_options po = {.batch = 4, .dtype = PDL_F32};
    struct pdl_strategy s = {0};
    struct pdl_err err = {"", ""};
    const struct pdl_plan *p;
    const struct pdl_model *m;
    struct pdl_buf g;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Gather t,i -> b");
    om_node(&g, "MatMul x,w -> h");
    om_node(&g, "Add h,b -> y");
    om_tensor(&g, "t", OM_F32, "9,5", NULL);
    om_tensor(&g, "i", OM_I64, "6", "1,2,3,4,5,6");
    om_tensor(&g, "w", OM_F32, "5,5", NULL);
    om_value(&g, 11, "x", OM_F32, "N,6,5");
    om_value(&g, 12, "y", OM_F32, "");
    m = read_model(&g);
    assert_int_equal(count_op(m, "embedding"), 1);
    if (pdl_strategy_parse(arena, "data=2", &s, &err) != PDL_OK ||
        pdl_plan_lower(arena, m, &s, &po, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(arena);
}

/* x [N,6,4,5] -> y: the first layer's operator, numbers and dims. */
static const struct numbers {
    const char *node, *op;
    double alpha, beta, epsilon;
    int64_t axis;
    int ndims;
    int64_t dims[4];
} numbers[] = {
    // clang-format off
    {"LeakyRelu x -> y | alpha=0.2", "leaky_relu", .alpha = 0.2},
    {"LeakyRelu x -> y | alpha=-0.2", "other", .alpha = 0},
    {"LeakyRelu x -> y | alpha=0.0", "relu", .alpha = 0},
    {"ThresholdedRelu x -> y", "other", .alpha = 0},
    {"Elu x -> y | alpha=0.7", "elu", .alpha = 0.7},
    {"Celu x -> y | alpha=0.7", "other", .alpha = 0},
    {"Celu x -> y", "elu", .alpha = 1},
    {"HardSigmoid x -> y", "hard_sigmoid", .alpha = 0.2, .beta = 0.5},
    {"Selu x -> y | gamma=2.5", "other", .alpha = 0},
    {"Add x,s -> y", "affine", .alpha = 1, .beta = 3},
    {"Sub x,s -> y", "affine", .alpha = 1, .beta = -3},
    {"Sub s,x -> y", "affine", .alpha = -1, .beta = 3},
    {"Mul s,x -> y", "affine", .alpha = 3},
    {"Div x,s -> y", "affine", .alpha = 1.0 / 3},
    {"Div s,x -> y", "reciprocal", .alpha = 0},
    {"Pow x,s -> y", "power", .alpha = 3},
    {"Pow s,x -> y", "pow", .alpha = 0},
    {"Clip x,_,s -> y", "clip", .alpha = -3.4028234663852886e38, .beta = 3},
    {"Max x,s -> y", "clip", .alpha = 3, .beta = 3.4028234663852886e38},
    {"Mul x,n -> y", "mul", .alpha = 0},
    {"GroupNormalization x,w,w -> y | num_groups=2 epsilon=0.25",
     "group_norm", .epsilon = 0.25},
    {"InstanceNormalization x,w,w -> y | epsilon=0.25", "instance_norm", .epsilon = 0.25},
    {"Transpose x -> y | perm=0,3,1,2", "transpose", .ndims = 3,
     .dims = {2, 0, 1}},
    {"Transpose x -> y | perm=1,0,2,3", "identity", .alpha = 0},
    {"Slice x,one,s,two -> y", "slice", .axis = 1, .ndims = 3,
     .dims = {1, 3, 1}},
    {"Slice x,one,s,nil -> y", "other", .alpha = 0}, /* the batch is cut */
    {"Split x -> y,z | axis=1", "split", .axis = 0, .ndims = 2,
     .dims = {3, 3}},
    {"Gather x,one -> y | axis=2", "slice", .axis = 1, .ndims = 3,
     .dims = {1, 2, 1}},
    {"Gather x,back -> y | axis=2", "slice", .axis = 1, .ndims = 3,
     .dims = {2, 4, 1}}, /* and 0, joined */
    {"ReduceMean x -> y | axes=-1,1", "reduce_mean", .ndims = 2,
     .dims = {2, 0}},
    {"ReduceMean x -> y | axes=0", "other", .alpha = 0},
    {"Resize x,_,up -> y | mode=cubic", "resize", .alpha = -0.75, .beta = 0.5,
     .ndims = 2, .dims = {8, 10}},
    {"Resize x,_,up -> y | mode=cubic cubic_coeff_a=-0.5 coordinate_transformation_mode=align_corners",
     "resize", .alpha = -0.5, .ndims = 2, .dims = {8, 10}},
    {"Resize x,_,up -> y | mode=cubic exclude_outside=1", "other", .alpha = 0},
    {"Resize x,_,up -> y | mode=cubic antialias=1", "other", .alpha = 0},
    {"Resize x,_,up -> y | mode=linear", "resize", .alpha = 1, .beta = 0.5,
     .ndims = 2, .dims = {8, 10}},
    {"Resize x,_,up -> y | mode=linear coordinate_transformation_mode=asymmetric",
     "resize", .alpha = 1, .ndims = 2, .dims = {8, 10}},
    {"Resize x,_,up -> y | mode=linear coordinate_transformation_mode=tf_crop_and_resize",
     "other", .alpha = 0},
    {"Resize x,_,up -> y | mode=nearest", "resize", .ndims = 2,
     .dims = {8, 10}},
    {"Resize x,_,up -> y | coordinate_transformation_mode=align_corners",
     "other", .alpha = 0},
    // clang-format on
};

static void the_numbers_of_a_file_are_obeyed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const struct numbers *r = &numbers[i];
        const struct pdl_model *m;
        const struct pdl_node *n;
        struct pdl_buf g;

        pdl_buf_init(&g);
        om_node(&g, r->node);
        om_tensor(&g, "s", OM_F32, "", "3");
        om_tensor(&g, "nil", OM_I64, "1", "0");
        om_tensor(&g, "one", OM_I64, "1", "1");
        om_tensor(&g, "two", OM_I64, "1", "2");
        om_tensor(&g, "back", OM_I64, "3", "2,3,0");
        om_tensor(&g, "up", OM_F32, "4", "1,1,2,2");
        om_tensor(&g, "w", OM_F32, "6", NULL);
        om_tensor(&g, "n", OM_F32, "6,1,1", NULL);
        om_value(&g, 11, "x", OM_F32, "N,6,4,5");
        om_value(&g, 12, "y", OM_F32, "");
        m = read_model(&g);
        n = &m->nodes[0];
        print_message("%s\n", r->node);
        assert_string_equal(n->op->name, r->op);
        assert_true(fabs(n->attr.alpha - r->alpha) <= 1e-9 * fabs(r->alpha));
        assert_true(fabs(n->attr.beta - r->beta) <= 1e-9 * fabs(r->beta));
        assert_true(r->epsilon == 0 || n->attr.epsilon == r->epsilon);
        assert_int_equal(n->attr.axis, r->axis);
        assert_int_equal(n->attr.ndims, r->ndims);
        for (int k = 0; k < r->ndims; k++)
            assert_int_equal(n->attr.dims[k], r->dims[k]);
        pdl_arena_destroy(arena);
    }
}

/* Weights of products are ours as [outputs, inputs], in files as they lie. */
static void weights_that_lie_the_other_way_are_turned(void **state)
{
    static const struct {
        const char *nodes[2], *shape;
        bool turned;
    } cases[] = {
        {{"MatMul x,w -> y", NULL}, "5,7", true},
        {{"MatMul x,w -> y", NULL}, "5,5", true},
        {{"Transpose w -> v | perm=1,0", "MatMul x,v -> y"}, "7,5", false},
        {{"Transpose w -> v | perm=1,0", "MatMul x,v -> y"}, "5,5", false},
        {{"Gemm x,w -> y", NULL}, "5,5", true},
        {{"Gemm x,w -> y | transB=1", NULL}, "5,5", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pdl_weight_place *p;
        const struct pdl_model *m;
        const struct pdl_tensor *w;
        struct pdl_buf g;
        int n;

        pdl_buf_init(&g);
        for (int k = 0; k < 2 && cases[i].nodes[k]; k++)
            om_node(&g, cases[i].nodes[k]);
        om_tensor(&g, "w", OM_F32, cases[i].shape, NULL);
        om_value(&g, 11, "x", OM_F32, "N,5");
        om_value(&g, 12, "y", OM_F32, "");
        m = read_model(&g);
        assert_string_equal(m->nodes[0].op->name, "linear");
        w = &m->tensors[m->nodes[0].weights[0]];
        assert_int_equal(w->dim[0], m->nodes[0].attr.features);
        assert_int_equal(w->dim[1], 5);
        assert_int_equal(
            pdl_weight_places(arena, NULL, m, m->nodes[0].weights[0], &p, &n,
                              NULL),
            PDL_OK);
        assert_int_equal(n, 1);
        assert_int_equal(p->transposed, cases[i].turned);
        assert_int_equal(p->dim[0], w->dim[cases[i].turned]);
        pdl_arena_destroy(arena);
    }
}

/* tokens + rows of a table by position; a token before others. */
static void positions_and_tokens_are_found(void **state)
{
    const struct pdl_model *m;
    struct pdl_buf g;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Gather t,i -> b");
    om_node(&g, "Relu x -> r");
    om_node(&g, "Add r,b -> h");
    om_node(&g, "Expand c,shape -> e");
    om_node(&g, "Concat e,h -> y | axis=1");
    om_tensor(&g, "t", OM_F32, "9,5", NULL);
    om_tensor(&g, "c", OM_F32, "1,1,5", NULL);
    om_tensor(&g, "shape", OM_I64, "3", "1,1,5");
    om_tensor(&g, "i", OM_I64, "6", "0,1,2,3,4,5");
    om_value(&g, 11, "x", OM_F32, "N,6,5");
    om_value(&g, 12, "y", OM_F32, "");
    m = read_model(&g);
    assert_int_equal(count_op(m, "position_embedding"), 1);
    assert_int_equal(count_op(m, "embedding"), 0);
    assert_int_equal(count_op(m, "class_token"), 1);
    pdl_arena_destroy(arena);
}

/* Rows that are counted from the tokens: layers of integers, no constant. */
static void rows_may_be_counted_from_tokens(void **state)
{
    static const char *const ops[] = {"affine", "clip", "embedding"};
    const struct pdl_model *m;
    struct pdl_buf g;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Add ids,one -> i");
    om_node(&g, "Clip i,_,top -> k");
    om_node(&g, "Gather t,k -> y");
    om_tensor(&g, "t", OM_F32, "9,5", NULL);
    om_tensor(&g, "one", OM_I64, "", "1");
    om_tensor(&g, "top", OM_I64, "", "8");
    om_value(&g, 11, "ids", OM_I64, "N,6");
    om_value(&g, 12, "y", OM_F32, "");
    m = read_model(&g);
    assert_int_equal(m->nnodes, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(m->nodes[i].op->name, ops[i]);
        assert_int_equal(m->tensors[m->nodes[i].in[0]].dtype, PDL_I64);
        assert_int_not_equal(m->tensors[m->nodes[i].in[0]].kind,
                             PDL_TENSOR_CONST);
    }
    pdl_arena_destroy(arena);
    /* sums so far, of the tokens but not of the samples, which no kernel has:
     * a layer, too, which training refuses */
    for (int axis = 0; axis < 2; axis++) {
        pdl_buf_init(&g);
        om_node(&g, "CumSum ids,axis -> k");
        om_node(&g, "Gather t,k -> y");
        om_tensor(&g, "t", OM_F32, "9,5", NULL);
        om_tensor(&g, "axis", OM_I64, "", axis ? "1" : "0");
        om_value(&g, 11, "ids", OM_I64, "N,6");
        om_value(&g, 12, "y", OM_F32, "");
        m = read_model(&g);
        assert_int_equal(m->nnodes, 2);
        assert_string_equal(m->nodes[0].op->name, axis ? "cumsum" : "other");
        pdl_arena_destroy(arena);
    }
}

/* Elements of features by numbers that are counted from the tokens: those are
 * layers, and have no gradient; by stored ones, or rows of other samples, it is
 * a layer that nobody runs. */
static void elements_may_be_found_by_the_data(void **state)
{
    static const struct {
        const char *find, *index, *op; /* NULL: one that nobody runs */
    } cases[] = {
        {"GatherElements h,k -> y | axis=1", "N,6,5", "take"},
        {"GatherElements h,k -> y | axis=0", "N,6,5", NULL},
        {"GatherND h,k -> y | batch_dims=1", "N,3,1", "take_rows"},
        {"GatherND h,k -> y | batch_dims=0", "N,3,1", NULL},
        {"Gather h,k -> y | axis=1", "N,6", NULL},
    };
    const struct pdl_model *m;
    struct pdl_buf g;
    const char *op;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pdl_buf_init(&g);
        om_node(&g, "Tanh x -> h");
        om_node(&g, "Add ids,one -> k");
        om_node(&g, cases[i].find);
        om_tensor(&g, "one", OM_I64, "", "1");
        om_value(&g, 11, "x", OM_F32, "N,6,5");
        om_value(&g, 11, "ids", OM_I64, cases[i].index);
        om_value(&g, 12, "y", OM_F32, "");
        m = read_model(&g);
        op = m->nodes[m->nnodes - 1].op->name;
        if (cases[i].op)
            assert_string_equal(op, cases[i].op);
        else
            assert_true(strcmp(op, "other") == 0 || strcmp(op, "gather") == 0);
        pdl_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_a_file_are_obeyed),
        cmocka_unit_test(weights_that_lie_the_other_way_are_turned),
        cmocka_unit_test(positions_and_tokens_are_found),
        cmocka_unit_test(rows_may_be_counted_from_tokens),
        cmocka_unit_test(elements_may_be_found_by_the_data),
        cmocka_unit_test(what_is_spelled_out_is_one_layer),
        cmocka_unit_test(batch_norms_of_merged_values_are_their_own),
        cmocka_unit_test(a_table_of_indices_can_be_planned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
