/* System files: what is refused and with which words, what is kept, and that
 * no lack of memory is worse than a message. */
#include "system_priv.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "name: x\npe: h200\n"

static enum pdl_status read_text(pdl_arena *a, const char *text, size_t len,
                                 struct pdl_system *sys, struct pdl_err *err)
{
    return pdl_system_read(a, (struct pdl_bytes){text, len}, "x.yaml", sys,
                           err);
}

static const struct {
    const char *text, *msg, *hint;
} bad_files[] = {
    {"", "x.yaml: the file is empty", ""},
    {"# nothing\n", "x.yaml: the file is empty", ""},
    {"hello", "x.yaml:1:1: expected a map, found a value", ""},
    {"- a", "x.yaml:1:1: expected a map, found a list", ""},
    {"a: [", "x.yaml:2:1: did not find expected node content", ""},
    {"name: x\nname: y", "x.yaml:2:1: 'name' is set twice", ""},
    {"a: &a [x]\nb: [*a, *a]", "x.yaml:2:5: aliases (*name) are not accepted",
     ""},
    {"schema: paradl.system/2\nname: x",
     "x.yaml:1:9: schema: this program reads paradl.system/1", ""},
    {"name: x", "x.yaml:1:1: missing key 'pe'", ""},
    {HEAD, "x.yaml:1:1: missing key 'node'", ""},
    {HEAD "node: {}", "x.yaml:3:7: missing key 'node.pes'", ""},
    {"pe: h200\nnode: {pes: 1}", "x.yaml:1:1: missing key 'name'", ""},
    {HEAD "nod: {pes: 1}", "x.yaml:3:1: unknown key 'nod'",
     "did you mean 'node'?"},
    {HEAD "node: {pes: 1, linkz: {}}", "x.yaml:3:16: unknown key 'linkz'",
     "did you mean 'links'?"},
    {HEAD "node: 4", "x.yaml:3:7: node: expected a map, found a value", ""},
    {HEAD "node: {pes: four}",
     "x.yaml:3:13: node.pes: 'four' is not a whole number", ""},
    {HEAD "node: {pes: 99999999999999999999}",
     "x.yaml:3:13: node.pes: 99999999999999999999 is outside 1 to 4096", ""},
    {HEAD "node: {pes: 1.5}",
     "x.yaml:3:13: node.pes: '1.5' is not a whole number", ""},
    {HEAD "node: {pes: [1]}",
     "x.yaml:3:13: node.pes: expected a value, found a list", ""},
    {HEAD "node:\n  pes: 1\n  links: {latency: 5}",
     "x.yaml:5:20: node.links.latency: '5' needs a unit",
     "write it like 5us or 1.5s"},
    {HEAD "node:\n  pes: 1\n  links: {bandwidth: 5Gb}",
     "x.yaml:5:22: node.links.bandwidth: '5Gb': unknown unit 'Gb'",
     "write it like 12.5GB/s or 400Gbps"},
    {HEAD "node:\n  pes: 1\n  links: {latency: 5h}",
     "x.yaml:5:20: node.links.latency: 5h is outside 0 ns to 10 s", ""},
    {HEAD "node:\n  pes: 1\n  links: {latency: -5us}",
     "x.yaml:5:20: node.links.latency: -5us is outside 0 ns to 10 s", ""},
    {HEAD "node:\n  pes: 1\n  links: {latency: 1e999s}",
     "x.yaml:5:20: node.links.latency: '1e999s' is too large", ""},
    {HEAD "node:\n  pes: 1\n  links: {shape: ring}",
     "x.yaml:5:18: node.links.shape: no shape 'ring'",
     "one of none, all-to-all, switch, graph, fabric"},
    {HEAD "node:\n  pes: 1\n  nics: {direct: yes}",
     "x.yaml:5:18: node.nics.direct: 'yes' is not true or false", ""},
    {HEAD "node:\n  pes: 1\n  host: {memory: 1.5B}",
     "x.yaml:5:18: node.host.memory: '1.5B' is not a whole number of "
     "bytes",
     ""},
    {"name: x\npe: h20\nnode: {pes: 1}", "x.yaml:2:5: pe: no PE 'h20'",
     "did you mean 'h200'?"},
    {"name: x\npe: {base: h300}\nnode: {pes: 1}",
     "x.yaml:2:12: pe: no PE 'h300'", "did you mean 'b300'?"},
    {"name: x\npe: {title: y}\nnode: {pes: 1}",
     "x.yaml:2:5: missing key 'pe.name'", ""},
    {"name: x\npe: {name: y, peak: {fp33: 1TFLOP/s}}\nnode: {pes: 1}",
     "x.yaml:2:22: unknown key 'fp33'", "did you mean 'fp32'?"},
    {"name: x\npe: {name: y, peak: {fp32: 1}}\nnode: {pes: 1}",
     "x.yaml:2:28: pe.peak.fp32: '1' needs a unit", "write it like 312TFLOP/s"},
    {"name: x\npe: {name: y, profile: [{op: conv}]}\nnode: {pes: 1}",
     "x.yaml: pe.profile.0: needs either seconds or efficiency", ""},
    {"name: x\npe: {name: y, profile: [{pass: f}]}\nnode: {pes: 1}",
     "x.yaml:2:25: missing key 'pe.profile.0.op'", ""},
    {"base: dgx-a10\nname: x",
     "x.yaml:1:7: base: not the name of a built-in system", ""},
    {"base: y.yaml\nname: x",
     "x.yaml:1:7: base: not the name of a built-in system", ""},
    {HEAD "node: {pes: 1}\nnetwork: {topology: {rails: 8}}",
     "x.yaml:4:21: missing key 'network.topology.type'", ""},
    {HEAD "node: {pes: 1}\nnetwork: {topology: {type: [8]}}",
     "x.yaml:4:28: network.topology.type: expected a value, found a list", ""},
    {HEAD "node: {pes: 1}\nnetwork: {levels: [{nodes: 4}]}",
     "x.yaml:4:20: missing key 'network.levels.0.name'", ""},
    {HEAD "node: {pes: 1}\nsources: text",
     "x.yaml:4:10: sources: expected a list, found a value", ""},
    {HEAD "node: {pes: 1}\nsources: [[a]]",
     "x.yaml:4:11: sources: expected a value, found a list", ""},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
     "[[[[[[",
     "x.yaml:1:65: nested deeper than 64 levels", ""},
};

static void bad_files_are_refused_with_these_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_system sys;

        assert_int_not_equal(read_text(a, bad_files[i].text,
                                       strlen(bad_files[i].text), &sys, &err),
                             PDL_OK);
        assert_string_equal(err.msg, bad_files[i].msg);
        assert_string_equal(err.hint, bad_files[i].hint);
        pdl_arena_destroy(a);
    }
}

static void a_nul_byte_is_refused(void **state)
{
    static const char text[] = "name: \"a\\0b\"\n";
    static const char raw[] = "name: a\0b\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system sys;

    (void)state;
    assert_int_equal(read_text(a, text, sizeof text - 1, &sys, &err),
                     PDL_EPARSE);
    assert_string_equal(err.msg, "x.yaml:1:7: text with a NUL byte");
    assert_int_equal(read_text(a, raw, sizeof raw - 1, &sys, &err), PDL_EPARSE);
    assert_string_equal(err.msg,
                        "x.yaml:1:8: control characters are not allowed");
    pdl_arena_destroy(a);
}

#define NODE(inside)  HEAD "node:\n  pes: 4\n" inside
#define LINKS(inside) NODE("  links: {" inside "}\n")
static const struct {
    const char *text, *msg;
} contradictions[] = {
    {LINKS("bandwidth: 1GB/s"),
     "node.links.shape: missing, bandwidth is given"},
    {LINKS("shape: switch"), "node.links.bandwidth: missing"},
    {LINKS("shape: switch, bandwidth: 1GB/s, pair_bandwidth: 2GB/s"),
     "node.links.pair_bandwidth: more than a PE has"},
    {LINKS("shape: all-to-all, bandwidth: 1GB/s, pair_bandwidth: 0.5GB/s"),
     "node.links.pair_bandwidth: 3 peers take more than a PE has"},
    {LINKS("shape: switch, bandwidth: 1GB/s, measured_bandwidth: 2GB/s"),
     "node.links.measured_bandwidth: more than nominal"},
    {LINKS("shape: graph, bandwidth: 1GB/s"),
     "node.links.pairs: missing, a graph needs them"},
    {LINKS("shape: switch, bandwidth: 1GB/s, pairs: [[0, 1, 1]]"),
     "node.links.pairs: only with shape: graph"},
    {LINKS("shape: graph, bandwidth: 1GB/s, pairs: [[0, 1, 1]]"),
     "node.links.link_bandwidth: missing, pairs need it"},
#define GRAPH(pairs)                                                 \
    LINKS("shape: graph, bandwidth: 10GB/s, link_bandwidth: 5GB/s, " \
          "pairs: " pairs)
    {GRAPH("[[0, 1]]"), "node.links.pairs.0: needs [PE, PE, cables]"},
    {GRAPH("[[0, 4, 1]]"), "node.links.pairs.0: not two PEs of 0 to 3"},
    {GRAPH("[[1, 1, 1]]"), "node.links.pairs.0: not two PEs of 0 to 3"},
    {GRAPH("[[0, 1, 0]]"), "node.links.pairs.0: 0 cables"},
    {GRAPH("[[0, 1, 1], [1, 0, 1]]"),
     "node.links.pairs.1: the pair is there already"},
    {GRAPH("[[0, 1, 3]]"), "node.links.pairs: PE 0 has 1.5e+10 B/s of "
                           "cables, bandwidth says 1e+10"},
    {NODE("  nics: {count: 2}"), "node.nics.bandwidth: missing"},
    {NODE("  nics: {count: 2, bandwidth: 1GB/s, measured_bandwidth: "
          "2GB/s}"),
     "node.nics.measured_bandwidth: more than nominal"},
    {NODE("  nics: {count: 2, bandwidth: 1GB/s, pes: [[0]]}"),
     "node.nics.pes: 1 rows for 2 NICs"},
    {NODE("  nics: {count: 1, bandwidth: 1GB/s, pes: [[4]]}"),
     "node.nics.pes.0: no PE 4"},
    {NODE("nodes: 2"), "node.nics: missing, 2 nodes must be joined"},
    {NODE("nodes: 10000000\n") "network: {levels: [{name: a, bandwidth: "
                               "1GB/s}]}\nbuilt_nodes: 0\n",
     NULL},
    {NODE("network: {levels: [{name: a}]}"),
     "network.levels.0.bandwidth: missing, and the node has no NICs"},
#define NICS "  nics: {count: 1, bandwidth: 1GB/s}\n"
    {NODE(NICS "network: {levels: [{name: a}, {name: b}]}"),
     "network.levels.0.nodes: missing (only the last level may leave it "
     "out)"},
    {NODE(NICS "network: {levels: [{name: a, nodes: 4}, {name: b, nodes: "
               "4}]}"),
     "network.levels.1.nodes: not larger than the level below"},
    {NODE(NICS "network: {levels: [{name: a, nodes: 4, latency: 2us}, "
               "{name: b, latency: 1us}]}"),
     "network.levels.1.latency: less than the level below"},
    {"name: x\npe: {base: h200, matmul: {bf16: 1PFLOP/s}}\nnode: {pes: 1}",
     "pe.matmul.bf16: 1e+15 FLOP/s is more than the peak, 9.89e+14"},
    {"name: x\npe: {base: h200, sustained_clock: 3GHz}\nnode: {pes: 1}",
     "pe.sustained_clock: faster than pe.clock"},
    {"name: x\npe: {base: h200, idle_power: 3kW}\nnode: {pes: 1}",
     "pe.idle_power: more than pe.peak_power"},
    {"name: x\npe: {name: y, profile: [{op: a, seconds: 1s, precision: "
     "fp31}]}\nnode: {pes: 1}",
     "pe.profile.0: no precision 'fp31'"},
    {"name: x\npe: {name: y, profile: [{op: a, seconds: 1s, dims: [1, 2, "
     "3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]}]}\nnode: {pes: 1}",
     "pe.profile.0: more than 12 dims"},
    {"name: ''\npe: h200\nnode: {pes: 1}", "name: missing"},
    {NODE("collectives: [{op: a, pes: 2, times: [[1]]}]"),
     "collectives.0.times.0: needs [bytes, nanoseconds] or [bytes, "
     "nanoseconds, signals, worked bytes]"},
    {NODE("collectives: [{op: a, pes: 2, times: [[1, 0]]}]"),
     "collectives.0.times.0: needs [bytes, nanoseconds] or [bytes, "
     "nanoseconds, signals, worked bytes]"},
    {NODE("collectives: [{op: a, pes: 2, nodes: 3}]"),
     "collectives.0.nodes: more than its PEs"},
};

/* Every invariant is broken once; a checker that never says no proves
 * nothing. */
static void contradictions_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contradictions / sizeof contradictions[0];
         i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_system sys;
        char want[300];
        enum pdl_status st =
            read_text(a, contradictions[i].text, strlen(contradictions[i].text),
                      &sys, &err);

        if (contradictions[i].msg) {
            snprintf(want, sizeof want, "x.yaml: %s", contradictions[i].msg);
            assert_string_equal(err.msg, want);
            assert_int_equal(st, PDL_EINVAL);
        } else {
            assert_string_equal(err.msg, "");
            assert_int_equal(st, PDL_OK);
        }
        pdl_arena_destroy(a);
    }
}

static void a_file_may_start_from_a_built_in(void **state)
{
    static const char text[] = "base: dgx-a100\nname: lab\nnodes: 4\n"
                               "pe: {base: a100-40g, memory: 39GiB}\n"
                               "node: {nics: {count: 2}}\n"
                               "network: {levels: [{name: all}]}\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system s;

    (void)state;
    /* the built-in says which PE is next to which of its 8 NICs */
    assert_int_equal(read_text(a, text, sizeof text - 1, &s, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "x.yaml: node.nics.pes: 8 rows for 2 NICs");
    {
        static const char more[] = "base: dgx-a100\nname: lab\nnodes: 4\n"
                                   "pe: {base: a100-40g, memory: 39GiB}\n"
                                   "node: {nics: {count: 2, pes: []}}\n"
                                   "network: {levels: [{name: all}]}\n";

        assert_int_equal(read_text(a, more, sizeof more - 1, &s, &err), PDL_OK);
    }
    assert_string_equal(s.name, "lab");
    assert_int_equal(s.nodes, 4);
    assert_int_equal(s.node.pes, 8);
    assert_int_equal(s.node.nics.count, 2);
    assert_int_equal(s.pe.memory_bytes, (int64_t)39 << 30);
    assert_true(s.node.links.bytes_per_s == 300e9);
    assert_int_equal(s.nlevels, 2);
    pdl_arena_destroy(a);
}

static void any_text_survives_writing(void **state)
{
    static const char *const texts[] = {"plain",
                                        "two words",
                                        "null",
                                        "~",
                                        "a: b",
                                        "# no",
                                        "\"quoted\"",
                                        "back\\slash",
                                        "line\nbreak",
                                        "tab\there",
                                        "- dash",
                                        "{brace}",
                                        "caf\xc3\xa9",
                                        "\xe2\x80\xa8",
                                        "\xf0\x9f\x98\x80",
                                        "1.5",
                                        "*alias",
                                        "&anchor",
                                        "!tag",
                                        " lead",
                                        "trail ",
                                        "'",
                                        "%",
                                        "@at",
                                        "\x7f",
                                        "\xc2\x85",
                                        "\xef\xbb\xbf"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err = {"", ""};
        struct pdl_system s, again;
        struct pdl_buf b;

        assert_int_equal(pdl_system_open(a, "dgx-h200", &s, &err), PDL_OK);
        s.title = texts[i];
        s.sources = &texts[i];
        s.nsources = 1;
        pdl_buf_init(&b);
        pdl_system_write(&s, &b.sink);
        if (read_text(a, b.text, b.len, &again, &err) != PDL_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(again.title, texts[i]);
        assert_string_equal(again.sources[0], texts[i]);
        pdl_buf_free(&b);
        pdl_arena_destroy(a);
    }
}

static void numbers_survive_writing_to_the_last_bit(void **state)
{
    struct pdl_rng rng = {.key = 7};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system s, again;

    (void)state;
    assert_int_equal(pdl_system_open(a, "dgx-h200", &s, &err), PDL_OK);
    for (int i = 0; i < 2000; i++) {
        struct pdl_buf b;

        s.node.links.latency_s = exp(40 * pdl_rng_unit(&rng) - 38);
        s.pe.memory_bytes_per_s = exp(36 * pdl_rng_unit(&rng));
        s.pe.memory_bytes = (int64_t)pdl_rng_below(&rng, 1u << 30) *
                            (int64_t)pdl_rng_below(&rng, 1u << 23);
        pdl_buf_init(&b);
        pdl_system_write(&s, &b.sink);
        assert_int_equal(read_text(a, b.text, b.len, &again, &err), PDL_OK);
        assert_true(again.node.links.latency_s == s.node.links.latency_s);
        assert_true(again.pe.memory_bytes_per_s == s.pe.memory_bytes_per_s);
        assert_int_equal(again.pe.memory_bytes, s.pe.memory_bytes);
        pdl_buf_free(&b);
    }
    pdl_arena_destroy(a);
}

static void a_long_list_takes_no_quadratic_time(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_system s;
    struct pdl_buf b;
    double t = pdl_cpu_s();

    (void)state;
    pdl_buf_init(&b);
    pdl_puts(&b.sink, HEAD "node: {pes: 4096, links: {shape: graph, "
                           "bandwidth: 1TB/s, link_bandwidth: 1GB/s, pairs: "
                           "[");
    for (int i = 0; i < 200000; i++)
        pdl_puts(&b.sink, "[0, 1, 1],");
    pdl_puts(&b.sink, "]}}\n");
    assert_int_equal(read_text(a, b.text, b.len, &s, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "x.yaml: node.links.pairs: more than 4096");
    assert_true(pdl_cpu_s() - t < 20);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files_are_refused_with_these_words),
        cmocka_unit_test(a_nul_byte_is_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_file_may_start_from_a_built_in),
        cmocka_unit_test(any_text_survives_writing),
        cmocka_unit_test(numbers_survive_writing_to_the_last_bit),
        cmocka_unit_test(a_long_list_takes_no_quadratic_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
