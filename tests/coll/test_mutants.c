/* A verifier that never says no proves nothing. Thousands of programs with
 * one thing changed are given to it; each must be rejected, or else compute
 * the right numbers on real buffers in several orders (some changes do not
 * matter, such as a wait that another wait implies). */
#include "effort.h"
#include "coll_check.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

struct mutation {
    struct pdl_coll_program *prog;
    struct pdl_rng *rng;
    int rank;
    int64_t s;
    struct pdl_step *step;
};

static int64_t draw(struct mutation *m, int64_t n)
{
    return (int64_t)pdl_rng_below(m->rng, (uint64_t)n);
}

/* Another value of 0..n-1; false when there is none. */
static bool other(struct mutation *m, int *v, int n)
{
    if (*v < 0 || n < 2)
        return false;
    *v = (int)((*v + 1 + draw(m, n - 1)) % n);
    return true;
}

static bool change_send_peer(struct mutation *m)
{
    return other(m, &m->step->send_to, m->prog->nranks);
}

static bool change_recv_peer(struct mutation *m)
{
    return other(m, &m->step->recv_from, m->prog->nranks);
}

static bool change_first(struct mutation *m, struct pdl_span *s)
{
    int64_t chunks = m->prog->buf[s->buf].chunks;

    if (chunks < 2)
        return false;
    s->first = (s->first + 1 + draw(m, chunks - 1)) % chunks;
    return true;
}

static bool change_send_chunk(struct mutation *m)
{
    return m->step->nsend > 0 &&
           change_first(m, &m->step->send[draw(m, m->step->nsend)]);
}

static bool change_recv_chunk(struct mutation *m)
{
    return m->step->nrecv > 0 &&
           change_first(m, &m->step->recv[draw(m, m->step->nrecv)]);
}

static bool change_length(struct mutation *m)
{
    struct pdl_step *t = m->step;
    struct pdl_span *s = draw(m, 2) && t->nsend ? t->send : t->recv;

    if (s == t->recv && !t->nrecv)
        return false;
    s->run += draw(m, 2) ? 1 : -1;
    return true;
}

static bool change_buffer(struct mutation *m)
{
    struct pdl_step *t = m->step;

    if (t->nrecv > 0 && draw(m, 2))
        return other(m, &t->recv[0].buf, m->prog->nbufs);
    return t->nsend > 0 && other(m, &t->send[0].buf, m->prog->nbufs);
}

static bool flip_act(struct mutation *m)
{
    if (m->step->recv_from < 0)
        return false;
    m->step->act = m->step->act == PDL_ACT_COPY ? PDL_ACT_REDUCE : PDL_ACT_COPY;
    return true;
}

static bool drop_wait(struct mutation *m)
{
    struct pdl_step *t = m->step;

    if (t->nafter == 0)
        return false;
    t->nafter--;
    t->after[draw(m, t->nafter + 1)] = t->after[t->nafter];
    return true;
}

static bool change_terms(struct mutation *m)
{
    if (!m->prog->alg.sparse || m->step->send_to < 0)
        return false;
    m->step->send_terms += 1 + (int)draw(m, 3);
    return true;
}

/* Renumbers the waits of all steps: from `at` on by `by`. */
static void shift_waits(struct mutation *m, int64_t at, int64_t by)
{
    struct pdl_step *steps = m->prog->steps[m->rank];

    for (int64_t s = 0; s < m->prog->nsteps[m->rank]; s++)
        for (int i = 0; i < steps[s].nafter; i++)
            if (steps[s].after[i] >= at)
                steps[s].after[i] += by;
}

/* What waited for the step now waits for what the step waited for first. */
static bool drop_step(struct mutation *m)
{
    struct pdl_step *steps = m->prog->steps[m->rank], gone = *m->step;
    int64_t n = --m->prog->nsteps[m->rank];

    if (gone.send_to < 0 && gone.recv_from < 0)
        return m->prog->nsteps[m->rank]++, false;
    memmove(m->step, m->step + 1, (size_t)(n - m->s) * sizeof *steps);
    for (int64_t s = m->s; s < n; s++)
        for (int i = 0; i < steps[s].nafter; i++)
            if (steps[s].after[i] == m->s && gone.nafter > 0)
                steps[s].after[i] = gone.after[0];
            else if (steps[s].after[i] == m->s)
                steps[s].after[i--] = steps[s].after[--steps[s].nafter];
    shift_waits(m, m->s + 1, -1);
    return true;
}

/* The list has room for one more step (see pdl_coll_list). */
static bool double_step(struct mutation *m)
{
    struct pdl_step *steps = m->prog->steps[m->rank];
    int64_t n = m->prog->nsteps[m->rank];

    if (m->step->send_to < 0 && m->step->recv_from < 0)
        return false;
    memmove(m->step + 1, m->step, (size_t)(n - m->s) * sizeof *steps);
    m->prog->nsteps[m->rank]++;
    shift_waits(m, m->s, 1);
    m->step[1].nafter = 1;
    m->step[1].after[0] = m->s;
    return true;
}

static bool swap_steps(struct mutation *m)
{
    struct pdl_step a = *m->step, b, *next = m->step + 1;

    if (m->s + 1 >= m->prog->nsteps[m->rank])
        return false;
    b = *next;
    *m->step = b;
    *next = a;
    m->step->nafter = a.nafter;
    memcpy(m->step->after, a.after, sizeof a.after);
    next->nafter = b.nafter;
    memcpy(next->after, b.after, sizeof b.after);
    return true;
}

static const struct {
    const char *name;
    bool (*apply)(struct mutation *m);
} mutations[] = {
    {"send peer", change_send_peer},
    {"receive peer", change_recv_peer},
    {"send chunk", change_send_chunk},
    {"receive chunk", change_recv_chunk},
    {"length", change_length},
    {"buffer", change_buffer},
    {"act", flip_act},
    {"wait dropped", drop_wait},
    {"terms", change_terms},
    {"step dropped", drop_step},
    {"step doubled", double_step},
    {"steps swapped", swap_steps},
};
enum { NMUTATIONS = sizeof mutations / sizeof mutations[0] };

struct tally {
    int made, rejected, equivalent;
};

/* Makes one mutant of an algorithm and judges it. */
static void try_one(const struct pdl_alg *alg, int p, int which,
                    struct pdl_rng *rng, struct tally *t)
{
    pdl_arena *a = pdl_arena_create(1 << 26);
    struct pdl_coll_job job;
    struct pdl_err err = {"", ""};
    struct mutation m = {.rng = rng};

    if (pdl_coll_job_make(alg->collective->name, alg->name, p, p * 12, 4, &job,
                          &err) != PDL_OK)
        goto out;
    job.density = alg->sparse ? 0.1 : 0;
    assert_int_equal(pdl_coll_list(&job, a, &m.prog, &err), PDL_OK);
    m.rank = (int)pdl_rng_below(rng, (uint64_t)p);
    if (m.prog->nsteps[m.rank] == 0)
        goto out;
    m.s = draw(&m, m.prog->nsteps[m.rank]);
    m.step = &m.prog->steps[m.rank][m.s];
    if (!mutations[which].apply(&m))
        goto out;
    t->made++;
    pdl_coll_program_job(m.prog, &job);
    if (pdl_coll_verify(&job, NULL, &err) == PDL_EWRONG) {
        assert_true(strlen(err.msg) > 20);
        t->rejected++;
        goto out;
    }
    for (uint64_t seed = 1; seed <= 5; seed++)
        if (!runs_right(&job, seed, &err))
            fail_msg("%s/%s on %d ranks, %s at rank %d step %d: accepted, but "
                     "computes the wrong numbers",
                     alg->collective->name, alg->name, p, mutations[which].name,
                     m.rank, (int)m.s);
    t->equivalent++;
out:
    pdl_arena_destroy(a);
}

static void every_mutant_is_rejected_or_shown_to_be_equivalent(void **state)
{
    static const int sizes[] = {2, 3, 4, 5, 6, 8, 9, 12, 16, 20};
    int rounds = effort(1, 2, 20);
    struct pdl_rng rng = {.key = 2021};
    struct tally all = {0, 0, 0};

    (void)state;
    for (int which = 0; which < NMUTATIONS; which++) {
        struct tally t = {0, 0, 0};

        for (int i = 0; pdl_alg_at(i); i++)
            for (int k = 0; k < 10 * rounds; k++)
                try_one(pdl_alg_at(i), sizes[k % 10], which, &rng, &t);
        print_message("%-14s %5d made %5d rejected %4d equivalent\n",
                      mutations[which].name, t.made, t.rejected, t.equivalent);
        all.made += t.made;
        all.rejected += t.rejected;
        all.equivalent += t.equivalent;
        assert_true(t.rejected > 0);
    }
    print_message("%d mutants, %d rejected, %d equivalent\n", all.made,
                  all.rejected, all.equivalent);
    assert_true(all.made > 3000);
    assert_true(all.rejected > all.made * 8 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mutant_is_rejected_or_shown_to_be_equivalent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
