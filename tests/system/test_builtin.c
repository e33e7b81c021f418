/* The built-ins: every one is sane and a fixed point, the facts people rely
 * on are the published ones, names with parameters mean what they say. */
#include "system_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pdl_arena *arena(void)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    assert_non_null(a);
    return a;
}

static struct pdl_system opened(pdl_arena *a, const char *name)
{
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    if (pdl_system_open(a, name, &sys, &err) != PDL_OK)
        fail_msg("%s: %s", name, err.msg);
    return sys;
}

static void same(double got, double want, const char *what)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want)))
        fail_msg("%s: %.12g, expected %.12g", what, got, want);
}

static char *written(const struct pdl_system *sys)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    pdl_system_write(sys, &b.sink);
    assert_false(b.sink.failed);
    return b.text;
}

static void every_built_in_is_sane_sourced_and_a_fixed_point(void **state)
{
    int n = 0;

    (void)state;
    for (; pdl_system_builtin(n); n++) {
        const struct pdl_builtin *b = pdl_system_builtin(n);
        pdl_arena *a = arena();
        struct pdl_system sys = opened(a, b->name), again;
        struct pdl_err err = {"", ""};
        char *one = written(&sys), *two;

        assert_string_equal(sys.name, b->name);
        assert_int_equal(pdl_system_check(&sys, &err), PDL_OK);
        assert_true(sys.nsources > 0 && sys.pe.nsources > 0);
        assert_true(sys.pe.memory_bytes > 0 && sys.pe.memory_bytes_per_s > 0);
        assert_true(sys.nlevels >= 1);
        assert_false(sys.grown);
        for (int i = 0; i < sys.nlevels; i++)
            assert_true(sys.levels[i].pes == 1 ||
                        (sys.levels[i].bytes_per_s > 0 &&
                         sys.levels[i].flow_bytes_per_s > 0 &&
                         sys.levels[i].latency_s > 0));
        assert_int_equal(sys.levels[sys.nlevels - 1].pes, pdl_system_pes(&sys));
        assert_int_equal(
            pdl_system_read(a, (struct pdl_bytes){one, strlen(one)}, "again",
                            &again, &err),
            PDL_OK);
        two = written(&again);
        assert_string_equal(one, two);
        free(one);
        free(two);
        pdl_arena_destroy(a);
    }
    assert_true(n >= 16);
}

static void every_pe_of_the_library_is_sane(void **state)
{
    int n = 0;

    (void)state;
    for (; pdl_pe_builtin(n); n++) {
        pdl_arena *a = arena();
        struct pdl_err err = {"", ""};
        struct pdl_pe pe;
        bool peak = false;

        assert_int_equal(pdl_pe_open(a, pdl_pe_builtin(n)->name, &pe, &err),
                         PDL_OK);
        assert_string_equal(pe.name, pdl_pe_builtin(n)->name);
        for (int p = 0; p < PDL_NPRECISIONS; p++) {
            peak = peak || pe.peak_flop_per_s[p] > 0;
            assert_true(pe.matmul_flop_per_s[p] <= pe.peak_flop_per_s[p]);
        }
        assert_true(peak && pe.memory_bytes > 0 && pe.nsources > 0);
        pdl_arena_destroy(a);
    }
    assert_true(n >= 13);
}

/* The SYSTEM strings of published runs, and what they must mean. */
static void names_with_parameters_mean_what_they_say(void **state)
{
    static const struct {
        const char *name;
        int64_t nodes, pes;
        double bf16, nic_node, memory, matmul;
        bool grown;
    } cases[] = {
        {"abci-v100:nodes=16", 16, 4, 0, 25e9, 0x1p34, 0, false},
        {"abci-v100:pe=v100-32g,pes_per_node=8", 1088, 8, 0, 25e9, 0x1p35, 0,
         false},
        {"dgx-a100:nodes=48,nic=4x25GB/s", 48, 8, 312e12, 100e9, 80 * 0x1p30,
         260.5e12, false},
        {"dgx-a100:nodes=48,nic=4x12.5GB/s", 48, 8, 312e12, 50e9, 80 * 0x1p30,
         260.5e12, false},
        {"dgx-a100:nodes=384,nic=8x25GB/s", 384, 8, 312e12, 200e9, 80 * 0x1p30,
         260.5e12, true},
        {"dgx-h100:nodes=1,pe=h100-96g,nic=8x50GB/s", 1, 8, 989e12, 400e9,
         96 * 0x1p30, 514e12, false},
        {"dgx-b200:nodes=1,bf16_matmul=1.07PFLOP/s", 1, 8, 2250e12, 400e9,
         180e9, 1.07e15, false},
        {"dgx-b200:bf16_matmul=1.07PFLOP/s", 32, 8, 2250e12, 400e9, 180e9,
         1.07e15, false},
        {"dgx1-v100:nodes=1", 1, 8, 0, 50e9, 0x1p34, 0, false},
        {"dgx2-v100:nodes=1", 1, 16, 0, 100e9, 0x1p35, 0, false},
        {"jean-zay-a100:nodes=48", 48, 8, 312e12, 50e9, 80 * 0x1p30, 260.5e12,
         false},
        {"aws-p5:nodes=64", 64, 8, 989e12, 400e9, 80 * 0x1p30, 720e12, false},
        {"dgx-a100:mem=40GiB,pe.peak.bf16=300TFLOP/s", 140, 8, 300e12, 200e9,
         40 * 0x1p30, 260.5e12, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = arena();
        struct pdl_system s = opened(a, cases[i].name);
        const char *n = cases[i].name;

        assert_int_equal(s.nodes, cases[i].nodes);
        assert_int_equal(s.node.pes, cases[i].pes);
        same(s.pe.peak_flop_per_s[PDL_PREC_BF16], cases[i].bf16, n);
        same((double)s.node.nics.count * s.node.nics.bytes_per_s,
             cases[i].nic_node, n);
        same((double)s.pe.memory_bytes, cases[i].memory, n);
        same(s.pe.matmul_flop_per_s[PDL_PREC_BF16], cases[i].matmul, n);
        assert_int_equal(s.grown, cases[i].grown);
        assert_int_equal(s.nnotes > 0, cases[i].grown || i == 1);
        pdl_arena_destroy(a);
    }
}

static void abci_has_the_levels_of_the_papers(void **state)
{
    static const struct {
        const char *name;
        int64_t pes;
        double latency, taper, flow;
    } want[] = {{"node", 4, 9e-6, 1, 50e9},
                {"leaf", 68, 40.31e-6, 1, 12.5e9},
                {"rack", 136, 40.49e-6, 1, 12.5e9},
                {"spine", 4352, 40.98e-6, 3, 12.5e9}};
    pdl_arena *a = arena();
    struct pdl_system s = opened(a, "abci-v100");

    (void)state;
    assert_int_equal(s.nlevels, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(s.levels[i].name, want[i].name);
        assert_int_equal(s.levels[i].pes, want[i].pes);
        same(s.levels[i].latency_s, want[i].latency, want[i].name);
        same(s.levels[i].oversubscription, want[i].taper, want[i].name);
        same(s.levels[i].flow_bytes_per_s, want[i].flow, want[i].name);
    }
    same(s.levels[3].bytes_per_s, 6.25e9, "a PE's share of two NICs");
    assert_int_equal(pdl_system_level(&s, 0, 3), 0);
    assert_int_equal(pdl_system_level(&s, 3, 4), 1);
    assert_int_equal(pdl_system_level(&s, 67, 68), 2);
    assert_int_equal(pdl_system_level(&s, 135, 136), 3);
    assert_int_equal(pdl_system_level_of(&s, 68), 1);
    assert_int_equal(pdl_system_level_of(&s, 69), 2);
    s = opened(a, "abci-v100:nodes=16");
    assert_int_equal(s.nlevels, 2);
    assert_int_equal(s.levels[1].pes, 64);
    s = opened(a, "abci-v100:nodes=1");
    assert_int_equal(s.nlevels, 1);
    pdl_arena_destroy(a);
}

static void pairs_of_a_node_have_their_own_rate(void **state)
{
    static const struct {
        const char *name;
        int64_t a, b;
        double rate;
    } cases[] = {
        {"abci-v100", 0, 3, 50e9},
        {"dgx-a100", 0, 7, 300e9},
        {"dgx1-v100", 0, 3, 50e9},
        {"dgx1-v100", 0, 1, 25e9},
        {"dgx1-v100", 0, 7, 0},
        {"summit", 0, 2, 50e9},
        {"summit", 2, 3, 0},
        {"dgx2-v100", 0, 15, 150e9},
        {"abci-v100", 0, 0, 0},
        {"abci-v100", 0, 4, 0},
        {"abci-v100:pes_per_node=8", 0, 7, 150e9 / 7},
        {"dgx1-v100:pes_per_node=4", 0, 3, 50e9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = arena();
        struct pdl_system s = opened(a, cases[i].name);

        same(pdl_node_pair_rate(&s.node, cases[i].a, cases[i].b), cases[i].rate,
             cases[i].name);
        pdl_arena_destroy(a);
    }
}

static void a_design_grows_and_says_so(void **state)
{
    pdl_arena *a = arena();
    struct pdl_system s = opened(a, "abci-v100:nodes=16");
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(pdl_system_for_pes(a, &s, 64, &err), PDL_OK);
    assert_false(s.grown);
    assert_int_equal(pdl_system_for_pes(a, &s, 65, &err), PDL_OK);
    assert_true(s.grown);
    assert_int_equal(s.nodes, 17);
    assert_int_equal(s.levels[s.nlevels - 1].pes, 68);
    assert_string_equal(s.notes[0], "grown to 17 nodes: 16 are described, the "
                                    "same design is continued");
    assert_int_equal(pdl_system_for_pes(a, &s, 0, &err), PDL_EINVAL);
    assert_int_equal(pdl_system_for_pes(a, &s, INT64_MAX, &err), PDL_EINVAL);
    s = opened(a, "aws-p5");
    assert_int_equal(pdl_system_for_pes(a, &s, 1024, &err), PDL_OK);
    assert_false(s.grown); /* a cloud has no published size */
    assert_int_equal(s.nodes, 128);
    pdl_arena_destroy(a);
}

static void a_nic_of_another_rate_forgets_the_measurement(void **state)
{
    pdl_arena *a = arena();

    (void)state;
    same(opened(a, "dgx-a100").node.nics.measured_bytes_per_s, 24e9, "plain");
    same(opened(a, "dgx-a100:nic=4x25GB/s").node.nics.measured_bytes_per_s,
         24e9, "fewer of the same");
    same(opened(a, "dgx-a100:nic=8x50GB/s").node.nics.measured_bytes_per_s, 0,
         "another one");
    pdl_arena_destroy(a);
}

/* A quarter of the rate was refused as less than was measured, twice the rate
 * was no faster. */
static void links_of_another_rate_reach_the_same_part_of_it(void **state)
{
    pdl_arena *a = arena();
    struct pdl_system was = opened(a, "dgx-h100");
    struct pdl_system less =
        opened(a, "dgx-h100:node.links.bandwidth=112.5GB/s");
    struct pdl_system more = opened(a, "dgx-h100:node.links.bandwidth=900GB/s");

    (void)state;
    same(was.node.links.bytes_per_s, 450e9, "as described");
    same(less.node.links.measured_bytes_per_s,
         was.node.links.measured_bytes_per_s / 4, "a quarter");
    same(more.node.links.measured_bytes_per_s,
         was.node.links.measured_bytes_per_s * 2, "twice");
    same(more.levels[0].measured_bytes_per_s,
         was.levels[0].measured_bytes_per_s * 2, "its level");
    assert_int_equal(more.nnotes, was.nnotes + 1);
    pdl_arena_destroy(a);
}

static void wrong_names_and_parameters_are_refused_in_one_line(void **state)
{
    static const struct {
        const char *name, *msg, *hint;
    } cases[] = {
        {"abci-v10", "no system 'abci-v10'", "did you mean 'abci-v100'?"},
        {"qqqqqqqqqq", "no system 'qqqqqqqqqq'",
         "'paradl system list' shows them; a file ends in .yaml"},
        {"", "no system ''",
         "'paradl system list' shows them; a file ends in .yaml"},
        {"dgx-a100:nodes", "'dgx-a100:nodes': 'nodes' is not key=value",
         "for example dgx-a100:nodes=48,nic=4x12.5GB/s"},
        {"dgx-a100:nodes=x",
         "'dgx-a100:nodes=x': nodes: 'x' is not a whole number", ""},
        {"dgx-a100:nodes=0",
         "'dgx-a100:nodes=0': nodes: 0 is outside 1 to 10000000", ""},
        {"dgx-a100:node=4", "'dgx-a100:node=4': no parameter 'node'",
         "did you mean 'nodes'?"},
        {"dgx-a100:nic=4", "'dgx-a100:nic=4': nic: '4' is not COUNTxRATE",
         "write it like 4x25GB/s"},
        {"dgx-a100:nic=4x25", "'dgx-a100:nic=4x25': nic: '25' needs a unit",
         "write it like 12.5GB/s or 400Gbps"},
        {"dgx-a100:bf16_matmul=300",
         "'dgx-a100:bf16_matmul=300': bf16_matmul: '300' needs a unit",
         "write it like 312TFLOP/s"},
        {"dgx-a100:bf16_matmul=400TFLOP/s",
         "'dgx-a100:bf16_matmul=400TFLOP/s': pe.matmul.bf16: 4e+14 FLOP/s is "
         "more than the peak, 3.12e+14",
         ""},
        {"dgx-a100:bf16_matmull=1TFLOP/s",
         "'dgx-a100:bf16_matmull=1TFLOP/s': no parameter 'bf16_matmull'",
         "did you mean 'bf16_matmul'?"},
        {"dgx-a100:pe=h100", "'dgx-a100:pe=h100': pe: no PE 'h100'",
         "did you mean 'h100-80g'?"},
        {"dgx-a100:node.links.latncy=5us",
         "'dgx-a100:node.links.latncy=5us': no parameter "
         "'node.links.latncy'",
         "did you mean 'node.links.latency'?"},
        {"dgx-a100:node.links.latency=5",
         "'dgx-a100:node.links.latency=5': node.links.latency: '5' needs a "
         "unit",
         "write it like 5us or 1.5s"},
        {"dgx-a100:mem=1e30B",
         "'dgx-a100:mem=1e30B': mem: '1e30B' is too large", ""},
        {"dgx1-v100:pes_per_node=16",
         "'dgx1-v100:pes_per_node=16': pes_per_node: the node's cables join "
         "8 PEs and cannot be continued",
         "describe the node in a file, or take fewer"},
        {"/nonexistent/x.yaml",
         "/nonexistent/x.yaml: No such file or "
         "directory",
         ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = arena();
        struct pdl_err err = {"", ""};
        struct pdl_system sys;

        assert_int_not_equal(pdl_system_open(a, cases[i].name, &sys, &err),
                             PDL_OK);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        pdl_arena_destroy(a);
    }
}

static void dotted_paths_reach_every_number(void **state)
{
    pdl_arena *a = arena();
    struct pdl_system s =
        opened(a, "abci-v100:network.levels.spine.oversubscription=1,"
                  "network.levels.0.latency=1us,node.host.cores=64,"
                  "pe.memory_bandwidth=1TB/s,node.nics.direct=false");

    (void)state;
    same(s.levels[3].oversubscription, 1, "spine");
    same(s.levels[1].latency_s, 1e-6, "leaf");
    assert_int_equal(s.node.host.cores, 64);
    same(s.pe.memory_bytes_per_s, 1e12, "memory");
    assert_false(s.node.nics.direct);
    pdl_arena_destroy(a);
}

static void driver_names_find_their_pe(void **state)
{
    static const struct {
        const char *model, *pe;
    } cases[] = {{"Tesla V100-SXM2-16GB", "v100-16g"},
                 {"Tesla V100-SXM3-32GB-H", "v100-32g"},
                 {"NVIDIA A100-SXM4-80GB", "a100-80g"},
                 {"NVIDIA A100 80GB PCIe", NULL},
                 {"NVIDIA H100 80GB HBM3", "h100-80g"},
                 {"NVIDIA H200", "h200"},
                 {"NVIDIA GB200", "gb200"},
                 {"NVIDIA B200", "b200"},
                 {"AMD Instinct MI300X", "mi300x"},
                 {"NVIDIA GB10", NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = pdl_pe_of_model(cases[i].model);

        if (cases[i].pe)
            assert_string_equal(got, cases[i].pe);
        else
            assert_null(got);
    }
}

static void networks_are_topologies_of_the_command_line(void **state)
{
    static const struct {
        const char *name, *spec;
    } cases[] = {
        {"abci-v100:nodes=102",
         "nodes:nodes=102,pes=4,units=17x2,inside=150GB/s,inside-lat=9us,"
         "pair=50GB/s,up=283.3GB/s,up-lat=167.5ns,bw=25GB/s,lat=20.16us"},
        {"abci-v100:pes_per_node=2,nodes=16",
         "nodes:nodes=16,pes=2,units=16,inside=150GB/s,inside-lat=9us,"
         "pair=50GB/s,up=25GB/s,up-lat=0ns,bw=25GB/s,lat=20.16us"},
        {"dgx-h100",
         "nodes:nodes=32,pes=8,units=32,inside=450GB/s,inside-lat=600ns,"
         "pair=450GB/s,up=400GB/s,up-lat=0ns,bw=400GB/s,lat=650ns"},
        {"dgx-a100:nodes=48,nic=4x25GB/s",
         "nodes:nodes=48,pes=8,units=20,inside=300GB/s,inside-lat=600ns,"
         "pair=300GB/s,up=2TB/s,up-lat=150ns,bw=100GB/s,lat=650ns"},
        {"tpu-v4", "torus:16x16x16,bw=50GB/s,lat=1us"},
        {"tpu-v4:nodes=48", "torus:6x8x4,bw=50GB/s,lat=1us"},
        {"fugaku", "torus:24x23x24x2x3x2,bw=6.8GB/s,lat=490ns"},
        {"fugaku:nodes=7", "torus:7x1x1x1x1x1,bw=6.8GB/s,lat=490ns"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = arena();
        struct pdl_system s = opened(a, cases[i].name);
        struct pdl_err err = {"", ""};
        const char *spec = NULL;

        assert_int_equal(pdl_system_topology(a, &s, &spec, &err), PDL_OK);
        assert_string_equal(spec, cases[i].spec);
        pdl_arena_destroy(a);
    }
}

static void nccl_tables_are_the_tuners(void **state)
{
    const struct pdl_nccl_rates *r = pdl_nccl_rates("hopper");
    int n = 0;

    (void)state;
    while (pdl_nccl_latency(n))
        n++;
    assert_int_equal(n, 10);
    same(pdl_nccl_latency(2)->net_hop_s, 14e-6, "ring Simple net");
    assert_non_null(r);
    same(r->nvlink_bytes_per_s, 20.6e9, "hopper");
    assert_null(pdl_nccl_rates("tpu4"));
    assert_null(pdl_nccl_rates(NULL));
}

/* Runs published elsewhere, where the data is at hand. */
static void every_system_of_the_measured_runs_opens(void **state)
{
    static const char *const files[] = {
        PDL_SOURCE_DIR "/../shared/data/runs/abci.json",
        PDL_SOURCE_DIR "/../shared/data/runs/cnn.json",
        PDL_SOURCE_DIR "/../shared/data/runs/llm.json"};
    pdl_arena *a = arena();
    struct pdl_bytes in;
    int opened_count = 0;

    (void)state;
    for (size_t f = 0; f < 3; f++) {
        const struct pdl_doc *root = NULL, *runs;
        struct pdl_err err = {"", ""};

        if (pdl_file_read(a, files[f], 1 << 26, &in, NULL) != PDL_OK) {
            printf("SKIPPED: no %s\n", files[f]);
            pdl_arena_destroy(a);
            skip();
        }
        assert_int_equal(pdl_doc_json(a, in, files[f], &root, &err), PDL_OK);
        runs = pdl_doc_get(root, "runs");
        assert_non_null(runs);
        for (const struct pdl_doc *r = runs->child; r; r = r->next) {
            const struct pdl_doc *d = pdl_doc_get(r, "system");

            if (!d)
                continue;
            opened(a, d->text);
            opened_count++;
        }
    }
    assert_true(opened_count > 100);
    pdl_arena_destroy(a);
}

static void every_open_survives_a_starved_arena(void **state)
{
    static const char *const names[] = {
        "abci-v100", "dgx1-v100:pes_per_node=4,nic=2x25GB/s", "fugaku",
        "abci-v100:pes_per_node=8,nodes=9999", "dgx-a100:nod=1"};

    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        enum pdl_status st = PDL_ENOMEM;

        for (size_t limit = 0; limit < 1 << 20 && st == PDL_ENOMEM;
             limit += limit < 4096 ? 64 : 509) {
            pdl_arena *a = pdl_arena_create(limit);
            struct pdl_err err = {"", ""};
            struct pdl_system sys;

            st = pdl_system_open(a, names[n], &sys, &err);
            if (st != PDL_OK)
                assert_true(*err.msg);
            pdl_arena_destroy(a);
        }
        assert_int_equal(st, n == 4 ? PDL_EINVAL : PDL_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_is_sane_sourced_and_a_fixed_point),
        cmocka_unit_test(every_pe_of_the_library_is_sane),
        cmocka_unit_test(names_with_parameters_mean_what_they_say),
        cmocka_unit_test(abci_has_the_levels_of_the_papers),
        cmocka_unit_test(pairs_of_a_node_have_their_own_rate),
        cmocka_unit_test(a_design_grows_and_says_so),
        cmocka_unit_test(a_nic_of_another_rate_forgets_the_measurement),
        cmocka_unit_test(links_of_another_rate_reach_the_same_part_of_it),
        cmocka_unit_test(wrong_names_and_parameters_are_refused_in_one_line),
        cmocka_unit_test(dotted_paths_reach_every_number),
        cmocka_unit_test(driver_names_find_their_pe),
        cmocka_unit_test(networks_are_topologies_of_the_command_line),
        cmocka_unit_test(nccl_tables_are_the_tuners),
        cmocka_unit_test(every_system_of_the_measured_runs_opens),
        cmocka_unit_test(every_open_survives_a_starved_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
