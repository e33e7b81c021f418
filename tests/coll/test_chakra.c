/* Chakra's execution traces: the format byte by byte, times by hand, every
 * algorithm there and back, and traces that are wrong. */
#include "paradl/coll.h"

#include "effort.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 16 };
static const char star[] = "star:hosts=16,bw=2GB/s,lat=1us";

/* The files of a trace. */
struct files {
    int n;
    struct pdl_buf buf[MOST_RANKS];
    struct pdl_bytes file[MOST_RANKS];
    const char *name[MOST_RANKS];
    const char *groups;
};

static void begin(struct files *f, int ranks)
{
    static const char *const names[] = {"x.0.et", "x.1.et", "x.2.et", "x.3.et"};

    *f = (struct files){.n = ranks};
    for (int r = 0; r < ranks; r++) {
        pdl_buf_init(&f->buf[r]);
        f->name[r] = names[r < 4 ? r : 3];
        assert_int_equal(pdl_chakra_begin(&f->buf[r].sink, NULL), PDL_OK);
    }
}

static void put(struct files *f, int rank, struct pdl_chakra_node n)
{
    n.name = "a node";
    n.rank = rank;
    assert_int_equal(pdl_chakra_put(&n, &f->buf[rank].sink, NULL), PDL_OK);
}

static void end(struct files *f)
{
    for (int r = 0; r < f->n; r++)
        pdl_buf_free(&f->buf[r]);
}

static enum pdl_status read_into(pdl_arena *a, struct files *f,
                                 const char *algorithm, struct pdl_traffic *t,
                                 struct pdl_chakra_count *count,
                                 struct pdl_err *err)
{
    struct pdl_chakra in = {.nranks = f->n,
                            .file = f->file,
                            .name = f->name,
                            .algorithm = algorithm,
                            .groups_name = "groups.json"};

    if (f->groups)
        in.groups = (struct pdl_bytes){f->groups, strlen(f->groups)};
    for (int r = 0; r < f->n; r++)
        f->file[r] = (struct pdl_bytes){f->buf[r].text, f->buf[r].len};
    return pdl_coll_read_chakra(a, &in, t, count, err);
}

static double seconds_of(pdl_arena *a, const struct pdl_traffic *t,
                         const char *topology)
{
    struct pdl_sim_config config = {.time_only = true};
    struct pdl_err err = {"", ""};
    const struct pdl_net *net;
    struct pdl_sim_result r = {.time_s = -1};

    if (pdl_net_make(a, topology, &net, &err) != PDL_OK ||
        pdl_sim_run(a, net, t, &config, &r, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return r.time_s;
}

static double played(struct files *f, const char *algorithm,
                     struct pdl_chakra_count *count)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_traffic t;
    double s;

    if (read_into(a, f, algorithm, &t, count, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    s = seconds_of(a, &t, star);
    pdl_arena_destroy(a);
    end(f);
    return s;
}

static void assert_refused(struct files *f, const char *why)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_traffic t;

    assert_int_equal(read_into(a, f, NULL, &t, NULL, &err), PDL_EPARSE);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    pdl_arena_destroy(a);
    end(f);
}

/* ---- the format ---------------------------------------------------------- */

/* As the schema has it, written down byte by byte: a file of version 1.0.0,
 * node 1, "c", which computes 5 us on the device, and node 2, "r", which waits
 * for it, an all-reduce (0, so a default) of 65536 bytes. Between them is what
 * we do not read: ctrl_deps, inputs, a list. */
static const unsigned char bytes[] = {
    7,    0x0a, 5,    '1',  '.',  '0',  '.',  '0', /* version */
    25,   0x08, 1,                                 /* id */
    0x12, 1,    'c',                               /* name */
    0x18, 4,                                       /* type: computation */
    0x38, 5,                                       /* duration_micros */
    0x52, 14,   0x0a, 9,    'i',  's',  '_',  'c', 'p', 'u',
    '_',  'o',  'p',  0xd8, 1,    0,   /* is_cpu_op: bool_val */
    71,   0x08, 2,                     /* id */
    0x12, 1,    'r',                   /* name */
    0x18, 7,                           /* type: collective */
    0x22, 2,    1,    9,               /* ctrl_deps */
    0x2a, 1,    1,                     /* data_deps */
    0x42, 4,    0x0a, 2,    '[',  ']', /* inputs */
    0x52, 13,   0x0a, 9,    'c',  'o',  'm',  'm', '_', 't',
    'y',  'p',  'e',  0x48, 0, /* comm_type: int64_val */
    0x52, 15,   0x0a, 9,    'c',  'o',  'm',  'm', '_', 's',
    'i',  'z',  'e',  0x48, 0x80, 0x80, 4, /* comm_size */
    0x52, 17,   0x0a, 12,   'i',  'n',  'v',  'o', 'l', 'v',
    'e',  'd',  '_',  'd',  'i',  'm',  0xe2, 1,   0, /* a list */
};

static void the_format_is_that_of_the_schema(void **state)
{
    struct pdl_chakra_count count;
    struct files f;
    double s;

    (void)state;
    begin(&f, 4);
    for (int r = 0; r < 4; r++) {
        pdl_buf_free(&f.buf[r]);
        pdl_buf_init(&f.buf[r]);
        pdl_put(&f.buf[r].sink, (const char *)bytes, sizeof bytes);
    }
    s = played(&f, "ring", &count);
    assert_int_equal(count.nodes, 8);
    assert_int_equal(count.computations, 4);
    assert_int_equal(count.collectives, 4);
    assert_int_equal(count.untimed, 0);
    /* six steps of a quarter, each over two links */
    assert_true(fabs(s - (5e-6 + 6 * (2e-6 + 16384 / 2e9))) < 1e-12);
}

static void what_is_written_is_as_others_read_it(void **state)
{
    static const unsigned char node[] = {
        70,   0x08, 3,    0x12, 1,    's',  0x18, 5, /* a send */
        0x2a, 1,    1,                               /* data_deps */
        0x52, 14,   0x0a, 9,    'i',  's',  '_',  'c',  'p', 'u', '_', 'o',
        'p',  0xd8, 1,    0,    0x52, 15,   0x0a, 9,    'c', 'o', 'm', 'm',
        '_',  's',  'i',  'z',  'e',  0x48, 0x80, 0x80, 4, /* int64_val */
        0x52, 12,   0x0a, 8,    'c',  'o',  'm',  'm',  '_', 's', 'r', 'c',
        0x38, 0, /* int32_val */
    };
    static const int64_t after[] = {1};
    struct pdl_chakra_node n = {.id = 3,
                                .name = "s",
                                .kind = PDL_CHAKRA_SEND,
                                .stream = -1,
                                .peer = 2,
                                .bytes = 65536,
                                .nafter = 1,
                                .after = after};
    struct pdl_buf b;

    (void)state;
    pdl_buf_init(&b);
    assert_int_equal(pdl_chakra_put(&n, &b.sink, NULL), PDL_OK);
    /* comm_dst and comm_tag follow */
    assert_int_equal(b.len, sizeof node + 28);
    assert_int_equal((unsigned char)b.text[0], b.len - 1);
    assert_memory_equal(b.text + 1, node + 1, sizeof node - 1);
    pdl_buf_free(&b);
}

/* ---- times by hand ------------------------------------------------------- */

static struct pdl_chakra_node work(int64_t id, double s, int64_t stream)
{
    return (struct pdl_chakra_node){
        .id = id, .kind = PDL_CHAKRA_COMPUTE, .seconds = s, .stream = stream};
}

static struct pdl_chakra_node of_all(int64_t id, const char *collective,
                                     int64_t n, const char *group)
{
    return (struct pdl_chakra_node){.id = id,
                                    .kind = PDL_CHAKRA_COLLECTIVE,
                                    .collective = collective,
                                    .stream = -1,
                                    .bytes = n,
                                    .group = group};
}

static struct pdl_chakra_node message(int64_t id, bool sends, int peer,
                                      int64_t n, int64_t tag)
{
    return (struct pdl_chakra_node){
        .id = id,
        .kind = sends ? PDL_CHAKRA_SEND : PDL_CHAKRA_RECV,
        .stream = -1,
        .peer = peer,
        .bytes = n,
        .tag = tag};
}

static void computations_of_a_stream_follow_each_other(void **state)
{
    struct files f;

    (void)state;
    begin(&f, 1);
    put(&f, 0, work(1, 3e-6, -1));
    put(&f, 0, work(2, 4e-6, -1));
    put(&f, 0, work(3, 5.5e-6, 1));
    assert_true(fabs(played(&f, NULL, NULL) - 7e-6) < 1e-15);
}

/* comm_size is what each rank puts in: an all-gather ends with four times it,
 * a reduce-scatter with a quarter. Rings: three steps of one block. */
static void sizes_are_what_ranks_put_in(void **state)
{
    static const struct {
        const char *collective;
        double block;
    } cases[] = {{"allgather", 8000}, {"reduce-scatter", 2000}};
    struct files f;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&f, 4);
        for (int r = 0; r < 4; r++)
            put(&f, r, of_all(1, cases[i].collective, 8000, NULL));
        assert_true(fabs(played(&f, "ring", NULL) -
                         3 * (2e-6 + cases[i].block / 2e9)) < 1e-12);
    }
}

/* Two groups at once, and the messages of tags that come crosswise. */
static void groups_and_tags_meet_their_own(void **state)
{
    struct files f;

    (void)state;
    begin(&f, 4);
    f.groups = "{\"a\": [0, 2], \"b\": [3, 1]}";
    for (int r = 0; r < 4; r++)
        put(&f, r, of_all(1, "allreduce", 8000, r % 2 ? "b" : "a"));
    assert_true(fabs(played(&f, "ring", NULL) - 2 * (2e-6 + 4000 / 2e9)) <
                1e-12);
    begin(&f, 2);
    put(&f, 0, message(1, true, 1, 2000, 7));
    put(&f, 0, message(2, true, 1, 4000, 8));
    put(&f, 1, message(1, false, 0, 4000, 8));
    put(&f, 1, message(2, false, 0, 2000, 7));
    /* they share the link: 2000 bytes of each, then the rest */
    assert_true(fabs(played(&f, NULL, NULL) - (2e-6 + 6000 / 2e9)) < 1e-12);
}

/* Metadata with inputs as PyTorch's converter has them. */
static void put_init(struct files *f, int rank, int id, const char *groups)
{
    static const char name[] = "## process_group:init ##";
    struct pdl_sink *out = &f->buf[rank].sink;
    char text[100];
    int n = snprintf(text, sizeof text, "['[%s]']", groups);
    int all = 6 + (int)sizeof name - 1 + 4 + n;

    assert_true(all < 128);
    /* the length; id, type and name; inputs and their values */
    pdl_printf(out, "%c\x08%c\x18\x01\x12%c%s", all, id, (int)sizeof name - 1,
               name);
    pdl_printf(out, "\x42%c\x0a%c%s", n + 2, n, text);
}

static void groups_are_also_those_that_pytorch_says(void **state)
{
    static const char pair[] = "{\"pg_name\": \"b\", \"ranks\": [%d, %d]}";
    char text[60];
    struct files f;

    (void)state;
    for (int file = 0; file < 2; file++) { /* what a file says counts first */
        double four = 6 * (2e-6 + 2000 / 2e9), two = 2 * (2e-6 + 4000 / 2e9);

        begin(&f, 4);
        f.groups = file ? "{\"b\": [0, 1, 2, 3]}" : NULL;
        for (int r = 0; r < 4; r += 2 - file) {
            snprintf(text, sizeof text, pair, 0, 2);
            put_init(&f, r, 99, text);
            put(&f, r, of_all(1, "allreduce", 8000, "b"));
        }
        assert_true(fabs(played(&f, "ring", NULL) - (file ? four : two)) <
                    1e-12);
    }
    begin(&f, 2); /* no ranks: all; what makes no sense is passed over */
    for (int r = 0; r < 2; r++) {
        put_init(&f, r, 98, "{\"pg_name\": {\"x}]");
        put_init(&f, r, 99, "{\"pg_name\": \"0\", \"ranks\": []}");
        put(&f, r, of_all(1, "allreduce", 8000, "0"));
    }
    assert_true(fabs(played(&f, "ring", NULL) - 2 * (2e-6 + 4000 / 2e9)) <
                1e-12);
    begin(&f, 2);
    put_init(&f, 0, 99, "{\"pg_name\": \"0\", \"ranks\": [0, 7]}");
    put(&f, 0, of_all(1, "allreduce", 8000, "0"));
    assert_refused(&f, "group '0', which is not described");
}

static void a_barrier_has_no_bytes(void **state)
{
    struct files f;

    (void)state;
    begin(&f, 2);
    put(&f, 0, work(1, 9e-6, -1));
    for (int r = 0; r < 2; r++) {
        struct pdl_chakra_node n = of_all(5, "barrier", 0, NULL);
        static const int64_t after[] = {1};

        n.nafter = r == 0;
        n.after = after;
        put(&f, r, n);
    }
    assert_true(fabs(played(&f, "ring", NULL) - (9e-6 + 2 * 2e-6)) < 1e-12);
}

/* What waits for a collective waits for all of its steps. */
static void what_follows_a_collective_comes_after_all_of_it(void **state)
{
    static const int64_t after[] = {1};
    struct files f;

    (void)state;
    begin(&f, 4);
    for (int r = 0; r < 4; r++) {
        struct pdl_chakra_node n = work(2, 3e-6, -1);

        put(&f, r, of_all(1, "allreduce", 8000, NULL));
        n.nafter = 1;
        n.after = after;
        put(&f, r, n);
    }
    assert_true(fabs(played(&f, "ring", NULL) -
                     (6 * (2e-6 + 2000 / 2e9) + 3e-6)) < 1e-12);
}

/* ---- there and back ------------------------------------------------------ */

static double there_and_back(pdl_arena *a, const struct pdl_traffic *t)
{
    struct files f;

    begin(&f, t->nranks);
    for (int r = 0; r < t->nranks; r++) {
        pdl_buf_free(&f.buf[r]);
        pdl_buf_init(&f.buf[r]);
        assert_int_equal(pdl_coll_write_chakra(t, r, &f.buf[r].sink, NULL),
                         PDL_OK);
    }
    (void)a;
    return played(&f, NULL, NULL);
}

static void every_algorithm_takes_as_long_there_and_back(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    int tried = 0;

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (int p = 6; p <= 16; p += 10) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            struct pdl_coll_job job;
            struct pdl_traffic t;
            double want, got;

            if (pdl_coll_job_make(alg->collective->name, alg->name, p, 48000, 4,
                                  &job, NULL) != PDL_OK)
                continue;
            pdl_coll_traffic(&job, NULL, &t);
            t.window = 1 << 20; /* a trace has all operations in sight */
            want = seconds_of(a, &t, star);
            got = there_and_back(a, &t);
            tried++;
            if (fabs(got - want) > 1e-12 * want)
                fail_msg("%s/%s on %d: %.17g, back %.17g",
                         alg->collective->name, alg->name, p, want, got);
            pdl_arena_reset(a);
        }
    assert_true(tried > 30);
    pdl_arena_destroy(a);
}

/* ---- what is wrong ------------------------------------------------------- */

static void waits(struct files *f, int rank, int64_t id, int64_t on)
{
    struct pdl_chakra_node n = work(id, 1e-6, -1);

    n.nafter = 1;
    n.after = &on;
    put(f, rank, n);
}

static void traces_that_cannot_run_are_refused(void **state)
{
    struct files f;

    (void)state;
    begin(&f, 1);
    waits(&f, 0, 1, 2);
    assert_refused(&f, "node 1 waits for 2, which is not there");
    begin(&f, 1);
    waits(&f, 0, 1, 2);
    waits(&f, 0, 2, 1);
    assert_refused(&f, "in a circle");
    begin(&f, 1);
    put(&f, 0, work(4, 1, -1));
    put(&f, 0, work(4, 1, -1));
    assert_refused(&f, "node 4 is there twice");
    begin(&f, 2);
    put(&f, 0, of_all(1, "allreduce", 80, NULL));
    assert_refused(&f, "not all of its group");
    begin(&f, 2);
    put(&f, 0, of_all(1, "allreduce", 80, NULL));
    put(&f, 1, of_all(1, "allreduce", 84, NULL));
    assert_refused(&f, "x.1.et: node 1 is another collective");
    begin(&f, 2);
    put(&f, 0, message(1, true, 1, 80, 3));
    put(&f, 1, message(1, false, 0, 80, 4));
    assert_refused(&f, "not both sent and received");
    begin(&f, 2);
    put(&f, 0, message(1, true, 5, 80, 3));
    assert_refused(&f, "names rank 5 of 2");
    begin(&f, 2);
    put(&f, 0, of_all(1, "allreduce", 80, "tp"));
    assert_refused(&f, "group 'tp', which is not described");
    begin(&f, 2);
    f.groups = "{\"tp\": [1]}";
    put(&f, 0, of_all(1, "allreduce", 80, "tp"));
    assert_refused(&f, "a group that its rank is not in");
    begin(&f, 2);
    f.groups = "{\"tp\": [1, 1]}";
    assert_refused(&f, "groups.json:1:8: rank 1 is twice in 'tp'");
    begin(&f, 1);
    f.buf[0].len--;
    assert_refused(&f, "longer than the rest");
    begin(&f, 1);
    pdl_puts(&f.buf[0].sink, "\x03xyz");
    assert_refused(&f, "message 1 is no node");
}

/* Each sends before it receives what the other sends after: they would need
 * buffers. */
static void ranks_that_wait_for_each_other_are_refused(void **state)
{
    static const int64_t first[] = {1};
    struct files f;

    (void)state;
    begin(&f, 2);
    for (int r = 0; r < 2; r++) {
        struct pdl_chakra_node n = message(2, false, 1 - r, 80, r);

        put(&f, r, message(1, true, 1 - r, 80, 1 - r));
        n.nafter = 1;
        n.after = first;
        put(&f, r, n);
    }
    assert_refused(&f, "in a circle");
}

/* As traces of GOAL are written: nothing is looked for one by one. */
static void many_streams_and_groups_take_little_time(void **state)
{
    enum { STREAMS = 300000, GROUPS = 20000 };
    struct pdl_buf groups;
    double cpu = pdl_cpu_s();
    struct files f;

    (void)state;
    pdl_buf_init(&groups);
    pdl_puts(&groups.sink, "{\"a\": [0]");
    begin(&f, 1);
    for (int i = 0; i < STREAMS; i++)
        put(&f, 0, work(i, 1e-6, i));
    for (int i = 0; i < GROUPS; i++) {
        char name[16];

        snprintf(name, sizeof name, "g%d", i);
        pdl_printf(&groups.sink, ", \"%s\": [0]", name);
        put(&f, 0, of_all(STREAMS + i, "barrier", 0, name));
    }
    pdl_puts(&groups.sink, "}");
    f.groups = groups.text;
    assert_true(fabs(played(&f, NULL, NULL) - 1e-6) < 1e-15);
    assert_true(pdl_cpu_s() - cpu < effort(60, 10, 10));
    pdl_buf_free(&groups);
}

static void little_memory_is_an_error_and_no_crash(void **state)
{
    enum pdl_status st = PDL_ENOMEM;
    struct files f;

    (void)state;
    begin(&f, 4);
    for (int r = 0; r < 4; r++) {
        put(&f, r, work(1, 1e-6, -1));
        put(&f, r, of_all(2, "allreduce", 8000, NULL));
    }
    for (size_t limit = 0; st != PDL_OK; limit += 128) {
        pdl_arena *a = pdl_arena_create(limit);
        struct pdl_err err = {"", ""};
        struct pdl_traffic t;

        st = read_into(a, &f, NULL, &t, NULL, &err);
        assert_true(st == PDL_OK || (st == PDL_ENOMEM && *err.msg));
        assert_true(limit < 1 << 24);
        pdl_arena_destroy(a);
    }
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_is_that_of_the_schema),
        cmocka_unit_test(what_is_written_is_as_others_read_it),
        cmocka_unit_test(computations_of_a_stream_follow_each_other),
        cmocka_unit_test(sizes_are_what_ranks_put_in),
        cmocka_unit_test(groups_and_tags_meet_their_own),
        cmocka_unit_test(groups_are_also_those_that_pytorch_says),
        cmocka_unit_test(a_barrier_has_no_bytes),
        cmocka_unit_test(what_follows_a_collective_comes_after_all_of_it),
        cmocka_unit_test(every_algorithm_takes_as_long_there_and_back),
        cmocka_unit_test(traces_that_cannot_run_are_refused),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_refused),
        cmocka_unit_test(many_streams_and_groups_take_little_time),
        cmocka_unit_test(little_memory_is_an_error_and_no_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
