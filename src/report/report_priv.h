/* Shared inside report: text and numbers into markup, axes, the kinds of
 * charts, and the pages. A page is one file with one struct report_page_kind;
 * to add one: write the file, declare it here, add one line in report.c. */
#ifndef REPORT_PRIV_H
#define REPORT_PRIV_H

#include "paradl/net.h"
#include "paradl/report.h"

/* ---- markup.c: text and numbers ------------------------------------------ */

/* Escapes for elements and quoted attributes; what is no UTF-8 and control
 * characters become U+FFFD. NULL writes nothing. */
void report_text(struct pdl_sink *out, const char *s);
/* For elements of HTML: lines may break after a comma, as strategies need. */
void report_loose(struct pdl_sink *out, const char *s);
/* Text, at most `columns` characters: cut in the middle with an ellipsis.
 * True when it was cut. */
bool report_short(struct pdl_sink *out, const char *s, int columns);
/* A number with at most one decimal and a point in every locale. */
void report_num(struct pdl_sink *out, double v);
void report_attr(struct pdl_sink *out, const char *name, double v);
/* <title>: the tooltip of an SVG element. */
void report_tip(struct pdl_sink *out, const char *fmt, ...) PDL_PRINTF(2, 3);
/* JSON for a script element: no '<' that could end it. */
void report_json(struct pdl_sink *out, struct pdl_bytes json);

/* ---- html.c: the frame ------------------------------------------------- */

struct report_column {
    const char *title;
    bool number; /* to the right */
};

enum { REPORT_MAX_ROWS = 3000 };

/* Cells one after the other; beyond REPORT_MAX_ROWS they are only counted. */
struct report_table {
    struct pdl_sink *out;
    const struct report_column *columns;
    int ncolumns, at, rows;
};

/* Where the list of sections goes when the page is done. */
#define REPORT_NAV "<!--sections-->"
void report_head(struct pdl_sink *out, const char *title);
void report_section(struct pdl_sink *out, const char *id, const char *title);
void report_section_end(struct pdl_sink *out);
/* A paragraph. */
void report_para(struct pdl_sink *out, const char *fmt, ...) PDL_PRINTF(2, 3);
void report_details(struct pdl_sink *out, const char *summary);
void report_details_end(struct pdl_sink *out);
void report_table_begin(struct report_table *t, struct pdl_sink *out,
                        const struct report_column *columns, int ncolumns);
void report_cell(struct report_table *t, const char *fmt, ...) PDL_PRINTF(2, 3);
void report_cell_unit(struct report_table *t, double v, enum pdl_unit unit);
void report_table_end(struct report_table *t);
/* The end: command, assumptions (NULL-ended, may be NULL), version, input. */
struct report_foot {
    const char *command, *name;
    const char *const *assumptions;
    struct pdl_bytes json;
};
void report_foot(struct pdl_sink *out, const struct report_foot *f);
extern const char report_style[]; /* style.c */

/* ---- axis.c ------------------------------------------------------------ */

enum { REPORT_MAX_TICKS = 64 };

struct report_axis {
    const char *title;
    enum pdl_unit unit;
    bool log;        /* base 10 for times, base 2 for everything else */
    bool tens;       /* base 10 for this too */
    bool whole;      /* counts, written out: 1024 */
    bool tight;      /* linear and not from 0 where all is near */
    double min, max; /* after report_axis_fit: round, and apart */
    double from, to; /* where they are drawn */
    int nticks;
    double ticks[REPORT_MAX_TICKS];
};

/* Rounds [min, max] outwards and sets the ticks. A linear axis starts at 0; a
 * log axis needs min > 0. */
void report_axis_fit(struct report_axis *ax, double min, double max);
double report_axis_at(const struct report_axis *ax, double v);
const char *report_axis_text(const struct report_axis *ax, double v, char *buf,
                             size_t size);
/* Every how many ticks there is room for a text below the axis. */
int report_axis_stride(const struct report_axis *ax);

/* ---- chart_lines.c ----------------------------------------------------- */

struct report_series {
    const char *name;
    int n;
    double *x, *y;
    int colour; /* the same on all charts; REPORT_COLOURS and more: grey */
    const double *low, *high; /* a band around it; NULL: none */
    bool dashed;              /* a reference: no markers */
};

enum { REPORT_COLOURS = 8 };

struct report_lines {
    const char *id, *label; /* label: what it shows, for screen readers */
    struct report_axis x, y;
    const struct report_series *series;
    int nseries;
};
/* Draws it, and its table in a <details>. */
void report_lines(struct pdl_sink *out, struct report_lines *c);

/* ---- chart_bars.c ------------------------------------------------------ */

enum { REPORT_MAX_PARTS = 8 };

struct report_bar {
    const char *label, *note; /* note: said after the bar, may be NULL */
    double parts[REPORT_MAX_PARTS];
    bool grey;
};

struct report_bars {
    const char *id, *label;
    const char *title; /* of the axis */
    enum pdl_unit unit;
    const char *const *parts;
    int nparts;
    const struct report_bar *bars;
    int nbars;
    double limit; /* a line across; 0: none */
    const char *limit_name;
    double cut;  /* bars longer than this are broken off; 0: none */
    bool shares; /* each is drawn as parts of 100 %; the whole stands beside */
};
void report_bars(struct pdl_sink *out, const struct report_bars *c);

/* ---- chart_waterfall.c, chart_tornado.c, chart_scatter.c, chart_gantt.c -- */

/* Parts one after the other up to their total, and a line for a limit. */
struct report_waterfall {
    const char *id, *label, *title;
    enum pdl_unit unit;
    const char *const *names;
    const double *values;
    int n;
    double limit;
    const char *limit_name;
};
void report_waterfall(struct pdl_sink *out, const struct report_waterfall *c);

/* What a change of each input does to a result, largest first. */
struct report_effect {
    const char *name;
    double value; /* the result then */
};
struct report_tornado {
    const char *id, *label, *title;
    enum pdl_unit unit;
    const char *less; /* what less of it is called; NULL: shorter */
    double today;
    struct report_effect *effects; /* sorted here */
    int n;
};
void report_tornado(struct pdl_sink *out, const struct report_tornado *c);

/* Points with names. */
struct report_point {
    const char *name;
    double x, y;
    int colour;
    bool grey, ring; /* ring: drawn large, with its number beside it */
    int number;      /* 0: rings that are joined are counted */
};
struct report_scatter {
    const char *id, *label;
    struct report_axis x, y;
    const struct report_point *points;
    int n;
    const char *const *names; /* of the colours, for the legend */
    int nnames;
    bool joined;  /* a staircase through the rings */
    double limit; /* of y, a line across; 0: none */
    double band;  /* x = y, and this share to both sides; 0: none */
    const char *limit_name;
};
void report_scatter(struct pdl_sink *out, struct report_scatter *c);

/* Tasks in rows against time, drawn by the page's script from the page's own
 * data: path says where in them ("plans.0.schedule"). */
struct report_gantt {
    const char *id, *label, *path;
    const char *const *kinds;
    int nkinds;
    unsigned used; /* bit k: there are tasks of kind k */
    int nrows;
};
void report_gantt(struct pdl_sink *out, const struct report_gantt *c);
extern const char report_script[]; /* script.c */
extern const char report_script_hash[];

/* ---- svg.c: what charts share ------------------------------------------ */

/* Every chart is drawn twice, for a desk (and paper) and for a phone; the style
 * shows one of the two. */
enum { REPORT_BROAD = 1000, REPORT_NARROW = 360 };
struct report_frame {
    bool narrow;
    double left, right, top, bottom; /* of what the axes span */
};
/* Pixels that n characters take at most, mostly. */
double report_width(int n);
/* Grid, ticks and titles of two axes; sets from and to of both. */
void report_axes(struct pdl_sink *out, struct report_axis *x,
                 struct report_axis *y, const struct report_frame *f);
/* Where the plot of two axes begins: beside the ticks' texts. */
double report_axes_left(const struct report_axis *y, bool narrow);
/* Text in lines of at most so many characters, broken after a comma or a
 * space; y is of the first. Returns the lines; with out NULL it only counts. */
int report_svg_lines(struct pdl_sink *out, const char *attrs, double x,
                     double y, const char *text, int columns);
enum { REPORT_LINE = 15 }; /* pixels from line to line */

/* The width says for whom it is: REPORT_NARROW adds "-narrow" to the id. */
void report_svg(struct pdl_sink *out, const char *id, const char *class,
                const char *label, int width, int height);
void report_svg_end(struct pdl_sink *out);
void report_svg_line(struct pdl_sink *out, const char *class, double x1,
                     double y1, double x2, double y2);
void report_svg_text(struct pdl_sink *out, const char *attrs, double x,
                     double y, const char *text);
/* Left open, for a tip; ends with </rect>. */
void report_svg_rect(struct pdl_sink *out, const char *class, double x,
                     double y, double w, double h);

/* ---- graph.c, layout.c, chart_graph.c: networks ------------------------ */

struct report_vertex {
    char name[24];
    int level;    /* 0: host; else distance from the nearest host */
    int parent;   /* a neighbour one level up, -1: none */
    int64_t many; /* vertices it stands for */
    double x, y;
};

struct report_edge {
    int a, b;
    int64_t bytes[2];   /* a to b, b to a */
    double heat;        /* largest share of a link's capacity that was used */
    double bytes_per_s; /* of the quickest of its links */
};

enum report_layout { REPORT_CIRCLE, REPORT_GRID, REPORT_LEVELS };

struct report_graph {
    pdl_arena *arena;
    struct report_vertex *v;
    struct report_edge *e;
    int nv, ne;
    int of; /* vertices of the network itself */
    enum report_layout layout;
    int64_t dims[8]; /* GRID */
    int ndims;
    double w, h;
    double pitch; /* GRID: between neighbours */
    bool used;    /* heat is known */
};

enum { REPORT_MAX_VERTICES = 500, REPORT_MAX_EDGES = 5000 };

/* bytes (nlinks of them) and time_s: what was sent; NULL: not known. */
enum pdl_status report_graph_make(pdl_arena *a, const struct pdl_net *net,
                                  const int64_t *bytes, double time_s,
                                  struct report_graph *g, struct pdl_err *err);
void report_layout(struct report_graph *g);
void report_graph_draw(struct pdl_sink *out, const char *id, const char *label,
                       const struct report_graph *g);

/* ---- network.c: a network with its heat, as a section ------------------ */

struct report_heat {
    const char *topology, *what; /* what: "ring, 16 MiB" */
    double time_s;
    const int64_t *bytes; /* of link i; NULL: not known */
    int64_t nbytes;
};
void report_network(struct pdl_sink *out, const char *id,
                    const struct report_heat *heat);

/* ---- read.c: values of the document ------------------------------------ */

/* Sticky: after the first failure everything is 0 or "". */
struct report_reader {
    struct pdl_err *err;
    enum pdl_status st;
};
double report_get_num(struct report_reader *r, const struct pdl_doc *map,
                      const char *key);
int64_t report_get_int(struct report_reader *r, const struct pdl_doc *map,
                       const char *key);
const char *report_get_str(struct report_reader *r, const struct pdl_doc *map,
                           const char *key);
bool report_get_bool(struct report_reader *r, const struct pdl_doc *map,
                     const char *key);
/* A list (or, with `map`, a map); fails when it is absent. */
const struct pdl_doc *report_get_list(struct report_reader *r,
                                      const struct pdl_doc *map,
                                      const char *key);
const struct pdl_doc *report_get_map(struct report_reader *r,
                                     const struct pdl_doc *map,
                                     const char *key);
/* The text of a key that may be absent: NULL. */
const char *report_opt_str(const struct pdl_doc *map, const char *key);

/* ---- pages ------------------------------------------------------------- */

struct report_page {
    pdl_arena *arena;
    const struct pdl_doc *doc;
    struct pdl_sink *out;
    struct report_reader rd;
    const char *const *assumptions; /* for the foot */
};

struct report_page_kind {
    const char *schema; /* "plan" */
    void (*write)(struct report_page *p);
};
extern const struct report_page_kind report_page_plan, report_page_compare,
    report_page_simulate, report_page_project, report_page_scale,
    report_page_validate, report_page_federate, report_page_design,
    report_page_sides, report_page_fit_in;

/* ---- pictures.c: sections about one plan ------------------------------- */

struct report_view {
    struct report_page *p;
    const struct pdl_doc *plan; /* the fields of `project` */
    const char *path;           /* of it in the document: "plans.0.", "" */
};

/* One picture a file; to add one: write picture_x.c, declare it here, add one
 * line in pictures.c. */
struct report_picture {
    const char *id, *title;
    bool (*has)(const struct report_view *v);
    void (*draw)(const struct report_view *v);
};
extern const struct report_picture report_picture_words, report_picture_phases,
    report_picture_waterfall, report_picture_stages, report_picture_schedule,
    report_picture_outofcore, report_picture_gains, report_picture_links;
void report_pictures(const struct report_view *v);
/* What else a title must say: tokens of a sample, precision and optimizer; the
 * framework. */
const char *report_how(struct report_page *p);
const char *report_whose(struct report_page *p);
/* The numbers that everybody asks for, as tiles. */
void report_tiles(const struct report_view *v);
/* picture_scaling.c: throughput against PEs, of a list of projections. */
void report_scaling(struct report_page *p, const struct pdl_doc *points,
                    const char *what);
/* picture_front.c: time against memory. */
void report_front(struct report_page *p, const struct pdl_doc *front,
                  const struct pdl_doc *plans);
/* picture_gains.c: a resource of the JSON, as people say it. */
const char *report_resource(pdl_arena *a, const char *resource);
/* What all pages of projections assume. */
void report_assume(struct report_page *p);

/* The parts of a step and of memory: names and keys of the JSON. */
enum { REPORT_TIMES = 6, REPORT_MEMORY = 7 };
extern const char *const report_time_names[REPORT_TIMES];
extern const char *const report_memory_names[REPORT_MEMORY];
void report_read_times(struct report_reader *rd, const struct pdl_doc *time,
                       double *parts);
/* Returns the peak; the last part is what no other has. */
double report_read_memory(struct report_reader *rd,
                          const struct pdl_doc *memory, double *parts);

#endif
