/* paradl/base.h - what every room stands on: errors, memory, units, files,
 * text in and text out. Knows nothing of networks, machines or plans.
 *
 * Conventions of the whole library:
 *  - a function that can fail returns enum pdl_status and takes a
 *    struct pdl_err last (NULL allowed); outputs are written only on success;
 *  - nothing prints, exits or keeps global state;
 *  - descriptions live in a caller's arena, so there is nothing to free;
 *  - sizes and counts are int64_t, times seconds, rates per second. */
#ifndef PARADL_BASE_H
#define PARADL_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define PDL_BEGIN extern "C" {
#define PDL_END   }
#else
#define PDL_BEGIN
#define PDL_END
#endif

#define PDL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

PDL_BEGIN

/* ---- version ---------------------------------------------------------- */

#define PDL_VERSION_MAJOR 0
#define PDL_VERSION_MINOR 2
#define PDL_VERSION_PATCH 0

const char *pdl_version(void); /* "0.2.0" */

/* ---- status and errors ------------------------------------------------ */

#define PDL_STATUS_LIST(X)                        \
    X(OK, "no error")                             \
    X(ENOMEM, "out of memory")                    \
    X(EIO, "input or output failed")              \
    X(EPARSE, "malformed input")                  \
    X(EINVAL, "invalid argument")                 \
    X(ENOENV, "not possible in this environment") \
    X(EINTR, "interrupted")                       \
    X(EWRONG, "a self-check failed")

enum pdl_status {
#define X(name, text) PDL_##name,
    PDL_STATUS_LIST(X)
#undef X
};

/* What went wrong, for the person at the terminal. The function that first
 * knows the cause writes it; callers pass it up untouched. msg is one line
 * without a final dot, "file:line:col: what"; hint says what to do ("" for
 * none). */
struct pdl_err {
    char msg[512];
    char hint[256];
};

/* Writes the message and clears the hint; err may be NULL. Control characters
 * are replaced, so that hostile input cannot write to the terminal. */
void pdl_say(struct pdl_err *err, const char *fmt, ...) PDL_PRINTF(2, 3);

/* return pdl_fail(err, PDL_EPARSE, "..."): says it and is the status. A macro
 * so that compilers and analysers see which status it is. */
#define pdl_fail(err, st, ...) (pdl_say((err), __VA_ARGS__), pdl_same(st))

static inline enum pdl_status pdl_same(enum pdl_status st)
{
    return st;
}

/* Adds a hint to a message already written; err may be NULL. */
void pdl_hint(struct pdl_err *err, const char *fmt, ...) PDL_PRINTF(2, 3);

const char *pdl_status_text(enum pdl_status st);

/* ---- arena ------------------------------------------------------------ */

/* Everything allocated from an arena lives until the arena is destroyed.
 * The limit bounds what hostile input can make us allocate, and starves
 * functions in tests. Memory is zeroed. */
typedef struct pdl_arena pdl_arena;

#define PDL_ARENA_DEFAULT ((size_t)1 << 30)

pdl_arena *pdl_arena_create(size_t limit_bytes);
void pdl_arena_destroy(pdl_arena *a); /* NULL is allowed */
/* Empties it, keeping its memory for what comes next. */
void pdl_arena_reset(pdl_arena *a);
/* About so many bytes will be asked for: one block for them, rather than many
 * that double. A hint: allocations fail where they failed, and no earlier. */
void pdl_arena_expect(pdl_arena *a, size_t bytes);
void *pdl_arena_alloc(pdl_arena *a, size_t count, size_t size);
/* Grows an array: a fresh copy of old[0..count) with room for cap. */
void *pdl_arena_grow(pdl_arena *a, const void *old, size_t count, size_t cap,
                     size_t size);
char *pdl_arena_strndup(pdl_arena *a, const char *s, size_t len);
char *pdl_arena_strdup(pdl_arena *a, const char *s);
char *pdl_arena_printf(pdl_arena *a, const char *fmt, ...) PDL_PRINTF(2, 3);
size_t pdl_arena_used(const pdl_arena *a);

#define PDL_NEW(arena, type, n) \
    ((type *)pdl_arena_alloc((arena), (size_t)(n), sizeof(type)))

/* ---- checked arithmetic ----------------------------------------------- */

/* False on overflow; *out is then untouched. Arguments may be negative. */
bool pdl_add64(int64_t a, int64_t b, int64_t *out);
bool pdl_mul64(int64_t a, int64_t b, int64_t *out);
/* Product of n dimensions, each >= 0; the empty product is 1. */
bool pdl_prod64(const int64_t *dims, int n, int64_t *out);

/* ---- boxes ------------------------------------------------------------ */

enum { PDL_BOX_DIMS = 9 }; /* a tensor of rank 8 and the batch */

/* [lo, hi) in each dimension; empty when any hi <= lo. A box of no
 * dimensions holds one element. */
struct pdl_box {
    int ndims;
    int64_t lo[PDL_BOX_DIMS], hi[PDL_BOX_DIMS];
};
bool pdl_box_empty(const struct pdl_box *b);
int64_t pdl_box_volume(const struct pdl_box *b);
/* The common part; false (and an empty box) when there is none. */
bool pdl_box_intersect(const struct pdl_box *a, const struct pdl_box *b,
                       struct pdl_box *out);
/* Items of `part` that lie side by side in the memory of `whole`; all of them:
 * the part is one run. channels_last: dimension 1 is the innermost one (of
 * boxes with at least three dimensions). */
int64_t pdl_box_run(const struct pdl_box *whole, const struct pdl_box *part,
                    bool channels_last);

/* ---- units ------------------------------------------------------------ */

enum pdl_unit {
    PDL_UNIT_NONE,    /* a plain number; k, M, G, T, P, E allowed */
    PDL_UNIT_BYTES,   /* 32MiB, 80GB, 100B */
    PDL_UNIT_BYTES_S, /* 12.5GB/s, 400Gbps, 50GiB/s */
    PDL_UNIT_SECONDS, /* 5us, 3ms, 1.5s, 10ns, 2min, 1h, 1d */
    PDL_UNIT_FLOP_S,  /* 312TFLOP/s, 1.07PFLOP/s */
    PDL_UNIT_WATT,    /* 700W, 1.2kW, 20MW */
    PDL_UNIT_METRE,   /* 5m, 30cm */
    PDL_UNIT_HERTZ,   /* 1.98GHz */
    PDL_NUNITS
};

/* Parses a number with its unit into SI base units. A bare number where a
 * unit is needed is refused with a hint ("0" is accepted). The message has no
 * file position: the caller that knows it adds it. */
enum pdl_status pdl_unit_parse(const char *text, enum pdl_unit unit,
                               double *out, struct pdl_err *err);
/* strtod with a point in every locale. */
double pdl_strtod(const char *text, char **end);
/* A whole number in [min, max], with no unit. */
enum pdl_status pdl_int_parse(const char *text, int64_t min, int64_t max,
                              int64_t *out, struct pdl_err *err);
/* The same for bytes: 32MiB must be a whole number of bytes. */
enum pdl_status pdl_bytes_parse(const char *text, int64_t *out,
                                struct pdl_err *err);
/* Writes a number for people, three significant digits: "31.2 GiB",
 * "12.5 GB/s", "5 us", "8.03 G". Returns buf. */
const char *pdl_unit_format(double value, enum pdl_unit unit, char *buf,
                            size_t size);
/* Writes a number that pdl_unit_parse reads back to the same double. */
const char *pdl_unit_print(double value, enum pdl_unit unit, char *buf,
                           size_t size);

/* ---- random numbers --------------------------------------------------- */

/* Philox 4x32-10 (Salmon et al., SC 2011): a pure function of key and
 * counter, the same on every machine and in any order. */
struct pdl_rng4 {
    uint32_t v[4];
};
struct pdl_rng4 pdl_philox(uint64_t key, uint64_t hi, uint64_t lo);
/* Many at once, several counters side by side: out[i] is word w % 4 of counter
 * w / 4, w = first + i. */
void pdl_philox_words(uint64_t key, uint64_t hi, uint64_t first, int64_t n,
                      uint32_t *out);

/* A stream over it for places that want one number after another. */
struct pdl_rng {
    uint64_t key, stream, next;
};
uint64_t pdl_rng_u64(struct pdl_rng *r);
uint64_t pdl_rng_below(struct pdl_rng *r, uint64_t n); /* unbiased; n > 0 */
double pdl_rng_unit(struct pdl_rng *r);                /* [0, 1) */

/* ---- numbers of two bytes --------------------------------------------- */

/* bfloat16: to the nearest, ties to even; what is no number stays so. */
uint16_t pdl_to_bf16(float f);
void pdl_narrow(const float *from, int64_t n, uint16_t *to);

/* ---- files ------------------------------------------------------------ */

/* A file's bytes, followed by one zero byte that is not counted. */
struct pdl_bytes {
    const char *data;
    size_t len;
};

/* Reads a whole file (or "-": standard input) of at most max bytes. */
enum pdl_status pdl_file_read(pdl_arena *a, const char *path, size_t max,
                              struct pdl_bytes *out, struct pdl_err *err);
/* Maps a regular file read-only, for files too large to hold. No zero byte. */
enum pdl_status pdl_file_map(const char *path, struct pdl_bytes *out,
                             struct pdl_err *err);
void pdl_file_unmap(struct pdl_bytes *map);
/* Inflates gzip data, all members of it, or passes plain data through (then
 * without a zero byte of its own); either way at most max bytes. */
enum pdl_status pdl_gunzip(pdl_arena *a, struct pdl_bytes in, const char *name,
                           size_t max, struct pdl_bytes *out,
                           struct pdl_err *err);
/* Writes to a temporary name beside path, syncs, renames: a reader sees the
 * old file or the new one, never half of it. An old file keeps its mode, a
 * symbolic link stays one, and what is no regular file (/dev/null, a pipe) is
 * written in place. */
enum pdl_status pdl_file_write(const char *path, const void *data, size_t len,
                               struct pdl_err *err);

/* ---- text out --------------------------------------------------------- */

/* Where text goes. write returns false when it could not. */
struct pdl_sink {
    bool (*write)(void *ctx, const char *data, size_t len);
    void *ctx;
    bool failed; /* latches: later writes do nothing */
};

void pdl_put(struct pdl_sink *s, const char *data, size_t len);
void pdl_puts(struct pdl_sink *s, const char *text);
void pdl_printf(struct pdl_sink *s, const char *fmt, ...) PDL_PRINTF(2, 3);
void pdl_vprintf(struct pdl_sink *s, const char *fmt, va_list ap)
    PDL_PRINTF(2, 0);

/* A sink that grows in memory; text stays zero-ended. */
struct pdl_buf {
    struct pdl_sink sink; /* use &buf.sink */
    char *text;
    size_t len, cap;
};
void pdl_buf_init(struct pdl_buf *b);
void pdl_buf_free(struct pdl_buf *b);

/* JSON writer: commas, escapes and nesting are its business. Doubles are the
 * shortest text that reads back the same; not-a-number becomes null. */
struct pdl_json {
    struct pdl_sink *out;
    int depth;
    bool compact; /* one line */
    struct {
        bool array, any, flat;
    } level[72]; /* more than a document read may have */
    bool after_key;
};
void pdl_json_init(struct pdl_json *j, struct pdl_sink *out);
void pdl_json_object(struct pdl_json *j); /* { */
void pdl_json_array(struct pdl_json *j);  /* [ */
void pdl_json_flat(struct pdl_json *j);   /* [ ... on one line */
void pdl_json_row(struct pdl_json *j);    /* { ... on one line */
void pdl_json_end(struct pdl_json *j);    /* closes the innermost */
void pdl_json_key(struct pdl_json *j, const char *key);
void pdl_json_str(struct pdl_json *j, const char *s); /* NULL: null */
void pdl_json_int(struct pdl_json *j, int64_t v);
void pdl_json_num(struct pdl_json *j, double v);
void pdl_json_bool(struct pdl_json *j, bool v);
/* Key and value in one call. */
void pdl_json_kstr(struct pdl_json *j, const char *key, const char *s);
void pdl_json_kint(struct pdl_json *j, const char *key, int64_t v);
void pdl_json_knum(struct pdl_json *j, const char *key, double v);
void pdl_json_kbool(struct pdl_json *j, const char *key, bool v);
/* Opens the object every command prints: {"schema": "paradl.<name>/1", */
void pdl_json_schema(struct pdl_json *j, const char *name);

/* ---- terminal --------------------------------------------------------- */

/* A table for people: columns are as wide as needed, numbers to the right,
 * names cut in the middle when the width (0: no limit) is too small. Those of
 * one column may keep their length: a name that is too long then has its line
 * to itself, broken after commas, and the row goes on below. */
struct pdl_column {
    const char *title; /* "" for none */
    bool right;
};
struct pdl_table {
    pdl_arena *arena;
    const struct pdl_column *columns;
    int ncolumns, nrows, cap;
    const char **cells; /* row-major; control characters replaced */
    int cursor;
    int whole; /* the column of whole names, from 1; 0: all are cut */
    enum pdl_status status;
};
void pdl_table_init(struct pdl_table *t, pdl_arena *a,
                    const struct pdl_column *columns, int ncolumns);
/* Appends the next cell; the first failure sticks. */
void pdl_table_cell(struct pdl_table *t, const char *fmt, ...) PDL_PRINTF(2, 3);
void pdl_table_print(const struct pdl_table *t, int width,
                     struct pdl_sink *out);
/* Breaks text at blanks before column 80 and ends the line; a word longer than
 * a line is broken after commas, or after plus signs where it has none. All
 * lines are indented; `at` is the column where the first one already stands. */
void pdl_wrap(struct pdl_sink *out, const char *text, int indent, int at);
/* Makes text safe to print: control characters, also those above 127, and
 * bytes that are not UTF-8 become '?'. */
void pdl_tame(char *s);
bool pdl_is_utf8(const char *s);
/* Columns a terminal shows for a UTF-8 text. */
int pdl_text_width(const char *s);

/* One line that is rewritten: at most 10 times a second, only after half a
 * second, only where `enabled` (a terminal). total 0: unknown. */
struct pdl_progress {
    struct pdl_sink *out; /* stderr */
    bool enabled;
    const char *what;
    int64_t total;
    double start_s, last_s;
    bool shown;
};
void pdl_progress_start(struct pdl_progress *p, struct pdl_sink *out,
                        bool enabled, const char *what, int64_t total);
void pdl_progress_step(struct pdl_progress *p, int64_t done);
void pdl_progress_end(struct pdl_progress *p); /* erases the line */

/* Runs body(ctx, i) for 0 <= i < n on so many threads (0: all cores), each
 * index once, in any order. A body that returns false stops the loop; then the
 * result is false and some indices were not run. */
bool pdl_parallel(int64_t n, int threads, bool (*body)(void *ctx, int64_t i),
                  void *ctx);
int pdl_cores(void);

/* The last cache before memory, and how many processors share it: there may be
 * more of its kind. bytes 0: nobody knows. folder: PDL_CACHES, or one like
 * it. */
#define PDL_CACHES "/sys/devices/system/cpu/cpu0/cache"
struct pdl_cache {
    int64_t bytes;
    int cpus;
};
struct pdl_cache pdl_last_cache(const char *folder);

double pdl_clock_s(void);            /* monotonic */
void pdl_sort(double *x, int64_t n); /* the least first; none is not a number */
double pdl_cpu_s(void);              /* CPU time of this process */

/* ---- machines that fail ------------------------------------------------ */

/* Seconds between checkpoints that cost cost_s each on a machine that fails
 * every mtbf_s (<= 0: never): Daly's optimum, but never so often that more
 * than max_overhead (say 0.035) of the time goes into them. */
double pdl_ckpt_interval_s(double cost_s, double mtbf_s, double max_overhead);
/* Expected seconds of work_s of work that is saved every interval_s, with
 * restart_s to go on after a failure. */
double pdl_run_s(double work_s, double interval_s, double cost_s,
                 double restart_s, double mtbf_s);
/* Part of a run's time that it waits, where every failure takes a node that is
 * back after repair_s, and so many others stand by. */
double pdl_waiting_part(int64_t spares, double repair_s, double mtbf_s);

/* ---- did you mean ----------------------------------------------------- */

/* Collects candidates; the closest one by edit distance wins, if close. */
struct pdl_suggest {
    const char *word, *best;
    int distance;
};
void pdl_suggest_init(struct pdl_suggest *s, const char *word);
void pdl_suggest_try(struct pdl_suggest *s, const char *candidate);
const char *pdl_suggest_best(const struct pdl_suggest *s); /* or NULL */

/* ---- documents: YAML and JSON in -------------------------------------- */

/* One tree for both, every node with its place in the file. Scalars stay
 * text, so that numbers keep their digits and units, and "no" is no trap.
 * Duplicate keys, nesting deeper than 64, NUL bytes, and YAML's aliases and
 * tags are refused. */
enum pdl_doc_kind { PDL_DOC_NULL, PDL_DOC_SCALAR, PDL_DOC_LIST, PDL_DOC_MAP };

struct pdl_doc {
    enum pdl_doc_kind kind;
    bool quoted;      /* the scalar stood in quotes */
    const char *key;  /* when it is a value of a map */
    const char *text; /* scalar */
    int line, col;    /* from 1 */
    int count;        /* children */
    const struct pdl_doc *child, *next;
    const char *file;
    int key_line, key_col;
};

enum pdl_status pdl_doc_yaml(pdl_arena *a, struct pdl_bytes in,
                             const char *name, const struct pdl_doc **out,
                             struct pdl_err *err);
/* Also accepts the NaN and Infinity that Python writes. */
enum pdl_status pdl_doc_json(pdl_arena *a, struct pdl_bytes in,
                             const char *name, const struct pdl_doc **out,
                             struct pdl_err *err);

/* The value of a key; NULL when absent or null. */
const struct pdl_doc *pdl_doc_get(const struct pdl_doc *map, const char *key);
/* Values. Each fails with "file:line:col: key: ..." */
enum pdl_status pdl_doc_int(const struct pdl_doc *d, int64_t min, int64_t max,
                            int64_t *out, struct pdl_err *err);
enum pdl_status pdl_doc_num(const struct pdl_doc *d, enum pdl_unit unit,
                            double min, double max, double *out,
                            struct pdl_err *err);
enum pdl_status pdl_doc_bool(const struct pdl_doc *d, bool *out,
                             struct pdl_err *err);
enum pdl_status pdl_doc_str(const struct pdl_doc *d, const char **out,
                            struct pdl_err *err);
/* Fails at a node: "file:line:col: ...". */
enum pdl_status pdl_doc_fail(const struct pdl_doc *d, struct pdl_err *err,
                             const char *fmt, ...) PDL_PRINTF(3, 4);
/* Fails on the first key of a map that is not in the NULL-ended list, with a
 * did-you-mean. */
enum pdl_status pdl_doc_only(const struct pdl_doc *map, const char *const *keys,
                             struct pdl_err *err);

/* ---- JSON too large to hold ---------------------------------------------- */

/* One token after the other, from a plain or a gzip file. */
enum pdl_token {
    PDL_TOKEN_END,    /* of the text */
    PDL_TOKEN_OBJECT, /* { */
    PDL_TOKEN_ARRAY,  /* [ */
    PDL_TOKEN_CLOSE,  /* the innermost of them */
    PDL_TOKEN_KEY,
    PDL_TOKEN_STRING,
    PDL_TOKEN_NUMBER, /* as written: pdl_strtod, pdl_int_parse */
    PDL_TOKEN_WORD,   /* true, false, null; Python's NaN, Infinity */
};
struct pdl_pull;
enum pdl_status pdl_pull_open(const char *path, struct pdl_pull **out,
                              struct pdl_err *err);
enum pdl_status pdl_pull_bytes(struct pdl_bytes in, const char *name,
                               struct pdl_pull **out, struct pdl_err *err);
/* *text (may be NULL) is the token's until the next call. */
enum pdl_status pdl_pull_next(struct pdl_pull *p, enum pdl_token *kind,
                              const char **text, struct pdl_err *err);
/* The whole value that comes next; as a member's, its key comes first. */
enum pdl_status pdl_pull_skip(struct pdl_pull *p, struct pdl_err *err);
/* Fails where the reader stands: "file:line:col: ...". */
enum pdl_status pdl_pull_fail(const struct pdl_pull *p, struct pdl_err *err,
                              const char *fmt, ...) PDL_PRINTF(3, 4);
void pdl_pull_close(struct pdl_pull *p); /* NULL is allowed */

/* ---- command tables --------------------------------------------------- */

/* One table describes a command; parsing, --help, the man page and the shell
 * completions are all made from it. */
enum pdl_opt_kind {
    PDL_OPT_FLAG,   /* bool */
    PDL_OPT_TEXT,   /* const char * */
    PDL_OPT_INT,    /* int64_t */
    PDL_OPT_COUNT,  /* int64_t from 1; 0 in the struct: not given */
    PDL_OPT_NUM,    /* double, plain number */
    PDL_OPT_AMOUNT, /* double above 0; 0 in the struct: not given */
    PDL_OPT_SIZE,   /* int64_t bytes */
    PDL_OPT_TIME,   /* double seconds */
};

struct pdl_opt {
    const char *name; /* without the dashes */
    char letter;      /* 0 for none */
    enum pdl_opt_kind kind;
    size_t offset;       /* into the command's options struct */
    const char *arg;     /* "FILE"; NULL for flags */
    const char *choices; /* "a|b|c" or NULL; checked by the parser */
    const char *help;    /* one line, no dot */
};

enum { PDL_MAX_ARGS = 16 };

/* What every command gets besides its own options. */
struct pdl_args {
    int npos;
    const char *pos[PDL_MAX_ARGS];
    void *opts;        /* the command's struct, zeroed then filled */
    uint64_t given[2]; /* bit i % 64 of word i / 64: option i of the command */
    bool json, help, quiet;
    bool verbose;
    const char *color;
};

struct pdl_cmd {
    const char *name; /* "model show" */
    const char *args; /* "MODEL" */
    int min_pos, max_pos;
    const char *summary; /* one line, lower case, no dot */
    const char *text;    /* paragraphs for the man page and --help */
    const char *example; /* one command line that runs as it is */
    const struct pdl_opt *opts;
    int nopts;
    size_t opts_size;
    int (*run)(const struct pdl_args *args); /* an exit code */
    bool no_json; /* its result has a form of its own */
};

extern const struct pdl_opt pdl_common_opts[]; /* --json, --help ... */
extern const int pdl_ncommon_opts;

/* argv holds what follows the command's name; it is not changed. opts_size
 * zeroed bytes at args->opts must be provided. Option names must be whole
 * (no abbreviations); the last of two wins; "--" ends options; "-" and
 * negative numbers are arguments. */
enum pdl_status pdl_opts_parse(const struct pdl_cmd *cmd, int argc, char **argv,
                               struct pdl_args *args, struct pdl_err *err);
/* Was this option of the command on the command line? */
bool pdl_opt_given(const struct pdl_cmd *cmd, const struct pdl_args *args,
                   const char *name);
void pdl_help_print(const char *program, const struct pdl_cmd *cmd,
                    struct pdl_sink *out);
void pdl_man_print(const char *program, const struct pdl_cmd *cmd,
                   struct pdl_sink *out);
/* shell: "bash", "zsh" or "fish"; false when it is none of them. */
bool pdl_completion_print(const char *program,
                          const struct pdl_cmd *const *cmds, int ncmds,
                          const char *shell, struct pdl_sink *out);
/* The same, which also offers names where a table's argument begins with what
 * they are of: of "MODEL" "resnet50 vgg16". Up to the first without `of`. */
struct pdl_completion_names {
    const char *of, *names; /* by blanks */
};
bool pdl_completion_print_names(const char *program,
                                const struct pdl_cmd *const *cmds, int ncmds,
                                const struct pdl_completion_names *names,
                                const char *shell, struct pdl_sink *out);

PDL_END
#endif
