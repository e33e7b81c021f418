/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a shell script that starts a job, read and not run: quotes,
 * comments, line continuations; NAME=value and NAME+=value; $NAME, ${NAME},
 * ${NAME:-default} and sums in $((...)) of what the file itself sets. Flags are
 * often kept in one quoted variable, so a word with blanks in it is taken as
 * several. Branches and loops are not followed: all their lines count, the
 * later win. */
#include "import.h"

#include <ctype.h>
#include <string.h>

enum { MAX_WORDS = 65536, MAX_VARIABLES = 512, MAX_VALUE = 65536 };

struct variable {
    const char *name, *value;
    int line;
    bool used;
};

struct script {
    struct report_words *out;
    const char *p, *end;
    int line;
    struct variable variable[MAX_VARIABLES];
    int nvariables;
};

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_name(const char *s, size_t n)
{
    if (n == 0 || isdigit((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_letter(s[i]))
            return false;
    return true;
}

/* A default may stand in quotes: ${NODES:-"1"}. */
static const char *bare(pdl_arena *a, const char *s, size_t n)
{
    if (n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n - 1] == s[0])
        s++, n -= 2;
    return pdl_arena_strndup(a, s, n);
}

static struct variable *find(struct script *s, const char *name, size_t n)
{
    for (int i = s->nvariables - 1; i >= 0; i--)
        if (strlen(s->variable[i].name) == n &&
            memcmp(s->variable[i].name, name, n) == 0)
            return &s->variable[i];
    return NULL;
}

/* ---- sums -------------------------------------------------------------- */

/* The text of $((...)), from left to right; `bad` sticks. */
struct sum {
    struct script *s;
    const char *p, *end;
    int depth;
    bool bad;
};

static int64_t sum_of(struct sum *x);

static char peek(struct sum *x)
{
    while (x->p < x->end && isspace((unsigned char)*x->p))
        x->p++;
    return x->p < x->end ? *x->p : '\0';
}

/* 12, NAME, $NAME, ${NAME} or (...) */
static int64_t atom(struct sum *x)
{
    const struct variable *v;
    const char *from;
    int64_t n = 0;
    size_t length;

    if (peek(x) == '(') {
        x->p++;
        n = ++x->depth < 20 ? sum_of(x) : 0;
        x->bad = x->bad || x->depth-- >= 20 || peek(x) != ')';
        x->p += !x->bad;
        return n;
    }
    while (x->p < x->end && (*x->p == '$' || *x->p == '{'))
        x->p++;
    for (from = x->p; x->p < x->end && is_letter(*x->p);)
        x->p++;
    length = (size_t)(x->p - from);
    x->p += x->p < x->end && *x->p == '}';
    v = is_name(from, length) ? find(x->s, from, length) : NULL;
    from = v ? v->value : pdl_arena_strndup(x->s->out->arena, from, length);
    if (!from || pdl_int_parse(from, 0, (int64_t)1 << 48, &n, NULL) != PDL_OK)
        x->bad = true;
    return n;
}

static int64_t product_of(struct sum *x)
{
    int64_t v = atom(x);

    for (char c = peek(x); !x->bad && (c == '*' || c == '/' || c == '%');
         c = peek(x)) {
        int64_t right;

        x->p++;
        right = atom(x);
        if (c == '*')
            x->bad = x->bad || !pdl_mul64(v, right, &v);
        else if (right == 0)
            x->bad = true;
        else
            v = c == '/' ? v / right : v % right;
    }
    return v;
}

static int64_t sum_of(struct sum *x)
{
    int64_t v = product_of(x);

    for (char c = peek(x); !x->bad && (c == '+' || c == '-'); c = peek(x)) {
        int64_t right;

        x->p++;
        right = product_of(x);
        x->bad = x->bad || !pdl_add64(v, c == '+' ? right : -right, &v);
    }
    return v;
}

/* Characters from "$(" to the bracket that closes it; 0: none does. */
static size_t bracketed(const char *t, size_t left)
{
    int depth = 0;

    for (size_t i = 1; i < left; i++) {
        depth += t[i] == '(';
        depth -= t[i] == ')';
        if (depth == 0)
            return i + 1;
    }
    return 0;
}

/* $((...)) is its value; what cannot be known stays as it is written. */
static size_t substitute(struct script *s, const char *t, size_t left,
                         struct pdl_sink *out)
{
    size_t n = bracketed(t, left);
    struct sum x = {.s = s, .p = t + 3, .end = t + n - 2};
    int64_t v;

    if (n >= 6 && t[2] == '(' && t[n - 2] == ')') {
        v = sum_of(&x);
        if (!x.bad && peek(&x) == '\0') {
            pdl_printf(out, "%lld", (long long)v);
            return n;
        }
    }
    pdl_put(out, t, n);
    return n;
}

/* ---- words ------------------------------------------------------------- */

/* The '}' that closes a '{' before t; NULL: none does. */
static const char *closing(const char *t, size_t left)
{
    int depth = 1;

    for (size_t i = 0; i < left; i++) {
        depth += t[i] == '{';
        depth -= t[i] == '}';
        if (depth == 0)
            return t + i;
    }
    return NULL;
}

/* What begins with $. Returns how many characters of the text it took. */
static size_t expand(struct script *s, const char *t, size_t left,
                     struct pdl_sink *out)
{
    bool braced = left > 1 && t[1] == '{';
    size_t at = braced ? 2 : 1, n = 0, close;
    struct variable *found;
    const char *v;

    if (left > 1 && t[1] == '(')
        return substitute(s, t, left, out);
    while (at + n < left && is_letter(t[at + n]))
        n++;
    found = find(s, t + at, n);
    v = found ? found->value : NULL;
    close = at + n;
    if (braced) {
        const char *b = closing(t + close, left - close);

        if (!b)
            return 0;
        if (!v && close + 2 < left && t[close] == ':' && t[close + 1] == '-')
            v = bare(s->out->arena, t + close + 2,
                     (size_t)(b - (t + close + 2)));
        close = (size_t)(b - t) + 1;
    }
    if (!v || n == 0)
        return 0;
    if (found)
        found->used = true;
    pdl_puts(out, v);
    return close;
}

static bool ends_word(char c)
{
    return isspace((unsigned char)c) || (c && strchr("();&|", c) != NULL);
}

static void skip_blanks(struct script *s)
{
    while (s->p < s->end) {
        if (*s->p == '\\' && s->p + 1 < s->end && s->p[1] == '\n') {
            s->p += 2;
            s->line++;
        } else if (*s->p == '#') {
            while (s->p < s->end && *s->p != '\n')
                s->p++;
        } else if (ends_word(*s->p)) {
            s->line += *s->p == '\n';
            s->p++;
        } else {
            return;
        }
    }
}

/* One word without its quotes, variables put in. */
static bool take_word(struct script *s, struct pdl_buf *b)
{
    char quote = 0;

    while (s->p < s->end && (quote || !ends_word(*s->p)) &&
           b->len < MAX_VALUE) {
        size_t used = 0;

        if (*s->p == '\n')
            s->line++;
        if (quote ? *s->p == quote : (*s->p == '"' || *s->p == '\'')) {
            quote = quote ? 0 : *s->p;
            s->p++;
            continue;
        }
        if (*s->p == '\\' && quote != '\'' && s->p + 1 < s->end) {
            pdl_put(&b->sink, s->p[1] == '\n' ? " " : s->p + 1, 1);
            s->line += s->p[1] == '\n';
            s->p += 2;
            continue;
        }
        if (*s->p == '$' && quote != '\'')
            used = expand(s, s->p, (size_t)(s->end - s->p), &b->sink);
        if (used == 0 && *s->p != '\0')
            pdl_put(&b->sink, s->p, 1);
        s->p += used ? used : 1;
    }
    return !b->sink.failed && quote == 0 && b->len < MAX_VALUE;
}

/* NAME=value and NAME+=value set a variable: a later word may hold it. */
static bool set_variable(struct script *s, const char *text)
{
    const char *eq = strchr(text, '=');
    bool more = eq && eq > text && eq[-1] == '+';
    size_t n = eq ? (size_t)(eq - text) - more : 0;
    pdl_arena *a = s->out->arena;
    struct variable *old, *v;

    if (!eq || !is_name(text, n))
        return false;
    old = find(s, text, n);
    v = old ? old : &s->variable[s->nvariables];
    if (!old && s->nvariables == MAX_VARIABLES)
        return true;
    text = pdl_arena_strndup(a, text, n);
    eq = more && old && strlen(old->value) + strlen(eq) < MAX_VALUE
             ? pdl_arena_printf(a, "%s%s", old->value, eq + 1)
             : pdl_arena_strdup(a, eq + 1);
    if (!text || !eq)
        return true;
    *v = (struct variable){text, eq, s->line, false};
    s->nvariables += !old;
    return true;
}

/* The parts of a word between blanks. */
static enum pdl_status add_words(struct script *s, const char *text, int line,
                                 struct pdl_err *err)
{
    static const char blanks[] = " \t\r\n";

    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t n = strcspn(text, blanks);
        const char *one = pdl_arena_strndup(s->out->arena, text, n);

        if (!one)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (s->out->n == MAX_WORDS)
            return pdl_fail(err, PDL_EPARSE, "%s:%d: more than %d words",
                            s->out->name, line, MAX_WORDS);
        text += n;
        s->out->word[s->out->n++] = (struct report_word){
            one, line, !*text && s->p < s->end && *s->p == ')'};
    }
    return PDL_OK;
}

static enum pdl_status split(struct script *s, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    struct pdl_buf b;

    for (skip_blanks(s); st == PDL_OK && s->p < s->end; skip_blanks(s)) {
        int line = s->line;
        const char *text;
        bool ok;

        pdl_buf_init(&b);
        ok = take_word(s, &b);
        text = pdl_arena_strdup(s->out->arena, b.text ? b.text : "");
        pdl_buf_free(&b);
        if (!ok)
            return pdl_fail(err, PDL_EPARSE,
                            "%s:%d: a quote is not closed, or the word is "
                            "longer than %d characters",
                            s->out->name, line, MAX_VALUE);
        if (!text)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (!set_variable(s, text))
            st = add_words(s, text, line, err);
    }
    return st;
}

enum pdl_status report_words(pdl_arena *a, struct pdl_bytes in,
                             const char *name, struct report_words *out,
                             struct pdl_err *err)
{
    struct script *s = PDL_NEW(a, struct script, 1);
    enum pdl_status st;

    *out = (struct report_words){
        .arena = a,
        .name = name,
        .word = PDL_NEW(a, struct report_word, MAX_WORDS)};
    if (!s || !out->word)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    s->out = out;
    s->p = in.data;
    s->end = s->p + in.len;
    s->line = 1;
    st = split(s, err);
    /* flags for another file to use */
    for (int i = 0; st == PDL_OK && i < s->nvariables; i++)
        if (!s->variable[i].used && strstr(s->variable[i].value, "--"))
            st = add_words(s, s->variable[i].value, s->variable[i].line, err);
    return st;
}

/* ---- what the scheduler is asked for ----------------------------------- */

/* The number after the option, its '=' or blanks, or the last ':' of a list of
 * resources (gpu:h100:8); 0: none. */
static int64_t number_after(const char *p, const char *end)
{
    const char *colon = NULL;
    int64_t v = 0;

    while (p < end && (*p == '=' || *p == ' ' || *p == '\t'))
        p++;
    for (const char *q = p; q < end && !isspace((unsigned char)*q); q++)
        if (*q == ':')
            colon = q;
    for (p = colon ? colon + 1 : p;
         p < end && isdigit((unsigned char)*p) && v < 1 << 24; p++)
        v = v * 10 + (*p - '0');
    return v;
}

static void sbatch_line(const char *p, const char *end, int64_t *nodes,
                        int64_t *per_node, int *rank)
{
    /* GPUs say more than tasks: a task may drive several */
    static const struct {
        const char *option;
        int rank; /* 0: nodes */
    } options[] = {{"--nodes", 0},
                   {"-N", 0},
                   {"--ntasks-per-node", 1},
                   {"--gpus-per-node", 2},
                   {"--gres", 2}};

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        size_t n = strlen(options[i].option);
        int64_t v;

        if ((size_t)(end - p) <= n || memcmp(p, options[i].option, n) != 0 ||
            !strchr("= \t", p[n]))
            continue;
        v = number_after(p + n, end);
        if (v > 0 && options[i].rank == 0) {
            *nodes = v;
        } else if (v > 0 && options[i].rank > *rank) {
            *per_node = v;
            *rank = options[i].rank;
        }
    }
}

void report_sbatch(struct pdl_bytes in, int64_t *nodes, int64_t *per_node)
{
    static const char word[] = "#SBATCH";
    const char *p = in.data, *end = p + in.len;
    int64_t n = *nodes, g = *per_node;
    int rank = 0;

    while (p < end) {
        const char *e = memchr(p, '\n', (size_t)(end - p));

        e = e ? e : end;
        if ((size_t)(e - p) > sizeof word &&
            memcmp(p, word, sizeof word - 1) == 0) {
            p += sizeof word - 1;
            while (p < e && isspace((unsigned char)*p))
                p++;
            sbatch_line(p, e, &n, &g, &rank);
        }
        p = e < end ? e + 1 : end;
    }
    *nodes = *nodes > 0 ? *nodes : n;
    *per_node = *per_node > 0 ? *per_node : g;
}
