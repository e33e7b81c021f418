/* Programs as text: what is printed reads back the same and can be proved;
 * what is wrong is refused with its place. */
#include "coll_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum pdl_status parse(pdl_arena *a, const char *text,
                             struct pdl_coll_program **prog,
                             struct pdl_err *err)
{
    struct pdl_bytes in = {text, strlen(text)};

    return pdl_coll_parse(a, in, "x.coll", prog, err);
}

static void same_spans(const struct pdl_span *a, int na,
                       const struct pdl_span *b, int nb)
{
    assert_int_equal(na, nb);
    for (int i = 0; i < na; i++) {
        assert_int_equal(a[i].buf, b[i].buf);
        assert_int_equal(a[i].first, b[i].first);
        assert_int_equal(a[i].run, b[i].run);
        assert_int_equal(a[i].stride, b[i].stride);
        assert_int_equal(a[i].n, b[i].n);
    }
}

static void same_step(const struct pdl_step *a, const struct pdl_step *b)
{
    assert_int_equal(a->send_to, b->send_to);
    assert_int_equal(a->recv_from, b->recv_from);
    same_spans(a->send, a->nsend, b->send, b->nsend);
    same_spans(a->recv, a->nrecv, b->recv, b->nrecv);
    assert_int_equal(a->act, b->act);
    assert_int_equal(a->send_terms, b->send_terms);
    assert_int_equal(a->recv_terms, b->recv_terms);
    assert_int_equal(a->nafter, b->nafter);
    for (int i = 0; i < a->nafter; i++)
        assert_int_equal(a->after[i], b->after[i]);
}

static void same_steps(const struct pdl_coll_job *job,
                       const struct pdl_coll_program *prog)
{
    assert_int_equal(prog->nranks, job->nranks);
    assert_int_equal(prog->nbufs, job->nbufs);
    assert_memory_equal(prog->buf, job->buf, sizeof prog->buf);
    assert_memory_equal(&prog->params, &job->params, sizeof prog->params);
    for (int r = 0; r < job->nranks; r++) {
        assert_int_equal(prog->nsteps[r], pdl_coll_nsteps(job, r));
        for (int64_t s = 0; s < prog->nsteps[r]; s++) {
            struct pdl_step want;

            pdl_coll_step(job, r, s, &want);
            same_step(&prog->steps[r][s], &want);
        }
    }
}

static void what_is_printed_reads_back_the_same(void **state)
{
    static const int sizes[] = {1, 2, 3, 6, 8, 12, 16};

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_coll_program *prog;
            struct pdl_coll_job job, again;
            struct pdl_err err = {"", ""};
            struct pdl_buf text;

            pdl_buf_init(&text);
            if (pdl_coll_job_make(alg->collective->name, alg->name, sizes[k],
                                  sizes[k] * 12, 4, &job, &err) == PDL_OK) {
                job.density = alg->sparse ? 0.0078125 : 0;
                /* buffers beyond nbufs are the algorithm's own business */
                for (int b = job.nbufs; b < PDL_COLL_BUFS; b++)
                    memset(&job.buf[b], 0, sizeof job.buf[b]);
                pdl_coll_print(&job, -1, &text.sink);
                if (parse(a, text.text, &prog, &err) != PDL_OK)
                    fail_msg("%s: %s", alg->name, err.msg);
                same_steps(&job, prog);
                assert_true(prog->density == job.density);
                pdl_coll_program_job(prog, &again);
                assert_int_equal(pdl_coll_setup(&again, &err), PDL_OK);
                if (pdl_coll_verify(&again, NULL, &err) != PDL_OK)
                    fail_msg("%s: %s", alg->name, err.msg);
            }
            pdl_buf_free(&text);
            pdl_arena_destroy(a);
        }
}

static const char two[] = "# two ranks swap and add\n"
                          "collective allreduce swap\nranks 2\nelement 4\n"
                          "buffer 0: 10 elements 1 chunks\n"
                          "rank 0\n0: send 0[0] to 1 add 0[0] from 1\n"
                          "rank 1\n0: send 0[0] to 0 add 0[0] from 0\n";

static void a_program_read_from_text_is_an_algorithm(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_coll_program *prog;
    struct pdl_coll_job job;
    struct pdl_coll_proof proof;
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(parse(a, two, &prog, &err), PDL_OK);
    pdl_coll_program_job(prog, &job);
    assert_int_equal(pdl_coll_verify(&job, &proof, &err), PDL_OK);
    assert_int_equal(proof.messages, 2);
    assert_int_equal(proof.max_rank_bytes, 40);
    job.count = 1000;
    assert_int_equal(pdl_coll_setup(&job, &err), PDL_OK);
    assert_int_equal(pdl_coll_verify(&job, &proof, &err), PDL_OK);
    assert_int_equal(proof.max_rank_bytes, 4000);
    assert_true(runs_right(&job, 3, &err));
    pdl_arena_destroy(a);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    static const struct {
        const char *from, *to, *msg;
    } cases[] = {
        {"allreduce", "allredcue", "x.coll:2:21: no such collective"},
        {"ranks 2", "ranks 0", "x.coll:3:8: the number is out of range"},
        {"element 4", "elemnt 4", "x.coll:4:1: expected 'element'"},
        {"1 chunks", "0 chunks", "x.coll:5:24: the number is out of range"},
        {"rank 0\n", "\n", "x.coll:7:1: expected 'rank'"},
        {"0: send 0[0] to 1", "1: send 0[0] to 1",
         "x.coll:7:2: the number is out of range"},
        {"to 1", "to 2", "x.coll:7:18: the number is out of range"},
        {"from 1", "from 0", "x.coll:8:1: rank 0 step 0: half of a local copy"},
        {"0[0] to 1", "0[1] to 1",
         "x.coll:8:1: rank 0 step 0: a span leaves its buffer"},
        {"from 1", "from 1 after 0",
         "x.coll:8:1: rank 0 step 0: waits for step 0, which is not before"},
        {"send 0[0] to 1 add 0[0] from 1", "", "x.coll:8:1: expected 'join'"},
        {"rank 1", "rank 0", "x.coll:8:7: the number is out of range"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(1 << 20);
        struct pdl_coll_program *prog = NULL;
        struct pdl_err err = {"", ""};
        const char *at = strstr(two, cases[i].from);
        char text[512];

        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - two), two,
                 cases[i].to, at + strlen(cases[i].from));
        assert_int_equal(parse(a, text, &prog, &err), PDL_EPARSE);
        assert_string_equal(err.msg, cases[i].msg);
        assert_null(prog);
        pdl_arena_destroy(a);
    }
}

static void parsing_survives_any_shortage_of_memory(void **state)
{
    enum pdl_status st = PDL_ENOMEM;

    (void)state;
    for (size_t limit = 0; st == PDL_ENOMEM; limit += 64) {
        pdl_arena *a = pdl_arena_create(limit);
        struct pdl_coll_program *prog;

        st = a ? parse(a, two, &prog, NULL) : PDL_ENOMEM;
        pdl_arena_destroy(a);
    }
    assert_int_equal(st, PDL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_reads_back_the_same),
        cmocka_unit_test(a_program_read_from_text_is_an_algorithm),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(parsing_survives_any_shortage_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
