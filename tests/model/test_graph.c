/* The builder, the work of nodes, and the checker: what it lets through is
 * sound, and what is broken on purpose it finds. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* ---- building --------------------------------------------------------- */

static void the_first_failure_sticks(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_build *b = pdl_build_begin(a, "m");
    const struct pdl_model *m = NULL;
    struct pdl_err err = {"", ""};
    int64_t dim[] = {4};
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 1, dim);
    int y;

    (void)state;
    y = pdl_build_op(b, "rleu", "r", NULL, &x, 1);
    assert_int_equal(y, -1);
    assert_int_equal(pdl_build_op(b, "relu", "later", NULL, &x, 1), -1);
    assert_int_equal(
        pdl_build_tensor(b, "t", PDL_TENSOR_INPUT, PDL_F32, 99, dim), -1);
    assert_null(pdl_build_get(b, x));
    assert_int_equal(pdl_build_end(b, &m, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "r: no operator 'rleu'");
    assert_string_equal(err.hint, "did you mean 'relu'?");
    assert_null(m);
    assert_int_equal(pdl_build_end(NULL, &m, &err), PDL_ENOMEM);
    pdl_arena_destroy(a);
}

static const struct pdl_model *chain(pdl_arena *a, int64_t repeat)
{
    pdl_build *b = pdl_build_begin(a, "chain");
    struct pdl_attr eight = {.features = 8};
    int64_t dim[] = {5, 8};
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 2, dim), y;
    const struct pdl_model *m = NULL;

    y = pdl_build_op(b, "relu", "start", NULL, &x, 1);
    pdl_build_repeat(b, repeat, 3, y);
    y = pdl_build_op(b, "linear", "h.{i}.fc.{i}", &eight, &y, 1);
    y = pdl_build_op(b, "gelu", "h.{i}.act", NULL, &y, 1);
    y = pdl_build_repeat_end(b, y);
    pdl_build_op(b, "relu", "end", NULL, &y, 1);
    assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
    return m;
}

static void a_repeated_block_counts_its_rounds_and_costs_nothing(void **state)
{
    static const int64_t rounds[] = {1, 2, 1000000000000};
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = chain(a, rounds[i]);
        struct pdl_model_totals t;
        char name[64];

        assert_int_equal(pdl_model_check(m, NULL), PDL_OK);
        assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
        assert_int_equal(t.parameters, 72 * rounds[i]);
        assert_int_equal(t.nodes, 2 + 2 * rounds[i]);
        assert_int_equal(t.forward_flops, 2 * 5 * 64 * rounds[i]);
        assert_int_equal(t.activations, 80 + 80 * rounds[i]);
        assert_int_equal(pdl_node_repeat(m, 0), 1);
        assert_int_equal(pdl_node_repeat(m, 1), rounds[i]);
        assert_int_equal(pdl_node_repeat(m, 3), 1);
        assert_string_equal(
            pdl_node_name(m, 1, rounds[i] - 1, name, sizeof name),
            i == 0   ? "h.3.fc.3"
            : i == 1 ? "h.4.fc.4"
                     : "h.1000000000002.fc.1000000000002");
        if (i == 0)
            used = pdl_arena_used(a);
        assert_int_equal(pdl_arena_used(a), used);
        pdl_arena_destroy(a);
    }
}

static void tied_weights_are_counted_once(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_build *b = pdl_build_begin(a, "tied");
    struct pdl_attr table = {.vocab = 10, .features = 4};
    struct pdl_attr head = {.features = 10, .no_bias = true};
    int64_t dim[] = {6}, shape[] = {10, 4};
    int ids = pdl_build_tensor(b, "ids", PDL_TENSOR_INPUT, PDL_I64, 1, dim);
    int w = pdl_build_tensor(b, "wte", PDL_TENSOR_WEIGHT, PDL_F32, 2, shape);
    struct pdl_build_spec spec = {.op = "embedding",
                                  .name = "embed",
                                  .attr = &table,
                                  .in = &ids,
                                  .nin = 1,
                                  .weights = &w,
                                  .nweights = 1};
    int y = pdl_build_node(b, &spec);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;

    (void)state;
    spec = (struct pdl_build_spec){.op = "linear",
                                   .name = "head",
                                   .attr = &head,
                                   .in = &y,
                                   .nin = 1,
                                   .weights = &w,
                                   .nweights = 1};
    pdl_build_node(b, &spec);
    assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
    assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
    assert_int_equal(t.parameters, 40);
    assert_int_equal(t.forward_flops, 2 * 6 * 10 * 4);
    assert_int_equal(pdl_node_parameters(m, 0), 40);
    assert_int_equal(pdl_node_parameters(m, 1), 40);
    pdl_arena_destroy(a);
}

static void outputs_beside_the_first_are_found(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_build *b = pdl_build_begin(a, "split");
    struct pdl_attr parts = {.ndims = 3, .dims = {1, 2, 3}};
    int64_t dim[] = {6};
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 1, dim);
    int y = pdl_build_op(b, "split", "s", &parts, &x, 1);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pdl_build_get(b, pdl_build_output(b, y, i))->dim[0],
                         i + 1);
    assert_string_equal(pdl_build_get(b, pdl_build_output(b, y, 2))->name,
                        "s.y2");
    assert_int_equal(pdl_build_output(b, y, 3), -1);
    pdl_arena_destroy(a);
}

static void too_little_memory_is_an_error_at_every_size(void **state)
{
    enum pdl_status st = PDL_ENOMEM;
    int refused = 0;

    (void)state;
    for (size_t limit = 0; st != PDL_OK; limit += 97) {
        pdl_arena *a = pdl_arena_create(limit);
        const struct pdl_model *m = NULL;

        st = pdl_zoo_build(a, "deepcam", &m, NULL);
        assert_true(st == PDL_OK || st == PDL_ENOMEM);
        assert_true((st == PDL_OK) == (m != NULL));
        assert_true(limit < 1 << 20);
        refused += st != PDL_OK;
        pdl_arena_destroy(a);
    }
    assert_true(refused > 1000);
}

/* ---- work ------------------------------------------------------------- */

struct shape {
    int rank;
    int64_t d[4];
};

/* forward, backward-data, backward-weights; elements of 2 bytes, batch 3 */
static const struct {
    const char *op;
    struct pdl_attr attr;
    int nin;
    struct shape in[3];
    struct pdl_work want[3];
} worked_out[] = {
    /* x 3*8, w 10*8 + bias 10, y 3*10 */
    {"linear",
     {.features = 10},
     1,
     {{1, {8}}},
     {{3 * 160, 2 * (24 + 90), 2 * 30},
      {3 * 160, 2 * (30 + 90), 2 * 24},
      {3 * 160, 2 * (30 + 24), 2 * 90}}},
    /* both operands are activations */
    {"matmul",
     {.groups = 0},
     2,
     {{2, {4, 5}}, {2, {5, 6}}},
     {{3 * 240, 2 * 3 * 50, 2 * 3 * 24},
      {2 * 3 * 240, 2 * 3 * (24 + 50), 2 * 3 * 50},
      {0, 0, 0}}},
    /* 12 rows of 4 of the 100: the ids, then the rows */
    {"embedding",
     {.vocab = 100, .features = 4},
     1,
     {{1, {4}}},
     {{0, 2 * (12 + 48), 2 * 48}, {0, 0, 0}, {0, 2 * 48, 2 * 48}}},
    /* more rows than the table has: the whole table */
    {"embedding",
     {.vocab = 5, .features = 4},
     1,
     {{1, {4}}},
     {{0, 2 * (12 + 20), 2 * 48}, {0, 0, 0}, {0, 2 * 48, 2 * 20}}},
    {"relu",
     {.groups = 0},
     1,
     {{1, {8}}},
     {{0, 48, 48}, {0, 2 * 48, 48}, {0, 0, 0}}},
    {"add",
     {.groups = 0},
     2,
     {{1, {8}}, {1, {8}}},
     {{0, 96, 48}, {0, 0, 0}, {0, 0, 0}}},
    {"dropout",
     {.groups = 0},
     1,
     {{1, {8}}},
     {{0, 48, 48}, {0, 48 + 24, 48}, {0, 0, 0}}},
    {"reshape",
     {.ndims = 2, .dims = {2, 4}},
     1,
     {{1, {8}}},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
    {"batch_norm",
     {.groups = 0},
     1,
     {{2, {2, 4}}},
     {{0, 2 * (24 + 8), 48},
      {0, 2 * (24 + 24 + 8), 48},
      {0, 2 * (24 + 24), 2 * 8}}},
    /* 3 tokens, 1 expert each, of 8: at most 3 of them are read */
    {"experts",
     {.experts = 8, .topk = 1, .ffn = 5, .no_bias = true},
     1,
     {{2, {1, 4}}},
     {{3 * 80, 2 * (12 + 3 * 40), 2 * 12},
      {3 * 80, 2 * (12 + 12 + 3 * 40), 2 * 12},
      {3 * 80, 2 * (12 + 12), 2 * 3 * 40}}},
};

static void work_of_nodes_agrees_with_values_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof worked_out / sizeof worked_out[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        pdl_build *b = pdl_build_begin(a, "one");
        const struct pdl_model *m = NULL;
        int ids[3];

        for (int k = 0; k < worked_out[i].nin; k++)
            ids[k] = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32,
                                      worked_out[i].in[k].rank,
                                      worked_out[i].in[k].d);
        pdl_build_op(b, worked_out[i].op, "n", &worked_out[i].attr, ids,
                     worked_out[i].nin);
        assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
        for (int p = PDL_FORWARD; p <= PDL_BACKWARD_WEIGHTS; p++) {
            const struct pdl_work *want = &worked_out[i].want[p];
            struct pdl_work w;

            assert_int_equal(
                pdl_node_work(m, 0, (enum pdl_pass)p, 3, PDL_BF16, &w, NULL),
                PDL_OK);
            if (memcmp(&w, want, sizeof w) != 0)
                fail_msg("%s, pass %d: %lld FLOPs, %lld read, %lld written",
                         worked_out[i].op, p, (long long)w.flops,
                         (long long)w.read_bytes, (long long)w.write_bytes);
        }
        pdl_arena_destroy(a);
    }
}

static void work_too_large_to_count_is_refused(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = chain(a, 1);
    struct pdl_work w = {-1, -1, -1};
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(
        pdl_node_work(m, 1, PDL_FORWARD, INT64_MAX / 2, PDL_F32, &w, &err),
        PDL_EINVAL);
    assert_string_equal(err.msg,
                        "h.{i}.fc.{i}: its work is too large to count");
    assert_int_equal(w.flops, -1);
    pdl_arena_destroy(a);
}

/* ---- the checker is checked ------------------------------------------- */

enum { MOST = 32 };

/* A copy of a model that can be broken. */
struct copy {
    struct pdl_model m;
    struct pdl_tensor tensors[MOST];
    struct pdl_node nodes[MOST];
    struct pdl_segment segments[4];
    int in[MOST], out[MOST], weights[MOST][2];
};

static void copy_model(struct copy *c, const struct pdl_model *m)
{
    *c = (struct copy){.m = *m};
    assert_true(m->ntensors <= MOST && m->nnodes <= MOST && m->nsegments <= 4);
    memcpy(c->tensors, m->tensors, (size_t)m->ntensors * sizeof *m->tensors);
    memcpy(c->nodes, m->nodes, (size_t)m->nnodes * sizeof *m->nodes);
    memcpy(c->segments, m->segments,
           (size_t)m->nsegments * sizeof *m->segments);
    c->m.tensors = c->tensors;
    c->m.nodes = c->nodes;
    c->m.segments = c->segments;
    for (int i = 0; i < m->nnodes; i++) {
        c->in[i] = m->nodes[i].in[0];
        c->out[i] = m->nodes[i].out[0];
        for (int k = 0; k < m->nodes[i].nweights; k++)
            c->weights[i][k] = m->nodes[i].weights[k];
        c->nodes[i].in = &c->in[i];
        c->nodes[i].out = &c->out[i];
        c->nodes[i].weights = c->weights[i];
    }
}

/* nodes of the chain: 0 start, 1 fc, 2 act, 3 end */
static void read_too_early(struct copy *c)
{
    c->in[1] = c->out[2];
}
static void read_itself(struct copy *c)
{
    c->in[1] = c->out[1];
}
static void read_nothing(struct copy *c)
{
    c->in[1] = -1;
}
static void read_past_the_end(struct copy *c)
{
    c->in[1] = c->m.ntensors;
}
static void read_inside_a_block(struct copy *c)
{
    c->in[3] = c->out[1];
}
static void weight_is_an_activation(struct copy *c)
{
    c->weights[1][0] = c->out[0];
}
static void weight_of_another_size(struct copy *c)
{
    c->tensors[c->weights[1][0]].dim[0] = 7;
}
static void weight_past_the_end(struct copy *c)
{
    c->weights[1][1] = 1000;
}
static void made_twice(struct copy *c)
{
    c->out[2] = c->out[1];
}
static void makes_an_input(struct copy *c)
{
    c->out[0] = c->in[0];
}
static void another_shape(struct copy *c)
{
    c->tensors[c->out[3]].dim[1] = 9;
}
static void another_rank(struct copy *c)
{
    c->tensors[c->out[3]].rank = 1;
}
static void negative_dimension(struct copy *c)
{
    c->tensors[c->in[0]].dim[0] = -5;
}
static void dimension_too_large(struct copy *c)
{
    c->tensors[c->in[0]].dim[0] = INT64_MAX;
}
static void no_name(struct copy *c)
{
    c->tensors[0].name = NULL;
}
static void no_operator(struct copy *c)
{
    c->nodes[0].op = NULL;
}
static void no_output(struct copy *c)
{
    c->nodes[3].nout = 0;
}
static void attributes_past_the_end(struct copy *c)
{
    c->nodes[3].attr.ndims = PDL_MAX_RANK + 1;
}
static void tensor_in_no_segment(struct copy *c)
{
    c->tensors[c->out[3]].segment = 3;
}
static void tensor_in_another_segment(struct copy *c)
{
    c->tensors[c->out[3]].segment = 0;
}
static void segment_is_short(struct copy *c)
{
    c->segments[1].nnodes = 1;
}
static void segment_starts_late(struct copy *c)
{
    c->segments[1].first_node = 2;
}
static void segment_never_runs(struct copy *c)
{
    c->segments[1].repeat = 0;
}
static void segment_carries_nothing(struct copy *c)
{
    c->segments[1].carry_out = -1;
}
static void segment_carries_another(struct copy *c)
{
    c->segments[1].carry_out = c->out[0];
}
static void segment_takes_its_own(struct copy *c)
{
    c->segments[1].carry_in = c->out[1];
}
static void nodes_beyond_the_segments(struct copy *c)
{
    c->m.nsegments = 2;
}

static void what_is_broken_on_purpose_is_found(void **state)
{
    static void (*const breaks[])(struct copy *) = {
        read_too_early,
        read_itself,
        read_nothing,
        read_past_the_end,
        read_inside_a_block,
        weight_is_an_activation,
        weight_of_another_size,
        weight_past_the_end,
        made_twice,
        makes_an_input,
        another_shape,
        another_rank,
        negative_dimension,
        dimension_too_large,
        no_name,
        no_operator,
        no_output,
        attributes_past_the_end,
        tensor_in_no_segment,
        tensor_in_another_segment,
        segment_is_short,
        segment_starts_late,
        segment_never_runs,
        segment_carries_nothing,
        segment_carries_another,
        segment_takes_its_own,
        nodes_beyond_the_segments,
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = chain(a, 3);
    struct pdl_err err = {"", ""};
    struct copy c;

    (void)state;
    copy_model(&c, m);
    assert_int_equal(pdl_model_check(&c.m, &err), PDL_OK);
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        copy_model(&c, m);
        breaks[i](&c);
        err.msg[0] = '\0';
        if (pdl_model_check(&c.m, &err) != PDL_EWRONG || !*err.msg)
            fail_msg("break %zu was not found", i);
    }
    pdl_arena_destroy(a);
}

static void blocks_that_make_no_sense_are_refused(void **state)
{
    static const char *const want[] = {
        "a repeated block inside another",
        "a repeated block needs a count of at least 1 and a tensor to carry",
        "a repeated block is not closed",
        "a repeated block must end with a tensor it makes",
        "'a.y' cannot be carried out of the block that makes it",
    };

    (void)state;
    for (int i = 0; i < 5; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        pdl_build *b = pdl_build_begin(a, "m");
        int64_t dim[] = {4};
        int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 1, dim), y;
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        pdl_build_repeat(b, i == 1 ? 0 : 2, 0, x);
        y = pdl_build_op(b, "relu", "a", NULL, &x, 1);
        if (i == 0)
            pdl_build_repeat(b, 2, 0, y);
        if (i == 3)
            pdl_build_repeat_end(b, x);
        if (i == 4) {
            int z = pdl_build_op(b, "relu", "b", NULL, &y, 1);

            pdl_build_repeat_end(b, z);
            pdl_build_repeat(b, 2, 0, y);
        }
        assert_int_equal(pdl_build_end(b, &m, &err), PDL_EINVAL);
        assert_string_equal(err.msg, want[i]);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_sticks),
        cmocka_unit_test(a_repeated_block_counts_its_rounds_and_costs_nothing),
        cmocka_unit_test(tied_weights_are_counted_once),
        cmocka_unit_test(outputs_beside_the_first_are_found),
        cmocka_unit_test(too_little_memory_is_an_error_at_every_size),
        cmocka_unit_test(work_of_nodes_agrees_with_values_worked_out_by_hand),
        cmocka_unit_test(work_too_large_to_count_is_refused),
        cmocka_unit_test(what_is_broken_on_purpose_is_found),
        cmocka_unit_test(blocks_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
