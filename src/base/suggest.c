/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": Damerau-Levenshtein distance (a swap of neighbours is one
 * slip), accepted up to one more than a quarter of the word's length. A name
 * that goes on where the word ends is one slip too: the rest was forgotten. */
#include "paradl/base.h"

#include <string.h>

enum { MAXLEN = 64, BEGUN = 3 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;

    return m < c ? m : c;
}

static int distance(const char *a, const char *b)
{
    int la = (int)strlen(a), lb = (int)strlen(b);
    int row[3][MAXLEN + 1];

    if (la > MAXLEN || lb > MAXLEN)
        return MAXLEN;
    for (int j = 0; j <= lb; j++)
        row[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];

        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            int slip = a[i - 1] != b[j - 1];

            now[j] = min3(up[j] + 1, now[j - 1] + 1, up[j - 1] + slip);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && up2[j - 2] + 1 < now[j])
                now[j] = up2[j - 2] + 1;
        }
    }
    return row[la % 3][lb];
}

void pdl_suggest_init(struct pdl_suggest *s, const char *word)
{
    s->word = word;
    s->best = NULL;
    s->distance = MAXLEN;
}

/* Of two that go on where the word ends, the one that is sooner complete. */
static bool sooner(const struct pdl_suggest *s, const char *candidate, size_t n)
{
    return strncmp(s->word, s->best, n) != 0 ||
           strlen(candidate) < strlen(s->best);
}

void pdl_suggest_try(struct pdl_suggest *s, const char *candidate)
{
    size_t n = strlen(s->word);
    bool begun = n >= BEGUN && strlen(candidate) <= MAXLEN &&
                 strncmp(s->word, candidate, n) == 0;
    int d = begun ? 1 : distance(s->word, candidate);

    if (d < s->distance ||
        (begun && d == s->distance && sooner(s, candidate, n))) {
        s->distance = d;
        s->best = candidate;
    }
}

const char *pdl_suggest_best(const struct pdl_suggest *s)
{
    int len = (int)strlen(s->word);

    return s->distance <= 1 + len / 4 && s->distance < len ? s->best : NULL;
}
