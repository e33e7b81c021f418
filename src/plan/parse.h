/* What the files that read plan files share. */
#ifndef PLAN_PARSE_H
#define PLAN_PARSE_H

#include "lex.h"
#include "text.h"

/* Where an operation's derived part stands, to compare it in the end. */
struct plan_line {
    const char *start, *at, *eol;
    int line, stage;
};

struct plan_text_reader {
    struct plan_lex x;
    struct pdl_plan_head head;
    const struct pdl_plan_loader *loader;
    struct pdl_strategy *strategy;
    struct pdl_mesh *mesh;
    int version;
    const struct pdl_model *whole; /* as it is loaded */
    const struct pdl_model *model; /* the rounds that are written */
    struct pdl_plan_roll *roll;    /* NULL: all of them */
    struct plan_names nodes, tensor_names;
    struct pdl_plan p;
    struct pdl_plan_tensor *tensors;
    struct pdl_frame *frames; /* of the tensor being read; NULL: none yet */
    struct pdl_plan_op *ops;
    struct pdl_plan_item *items;
    struct pdl_plan_stage *stages;
    const char **fallbacks;
    struct plan_line *rests, *tensor_lines, model_line, roll_line;
    struct plan_line classes; /* first class line; eol: the last one's end */
    int most_tensors, most_ops, most_items, most_fallbacks;
    int *ids; /* scratch: operands of one line */
    int most_ids;
};

void plan_read_no_memory(struct plan_text_reader *r);
struct plan_line plan_read_line(const struct plan_text_reader *r);
/* The place of the next message. */
void plan_read_go_to(struct plan_text_reader *r, const struct plan_line *line);
/* The next line must begin with this word; does this one? */
bool plan_read_section(struct plan_text_reader *r, const char *word);
bool plan_read_begins(struct plan_text_reader *r, const char *word);
/* An error of another reader, with the place of this one. */
void plan_read_place(struct plan_text_reader *r, enum pdl_status st,
                     const struct pdl_err *inner);
/* The line must be what the plan says. */
void plan_read_compare(struct plan_text_reader *r, const struct pdl_buf *want,
                       const struct plan_line *have);
/* Words of a line: factors of the mesh, a name of the model (or #number), one
 * of a list (-1: none), the next id. */
uint32_t plan_read_factors(struct plan_text_reader *r);
int plan_read_name(struct plan_text_reader *r, const struct plan_names *n,
                   const char *what);
int plan_read_word(const char *word, const char *const *list, int n);
/* " round=N" of a rolled plan; -1: nothing is said */
int plan_read_round(struct plan_text_reader *r);
void plan_read_id(struct plan_text_reader *r, const char *sign, int next);
/* parse_header.c, parse_tensors.c, parse_programs.c */
void plan_read_header(struct plan_text_reader *r);
void plan_read_tensor(struct plan_text_reader *r);
void plan_read_programs(struct plan_text_reader *r);

#endif
