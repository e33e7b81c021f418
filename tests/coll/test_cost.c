/* Costs: the step and byte counts of the literature, the closed forms against
 * the steps, lower bounds, and three ways to one number: closed form,
 * contention model and simulation. */
#include "paradl/coll.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct pdl_coll_job make(const char *coll, const char *spec, int p,
                                int64_t count)
{
    struct pdl_coll_job job;
    struct pdl_err err = {"", ""};

    if (pdl_coll_job_make(coll, spec, p, count, 4, &job, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return job;
}

/* comm.md 1 and 3, net.md 1.3: steps, messages of all ranks and bytes of the
 * busiest rank. N = 4 * count bytes. */
static void published_counts_are_met(void **state)
{
    static const struct {
        const char *coll, *spec;
        int p;
        int64_t steps, messages;
        double bytes; /* in N */
    } cases[] = {
        // clang-format off
        {"allreduce", "ring", 64, 126, 8064, 2.0 * 63 / 64},
        {"allreduce", "ring", 256, 510, 130560, 2.0 * 255 / 256},
        {"allreduce", "halving-doubling", 1024, 20, 20480, 2.0 * 1023 / 1024},
        {"allreduce", "halving-doubling-far", 1024, 20, 20480, 2.0 * 1023 / 1024},
        {"allreduce", "recursive-doubling", 1024, 10, 10240, 10},
        {"allreduce", "rabenseifner", 64, 12, 768, 2.0 * 63 / 64},
        {"allreduce", "swing", 64, 12, 768, 2.0 * 63 / 64},
        {"allreduce", "shd", 64, 12, 768, 2.0 * 63 / 64},
        {"allreduce", "shd-circulant", 64, 12, 768, 2.0 * 63 / 64},
        {"allreduce", "ring-ring:k=4", 64, 36, 2304, 2.0 * 63 / 64},
        {"allreduce", "ring-rab:k=4", 64, 14, 896, 2.0 * 63 / 64},
        {"allreduce", "ring-rdb:k=4", 64, 10, 640, 2 * 0.75 + 0.25 * 4},
        {"allreduce", "torus:x=4,y=4,z=4", 64, 18, 1152, 2.0 * 63 / 64},
        {"reduce-scatter", "ring", 64, 63, 4032, 63.0 / 64},
        {"reduce-scatter", "halving", 64, 6, 384, 63.0 / 64},
        {"allgather", "ring", 64, 63, 4032, 63.0 / 64},
        {"allgather", "recursive-doubling", 64, 6, 384, 63.0 / 64},
        {"allgather", "bruck", 12, 4, 48, 11.0 / 12},
        {"broadcast", "binomial", 64, 6, 63, 6},
        {"alltoall", "pairwise", 64, 64, 4032, 63.0 / 64},
        {"alltoall", "bruck", 64, 8, 384, 3},
        // clang-format on
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t count = (int64_t)cases[i].p * 960;
        struct pdl_coll_job job =
            make(cases[i].coll, cases[i].spec, cases[i].p, count);
        struct pdl_coll_proof proof;
        struct pdl_err err = {"", ""};

        if (pdl_coll_verify(&job, &proof, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(proof.steps, cases[i].steps);
        assert_int_equal(proof.messages, cases[i].messages);
        assert_int_equal(proof.max_rank_bytes,
                         llround(cases[i].bytes * 4 * (double)count));
    }
}

/* No rank can send less than these (Chan et al., 2007): N(P-1)/P for
 * reduce-scatter, allgather and all-to-all, twice that for an allreduce that
 * reduces every element once. Here as a bound on the sum over all ranks. */
static void no_algorithm_beats_the_lower_bounds(void **state)
{
    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (int p = 2; p <= 20; p++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            const char *coll = alg->collective->name;
            struct pdl_coll_job job;
            double all = 0, least = 0;

            if (pdl_coll_job_make(coll, alg->name, p, p * 120, 4, &job, NULL) !=
                PDL_OK)
                continue;
            for (int r = 0; r < p; r++)
                for (int64_t s = 0; s < pdl_coll_nsteps(&job, r); s++) {
                    struct pdl_step step;

                    pdl_coll_step(&job, r, s, &step);
                    if (step.send_to != r)
                        all += (double)pdl_coll_send_bytes(&job, &step);
                }
            if (strcmp(coll, "allreduce") == 0)
                least = 2;
            else if (strcmp(coll, "halo") != 0 && strcmp(coll, "exchange") != 0)
                least = 1;
            if (all < least * (p - 1) * 480 - 1e-9 ||
                (strcmp(coll, "alltoall") == 0 &&
                 all < (p - 1) * 4.0 * 120 * p))
                fail_msg("%s/%s on %d ranks sends %g", coll, alg->name, p, all);
        }
}

/* A network without contention: every host at one switch, full duplex. */
static const struct pdl_net *star(pdl_arena *a, int hosts)
{
    const struct pdl_net *net;
    struct pdl_err err = {"", ""};
    char spec[64];

    snprintf(spec, sizeof spec, "star:hosts=%d,bw=10GB/s,lat=1us", hosts);
    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return net;
}

static double contention_time(const struct pdl_coll_job *job,
                              const struct pdl_net *net, pdl_arena *a)
{
    struct pdl_coll_round *rounds;
    struct pdl_err err = {"", ""};
    int64_t n;
    double t = 0;

    if (pdl_coll_contention(job, net, NULL, a, &rounds, &n, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    for (int64_t i = 0; i < n; i++)
        t +=
            (double)rounds[i].repeat * (rounds[i].latency_s + rounds[i].link_s);
    return t;
}

static double simulated_time(const struct pdl_coll_job *job,
                             const struct pdl_net *net, pdl_arena *a)
{
    struct pdl_traffic traffic;
    struct pdl_sim_config config = {.share = PDL_SHARE_FAIR};
    struct pdl_sim_result result;
    struct pdl_err err = {"", ""};

    pdl_coll_traffic(job, NULL, &traffic);
    if (pdl_sim_run(a, net, &traffic, &config, &result, &err) != PDL_OK)
        fail_msg("%s/%s on %d: %s", job->alg->collective->name, job->alg->name,
                 job->nranks, err.msg);
    return result.time_s;
}

/* One message at a time from each rank on a star: the three ways agree. The
 * exceptions overlap their rounds (pipelines) or use many ports. */
static void closed_form_contention_and_simulation_agree(void **state)
{
    static const char *const overlapping[] = {"segmented-ring", "kautz",
                                              "kautz-small",    "neighbours",
                                              "ordered",        "flat"};
    static const int sizes[] = {2, 3, 4, 6, 8, 12, 13, 16, 32};
    int compared = 0;

    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_coll_job job;
            struct pdl_coll_cost c = {0, 0, 0};
            bool skip = false;
            int p = sizes[k];
            double form, flow, model;

            for (size_t j = 0; j < sizeof overlapping / sizeof overlapping[0];
                 j++)
                skip = skip || strcmp(alg->name, overlapping[j]) == 0;
            /* 48*P*P bytes in parts that are all equal */
            if (!skip && !alg->sparse &&
                pdl_coll_job_make(alg->collective->name, alg->name, p,
                                  (int64_t)p * 9216, 4, &job, NULL) == PDL_OK &&
                pdl_coll_closed_form(&job, &c)) {
                const struct pdl_net *net = star(a, p);

                form = c.rounds * 2e-6 + c.bytes / 10e9;
                flow = simulated_time(&job, net, a);
                model = contention_time(&job, net, a);
                if (fabs(form - flow) > 1e-9 * form + 1e-15 ||
                    fabs(form - model) > 1e-9 * form + 1e-15)
                    fail_msg("%s/%s on %d ranks: closed form %.9g, contention "
                             "%.9g, simulation %.9g",
                             alg->collective->name, alg->name, p, form, model,
                             flow);
                compared++;
            }
            pdl_arena_destroy(a);
        }
    print_message("%d jobs agree\n", compared);
    assert_true(compared > 100);
}

/* comm.md 2, checked by hand: dim 1000, 4-byte values. */
static void sparse_messages_are_as_long_as_their_union(void **state)
{
    (void)state;
    assert_true(fabs(pdl_coll_sparse_bytes(1000, 4, 0.1, 1) - 804) < 1e-9);
    assert_true(fabs(pdl_coll_sparse_bytes(1000, 4, 0.1, 2) -
                     (4 + 8 * 0.19 * 1000)) < 1e-9);
    /* 1-0.9^4 + 0.1 = 0.4439 < 1/2: c = 5 still sparse */
    assert_true(fabs(pdl_coll_sparse_bytes(1000, 4, 0.1, 5) -
                     (4 + 8 * (1 - pow(0.9, 5)) * 1000)) < 1e-9);
    /* 1-0.9^5 + 0.1 = 0.5095: c = 6 is dense */
    assert_true(pdl_coll_sparse_bytes(1000, 4, 0.1, 6) == 4 + 4 * 1000);
    assert_true(pdl_coll_sparse_bytes(1000, 4, 0.5, 1) == 4 + 4 * 1000);
}

static void alike_and_window_say_the_truth(void **state)
{
    (void)state;
    for (int i = 0; pdl_alg_at(i); i++)
        for (int p = 2; p <= 24; p++) {
            const struct pdl_alg *alg = pdl_alg_at(i);
            struct pdl_coll_job job;
            struct pdl_traffic t;

            if (pdl_coll_job_make(alg->collective->name, alg->name, p, p * 24,
                                  4, &job, NULL) != PDL_OK)
                continue;
            pdl_coll_traffic(&job, NULL, &t);
            for (int r = 0; r < p; r++) {
                int64_t n = t.nops(t.ctx, r);
                static bool before[1000][1000];

                assert_true(n <= 1000);
                memset(before, 0, sizeof before);
                for (int64_t s = 0; s < n; s++) {
                    struct pdl_traffic_op op, next;

                    t.op(t.ctx, r, s, &op);
                    for (int k = 0; k < op.nafter; k++) {
                        before[s][op.after[k]] = true;
                        for (int64_t j = 0; j < op.after[k]; j++)
                            before[s][j] =
                                before[s][j] || before[op.after[k]][j];
                    }
                    for (int64_t j = 0; j <= s - t.window; j++)
                        if (!before[s][j])
                            fail_msg("%s: window %d, but step %d may come "
                                     "before step %d",
                                     alg->name, t.window, (int)s, (int)j);
                    for (int64_t j = 1; t.alike && j < t.alike(t.ctx, s); j++) {
                        t.op(t.ctx, r, s + j, &next);
                        assert_int_equal(next.send_to, op.send_to);
                        assert_int_equal(next.recv_from, op.recv_from);
                        assert_int_equal(next.send_bytes, op.send_bytes);
                        assert_int_equal(next.nafter, 1);
                        assert_int_equal(next.after[0], s + j - 1);
                    }
                }
            }
        }
}

static void a_network_settles_what_was_not_said(void **state)
{
    static const struct {
        const char *net, *coll, *alg;
        int64_t k, x, y, z, q, g;
    } cases[] = {
        {"torus:4x3x2", "allreduce", "torus", 0, 4, 3, 2, 0, 0},
        {"torus:4x3x2", "allreduce", "torus:x=24", 0, 24, 0, 0, 0, 0},
        {"torus:dims=4x2", "allreduce", "torus", 0, 4, 2, 0, 0, 0},
        {"full2d:3x5", "alltoall", "parity", 0, 3, 5, 0, 0, 0},
        {"dln:switches=8,hosts=2", "allreduce", "shd", 0, 0, 0, 0, 3, 0},
        {"dln:q=3,p=1,ranks=2", "allreduce", "shd", 0, 0, 0, 0, 3, 2},
        {"dln-gpu:q=3,p=2", "allreduce", "shd", 0, 0, 0, 0, 3, 2},
        {"dln-gpu:q=3,p=2", "allreduce", "ring-ring", 4, 0, 0, 0, 0, 0},
        {"nvcluster:k=8,nodes=2", "allreduce", "ring-ring", 8, 0, 0, 0, 0, 0},
        {"nvcluster:k=8,nodes=2", "allreduce", "ring-ring:k=2", 2, 0, 0, 0, 0,
         0},
        {"dgx2-cluster:nodes=2", "allreduce", "ring-rab", 16, 0, 0, 0, 0, 0},
        {"rail:nodes=2,gpus=8", "allreduce", "ring-ring", 8, 0, 0, 0, 0, 0},
        {"nodes:nodes=3,pes=6", "allreduce", "ring-ring", 6, 0, 0, 0, 0, 0},
        {"system:dgx-a100:nodes=2", "allreduce", "ring-rab", 8, 0, 0, 0, 0, 0},
        {"star:hosts=8", "allreduce", "ring-ring", 0, 0, 0, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(1 << 24);
        struct pdl_coll_job job = {.count = 1, .elem_bytes = 4};
        const struct pdl_net *net = NULL;

        assert_int_equal(pdl_net_make(a, cases[i].net, &net, NULL), PDL_OK);
        job.nranks = net->nhosts;
        assert_int_equal(pdl_alg_parse(cases[i].coll, cases[i].alg, &job, NULL),
                         PDL_OK);
        pdl_coll_suit(&job, net);
        assert_int_equal(job.params.k, cases[i].k);
        assert_int_equal(job.params.x, cases[i].x);
        assert_int_equal(job.params.y, cases[i].y);
        assert_int_equal(job.params.z, cases[i].z);
        assert_int_equal(job.params.q, cases[i].q);
        assert_int_equal(job.params.g, cases[i].g);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_counts_are_met),
        cmocka_unit_test(no_algorithm_beats_the_lower_bounds),
        cmocka_unit_test(closed_form_contention_and_simulation_agree),
        cmocka_unit_test(sparse_messages_are_as_long_as_their_union),
        cmocka_unit_test(alike_and_window_say_the_truth),
        cmocka_unit_test(a_network_settles_what_was_not_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
