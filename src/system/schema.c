/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a system file: name, kind, unit, range, default, place in the
 * struct. doc/formats/system.md says what they mean; a test holds the two
 * together. To add a key: one line here, one field in paradl/system.h, one
 * row in the document. */
#include "system_priv.h"

#define COUNT_OF(list) ((int)(sizeof(list) / sizeof(list)[0]))
#define TABLE(list, type)                  \
    {                                      \
        list, COUNT_OF(list), sizeof(type) \
    }

#define NONE  PDL_UNIT_NONE
#define BYTE  PDL_UNIT_BYTES
#define RATE  PDL_UNIT_BYTES_S
#define TIME  PDL_UNIT_SECONDS
#define FLOPS PDL_UNIT_FLOP_S
#define WATT  PDL_UNIT_WATT
#define HERTZ PDL_UNIT_HERTZ

/* One line a key. The ranges refuse what cannot be meant (a wrong prefix),
 * not what is merely unusual. */
#define AT(field) offsetof(struct HERE, field)
#define TEXT(key, field)                                           \
    {                                                              \
        key, SYSTEM_TEXT, NONE, AT(field), 0, 0, 0, 0, false, NULL \
    }
#define MUST(key, field)                                          \
    {                                                             \
        key, SYSTEM_TEXT, NONE, AT(field), 0, 0, 0, 0, true, NULL \
    }
#define COUNT(key, field, min, max)                                     \
    {                                                                   \
        key, SYSTEM_COUNT, NONE, AT(field), 0, min, max, 0, false, NULL \
    }
#define SIZE(key, field)                                               \
    {                                                                  \
        key, SYSTEM_BYTES, BYTE, AT(field), 0, 0, 1e18, 0, false, NULL \
    }
#define NUM(key, unit, field, min, max)                               \
    {                                                                 \
        key, SYSTEM_NUM, unit, AT(field), 0, min, max, 0, false, NULL \
    }
#define SPEED(key, field) NUM(key, RATE, field, 0, 1e16)
#define DELAY(key, field) NUM(key, TIME, field, 0, 10)
#define POWER(key, field) NUM(key, WATT, field, 0, 1e9)
#define PART(key, field)                                             \
    {                                                                \
        key, SYSTEM_NUM, NONE, AT(field), 0, 1e-3, 1, 1, false, NULL \
    }
#define FLAG(key, field)                                           \
    {                                                              \
        key, SYSTEM_BOOL, NONE, AT(field), 0, 0, 0, 0, false, NULL \
    }
#define LIST(key, kind, field, n, sub)                         \
    {                                                          \
        key, kind, NONE, AT(field), AT(n), 0, 0, 0, false, sub \
    }
#define INSIDE(key, field, sub)                                  \
    {                                                            \
        key, SYSTEM_MAP, NONE, AT(field), 0, 0, 0, 0, false, sub \
    }

// clang-format off
#define X(id, key, bytes) \
    {key, SYSTEM_NUM, FLOPS, PDL_PREC_##id * sizeof(double), 0, 1e6, 1e19, 0, \
     false, NULL},
static const struct system_field precisions[] = {PDL_PRECISION_LIST(X)};
#undef X
static const struct system_table precision_table = TABLE(precisions, double);

#define X(id, key, bytes) \
    {key, SYSTEM_NUM, NONE, PDL_PREC_##id * sizeof(double), 0, 0, 4, 0, false, \
     NULL},
static const struct system_field parts[] = {PDL_PRECISION_LIST(X)};
#undef X
static const struct system_table parts_table = TABLE(parts, double);

#define HERE pdl_kernels
static const struct system_field kernels[] = {
    INSIDE("conv_forward", conv_forward, &parts_table),
    INSIDE("conv_data", conv_data, &parts_table),
    INSIDE("conv_weights", conv_weights, &parts_table),
    DELAY("conv_tile", conv_tile_s),
    DELAY("matmul_tile", matmul_tile_s),
    NUM("conv_epilogue", NONE, conv_epilogue, 0, 4),
    NUM("matmul_epilogue", NONE, matmul_epilogue, 0, 4),
    NUM("tile_fill", NONE, tile_fill, 0, 1),
    NUM("vector_tile", NONE, vector_tile, 0, 128),
    NUM("pad_cost", NONE, pad_cost, 0, 16),
    NUM("unaligned_batched", FLOPS, unaligned_batched, 0, 1e18),
    NUM("attention_forward", NONE, attention_forward, 0, 1),
    NUM("attention_backward", NONE, attention_backward, 0, 1),
    NUM("flash2_forward", NONE, flash2_forward, 0, 1),
    NUM("flash2_backward", NONE, flash2_backward, 0, 1),
    NUM("attention_older", NONE, attention_older, 0, 1),
    INSIDE("batch_norm_forward", batch_norm_forward, &parts_table),
    INSIDE("batch_norm_backward", batch_norm_backward, &parts_table),
    INSIDE("layer_norm_forward", layer_norm_forward, &parts_table),
    DELAY("norm_row", norm_row_s),
    DELAY("call", call_s),
    DELAY("call_conv", call_conv_s),
    DELAY("call_conv_data", call_conv_data_s),
    DELAY("call_conv_weights", call_conv_weights_s),
    DELAY("call_backward", call_backward_s),
};
#undef HERE
static const struct system_table kernels_table =
    TABLE(kernels, struct pdl_kernels);

#define HERE pdl_profile_row
static const struct system_field profile_row[] = {
    MUST("op", op),
    TEXT("pass", pass),
    TEXT("precision", precision),
    LIST("dims", SYSTEM_INTS, dims, ndims, NULL),
    NUM("seconds", TIME, seconds, 0, 1e5),
    NUM("efficiency", NONE, efficiency, 0, 10),
};
#undef HERE
static const struct system_table profile_table =
    TABLE(profile_row, struct pdl_profile_row);

#define HERE pdl_pe
static const struct system_field pe[] = {
    MUST("name", name),
    TEXT("title", title),
    TEXT("vendor", vendor),
    TEXT("arch", arch),
    INSIDE("peak", peak_flop_per_s, &precision_table),
    INSIDE("matmul", matmul_flop_per_s, &precision_table),
    SIZE("memory", memory_bytes),
    PART("memory_usable", memory_usable),
    SPEED("memory_bandwidth", memory_bytes_per_s),
    PART("memory_efficiency", memory_efficiency),
    SIZE("l2", l2_bytes),
    COUNT("units", units, 0, 1e6),
    NUM("clock", HERTZ, clock_hz, 0, 1e11),
    NUM("sustained_clock", HERTZ, sustained_hz, 0, 1e11),
    INSIDE("kernels", kernels, &kernels_table),
    NUM("interference", NONE, interference, 0, 0.9),
    DELAY("launch", launch_s),
    DELAY("host_call", host_call_s),
    POWER("idle_power", idle_w),
    POWER("peak_power", peak_w),
    NUM("price_per_hour", NONE, price_per_hour, 0, 1e6),
    LIST("profile", SYSTEM_ROWS, profile, nprofile, &profile_table),
    LIST("sources", SYSTEM_TEXTS, sources, nsources, NULL),
    LIST("unverified", SYSTEM_TEXTS, unverified, nunverified, NULL),
};
#undef HERE
const struct system_table system_pe_table = TABLE(pe, struct pdl_pe);

#define HERE pdl_node_links
static const struct system_field links[] = {
    TEXT("type", type),
    {"shape", SYSTEM_SHAPE, NONE, AT(shape), 0, 0, 0, 0, false, NULL},
    SPEED("bandwidth", bytes_per_s),
    SPEED("pair_bandwidth", pair_bytes_per_s),
    SPEED("link_bandwidth", link_bytes_per_s),
    SPEED("measured_bandwidth", measured_bytes_per_s),
    DELAY("latency", latency_s),
    DELAY("measured_latency", measured_latency_s),
    FLAG("reduces", reduces),
    SPEED("reduce_bandwidth", reduce_bytes_per_s),
    LIST("pairs", SYSTEM_INTROWS, pairs, npairs, NULL),
};
#undef HERE
static const struct system_table links_table =
    TABLE(links, struct pdl_node_links);

#define HERE pdl_nics
static const struct system_field nics[] = {
    TEXT("type", type),
    COUNT("count", count, 0, 1024),
    SPEED("bandwidth", bytes_per_s),
    SPEED("measured_bandwidth", measured_bytes_per_s),
    DELAY("latency", latency_s),
    FLAG("direct", direct),
    LIST("pes", SYSTEM_INTROWS, pes, npes, NULL),
};
#undef HERE
static const struct system_table nics_table = TABLE(nics, struct pdl_nics);

#define HERE pdl_host
static const struct system_field host[] = {
    TEXT("title", title),
    COUNT("sockets", sockets, 0, 1024),
    COUNT("cores", cores, 0, 1e6),
    COUNT("machines", machines, 0, 4096),
    SIZE("memory", memory_bytes),
    SPEED("memory_bandwidth", memory_bytes_per_s),
    SPEED("pcie_bandwidth", pcie_bytes_per_s),
    DELAY("pcie_latency", pcie_latency_s),
    COUNT("pes_per_switch", pes_per_switch, 0, 1024),
    SPEED("out_bandwidth", out_bytes_per_s),
    NUM("copy_interference", NONE, copy_interference, 0, 1),
    DELAY("staged_latency", staged_latency_s),
    SPEED("staged_bandwidth", staged_bytes_per_s),
};
#undef HERE
static const struct system_table host_table = TABLE(host, struct pdl_host);

#define HERE pdl_storage
static const struct system_field storage[] = {
    TEXT("type", type),
    SIZE("capacity", capacity_bytes),
    SPEED("bandwidth", bytes_per_s),
    SPEED("node_bandwidth", node_bytes_per_s),
    DELAY("round_trip", round_trip_s),
    DELAY("latency", latency_s),
    DELAY("contention", contention_s),
    DELAY("file_time", file_s),
};
#undef HERE
static const struct system_table storage_table =
    TABLE(storage, struct pdl_storage);

#define HERE pdl_node_desc
static const struct system_field node[] = {
    {"pes", SYSTEM_COUNT, NONE, AT(pes), 0, 1, 4096, 1, true, NULL},
    INSIDE("links", links, &links_table),
    INSIDE("nics", nics, &nics_table),
    INSIDE("host", host, &host_table),
    INSIDE("storage", storage, &storage_table),
    POWER("idle_power", idle_w),
    POWER("peak_power", peak_w),
};
#undef HERE
static const struct system_table node_table = TABLE(node, struct pdl_node_desc);

#define HERE pdl_tier
static const struct system_field tier[] = {
    MUST("name", name),
    COUNT("nodes", nodes, 0, 1e7),
    SPEED("bandwidth", bytes_per_s),
    SPEED("measured_bandwidth", measured_bytes_per_s),
    SPEED("flow_bandwidth", flow_bytes_per_s),
    DELAY("latency", latency_s),
    DELAY("measured_latency", measured_latency_s),
    {"oversubscription", SYSTEM_NUM, NONE, AT(oversubscription), 0, 1, 1000, 1,
     false, NULL},
    POWER("switch_power", switch_w),
};
#undef HERE
static const struct system_table tier_table = TABLE(tier, struct pdl_tier);

#define HERE pdl_network
static const struct system_field network[] = {
    {"topology", SYSTEM_TOPOLOGY, NONE, AT(topology), 0, 0, 0, 0, false, NULL},
    TEXT("library", library),
    DELAY("ring_step", step_s),
    DELAY("layer_step", layer_step_s),
    DELAY("sync", sync_s),
    LIST("levels", SYSTEM_ROWS, tiers, ntiers, &tier_table),
};
#undef HERE
static const struct system_table network_table =
    TABLE(network, struct pdl_network);

#define HERE pdl_collective_fit
static const struct system_field collective[] = {
    MUST("op", op),
    TEXT("library", library),
    TEXT("source", source),
    {"pes", SYSTEM_COUNT, NONE, AT(pes), 0, 1, 1e9, 0, true, NULL},
    COUNT("nodes", nodes, 0, 1e7),
    NUM("alpha", TIME, alpha_s, 0, 1e4),
    SPEED("bandwidth", bytes_per_s),
    NUM("max_error", NONE, max_error, 0, 1e6),
    NUM("min_size", BYTE, min_bytes, 0, 1e18),
    NUM("max_size", BYTE, max_bytes, 0, 1e18),
    SPEED("bus_bandwidth", bus_bytes_per_s),
    LIST("times", SYSTEM_INTROWS, times, ntimes, NULL),
};
#undef HERE
static const struct system_table collective_table =
    TABLE(collective, struct pdl_collective_fit);

#define HERE pdl_fact
static const struct system_field fact[] = {
    MUST("name", name),
    NUM("value", NONE, value, -1e30, 1e30),
    TEXT("unit", unit),
    TEXT("note", note),
};
#undef HERE
static const struct system_table fact_table = TABLE(fact, struct pdl_fact);

#define HERE pdl_spread
static const struct system_field spread[] = {
    MUST("parameter", parameter),
    NUM("spread", NONE, spread, -3, 3),
    COUNT("move", move, 0, 64),
};
#undef HERE
static const struct system_table spread_table =
    TABLE(spread, struct pdl_spread);

#define HERE pdl_pe_group
static const struct system_field pe_group[] = {
    {"pe", SYSTEM_PE, NONE, AT(pe), 0, 0, 0, 0, true, &system_pe_table},
    {"nodes", SYSTEM_COUNT, NONE, AT(nodes), 0, 1, 1e7, 1, false, NULL},
};
#undef HERE
static const struct system_table pe_group_table =
    TABLE(pe_group, struct pdl_pe_group);

#define HERE pdl_node_group
static const struct system_field node_group[] = {
    TEXT("name", name),
    MUST("system", system),
    {"nodes", SYSTEM_COUNT, NONE, AT(nodes), 0, 1, 1e7, 1, false, NULL},
};
#undef HERE
static const struct system_table node_group_table =
    TABLE(node_group, struct pdl_node_group);

#define HERE pdl_system
static const struct system_field root[] = {
    MUST("name", name),
    TEXT("title", title),
    TEXT("hosts", hosts),
    {"nodes", SYSTEM_COUNT, NONE, AT(nodes), 0, 1, 1e7, 1, false, NULL},
    {"built_nodes", SYSTEM_COUNT, NONE, AT(built_nodes), 0, 0, 1e7, -1, false,
     NULL},
    {"pe", SYSTEM_PE, NONE, AT(pe), 0, 0, 0, 0, true, &system_pe_table},
    LIST("pe_groups", SYSTEM_ROWS, pe_groups, npe_groups, &pe_group_table),
    LIST("groups", SYSTEM_ROWS, groups, ngroups, &node_group_table),
    {"node", SYSTEM_MAP, NONE, AT(node), 0, 0, 0, 0, true, &node_table},
    INSIDE("network", network, &network_table),
    INSIDE("storage", storage, &storage_table),
    TEXT("currency", currency),
    NUM("projection_error", NONE, projection_error, 0, 3),
    LIST("uncertainty", SYSTEM_ROWS, spreads, nspreads, &spread_table),
    LIST("collectives", SYSTEM_ROWS, collectives, ncollectives,
         &collective_table),
    LIST("measured", SYSTEM_ROWS, measured, nmeasured, &fact_table),
    LIST("sources", SYSTEM_TEXTS, sources, nsources, NULL),
    LIST("unverified", SYSTEM_TEXTS, unverified, nunverified, NULL),
};
#undef HERE
const struct system_table system_root = TABLE(root, struct pdl_system);
// clang-format on

void system_defaults(const struct system_table *t, void *base)
{
    for (int i = 0; i < t->count; i++) {
        const struct system_field *f = &t->fields[i];
        void *at = (char *)base + f->at;

        if (f->kind == SYSTEM_MAP || f->kind == SYSTEM_PE)
            system_defaults(f->sub, at);
        else if (f->kind == SYSTEM_COUNT)
            *(int64_t *)at = (int64_t)f->def;
        else if (f->kind == SYSTEM_NUM)
            *(double *)at = f->def;
    }
}
