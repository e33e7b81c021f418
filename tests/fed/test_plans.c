/* Plans of rounds without training: who takes part on which device, how long
 * it takes and what is sent. */
#include "small.h"

#include <math.h>

/* A buffer is filled by who comes back, and samples in one place by nobody's
 * absence; where all are lost a round ends all the same. */
static void dropouts_fill_no_buffer(void **state)
{
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 300, false, "iid", 30);
    s.job.algorithm = "fedbuff:buffer=5";
    s.job.select = 10;
    s.job.rounds = 20;
    s.job.drop = 0.6;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(x.tasks - x.lost >= 20 * 5);
    assert_true(x.tasks - x.lost <= 20 * 5 + 10);
    /* who is asked again has a chance of its own: 9 of 10 are lost, no more */
    s.job.drop = 0.9;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(x.tasks - x.lost >= 20 * 5 && x.tasks < 20 * 5 * 20);
    s.job.deadline_s = 1e-6;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(x.lost == x.tasks && x.total_s > 0);
    s.job.algorithm = "central";
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_int_equal(x.lost, 0);
    small_close(&s);
}

/* A table of all pairs is for who trains. */
static void many_clients_are_projected(void **state)
{
    enum { MANY = 100000 };
    static int64_t first[MANY + 1];
    static int32_t group[MANY];
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    for (int i = 0; i <= MANY; i++)
        first[i] = 20 * i;
    s.job.partition = (struct pdl_partition){
        .clients = MANY, .groups = 1, .first = first, .group = group};
    s.job.select = 7;
    s.job.rounds = 2;
    for (int i = 0; pdl_fed_algorithm_at(i); i++) {
        s.job.algorithm = pdl_fed_algorithm_at(i)->name;
        assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
        assert_true(x.total_s > 0 && x.tasks > 0);
    }
    small_close(&s);
}

/* Devices by name: slower ones take longer, who is away is not asked. */
static void devices_have_names(void **state)
{
    struct pdl_fed_devices d, other;
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    for (int i = 0; pdl_fed_devices_at(i); i++) {
        assert_int_equal(
            pdl_fed_devices_parse(pdl_fed_devices_at(i)->name, &d, &err),
            PDL_OK);
        assert_true(d.flops > 0 && d.up > 0 && d.up <= d.down && d.away < 1);
    }
    assert_int_equal(pdl_fed_devices_parse("phone", &d, &err), PDL_OK);
    assert_int_equal(pdl_fed_devices_parse("wan:away=0.5", &other, &err),
                     PDL_OK);
    assert_true(other.flops > d.flops && other.up > d.up);
    assert_true(fabs(other.away - 0.5) < 1e-12);
    assert_int_not_equal(pdl_fed_devices_parse("toaster", &d, &err), PDL_OK);
    assert_int_not_equal(pdl_fed_devices_parse("phone:away=2", &d, &err),
                         PDL_OK);
    small_open(&s, 300, false, "iid", 30);
    s.job.rounds = 20;
    s.job.away = other.away;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(x.tasks > 200 && x.tasks < 400 && x.lost == 0);
    s.job.select = 5; /* enough others are there */
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_int_equal(x.tasks, 100);
    small_close(&s);
}

/* Stems of other parts are in memory one at a time, or all; what they send
 * takes its time on the link. */
static void stems_are_priced(void **state)
{
    struct pdl_fed_projection again, keep, slow;
    double stems, part = 4. * 522; /* float32 */
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 8);
    s.job.rounds = 2;
    s.job.spread = 0;
    s.job.algorithm = "feddct:parts=4";
    assert_int_equal(pdl_fed_project(&s.job, &again, &err), PDL_OK);
    s.job.algorithm = "feddct:parts=4,stems=keep";
    assert_int_equal(pdl_fed_project(&s.job, &keep, &err), PDL_OK);
    assert_true(again.memory_bytes > 0);
    assert_true(keep.memory_bytes > again.memory_bytes);
    assert_true(again.across_bytes > 0);
    s.job.up = 1e3;
    assert_int_equal(pdl_fed_project(&s.job, &slow, &err), PDL_OK);
    /* two clusters at once, four turns each; devices send their parts at once */
    stems = keep.across_bytes / 2 / 2;
    assert_true(fabs(slow.mean_s - keep.mean_s - (stems + part) / 1e3) <
                1e-6 * slow.mean_s);
    s.job.spread = 0.7; /* four devices wait for the slowest */
    s.job.up = 0;
    assert_int_equal(pdl_fed_project(&s.job, &slow, &err), PDL_OK);
    s.job.algorithm = "sem"; /* two visits to each, at their own pace */
    assert_int_equal(pdl_fed_project(&s.job, &again, &err), PDL_OK);
    assert_true(slow.mean_s > 2 * again.mean_s);
    small_close(&s);
}

/* Who is left over joins the last cluster, and one of fewer is none. */
static void a_part_has_a_device(void **state)
{
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct pdl_buf text;
    struct small s;
    int commas = 0;

    (void)state;
    small_open(&s, 96, false, "iid", 7);
    s.job.rounds = 1;
    s.job.algorithm = "feddct:parts=4";
    text = small_emit(&s.job);
    for (const char *at = strstr(text.text, "\"clients\": ["); *at != ']'; at++)
        commas += *at == ',';
    assert_int_equal(commas, 6);
    pdl_buf_free(&text);
    s.job.select = 3;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "4 parts"));
    s.job.select = 0;
    s.job.away = 0.6; /* rounds of fewer than four */
    s.job.rounds = 40;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(x.tasks > 0 && x.tasks < 40);
    small_close(&s);
}

static void nobody_is_there(void **state)
{
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    s.job.away = 1 - 1e-12;
    for (int i = 0; pdl_fed_algorithm_at(i); i++) {
        s.job.algorithm = pdl_fed_algorithm_at(i)->name;
        assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
        assert_true(x.tasks == 0 || strcmp(s.job.algorithm, "central") == 0);
    }
    small_close(&s);
}

static void plans_are_printed_without_training(void **state)
{
    struct pdl_buf text;
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    s.job.algorithm = "sem";
    s.job.select = 5;
    s.job.rounds = 2;
    text = small_emit(&s.job);
    assert_non_null(strstr(text.text, "\"round\": 0"));
    assert_non_null(strstr(text.text, "\"round\": 1"));
    assert_non_null(strstr(text.text, "\"clients\": ["));
    pdl_buf_free(&text);
    small_close(&s);
}

/* One client, no spread: compute, and two transfers. */
static void a_projection_is_compute_and_transfers(void **state)
{
    struct pdl_fed_projection x;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    s.job.spread = 0;
    s.job.speed = 8; /* 16 samples each: two seconds */
    s.job.down = 522 * 4;
    s.job.up = 522 * 8;
    s.job.latency_s = 0.25;
    s.job.rounds = 5;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_int_equal(x.tasks, 30);
    assert_true(fabs(x.mean_s - (2 + 1 + 0.5 + 2 * 0.25)) < 1e-9);
    assert_true(fabs(x.total_s - 5 * x.mean_s) < 1e-9);
    assert_true(fabs(x.down_bytes - 6 * 522 * 4) < 1e-6);
    s.job.algorithm = "sem"; /* two visits, one after the other */
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_true(fabs(x.mean_s - 8) < 1e-9);
    assert_true(fabs(x.across_bytes - 6 * 522 * 4) < 1e-6);
    s.job.algorithm = "fedavg";
    s.job.deadline_s = 3.9;
    assert_int_equal(pdl_fed_project(&s.job, &x, &err), PDL_OK);
    assert_int_equal(x.lost, 30);
    assert_true(fabs(x.mean_s - 3.9) < 1e-9);
    small_close(&s);
}

static void the_weight_of_agreement_rises(void **state)
{
    struct pdl_fed_job job = {.rounds = 1};
    struct fed f = {.job = &job, .alg = &fed_alg_feddct};
    double last = 0;

    (void)state;
    f.with.value[0] = 4;
    f.with.value[1] = 0.5;
    f.with.value[2] = 40;
    for (f.plan.is.round = 0; f.plan.is.round < 40; f.plan.is.round++) {
        assert_true(fed_alg_feddct.together(&f) > last);
        last = fed_alg_feddct.together(&f);
    }
    assert_true(fabs(last - 0.5) < 1e-12);
    f.plan.is.round = 100;
    assert_true(fabs(fed_alg_feddct.together(&f) - 0.5) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropouts_fill_no_buffer),
        cmocka_unit_test(many_clients_are_projected),
        cmocka_unit_test(devices_have_names),
        cmocka_unit_test(stems_are_priced),
        cmocka_unit_test(a_part_has_a_device),
        cmocka_unit_test(nobody_is_there),
        cmocka_unit_test(plans_are_printed_without_training),
        cmocka_unit_test(a_projection_is_compute_and_transfers),
        cmocka_unit_test(the_weight_of_agreement_rises),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
