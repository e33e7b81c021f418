/* The table of choices, read, written and followed. */
#include "comm_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const char sample[] =
    "schema: paradl.profile/1\n"
    "allreduce:\n"
    "  - {ranks: 2, up_to: 8KiB, algorithm: \"flat\"}\n"
    "  - {ranks: 2, algorithm: \"ordered\"}\n"
    "  - {ranks: 4, up_to: 1KiB, algorithm: \"ring\"}\n"
    "  - {ranks: 4, algorithm: \"ring-ring:k=2\"}\n"
    "alltoall:\n"
    "  - {ranks: 2, up_to: 2KiB, algorithm: \"bruck\"}\n"
    "broadcast:\n"
    "  - {ranks: 2, up_to: 4KiB, algorithm: \"binomial\"}\n"
    "  - {ranks: 2, algorithm: \"chain:segments=4\"}\n";

struct file {
    char path[64];
};

static struct file written(const char *text)
{
    struct file f = {"/tmp/paradl-table-XXXXXX"};
    int fd = mkstemp(f.path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return f;
}

static enum pdl_status read_text(pdl_arena *a, const char *text,
                                 struct pdl_comm_table *out,
                                 struct pdl_err *err)
{
    struct file f = written(text);
    enum pdl_status st = pdl_comm_table_read(a, f.path, out, err);

    unlink(f.path);
    return st;
}

static void a_table_reads_back_as_it_was_written(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_comm_table t;
    struct pdl_buf text;

    (void)state;
    assert_int_equal(read_text(a, sample, &t, NULL), PDL_OK);
    assert_int_equal(t.n, 7);
    pdl_buf_init(&text);
    pdl_comm_table_print(&t, &text.sink);
    assert_string_equal(text.text, sample);
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
}

static void sizes_and_ranks_choose_the_rule(void **state)
{
    static const struct {
        const char *collective;
        int ranks;
        int64_t bytes;
        const char *algorithm; /* NULL: none */
    } cases[] = {
        {"allreduce", 2, 8192, "flat"},
        {"allreduce", 2, 8193, "ordered"},
        {"allreduce", 3, 100, "flat"},
        {"allreduce", 4, 1024, "ring"},
        {"allreduce", 4, 1025, "ring-ring:k=2"},
        {"allreduce", 9, 1024, "ring"},
        {"allreduce", 1, 9000, "ordered"},
        {"broadcast", 2, 4096, "binomial"},
        {"broadcast", 7, 4097, "chain:segments=4"},
        {"alltoall", 2, 2048, "bruck"},
        {"alltoall", 2, 2049, NULL},
        {"allgather", 2, 4, NULL},
    };
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_comm_table t;

    (void)state;
    assert_int_equal(read_text(a, sample, &t, NULL), PDL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *found = comm_table_find(&t, cases[i].collective,
                                            cases[i].ranks, cases[i].bytes);

        if (!cases[i].algorithm)
            assert_null(found);
        else
            assert_string_equal(found, cases[i].algorithm);
    }
    pdl_arena_destroy(a);
}

static int follows(pdl_comm *c, void *ctx)
{
    (void)ctx;
    /* on 5 ranks the rules of 4 would be used, but ring-ring:k=2 cannot */
    return strcmp(pdl_comm_choice(c, "allreduce", 1024), "ring") != 0 ||
           strcmp(pdl_comm_choice(c, "allreduce", 1 << 20), "ordered") != 0 ||
           strcmp(pdl_comm_choice(c, "broadcast", 1 << 20),
                  "chain:segments=4") != 0 ||
           strcmp(pdl_comm_choice(c, "alltoall", 20), "bruck") != 0 ||
           strcmp(pdl_comm_choice(c, "alltoall", 1 << 20), "linear") != 0 ||
           strcmp(pdl_comm_choice(c, "allgather", 20), "linear") != 0 ||
           check_broadcast(c, 5000, PDL_COMM_F32, 3) ||
           check_alltoall(c, 3, PDL_COMM_F32) ||
           check_allreduce(c, 256, PDL_COMM_F32, PDL_COMM_SUM, false, "table");
}

static void a_communicator_follows_its_table(void **state)
{
    pdl_arena *a = pdl_arena_create(1 << 20);
    struct pdl_comm_table t;
    struct pdl_comm_options opt = {.table = &t};

    (void)state;
    assert_int_equal(read_text(a, sample, &t, NULL), PDL_OK);
    assert_int_equal(on_ranks(5, &opt, follows, NULL), 0);
    pdl_arena_destroy(a);
}

static void bad_tables_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "empty"},
        {"- 1\n", ":1:1"},
        {"schema: other/1\n", "paradl.profile/1"},
        {"schema: paradl.profile/1\nallreduce: 3\n", ":2:12"},
        {"schema: paradl.profile/1\nbarrier: []\n", "barrier"},
        {"schema: paradl.profile/1\nbroadcast:\n  - {ranks: 2, algorithm: "
         "flat}\n",
         ":3:27"},
        {"schema: paradl.profile/1\nallreduce:\n  - {ranks: 0, algorithm: "
         "ring}\n",
         "ranks"},
        {"schema: paradl.profile/1\nallreduce:\n  - {ranks: 2}\n",
         "needs ranks and algorithm"},
        {"schema: paradl.profile/1\nallreduce:\n  - {ranks: 2, algorithm: "
         "rong}\n",
         ":3:27"},
        {"schema: paradl.profile/1\nallreduce:\n  - {ranks: 2, up_to: -1KiB, "
         "algorithm: ring}\n",
         "up_to"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(1 << 20);
        struct pdl_err err = {"", ""};
        struct pdl_comm_table t;

        if (read_text(a, cases[i].text, &t, &err) == PDL_OK ||
            !strstr(err.msg, cases[i].says))
            fail_msg("case %zu says \"%s\"", i, err.msg);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_reads_back_as_it_was_written),
        cmocka_unit_test(sizes_and_ranks_choose_the_rule),
        cmocka_unit_test(a_communicator_follows_its_table),
        cmocka_unit_test(bad_tables_are_refused_with_their_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
