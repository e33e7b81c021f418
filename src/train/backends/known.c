/* SPDX-License-Identifier: Apache-2.0
 *
 * What a backend found out by trying, kept for later runs: lines
 * "key<tab>value<tab>sum" in a file of the user's cache. Lines are only added,
 * each by one write, so several processes may do so; a line whose sum is not
 * that of its text is nobody's, and of equal keys the last counts. Without a
 * place for it nothing is kept. */
#include "paradl/plan.h"
#include "train/backends/kernels.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct line {
    struct line *next;
    const char *key, *value;
};

struct train_known {
    pdl_arena *arena;
    char path[512];
    struct line *lines; /* the last first */
};

static bool find_path(const char *name, char *path, size_t n)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int len = 0;

    if (cache && *cache)
        len = snprintf(path, n, "%s", cache);
    else if (home && *home)
        len = snprintf(path, n, "%s/.cache", home);
    if (len <= 0 || (size_t)len + strlen(name) + 16 > n)
        return false;
    (void)!mkdir(path, 0777);
    len += snprintf(path + len, n - (size_t)len, "/paradl");
    (void)!mkdir(path, 0777);
    snprintf(path + len, n - (size_t)len, "/%s", name);
    return true;
}

static void add(struct train_known *k, const char *key, const char *value)
{
    struct line *l = PDL_NEW(k->arena, struct line, 1);

    if (!l || !key || !value)
        return;
    *l = (struct line){k->lines, key, value};
    k->lines = l;
}

enum { SUM = 16 }; /* digits */

static void sum_of(const char *text, size_t n, char sum[SUM + 1])
{
    snprintf(sum, SUM + 1, "%016llx",
             (unsigned long long)pdl_plan_hash((struct pdl_bytes){text, n}));
}

/* The value of a line, whose key then ends; NULL: it is damaged. */
static char *parse_line(char *line, size_t n)
{
    char *key_end = strchr(line, '\t'), *end = strrchr(line, '\t');
    char sum[SUM + 1];

    if (end == key_end || line[n - 1] != '\n')
        return NULL;
    line[n - 1] = '\0';
    sum_of(line, (size_t)(end - line), sum);
    if (strcmp(end + 1, sum) != 0)
        return NULL;
    *key_end = *end = '\0';
    return key_end + 1;
}

static void read_lines(struct train_known *k)
{
    FILE *f = fopen(k->path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    while (f && (n = getline(&line, &room, f)) > 0) {
        char *value = parse_line(line, (size_t)n);

        if (value)
            add(k, pdl_arena_strdup(k->arena, line),
                pdl_arena_strdup(k->arena, value));
    }
    free(line);
    if (f)
        fclose(f);
}

struct train_known *train_known_open(pdl_arena *a, const char *name)
{
    struct train_known *k = PDL_NEW(a, struct train_known, 1);

    if (!k)
        return NULL;
    *k = (struct train_known){.arena = a};
    if (find_path(name, k->path, sizeof k->path))
        read_lines(k);
    else
        k->path[0] = '\0';
    return k;
}

const char *train_known_find(const struct train_known *k, const char *key)
{
    for (const struct line *l = k ? k->lines : NULL; l; l = l->next)
        if (strcmp(l->key, key) == 0)
            return l->value;
    return NULL;
}

void train_known_add(struct train_known *k, const char *key, const char *value)
{
    size_t n = strlen(key) + 1, end = n + strlen(value);
    size_t room = end + SUM + 3;
    char *text = k ? malloc(room) : NULL, sum[SUM + 1];
    int fd = -1;

    if (text && k->path[0])
        fd = open(k->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) {
        snprintf(text, room, "%s\t%s", key, value);
        for (size_t i = n; i < end; i++) /* of a value one line */
            if (text[i] == '\n')
                text[i] = ' ';
        sum_of(text, end, sum);
        snprintf(text + end, room - end, "\t%s\n", sum);
        (void)!write(fd, text, room - 1);
        close(fd);
    }
    free(text);
    if (k)
        add(k, pdl_arena_strdup(k->arena, key),
            pdl_arena_strdup(k->arena, value));
}
