/* Is every SVG in a page well-formed XML? By expat, which no code of ours
 * touches. */
#ifndef TESTS_REPORT_SVG_H
#define TESTS_REPORT_SVG_H

#include <expat.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool well_formed(const char *text, size_t len)
{
    XML_Parser p = XML_ParserCreate("UTF-8");
    bool ok = p && XML_Parse(p, text, (int)len, 1) == XML_STATUS_OK;

    if (p && !ok)
        printf("line %lu: %s\n", (unsigned long)XML_GetCurrentLineNumber(p),
               XML_ErrorString(XML_GetErrorCode(p)));
    XML_ParserFree(p);
    return ok;
}

/* The number of charts, -1 when one is not well-formed. */
static inline int count_svgs(const char *page)
{
    int n = 0;

    for (const char *p = page; (p = strstr(p, "<svg ")) != NULL; n++) {
        const char *end = strstr(p, "</svg>");

        if (!end || !well_formed(p, (size_t)(end + 6 - p)))
            return -1;
        p = end;
    }
    return n;
}

static inline int count_text(const char *page, const char *what)
{
    int n = 0;

    for (const char *p = page; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* Charts, each counted once: one for a desk and one for a phone, and networks
 * for both. -1 when one is not well-formed or has no pair. */
static inline int count_charts(const char *page)
{
    int all = count_svgs(page), phone = count_text(page, " narrow\" viewBox");
    int both = count_text(page, "class=\"chart graph\"");

    return all < 0 || all != 2 * phone + both ? -1 : phone + both;
}

#endif
