/* Shared inside the system room: the table of the file's keys, from which
 * the reader, the writer, the JSON output and the dotted parameters are all
 * made, so that they cannot disagree. */
#ifndef SYSTEM_PRIV_H
#define SYSTEM_PRIV_H

#include "paradl/system.h"

enum system_kind {
    SYSTEM_TEXT,
    SYSTEM_COUNT,    /* int64_t, no unit */
    SYSTEM_BYTES,    /* int64_t, whole bytes */
    SYSTEM_NUM,      /* double with the field's unit */
    SYSTEM_BOOL,     /* bool */
    SYSTEM_SHAPE,    /* int64_t: enum pdl_link_shape by name */
    SYSTEM_TEXTS,    /* list of texts */
    SYSTEM_INTS,     /* list of whole numbers */
    SYSTEM_INTROWS,  /* list of lists of whole numbers */
    SYSTEM_MAP,      /* a struct inside */
    SYSTEM_ROWS,     /* list of structs */
    SYSTEM_TOPOLOGY, /* type and free parameters */
    SYSTEM_PE,       /* a name of the library, or a struct */
};

struct system_table;

struct system_field {
    const char *name;
    enum system_kind kind;
    enum pdl_unit unit;
    size_t at, count_at; /* of the value; of the number of items */
    double min, max, def;
    bool required;
    const struct system_table *sub;
};

struct system_table {
    const struct system_field *fields;
    int count;
    size_t size; /* of the struct, for rows */
};

extern const struct system_table system_root, system_pe_table;

enum { SYSTEM_MAX_FIELDS = 40, SYSTEM_PATH = 160 };

/* Sets every number of a struct to its default; the struct is zeroed. */
void system_defaults(const struct system_table *t, void *base);
/* One scalar from text; the message knows neither file nor key. */
enum pdl_status system_scalar(pdl_arena *a, const struct system_field *f,
                              void *base, const char *text,
                              struct pdl_err *err);
/* The field at a dotted path and the struct it is in; rows are addressed by
 * number or by name. NULL when there is none or it is not a scalar. */
const struct system_field *system_find(const struct system_table *t, void *base,
                                       const char *path, void **holder);
/* Offers every dotted path of a scalar to a did-you-mean. */
void system_suggest(pdl_arena *a, const struct system_table *t,
                    const char *prefix, struct pdl_suggest *s);
enum pdl_status system_read_table(pdl_arena *a, const struct system_table *t,
                                  const struct pdl_doc *map, void *base,
                                  struct pdl_err *err);

/* read.c, open.c: pdl_system_read and _open; inside: of a group, which has none
 * itself */
enum pdl_status system_read(pdl_arena *a, struct pdl_bytes in, const char *name,
                            bool inside, struct pdl_system *out,
                            struct pdl_err *err);
enum pdl_status system_open(pdl_arena *a, const char *name, bool inside,
                            struct pdl_system *out, struct pdl_err *err);
/* groups.c: the machine that the rows of sys->groups make; their nodes */
enum pdl_status system_join(pdl_arena *a, const struct pdl_doc *d,
                            struct pdl_system *sys, struct pdl_err *err);
int64_t system_group_nodes(const struct pdl_system *sys);

/* Appends to a list of texts in place (sources, unverified, notes). */
enum pdl_status system_add_text(pdl_arena *a, const char *const **list,
                                int64_t *count, struct pdl_err *err,
                                const char *fmt, ...) PDL_PRINTF(5, 6);
enum pdl_status system_no_memory(struct pdl_err *err, const char *what);
/* Four significant digits. */
double system_round(double v);

/* The compiled-in files, sorted by name, ended by a NULL name. */
extern const struct pdl_builtin system_builtins[], system_pe_builtins[];
const struct pdl_builtin *system_builtin_find(const struct pdl_builtin *list,
                                              const char *name);

/* ---- importers ---- */
extern const struct pdl_importer system_import_nccl_tests, system_import_osu,
    system_import_nccl_topo, system_import_hwloc, system_import_hostlist;

/* Measured times on their way into a collective. */
struct system_times {
    pdl_arena *arena;
    const char *op, *library;
    int64_t pes, nodes;
    double *bytes, *seconds;
    int count, cap;
    double bus_bytes_per_s;
    enum pdl_status status;
};
void system_times_add(struct system_times *t, double bytes, double seconds);
/* Fits the line and appends the collective to the system. */
enum pdl_status system_times_finish(struct system_times *t, const char *source,
                                    struct pdl_system *sys,
                                    struct pdl_err *err);
/* A node as an XML file showed it, before it becomes part of a system. */
struct system_seen_node {
    int64_t gpus, sockets, cores, memory_bytes;
    const char *model; /* the library's name of the PE; NULL unknown */
    const char *model_text;
    int64_t nics;
    double nic_bytes_per_s, pcie_bytes_per_s;
    int64_t pes_per_switch;
    const char *link_type;
    double link_bytes_per_s;
    struct pdl_ints *pairs; /* [a, b, cables] */
    int64_t npairs;
    int64_t switch_links; /* cables of one PE to a switch */
    struct pdl_ints *nic_pes;
};
enum pdl_status system_seen_apply(pdl_arena *a,
                                  const struct system_seen_node *seen,
                                  struct pdl_system *sys, struct pdl_err *err);

#endif
