/* Large ONNX files: 400 MB of weights cost a walk over the headers, not the
 * file. The reader runs in a child, whose peak memory the kernel measures. */
#include "onnx_make.h"

#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENSORS = 100, SIDE = 1024, PAYLOAD = SIDE * SIDE * 4 };

/* The head of initializer i: everything before its payload. */
static void tensor_head(struct pdl_buf *h, int i, size_t payload)
{
    struct pdl_buf body;
    char name[32];

    pdl_buf_init(&body);
    snprintf(name, sizeof name, "layer%d.weight", i);
    om_number(&body, 1, SIDE);
    om_number(&body, 1, SIDE);
    om_number(&body, 2, OM_F32);
    om_text(&body, 8, name);
    om_varint(&body, 9 << 3 | 2);
    om_varint(&body, payload);
    om_varint(h, 5 << 3 | 2);
    om_varint(h, body.len + payload);
    pdl_put(&h->sink, body.text, body.len);
    pdl_buf_free(&body);
}

/* A file with holes where the weights are: 400 MB that take no disk. */
static void write_sparse(const char *path)
{
    struct pdl_buf nodes, head, start, opset;
    size_t graph;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char line[128], last[32];
    off_t at = 0;

    assert_true(fd >= 0);
    pdl_buf_init(&nodes);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(line, sizeof line, "MatMul x%d,layer%d.weight -> x%d", i, i,
                 i + 1);
        om_node(&nodes, line);
    }
    om_value(&nodes, 11, "x0", OM_F32, "N,1024");
    snprintf(last, sizeof last, "x%d", TENSORS);
    om_value(&nodes, 12, last, OM_F32, "");
    graph = nodes.len;
    for (int i = 0; i < TENSORS; i++) {
        pdl_buf_init(&head);
        tensor_head(&head, i, PAYLOAD);
        graph += head.len + PAYLOAD;
        pdl_buf_free(&head);
    }
    pdl_buf_init(&start);
    pdl_buf_init(&opset);
    om_number(&start, 1, 8);
    om_number(&opset, 2, 13);
    om_into(&start, 8, &opset);
    om_varint(&start, 7 << 3 | 2);
    om_varint(&start, graph);
    pdl_put(&start.sink, nodes.text, nodes.len);
    at += pwrite(fd, start.text, start.len, at);
    for (int i = 0; i < TENSORS; i++) {
        pdl_buf_init(&head);
        tensor_head(&head, i, PAYLOAD);
        at += pwrite(fd, head.text, head.len, at) + PAYLOAD;
        pdl_buf_free(&head);
    }
    assert_int_equal(ftruncate(fd, at), 0);
    close(fd);
    pdl_buf_free(&start);
    pdl_buf_free(&nodes);
}

/* In the child: 0 when the counts are right. */
static int read_it(const char *path)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes in;
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t;

    if (!a || pdl_file_map(path, &in, NULL) != PDL_OK ||
        pdl_model_onnx(a, in, path, NULL, &m, NULL) != PDL_OK ||
        pdl_model_totals(m, &t, NULL) != PDL_OK)
        return 1;
    return t.parameters == (int64_t)TENSORS * SIDE * SIDE ? 0 : 2;
}

static void four_hundred_megabytes_take_neither_time_nor_memory(void **state)
{
    char path[] = "/tmp/paradl-big-XXXXXX";
    int fd = mkstemp(path), status = -1;
    struct rusage use;
    double start;
    pid_t child;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_sparse(path);
    start = pdl_clock_s();
    child = fork();
    if (child == 0)
        _exit(read_it(path));
    assert_int_equal(wait4(child, &status, 0, &use), child);
    unlink(path);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message("%.3f s, %ld KiB\n", pdl_clock_s() - start, use.ru_maxrss);
    assert_true(pdl_clock_s() - start < 5);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(use.ru_maxrss < 64 * 1024);
#endif
}

/* The bytes of external data are somewhere else, and nobody looks for them:
 * a path out of the folder is as good as any. */
static void external_data_is_never_opened(void **state)
{
    struct pdl_buf g, m, t, e;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *model = NULL;
    struct pdl_model_totals totals;

    (void)state;
    pdl_buf_init(&g);
    pdl_buf_init(&t);
    pdl_buf_init(&e);
    om_node(&g, "MatMul x,w -> y");
    om_number(&t, 1, 1024);
    om_number(&t, 1, 4096);
    om_number(&t, 2, OM_F32);
    om_text(&t, 8, "w");
    om_text(&e, 1, "location");
    om_text(&e, 2, "../../../../dev/zero");
    om_into(&t, 13, &e);
    om_number(&t, 14, 1);
    om_into(&g, 5, &t);
    om_value(&g, 11, "x", OM_F32, "N,1024");
    om_value(&g, 12, "y", OM_F32, "");
    om_model(&m, &g, 13);
    assert_int_equal(pdl_model_onnx(a, (struct pdl_bytes){m.text, m.len},
                                    "ext.onnx", NULL, &model, NULL),
                     PDL_OK);
    assert_int_equal(pdl_model_totals(model, &totals, NULL), PDL_OK);
    assert_int_equal(totals.parameters, 1024 * 4096);
    pdl_buf_free(&m);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_hundred_megabytes_take_neither_time_nor_memory),
        cmocka_unit_test(external_data_is_never_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
