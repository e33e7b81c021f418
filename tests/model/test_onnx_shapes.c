/* Shape inference against the operator tests of the ONNX project (Debian:
 * libonnx-testdata): each holds a model of one operator, its inputs and its
 * outputs. Inputs are given as constants and declared shapes are forgotten, so
 * that every output shape is our own work. Skipped where they are absent. */
#include "onnx_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER "/usr/share/libonnx-testdata/data/"

struct score {
    int files, right, wrong, unknown, failed;
};

static Onnx__Tensor *tensor(const char *folder, const char *what, int i)
{
    char path[1024];
    struct pdl_bytes in;
    Onnx__Tensor *t;

    snprintf(path, sizeof path, "%.900s/test_data_set_0/%s_%d.pb", folder, what,
             i);
    if (pdl_file_map(path, &in, NULL) != PDL_OK)
        return NULL;
    t = onnx__tensor__unpack(NULL, in.len, (const uint8_t *)in.data);
    pdl_file_unmap(&in);
    return t;
}

static void compare(const char *folder, const struct onnx_shape *s,
                    const Onnx__Tensor *want, struct score *score)
{
    bool wrong = s->rank >= 0 && (size_t)s->rank != want->n_dims;
    bool unknown = s->rank < 0;

    for (int i = 0; i < s->rank && !wrong; i++) {
        unknown = unknown || s->dim[i] < 0;
        wrong = s->dim[i] >= 0 && s->dim[i] != want->dims[i];
    }
    score->wrong += wrong;
    score->unknown += unknown && !wrong;
    score->right += !unknown && !wrong;
    if (wrong)
        print_message("wrong: %s\n", folder);
}

/* Inputs become constants, nothing is declared. */
static void give_inputs(struct onnx_graph *g, const char *folder,
                        Onnx__Tensor **kept)
{
    for (int i = 0; i < g->ninputs && i < 16; i++) {
        struct onnx_value *v = &g->values[g->inputs[i]];

        kept[i] =
            v->type && v->type->tensor_type ? tensor(folder, "input", i) : NULL;
        if (kept[i] && kept[i]->n_dims <= PDL_MAX_RANK)
            assert_int_equal(model_onnx_tensor(g, kept[i], "input", v), PDL_OK);
    }
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i].node >= 0)
            g->values[i].type = NULL;
}

static void one(const char *folder, struct score *score)
{
    char path[1024];
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct onnx_graph g = {.arena = a, .name = folder, .err = &err};
    Onnx__Tensor *kept[16] = {NULL}, *want;
    struct pdl_bytes in;

    snprintf(path, sizeof path, "%.900s/model.onnx", folder);
    if (pdl_file_map(path, &in, NULL) == PDL_OK) {
        score->files++;
        if (model_onnx_unpack(&g, in) != PDL_OK ||
            model_onnx_flatten(&g) != PDL_OK) {
            print_message("%s\n", err.msg);
            score->failed++;
        } else {
            give_inputs(&g, folder, kept);
            assert_int_equal(model_onnx_bind(&g, NULL), PDL_OK);
            assert_int_equal(model_onnx_infer(&g), PDL_OK);
            for (int i = 0; i < g.noutputs; i++) {
                want = tensor(folder, "output", i);
                if (want) {
                    compare(folder, &g.shape[g.outputs[i]], want, score);
                    onnx__tensor__free_unpacked(want, NULL);
                }
            }
        }
        pdl_file_unmap(&in);
    }
    for (int i = 0; i < 16; i++)
        if (kept[i])
            onnx__tensor__free_unpacked(kept[i], NULL);
    pdl_arena_destroy(a);
}

static void shapes_of_single_operators_are_right(void **state)
{
    static const char *const groups[] = {"node", "simple", "pytorch-operator",
                                         "pytorch-converted"};
    struct score score = {0};

    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        char path[1024];
        struct dirent *e;
        DIR *d;

        snprintf(path, sizeof path, FOLDER "%s", groups[i]);
        d = opendir(path);
        while (d && (e = readdir(d)) != NULL) {
            snprintf(path, sizeof path, FOLDER "%s/%s", groups[i], e->d_name);
            if (e->d_name[0] != '.')
                one(path, &score);
        }
        if (d)
            closedir(d);
    }
    if (score.files == 0) {
        print_message("skipped: no " FOLDER " (libonnx-testdata)\n");
        skip();
    }
    print_message("%d files: %d shapes right, %d wrong, %d not known\n",
                  score.files, score.right, score.wrong, score.unknown);
    assert_int_equal(score.failed, 0);
    assert_int_equal(score.wrong, 0);
    assert_true(score.right > 7 * score.unknown);
}

/* Every row of the table has roles, one of our operators and a function. */
static void the_table_of_operators_is_whole(void **state)
{
    const struct onnx_op *op;

    (void)state;
    for (int i = 0; (op = model_onnx_op_at(i)) != NULL; i++) {
        bool ours = pdl_op_find(op->op) || strcmp(op->op, "-") == 0 ||
                    strcmp(op->op, "rnn") == 0;

        if (!op->roles[0] ||
            strspn(op->roles, "xwqepctinbskmdoI.") != strlen(op->roles) ||
            !ours || !op->infer)
            fail_msg("%s: %s, %s", op->name, op->roles, op->op);
        assert_ptr_equal(model_onnx_op(op->domain, op->name), op);
    }
    assert_null(model_onnx_op("", "Mystery"));
    assert_null(model_onnx_op("odd.domain", "Conv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_operators_is_whole),
        cmocka_unit_test(shapes_of_single_operators_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
