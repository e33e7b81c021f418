/* What the writer and the reader of plan files share: how words are quoted,
 * how nodes and tensors of the model are named, what dimensions are called. */
#ifndef PLAN_TEXT_H
#define PLAN_TEXT_H

#include "plan_priv.h"

/* 1: written out only; 2: also rolled. */
#define PLAN_TEXT_MAGIC "paradl-plan "
enum { PLAN_TEXT_VERSION = 3 }; /* 2 where nothing is compressed */

/* More PEs than this are not written out: rank lists would be longer than
 * the plan. */
enum { PLAN_TEXT_MAX_PES = 1 << 20 };

/* From a name to its index, the first of equals. */
struct plan_names {
    const char **name;
    int *slot; /* open addressing; -1: free */
    int count, nslots;
};
bool plan_names_nodes(pdl_arena *a, const struct pdl_model *m,
                      struct plan_names *n);
bool plan_names_tensors(pdl_arena *a, const struct pdl_model *m,
                        struct plan_names *n);
int plan_names_find(const struct plan_names *n, const char *name); /* or -1 */
/* Writes the name of entry i, or "#i" where the name would not lead back. */
void plan_names_put(const struct plan_names *n, int i, struct pdl_sink *out);

/* A word as it is, or in quotes with \" \\ and \xNN; `blanks` allows blanks in
 * a bare one (it is the last on its line). */
void plan_text_quote(const char *s, bool blanks, struct pdl_sink *out);

extern const char *const plan_text_passes[3];
extern const char *const plan_text_phases[3];
extern const char *const plan_text_kinds[];
extern const int plan_text_nkinds;

/* The letter of a dimension, for people: N, C, H ... Writes at most 4 bytes. */
void plan_text_dim(const struct pdl_plan *p, const struct pdl_plan_tensor *t,
                   int d, char *name);
void plan_text_factors(const struct pdl_plan *p, uint32_t set,
                       struct pdl_sink *out);

/* The items of a stage's phase (0 forward, 1 backward, 2 update). */
void plan_text_items(const struct pdl_plan_stage *s, int phase, int *first,
                     int *count);
/* The k-th program of the file: forward by stage, backward from the last
 * stage, update by stage. False past the end. */
bool plan_text_program(int nstages, int k, int *phase, int *stage);
/* The first rank of a stage, for which FLOPs and bytes are written. */
int64_t plan_text_rank(const struct pdl_plan *p, int stage);

/* classes.c: the lines "class ..." */
enum pdl_status plan_text_classes(const struct pdl_plan *p,
                                  struct pdl_sink *out);
/* print.c: the part of an operation's line that is derived (flops, bytes) */
void plan_text_work(const struct pdl_plan *p, int op, int stage,
                    struct pdl_sink *out);
void plan_text_mesh(const struct pdl_plan *p, struct pdl_sink *out);
/* " round=2" of what a rolled plan has */
void plan_text_round(const struct pdl_plan *p, int round, struct pdl_sink *out);

#endif
