/* Importers on recorded and made-up output: every variant gives the numbers
 * it holds, every doubtful file its sentence. */
#include "paradl/system.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA PDL_SOURCE_DIR "/tests/data/system/"

static const struct pdl_importer *importer(const char *name)
{
    for (int i = 0; pdl_importer_at(i); i++)
        if (strcmp(pdl_importer_at(i)->name, name) == 0)
            return pdl_importer_at(i);
    fail_msg("no importer %s", name);
    return NULL;
}

struct result {
    pdl_arena *a;
    struct pdl_system sys;
    struct pdl_err err;
    enum pdl_status st;
};

static struct result import(const char *format, const char *file,
                            const char *base, struct pdl_import how)
{
    struct result r = {.a = pdl_arena_create(PDL_ARENA_DEFAULT)};
    struct pdl_bytes in = {NULL, 0};
    const char *path = pdl_arena_printf(r.a, DATA "%s", file);

    if (base)
        assert_int_equal(pdl_system_open(r.a, base, &r.sys, &r.err), PDL_OK);
    else
        pdl_system_blank(&r.sys);
    assert_int_equal(pdl_file_read(r.a, path, 1 << 26, &in, &r.err), PDL_OK);
    r.st = importer(format)->run(r.a, in, "f", &how, &r.sys, &r.err);
    if (r.st == PDL_OK)
        r.st = pdl_system_update(r.a, &r.sys, &r.err);
    return r;
}

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%g is not %g within %g", got, want, tolerance);
}

/* Every time in these files is 20 us + bytes / 10 GB/s. */
static void every_variant_of_nccl_tests_is_read(void **state)
{
    static const struct {
        const char *file, *op, *pe;
        int64_t pes, nodes, runs, sizes;
    } cases[] = {
        {"variant_a_2022.txt", NULL, "v100-16g", 4, 1, 1, 6},
        {"variant_b_na.txt", "allreduce", "a100-80g", 8, 1, 1, 6},
        {"variant_c_iterations.txt", "allgather", "a100-80g", 8, 1, 1, 6},
        {"variant_d_cputime.txt", "reduce-scatter", "a100-80g", 8, 1, 1, 6},
        {"variant_e_large.txt", "allreduce", "a100-80g", 16, 2, 1, 7},
        {"variant_f_mpirun_tags.txt", "allreduce", "a100-80g", 8, 1, 1, 6},
        {"variant_f_srun_tags.txt", "allreduce", "a100-80g", 8, 1, 1, 6},
        {"variant_g_two_runs.txt", "allreduce", "a100-80g", 8, 1, 2, 6},
        {"results.json", "allreduce", "h100-80g", 8, 2, 1, 6},
        {"results_trace.json", "allreduce", "h100-80g", 8, 1, 1, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[100];
        struct pdl_import how = {.op = cases[i].op ? NULL : "all_reduce"};
        const struct pdl_collective_fit *c;
        struct result r;

        snprintf(path, sizeof path, "nccl_tests/%s", cases[i].file);
        r = import("nccl-tests", path, NULL, how);
        if (r.st != PDL_OK)
            fail_msg("%s: %s", path, r.err.msg);
        assert_int_equal(r.sys.ncollectives, cases[i].runs);
        c = &r.sys.collectives[0];
        assert_string_equal(c->op, cases[i].op ? cases[i].op : "allreduce");
        assert_int_equal(c->pes, cases[i].pes);
        assert_int_equal(c->nodes, cases[i].nodes);
        assert_int_equal(c->ntimes, cases[i].sizes);
        near(c->alpha_s, 20e-6, 5e-3);
        near(c->bytes_per_s, 10e9, 5e-3);
        assert_true(c->max_error < 0.03);
        assert_string_equal(r.sys.pe.name, cases[i].pe);
        pdl_arena_destroy(r.a);
    }
}

static void two_runs_in_one_log_stay_apart(void **state)
{
    struct result r = import("nccl-tests", "nccl_tests/variant_g_two_runs.txt",
                             NULL, (struct pdl_import){.np = 0});

    (void)state;
    assert_int_equal(r.st, PDL_OK);
    assert_string_equal(r.sys.collectives[1].op, "alltoall");
    assert_int_equal(r.sys.collectives[1].pes, 16);
    assert_int_equal(r.sys.collectives[1].nodes, 2);
    /* busbw of an all-to-all: (n-1)/n of 10 GB/s at 256 MiB */
    near(r.sys.collectives[1].bus_bytes_per_s,
         15.0 / 16 * 268435456 / (20e-6 + 268435456 / 10e9), 1e-3);
    pdl_arena_destroy(r.a);
}

static void excerpts_give_their_own_rows(void **state)
{
    struct result r = import("nccl-tests", "nccl_tests/new_format_excerpt.txt",
                             NULL, (struct pdl_import){.np = 0});
    const struct pdl_collective_fit *c = &r.sys.collectives[0];

    (void)state;
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(c->pes, 2);
    assert_int_equal(c->nodes, 2);
    assert_int_equal(c->ntimes, 4);
    assert_int_equal(c->times[3].v[0], 65536);
    assert_int_equal(c->times[3].v[1], 67930);
    assert_string_equal(r.sys.pe.title, "NVIDIA GB10");
    pdl_arena_destroy(r.a);
    r = import("nccl-tests", "nccl_tests/rank_prefixed_excerpt.txt", NULL,
               (struct pdl_import){.np = 32, .nodes = 4, .op = "allreduce"});
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.sys.collectives[0].times[0].v[1], 1626500);
    assert_int_equal(r.sys.collectives[0].times[2].v[1], 622600);
    assert_true(r.sys.collectives[0].max_error > 0.5); /* and it says so */
    pdl_arena_destroy(r.a);
}

static void a_base_system_keeps_what_the_log_does_not_say(void **state)
{
    struct result r = import("nccl-tests", "nccl_tests/variant_b_na.txt",
                             "dgx-a100:nodes=4", (struct pdl_import){.np = 0});

    (void)state;
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.sys.nodes, 4);
    assert_int_equal(r.sys.ncollectives, 4); /* three came with the base */
    near(r.sys.node.links.measured_bytes_per_s,
         1.75 * 268435456 / (20e-6 + 268435456 / 10e9), 1e-3);
    pdl_arena_destroy(r.a);
}

static void osu_files_are_read(void **state)
{
    struct result r =
        import("osu", "osu/allreduce.txt", NULL, (struct pdl_import){.np = 16});

    (void)state;
    assert_int_equal(r.st, PDL_OK);
    assert_string_equal(r.sys.collectives[0].op, "allreduce");
    assert_int_equal(r.sys.collectives[0].pes, 16);
    near(r.sys.collectives[0].alpha_s, 20e-6, 1e-3);
    near(r.sys.collectives[0].bytes_per_s, 10e9, 1e-3);
    pdl_arena_destroy(r.a);
    r = import("osu", "osu/p2p.txt", NULL, (struct pdl_import){.np = 0});
    assert_int_equal(r.st, PDL_OK);
    assert_int_equal(r.sys.ncollectives, 2);
    assert_string_equal(r.sys.collectives[0].op, "p2p");
    assert_string_equal(r.sys.collectives[1].op, "p2p-stream");
    assert_int_equal(r.sys.collectives[1].pes, 2);
    near(r.sys.collectives[1].bytes_per_s, 10e9, 1e-2);
    pdl_arena_destroy(r.a);
    r = import("osu", "osu/barrier.txt", NULL, (struct pdl_import){.np = 8});
    assert_int_equal(r.st, PDL_OK);
    near(r.sys.collectives[0].alpha_s, 12.34e-6, 1e-9);
    pdl_arena_destroy(r.a);
    r = import("osu", "osu/osu_reduce_cuda_v7.3_excerpt.txt", NULL,
               (struct pdl_import){.np = 192});
    assert_int_equal(r.st, PDL_OK);
    assert_string_equal(r.sys.collectives[0].op, "reduce");
    near(r.sys.collectives[0].alpha_s, 52.87e-6, 1e-3);
    assert_true(r.sys.collectives[0].max_error < 0.01);
    pdl_arena_destroy(r.a);
}

static void topologies_of_nodes_are_read(void **state)
{
    static const struct {
        const char *format, *file, *pe;
        int64_t pes, nics, sockets, per_switch, shape, pairs;
        double links, nic, pcie;
    } cases[] = {
        {"nccl-topo", "nccl_topo/aws-p4d-24xl-topo.xml", "a100-40g", 8, 4, 2, 2,
         PDL_LINKS_NONE, 0, 0, 15.75e9, 15.75e9},
        {"nccl-topo", "nccl_topo/aws-p4de-24xl-topo.xml", "a100-80g", 8, 4, 2,
         2, PDL_LINKS_NONE, 0, 0, 15.75e9, 15.75e9},
        {"nccl-topo", "nccl_topo/azure-ndv2-topo.xml", "unknown", 8, 1, 2, 0,
         PDL_LINKS_NONE, 0, 0, 31.51e9, 31.51e9},
        {"nccl-topo", "nccl_topo/azure-ndv4-topo.xml", "unknown", 8, 8, 4, 2,
         PDL_LINKS_NONE, 0, 0, 31.51e9, 31.51e9},
        {"nccl-topo", "nccl_topo/azure-ndv5-topo.xml", "unknown", 8, 8, 2, 1,
         PDL_LINKS_NONE, 0, 0, 63.02e9, 63.02e9},
        {"nccl-topo", "nccl_topo/azure-ncv4-topo.xml", "unknown", 4, 1, 4, 0,
         PDL_LINKS_NONE, 0, 0, 12.5e9, 0},
        {"nccl-topo", "nccl_topo/dgx-h100-like.xml", "h100-80g", 8, 8, 2, 1,
         PDL_LINKS_SWITCH, 0, 450e9, 50e9, 63.02e9},
        {"nccl-topo", "nccl_topo/v100-all-to-all.xml", "v100-16g", 4, 0, 1, 0,
         PDL_LINKS_GRAPH, 6, 150e9, 0, 15.75e9},
        {"hwloc", "hwloc/nvidiaDGX2.v2.xml", "v100-32g", 16, 0, 2, 0,
         PDL_LINKS_SWITCH, 0, 150e9, 0, 15.75e9},
        {"hwloc", "hwloc/power8gpudistances.v2.xml", "p100-16g", 4, 0, 2, 0,
         PDL_LINKS_GRAPH, 2, 40e9, 0, 40e9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct result r = import(cases[i].format, cases[i].file, NULL,
                                 (struct pdl_import){.np = 0});
        const struct pdl_node_desc *n = &r.sys.node;

        if (r.st != PDL_OK)
            fail_msg("%s: %s", cases[i].file, r.err.msg);
        assert_string_equal(r.sys.pe.name, cases[i].pe);
        assert_int_equal(n->pes, cases[i].pes);
        assert_int_equal(n->nics.count, cases[i].nics);
        assert_int_equal(n->host.sockets, cases[i].sockets);
        assert_int_equal(n->host.pes_per_switch, cases[i].per_switch);
        assert_int_equal(n->links.shape, cases[i].shape);
        assert_int_equal(n->links.npairs, cases[i].pairs);
        near(n->links.bytes_per_s, cases[i].links, 1e-9);
        near(n->nics.bytes_per_s, cases[i].nic, 1e-9);
        near(n->host.pcie_bytes_per_s, cases[i].pcie, 1e-9);
        pdl_arena_destroy(r.a);
    }
}

/* libhwloc is the reference for files it accepts. */
static void hwloc_files_read_as_libhwloc_reads_them(void **state)
{
    static const char *const files[] = {"hwloc/nvidiaDGX2.v2.xml",
                                        "hwloc/power8gpudistances.v2.xml"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct result r =
            import("hwloc", files[i], NULL, (struct pdl_import){.np = 0});
        hwloc_topology_t topo = NULL;
        char path[500];
        int64_t gpus = 0;

        snprintf(path, sizeof path, DATA "%s", files[i]);
        assert_int_equal(hwloc_topology_init(&topo), 0);
        assert_int_equal(hwloc_topology_set_xml(topo, path), 0);
        assert_int_equal(hwloc_topology_set_io_types_filter(
                             topo, HWLOC_TYPE_FILTER_KEEP_ALL),
                         0);
        assert_int_equal(hwloc_topology_load(topo), 0);
        for (hwloc_obj_t o = hwloc_get_next_osdev(topo, NULL); o;
             o = hwloc_get_next_osdev(topo, o))
            gpus += strncmp(o->name, "nvml", 4) == 0;
        assert_int_equal(r.sys.node.pes, gpus);
        assert_int_equal(r.sys.node.host.sockets,
                         hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_PACKAGE));
        assert_int_equal(r.sys.node.host.cores,
                         hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_CORE));
        assert_int_equal(r.sys.node.host.memory_bytes,
                         (int64_t)hwloc_get_root_obj(topo)->total_memory);
        hwloc_topology_destroy(topo);
        pdl_arena_destroy(r.a);
    }
}

static void host_lists_give_the_number_of_nodes(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    static const char text[] = "gpu[001-004],gpu010\n";
    struct pdl_import how = {.tasks = "8(x4),2"};
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    (void)state;
    assert_int_equal(pdl_system_open(a, "dgx-a100", &sys, &err), PDL_OK);
    assert_int_equal(importer("hostlist")
                         ->run(a, (struct pdl_bytes){text, sizeof text - 1},
                               "f", &how, &sys, &err),
                     PDL_OK);
    assert_int_equal(sys.nodes, 5);
    assert_string_equal(sys.hosts, "gpu[001-004,010]");
    assert_int_equal(sys.node.pes, 8);
    assert_string_equal(sys.unverified[sys.nunverified - 1],
                        "node.pes: the nodes have 2 to 8 tasks");
    how.tasks = "8(x4)";
    assert_int_equal(importer("hostlist")
                         ->run(a, (struct pdl_bytes){text, sizeof text - 1},
                               "f", &how, &sys, &err),
                     PDL_EINVAL);
    assert_string_equal(err.msg, "tasks for 4 nodes, but 5 nodes are listed");
    pdl_arena_destroy(a);
}

#define ROW  "8 2 float sum -1 10 1 1 0 10 1 1 0\n"
#define ROW2 "16 4 float sum -1 10 1 1 0 10 1 1 0\n"
static const struct {
    const char *format, *text, *msg, *hint;
} bad_files[] = {
    {"nccl-tests", "", "f: no rows of nccl-tests in this file", ""},
    {"nccl-tests", "hello\n", "f: no rows of nccl-tests in this file", ""},
    {"nccl-tests", ROW ROW2, "f: the log does not say which collective it is",
     "name it, for example --op allreduce"},
    {"nccl-tests", "# Collective test starting: all_reduce_perf\n" ROW ROW2,
     "f: no 'Rank' lines, the number of ranks is unknown",
     "give it with --np N"},
    {"nccl-tests",
     "# Collective test starting: all_reduce_perf\n# Rank 0 Pid 1 on h "
     "device 0 [0x07] X\n" ROW,
     "f: allreduce: one size only, a line needs two",
     "run it from 8 B to 1 GiB"},
    {"nccl-tests", "8 2 float sum -1 N/A 1 1 0 N/A 1 1 0\n",
     "f:1: no time in this row", ""},
    {"nccl-tests", "{\"a\": 1}",
     "f:1:1: no 'results': not a file of nccl-tests -J", ""},
    {"nccl-tests", "{\"results\": [{\"size\": 8}]}",
     "f:1:14: a result needs size and time", ""},
    {"nccl-tests", "{", "f:1:1: string or '}' expected near end of file", ""},
    {"osu", "", "f: no rows of an OSU benchmark", ""},
    {"osu", "1 2\n", "f:1: a row before the title '# OSU MPI ...'", ""},
    {"osu", "# OSU MPI Teleport Latency Test\n1 2\n",
     "f:1: no test called 'Teleport Latency Test'",
     "latency and bandwidth of collectives and of two ranks can be read"},
    {"osu", "# OSU MPI Allreduce Latency Test v7.3\n1 2\n2 3\n",
     "f: OSU does not print the number of ranks", "give it with --np N"},
    {"osu", "# OSU MPI Latency Test v7.3\n1 0\n",
     "f:2: not a size and a number", ""},
    {"osu", "# OSU MPI Latency Test v7.3\n1 5\n",
     "f: p2p: one size only, a line needs two", "run it from 8 B to 1 GiB"},
    {"nccl-topo", "", "f:1:1: no element found", ""},
    {"nccl-topo", "<system>", "f:1:9: no element found", ""},
    {"nccl-topo", "<x/>", "f:1:1: expected <system>, found x", ""},
    {"nccl-topo", "<graphs version=\"1\"/>",
     "f:1:1: this is a file of NCCL graphs (NCCL_GRAPH_FILE), not a "
     "topology (NCCL_TOPO_DUMP_FILE)",
     ""},
    {"nccl-topo", "<system version=\"1\"/>",
     "f: no GPU (PCI class 0x0302) in this file", ""},
    {"nccl-topo", "<system><nvlink count=\"1\"/></system>",
     "f:1:9: nvlink outside a gpu", ""},
    {"nccl-topo",
     "<system><pci class=\"0x030200\"><gpu><nvlink count=\"-1\"/></gpu>"
     "</pci></system>",
     "f:1:36: nvlink: bad count -1", ""},
    {"nccl-topo", "<!DOCTYPE s [<!ENTITY a \"b\">]><system>&a;</system>",
     "f:1:25: XML entities are not accepted: a", ""},
    {"hwloc", "", "f:1: no element found", ""},
    {"hwloc", "hello", "f:1: syntax error", ""},
    {"hwloc", "<x/>", "f:1: no <topology>: not an hwloc file", ""},
    {"hwloc", "<topology", "f:1: unclosed token", ""},
    {"hwloc", "<topology/>", "f:1: hwloc XML before version 2",
     "write it again with lstopo of hwloc 2"},
    {"hwloc", "<topology version=\"3.0\">",
     "f:1: hwloc XML of version 3, version 2 is needed",
     "write it with lstopo --export-xml-flags v2 out.xml"},
    {"hwloc", "<!DOCTYPE t [<!ENTITY a \"b\">]><topology/>",
     "f:1: XML entities are not accepted", ""},
    {"hostlist", "", "f: host list: empty", ""},
    {"hostlist", "n[1-2", "f: host list: 'n[1-2': a bracket is not closed", ""},
};

static void bad_files_are_refused_with_these_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_import how = {.np = 0};
        struct pdl_err err = {"", ""};
        struct pdl_system sys;

        pdl_system_blank(&sys);
        assert_int_equal(
            importer(bad_files[i].format)
                ->run(a,
                      (struct pdl_bytes){bad_files[i].text,
                                         strlen(bad_files[i].text)},
                      "f", &how, &sys, &err),
            PDL_EPARSE);
        assert_string_equal(err.msg, bad_files[i].msg);
        assert_string_equal(err.hint, bad_files[i].hint);
        pdl_arena_destroy(a);
    }
}

static void a_billion_laughs_end_at_once(void **state)
{
    double t = pdl_cpu_s();
    struct result r = import("nccl-topo", "nccl_topo/billion-laughs.xml", NULL,
                             (struct pdl_import){.np = 0});

    (void)state;
    assert_int_equal(r.st, PDL_EPARSE);
    assert_string_equal(r.err.msg, "f:3:12: XML entities are not accepted: a");
    assert_true(pdl_cpu_s() - t < 1);
    pdl_arena_destroy(r.a);
}

static void devices_without_a_class_are_no_gpus(void **state)
{
    struct result r = import("nccl-topo", "nccl_topo/aws-g5.48xl-topo.xml",
                             NULL, (struct pdl_import){.np = 0});

    (void)state;
    assert_int_equal(r.st, PDL_EPARSE);
    assert_string_equal(r.err.msg, "f: no GPU (PCI class 0x0302) in this "
                                   "file, its devices have no class");
    pdl_arena_destroy(r.a);
}

static void the_fit_finds_a_line_and_ignores_one_outlier(void **state)
{
    double x[20], t[20];
    struct pdl_fit f;
    struct pdl_err err = {"", ""};

    (void)state;
    for (int i = 0; i < 20; i++) {
        x[i] = (double)((int64_t)8 << (1.4 * i > 0 ? (int)(1.4 * i) : 0));
        t[i] = 15e-6 + x[i] / 25e9;
    }
    assert_int_equal(pdl_fit_line(x, t, 20, &f, &err), PDL_OK);
    near(f.alpha_s, 15e-6, 1e-9);
    near(f.bytes_per_s, 25e9, 1e-9);
    assert_true(f.max_error < 1e-9);
    t[6] *= 40; /* a cold start */
    assert_int_equal(pdl_fit_line(x, t, 20, &f, &err), PDL_OK);
    near(f.alpha_s, 15e-6, 0.02);
    near(f.bytes_per_s, 25e9, 0.02);
    assert_true(f.max_error > 0.9); /* and it is reported */
}

static void the_fit_refuses_what_is_no_measurement(void **state)
{
    double same[] = {8, 8}, x[] = {8, 16}, t[] = {1e-6, 2e-6},
           bad[] = {1e-6, 0}, inf[] = {1e-6, INFINITY}, down[] = {2e-6, 1e-6};
    struct pdl_err err = {"", ""};
    struct pdl_fit f;

    (void)state;
    assert_int_equal(pdl_fit_line(same, t, 2, &f, &err), PDL_EINVAL);
    assert_int_equal(pdl_fit_line(x, bad, 2, &f, &err), PDL_EINVAL);
    assert_int_equal(pdl_fit_line(x, inf, 2, &f, &err), PDL_EINVAL);
    assert_int_equal(pdl_fit_line(x, t, 0, &f, &err), PDL_EINVAL);
    assert_int_equal(pdl_fit_line(x, down, 2, &f, &err), PDL_OK);
    assert_true(f.bytes_per_s == 0 && f.alpha_s > 0);
    assert_int_equal(pdl_fit_line(x, t, 2, &f, &err), PDL_OK);
    assert_true(f.alpha_s >= 0);
}

static void every_import_survives_a_starved_arena(void **state)
{
    static const char *const cases[][2] = {
        {"nccl-tests", "nccl_tests/variant_g_two_runs.txt"},
        {"nccl-tests", "nccl_tests/results.json"},
        {"osu", "osu/p2p.txt"},
        {"nccl-topo", "nccl_topo/v100-all-to-all.xml"},
        {"hwloc", "hwloc/power8gpudistances.v2.xml"},
        {"hostlist", "slurm_hostlist_truth.txt"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *files = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_bytes in;
        enum pdl_status st = PDL_ENOMEM;
        char path[500];

        snprintf(path, sizeof path, DATA "%s", cases[i][1]);
        assert_int_equal(pdl_file_read(files, path, 1 << 26, &in, NULL),
                         PDL_OK);
        for (size_t limit = 0; limit < 1 << 21 && st != PDL_OK;
             limit += limit / 16 + 64) {
            pdl_arena *a = pdl_arena_create(limit);
            struct pdl_import how = {.np = 4};
            struct pdl_err err = {"", ""};
            struct pdl_system sys;

            pdl_system_blank(&sys);
            st = importer(cases[i][0])->run(a, in, "f", &how, &sys, &err);
            if (st != PDL_OK)
                assert_true(*err.msg);
            pdl_arena_destroy(a);
        }
        assert_int_equal(st == PDL_OK, i != 5);
        pdl_arena_destroy(files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_of_nccl_tests_is_read),
        cmocka_unit_test(two_runs_in_one_log_stay_apart),
        cmocka_unit_test(excerpts_give_their_own_rows),
        cmocka_unit_test(a_base_system_keeps_what_the_log_does_not_say),
        cmocka_unit_test(osu_files_are_read),
        cmocka_unit_test(topologies_of_nodes_are_read),
        cmocka_unit_test(hwloc_files_read_as_libhwloc_reads_them),
        cmocka_unit_test(host_lists_give_the_number_of_nodes),
        cmocka_unit_test(bad_files_are_refused_with_these_words),
        cmocka_unit_test(a_billion_laughs_end_at_once),
        cmocka_unit_test(devices_without_a_class_are_no_gpus),
        cmocka_unit_test(the_fit_finds_a_line_and_ignores_one_outlier),
        cmocka_unit_test(the_fit_refuses_what_is_no_measurement),
        cmocka_unit_test(every_import_survives_a_starved_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
