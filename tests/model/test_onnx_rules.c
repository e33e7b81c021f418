/* What counts as a parameter and what as a buffer, one rule at a time, on
 * graphs written for it. */
#include "onnx_make.h"

#include <setjmp.h>
#include <cmocka.h>

struct result {
    enum pdl_status st;
    struct pdl_err err;
    const struct pdl_model *model;
    struct pdl_model_totals t;
    pdl_arena *arena;
};

static struct result read_file(struct pdl_buf *file, const char *dims)
{
    struct result r = {.err = {"", ""}};
    struct pdl_model_options opt = {.dims = dims};
    struct pdl_bytes in = {file->text, file->len};

    r.arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    r.st = pdl_model_onnx(r.arena, in, "test.onnx", &opt, &r.model, &r.err);
    if (r.st == PDL_OK) {
        r.st = pdl_model_check(r.model, &r.err);
        if (r.st == PDL_OK)
            r.st = pdl_model_totals(r.model, &r.t, &r.err);
    }
    if (r.st != PDL_OK)
        print_message("%s\n", r.err.msg);
    pdl_buf_free(file);
    return r;
}

static struct result read_graph(struct pdl_buf *g, int opset)
{
    struct pdl_buf m;

    om_model(&m, g, opset);
    return read_file(&m, NULL);
}

/* ---- one graph a row -------------------------------------------------- */

struct row {
    const char *what;
    const char *stored[8]; /* "name type dims [ints]" */
    const char *inputs[4]; /* "name type dims" */
    const char *nodes[10];
    const char *output;
    int64_t parameters, buffers, flops;
};

// clang-format off
static const struct row rows[] = {
    {"weight and bias of a convolution, also with one element",
     {"w f 1,3,1,1", "b f 1"}, {"x f N,3,4,4"},
     {"Conv x,w,b -> y"}, "y", 4, 0, 96},
    {"a linear layer through a transpose and an identity",
     {"w f 5,7"}, {"x f N,7"},
     {"Identity w -> i", "Transpose i -> t | perm=1,0", "MatMul x,t -> y"},
     "y", 35, 0, 70},
    {"a bias of one element after a product",
     {"w f 7,1", "b f 1"}, {"x f N,7"},
     {"MatMul x,w -> p", "Add p,b -> y"}, "y", 8, 0, 14},
    {"a scalar that is added is not learned",
     {"s f 1", "w f 7,2"}, {"x f N,7"},
     {"MatMul x,w -> p", "Add p,s -> y"}, "y", 14, 0, 28},
    {"scale and shift by element are",
     {"g f 7", "h f 7"}, {"x f N,7"},
     {"Mul x,g -> a", "Sub h,a -> y"}, "y", 14, 0, 0},
    {"batch norm: two learned, two measured",
     {"g f 3", "h f 3", "m f 3", "v f 3"}, {"x f N,3,4,4"},
     {"BatchNormalization x,g,h,m,v -> y"}, "y", 6, 6, 0},
    {"a tied table counts once",
     {"w f 10,4"}, {"ids i N,6"},
     {"Gather w,ids -> e", "Transpose w -> t | perm=1,0", "MatMul e,t -> y"},
     "y", 40, 0, 480},
    {"what nobody reads does not count",
     {"w f 7,2", "unused f 100"}, {"x f N,7"},
     {"MatMul x,w -> y"}, "y", 14, 0, 28},
    {"shapes, axes and indices do not count",
     {"s i 3 0,7,1", "a i 1 2", "k i 2 1,3"}, {"x f N,7"},
     {"Reshape x,s -> r", "Gather r,k -> g | axis=1", "Squeeze g,a -> y"},
     "y", 0, 0, 0},
    {"position ids into a table are a buffer",
     {"w f 10,4", "p i 6 0,1,2,3,4,5", "u f 9,4"}, {"ids i N,6"},
     {"Gather w,ids -> e", "Gather u,p -> q", "Add e,q -> y"},
     "y", 76, 6, 0},
    {"a mask added before softmax is a buffer",
     {"m f 6,6", "w f 6,6"}, {"x f N,6,6"},
     {"MatMul x,w -> a", "Add a,m -> b", "Softmax b -> y"}, "y", 36, 36, 432},
    {"a bias before softmax is a parameter",
     {"b f 6", "w f 6,6"}, {"x f N,6"},
     {"MatMul x,w -> a", "Add a,b -> c", "Softmax c -> y"}, "y", 42, 0, 72},
    {"a bias stored as a row before softmax, too",
     {"b f 1,6", "w f 6,6"}, {"x f N,6"},
     {"MatMul x,w -> a", "Add a,b -> c", "Softmax c -> y"}, "y", 42, 0, 72},
    {"a mask cast to bool is a buffer",
     {"m u 1,1,8,8", "s i 1 0", "e i 1 6", "a i 1 3", "n f "}, {"x f N,1,8,6"},
     {"Slice m,s,e,a -> c", "Cast c -> k | to=9", "Where k,x,n -> y"},
     "y", 0, 64, 0},
    {"alibi slopes meet positions, not data",
     {"s f 4,1", "z i 1 0"}, {"x f N,4,6", "p i N,1,6"},
     {"Cast p -> q | to=1", "Mul s,q -> a", "Add x,a -> y"}, "y", 0, 4, 0},
    {"rotary frequencies do not either",
     {"f f 1,4,1", "w f 4,4"}, {"x f N,6,4", "p i N,1,6"},
     {"Cast p -> q | to=1", "MatMul f,q -> a", "Cos a -> c",
      "Transpose c -> d | perm=0,2,1", "MatMul x,w -> e", "Mul e,d -> y"},
     "y", 16, 4, 192},
    {"a cached table of rotations is a buffer, an embedding is not",
     {"c f 16,4", "w f 4,4"}, {"x f N,6,4", "p i N,6"},
     {"Gather c,p -> r", "MatMul x,w -> e", "Mul e,r -> y"}, "y", 16, 64, 192},
    {"a class token joins the sequence",
     {"t f 1,1,4", "s i 3 1,1,4"}, {"x f N,6,4"},
     {"Expand t,s -> k", "Concat k,x -> y | axis=1"}, "y", 4, 0, 0},
    {"a position embedding is added",
     {"e f 1,6,4"}, {"x f N,6,4"}, {"Add x,e -> y"}, "y", 24, 0, 0},
    {"int8 weights behind a dequantiser, scales and zeros apart",
     {"w c 5,3,1,1", "ws f ", "wz c ", "b l 5", "bs f ", "xs f ", "xz u "},
     {"x f N,3,4,4"},
     {"QuantizeLinear x,xs,xz -> q", "DequantizeLinear q,xs,xz -> xd",
      "DequantizeLinear w,ws,wz -> wd", "DequantizeLinear b,bs -> bd",
      "Conv xd,wd,bd -> y"}, "y", 20, 5, 480},
    {"a quantised convolution",
     {"w c 5,3,1,1", "s f ", "z u ", "wz c "}, {"x u N,3,4,4"},
     {"QLinearConv x,s,z,w,s,wz,s,z -> y"}, "y", 15, 3, 480},
    {"a quantised table that is dequantised after the lookup",
     {"w u 10,4", "s f ", "z u "}, {"ids i N,6"},
     {"Gather w,ids -> e", "DequantizeLinear e,s,z -> y"}, "y", 40, 2, 0},
    {"dynamic quantisation: the scale of the weight is a buffer",
     {"w c 4,5", "s f 5", "z c "}, {"x f N,4"},
     {"DynamicQuantizeLinear x -> q,xs,xz", "MatMulInteger q,w,xz,z -> i",
      "Cast i -> c | to=1", "Mul xs,s -> t", "Mul c,t -> y"}, "y", 20, 6, 40},
    {"coordinates that a small network turns into a table are a buffer",
     {"g f 1,3,3,2", "w f 2,4", "s i 2 9,4", "k i 4 0,1,2,3"}, {"x f N,4,4"},
     {"MatMul g,w -> h", "Reshape h,s -> t", "Gather t,k -> p",
      "Add x,p -> y"}, "y", 8, 22, 0},
    {"group norm written as instance norm: the neutral scale is not learned",
     {"s i 3 0,2,-1", "one f 2 1,1", "zero f 2 0,0", "g f 4,1,1",
      "back i 4 1,4,3,3"}, {"x f 1,4,3,3"},
     {"Reshape x,s -> r", "InstanceNormalization r,one,zero -> n",
      "Reshape n,back -> m", "Mul m,g -> y"}, "y", 4, 0, 0},
    {"an instance norm of data is learned, whatever it starts from",
     {"one f 4 1,1,1,1", "zero f 4 0,0,0,0"}, {"x f 1,4,3,3"},
     {"InstanceNormalization x,one,zero -> y"}, "y", 8, 0, 0},
    {"a weight from slices and joins",
     {"a f 3,4", "b f 5,4", "s i 1 0", "e i 1 2", "x0 i 1 0"}, {"x f N,4"},
     {"Slice a,s,e,x0 -> c", "Concat c,b -> d | axis=0",
      "Gemm x,d -> y | transB=1"}, "y", 32, 0, 56},
    {"a recurrence",
     {"w f 1,12,5", "r f 1,12,3", "b f 1,24"}, {"x f 7,N,5"},
     {"LSTM x,w,r,b -> y | hidden_size=3"}, "y", 120, 0, 1344},
    {"an einsum of data with a weight",
     {"w f 4,2,3"}, {"x f N,6,4"},
     {"Einsum x,w -> y | equation=bte,ehd->bthd"}, "y", 24, 0, 288},
    {"operators nobody knows keep their weights",
     {"w f 9"}, {"x f N,7"}, {"odd.domain:Mystery x,w -> y"}, "y", 9, 0, 0},
};
// clang-format on

static int type_of(char c)
{
    return c == 'f'   ? OM_F32
           : c == 'i' ? OM_I64
           : c == 'l' ? OM_I32
           : c == 'c' ? OM_I8
                      : OM_U8;
}

static void row_graph(struct pdl_buf *g, const struct row *r)
{
    pdl_buf_init(g);
    for (int i = 0; i < 10 && r->nodes[i]; i++)
        om_node(g, r->nodes[i]);
    for (int i = 0; i < 8 && r->stored[i]; i++) {
        char name[32], dims[64] = "", ints[64] = "", type = 'f';
        int n =
            sscanf(r->stored[i], "%31s %c %63s %63s", name, &type, dims, ints);

        om_tensor(g, name, type_of(type), dims, n > 3 ? ints : NULL);
    }
    for (int i = 0; i < 4 && r->inputs[i]; i++) {
        char name[32], dims[64] = "", type = 'f';

        sscanf(r->inputs[i], "%31s %c %63s", name, &type, dims);
        om_value(g, 11, name, type_of(type), dims);
    }
    om_value(g, 12, r->output, OM_F32, "");
}

static void every_rule_counts_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pdl_buf g;
        struct result r;

        row_graph(&g, &rows[i]);
        r = read_graph(&g, 13);

        if (r.st != PDL_OK || r.t.parameters != rows[i].parameters ||
            r.t.buffers != rows[i].buffers ||
            r.t.forward_flops != rows[i].flops)
            fail_msg("%s: %lld parameters, %lld buffers, %lld FLOPs",
                     rows[i].what, (long long)r.t.parameters,
                     (long long)r.t.buffers, (long long)r.t.forward_flops);
        pdl_arena_destroy(r.arena);
    }
}

/* The tester tested: the same graphs without their weights count nothing. */
static void without_stored_tensors_nothing_counts(void **state)
{
    int differ = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct row bare = rows[i];
        struct pdl_buf g;
        struct result r;

        memset(bare.stored, 0, sizeof bare.stored);
        memset(bare.nodes, 0, sizeof bare.nodes);
        bare.output = "x";
        if (bare.inputs[0][0] != 'x')
            continue;
        row_graph(&g, &bare);
        r = read_graph(&g, 13);
        assert_int_equal(r.t.parameters + r.t.buffers, 0);
        differ += rows[i].parameters + rows[i].buffers > 0;
        pdl_arena_destroy(r.arena);
    }
    assert_true(differ > 15);
}

/* ---- graphs within graphs --------------------------------------------- */

static void weights_inside_branches_count(void **state)
{
    struct pdl_buf g, a, b, n;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&a);
    pdl_buf_init(&b);
    om_node(&a, "MatMul x,w -> p");
    om_tensor(&a, "w", OM_F32, "7,3", NULL);
    om_value(&a, 12, "p", OM_F32, "");
    om_node(&b, "Gemm x,v -> q | transB=1");
    om_node(&b, "Relu q -> r");
    om_tensor(&b, "v", OM_F32, "3,7", NULL);
    om_value(&b, 12, "r", OM_F32, "");
    om_open(&n, "If c -> y");
    om_body(&n, "then_branch", &a);
    om_body(&n, "else_branch", &b);
    om_into(&g, 1, &n);
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 11, "c", OM_BOOL, "");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 42);
    assert_int_equal(r.t.forward_flops, 42); /* the larger branch, once */
    assert_int_equal(r.model->source_nodes, 1);
    pdl_arena_destroy(r.arena);
}

static void weights_inside_a_fused_decoder_count(void **state)
{
    struct pdl_buf g, d, n;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&d);
    om_value(&d, 11, "ids", OM_I32, "B,S");
    om_tensor(&d, "wte", OM_F32, "50,8", NULL);
    om_tensor(&d, "head", OM_F32, "8,50", NULL);
    om_node(&d, "Gather wte,ids -> e");
    om_node(&d, "MatMul e,head -> logits");
    om_node(&d, "Add logits,shared -> out");
    om_value(&d, 12, "out", OM_F32, "");
    om_open(&n, "com.microsoft:BeamSearch input,len,len -> seq");
    om_body(&n, "decoder", &d);
    om_into(&g, 1, &n);
    om_tensor(&g, "shared", OM_F32, "50", NULL);
    om_value(&g, 11, "input", OM_I32, "B,S");
    om_value(&g, 11, "len", OM_I32, "1");
    om_value(&g, 12, "seq", OM_I32, "B,1,S");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 850);
    assert_int_equal(r.model->nunknown, 0);
    pdl_arena_destroy(r.arena);
}

static void weights_that_enter_a_loop_count(void **state)
{
    struct pdl_buf g, b, n;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&b);
    om_value(&b, 11, "i", OM_I64, "");
    om_value(&b, 11, "c", OM_BOOL, "");
    om_value(&b, 11, "h", OM_F32, "1,4");
    om_value(&b, 11, "u", OM_F32, "4,4");
    om_node(&b, "MatMul h,u -> h2");
    om_node(&b, "Identity c -> c2");
    om_node(&b, "Identity u -> u2");
    om_value(&b, 12, "c2", OM_BOOL, "");
    om_value(&b, 12, "h2", OM_F32, "");
    om_value(&b, 12, "u2", OM_F32, "");
    om_open(&n, "Loop m,_,x,w -> y,z");
    om_body(&n, "body", &b);
    om_into(&g, 1, &n);
    om_tensor(&g, "m", OM_I64, "", "3");
    om_tensor(&g, "w", OM_F32, "4,4", NULL);
    om_value(&g, 11, "x", OM_F32, "N,4");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 16);
    pdl_arena_destroy(r.arena);
}

static void functions_are_opened(void **state)
{
    struct pdl_buf g, m, f, n, a, o;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&f);
    pdl_buf_init(&o);
    om_node(&g, "my.ns:Dense x,w,b -> h | t=1");
    om_node(&g, "my.ns:Dense h,w,b -> y | t=1");
    om_tensor(&g, "w", OM_F32, "7,7", NULL);
    om_tensor(&g, "b", OM_F32, "7", NULL);
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    om_text(&f, 1, "Dense");
    om_text(&f, 10, "my.ns");
    om_text(&f, 4, "x");
    om_text(&f, 4, "weight");
    om_text(&f, 4, "bias");
    om_text(&f, 5, "out");
    om_text(&f, 6, "t");
    om_number(&o, 2, 13);
    om_into(&f, 9, &o);
    om_open(&n, "Gemm x,weight,bias -> out");
    pdl_buf_init(&a);
    om_text(&a, 1, "transB"); /* refers to the call's attribute t */
    om_text(&a, 21, "t");
    om_into(&n, 5, &a);
    om_into(&f, 7, &n);
    om_into(&m, 25, &f);
    r = read_file(&m, NULL);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 56);
    assert_int_equal(r.t.forward_flops, 2 * 2 * 49);
    assert_int_equal(r.model->nunknown, 0);
    assert_int_equal(r.model->source_nodes, 2);
    pdl_arena_destroy(r.arena);
}

static void sparse_initializers_count_by_their_shape(void **state)
{
    struct pdl_buf g, s, t;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&s);
    pdl_buf_init(&t);
    om_node(&g, "MatMul x,w -> y");
    om_tensor_message(&t, "w", OM_F32, "3", NULL);
    om_into(&s, 1, &t);
    om_number(&s, 3, 7);
    om_number(&s, 3, 5);
    om_into(&g, 15, &s);
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 35);
    pdl_arena_destroy(r.arena);
}

static void constants_and_fills_are_weights_too(void **state)
{
    struct pdl_buf g, n;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    om_open(&n, "Constant -> w");
    om_attr_tensor(&n, "value", OM_F32, "7,5", NULL);
    om_into(&g, 1, &n);
    om_node(&g, "MatMul x,w -> a");
    om_tensor(&g, "s", OM_I64, "2", "5,3");
    om_node(&g, "ConstantOfShape s -> v");
    om_node(&g, "MatMul a,v -> y");
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 50);
    assert_int_equal(r.model->source_nodes, 4);
    pdl_arena_destroy(r.arena);
}

/* Weights as inputs without values; the first input is the data. */
static void inputs_without_values_are_weights(void **state)
{
    struct pdl_buf g;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Gemm x,fc.weight,fc.bias -> y | transB=1");
    om_value(&g, 11, "x", OM_F32, "1,7");
    om_value(&g, 11, "fc.weight", OM_F32, "5,7");
    om_value(&g, 11, "fc.bias", OM_F32, "5");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 40);
    assert_string_equal(r.model->nodes[0].name, "fc");
    pdl_arena_destroy(r.arena);
}

/* ... but a second data input beside stored weights is none. */
static void a_second_data_input_is_no_weight(void **state)
{
    struct pdl_buf g;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Gemm x,w,b -> h | transB=1");
    om_node(&g, "Mul h,gate -> y");
    om_tensor(&g, "w", OM_F32, "5,7", NULL);
    om_tensor(&g, "b", OM_F32, "5", NULL);
    om_value(&g, 11, "x", OM_F32, "1,7");
    om_value(&g, 11, "gate", OM_F32, "1,5");
    om_value(&g, 12, "y", OM_F32, "");
    r = read_graph(&g, 13);
    assert_int_equal(r.t.parameters, 40);
    pdl_arena_destroy(r.arena);
}

static void a_training_graph_learns_what_has_a_gradient(void **state)
{
    struct pdl_buf g;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "MatMul x,w -> h");
    om_node(&g, "MatMul h,frozen -> y");
    om_node(&g, "com.microsoft:YieldOp y -> y_grad");
    om_node(&g, "com.microsoft:FusedMatMul y_grad,frozen -> h_grad | transB=1");
    om_node(&g, "com.microsoft:FusedMatMul x,h_grad -> w_grad | transA=1");
    om_value(&g, 11, "x", OM_F32, "N,7");
    om_value(&g, 11, "w", OM_F32, "7,5");
    om_value(&g, 11, "frozen", OM_F32, "5,3");
    om_value(&g, 12, "y", OM_F32, "");
    om_value(&g, 12, "w_grad", OM_F32, "7,5");
    r = read_graph(&g, 13);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 35);
    assert_int_equal(r.t.forward_flops, 100); /* no second backward */
    pdl_arena_destroy(r.arena);
}

/* ---- symbolic dimensions ---------------------------------------------- */

static void tokens(struct pdl_buf *m)
{
    struct pdl_buf g;

    pdl_buf_init(&g);
    om_node(&g, "Gather wte,ids -> e");
    om_node(&g, "MatMul e,w -> h");
    om_node(&g, "Transpose h -> t | perm=0,2,1");
    om_node(&g, "MatMul h,t -> y");
    om_tensor(&g, "wte", OM_F32, "50,8", NULL);
    om_tensor(&g, "w", OM_F32, "8,8", NULL);
    om_value(&g, 11, "ids", OM_I64, "batch,seq");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(m, &g, 13);
}

static void the_batch_is_taken_out_and_names_are_asked_for(void **state)
{
    struct pdl_buf m;
    struct result r;

    (void)state;
    tokens(&m);
    r = read_file(&m, NULL);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.parameters, 464);
    assert_int_equal(r.model->nunbound, 1);
    assert_string_equal(r.model->unbound[0], "seq");
    pdl_arena_destroy(r.arena);
    for (int batch = 1; batch <= 8; batch *= 2) {
        char dims[64];

        snprintf(dims, sizeof dims, "batch=%d,seq=6", batch);
        tokens(&m);
        r = read_file(&m, dims);
        assert_int_equal(r.st, PDL_OK);
        assert_int_equal(r.model->nunbound, 0);
        assert_int_equal(r.t.forward_flops, 2 * 6 * 64 + 2 * 36 * 8);
        assert_int_equal(r.model->tokens, 6);
        pdl_arena_destroy(r.arena);
    }
}

static void wrong_bindings_are_refused(void **state)
{
    static const char *const bad[] = {
        "sq=6", "seq", "seq=", "seq=0", "seq=x", "=3"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pdl_buf m;
        struct result r;

        tokens(&m);
        r = read_file(&m, bad[i]);

        assert_int_equal(r.st, PDL_EINVAL);
        pdl_arena_destroy(r.arena);
    }
}

/* A sequence-first layout: the batch is in the middle, and merged with the
 * heads after a reshape. */
static void the_batch_is_found_where_it_went(void **state)
{
    struct pdl_buf g, m;
    struct result r;

    (void)state;
    pdl_buf_init(&g);
    om_node(&g, "Transpose x -> t | perm=1,0,2");
    om_node(&g, "MatMul t,w -> h");
    om_node(&g, "Reshape h,s -> q");
    om_node(&g, "Transpose q -> a | perm=1,0,2");
    om_node(&g, "Transpose a -> b | perm=0,2,1");
    om_node(&g, "MatMul a,b -> y");
    om_tensor(&g, "w", OM_F32, "8,8", NULL);
    om_tensor(&g, "s", OM_I64, "3", "5,-1,4");
    om_value(&g, 11, "x", OM_F32, "N,5,8");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    r = read_file(&m, NULL);
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.t.forward_flops, 2 * 5 * 64 + 2 * 2 * 25 * 4);
    pdl_arena_destroy(r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_counts_as_written),
        cmocka_unit_test(without_stored_tensors_nothing_counts),
        cmocka_unit_test(weights_inside_branches_count),
        cmocka_unit_test(weights_inside_a_fused_decoder_count),
        cmocka_unit_test(weights_that_enter_a_loop_count),
        cmocka_unit_test(functions_are_opened),
        cmocka_unit_test(sparse_initializers_count_by_their_shape),
        cmocka_unit_test(constants_and_fills_are_weights_too),
        cmocka_unit_test(inputs_without_values_are_weights),
        cmocka_unit_test(a_second_data_input_is_no_weight),
        cmocka_unit_test(a_training_graph_learns_what_has_a_gradient),
        cmocka_unit_test(the_batch_is_taken_out_and_names_are_asked_for),
        cmocka_unit_test(wrong_bindings_are_refused),
        cmocka_unit_test(the_batch_is_found_where_it_went),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
