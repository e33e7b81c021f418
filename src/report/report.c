/* SPDX-License-Identifier: Apache-2.0
 *
 * From a result's JSON to its page: the schema says which. The page is made
 * in memory, so that a failure in the middle leaves nothing behind and the
 * size is known before anything is written. */
#include "report_priv.h"

#include <string.h>

static const struct report_page_kind *const kinds[] = {
    &report_page_plan,     &report_page_compare, &report_page_simulate,
    &report_page_project,  &report_page_scale,   &report_page_validate,
    &report_page_federate, &report_page_design,  &report_page_sides,
    &report_page_fit_in,
};
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

const char *pdl_report_schema_at(int i)
{
    return i >= 0 && i < NKINDS ? kinds[i]->schema : NULL;
}

/* "paradl.plan/1" */
static bool is_schema(const char *text, const char *name)
{
    size_t n = strlen(name);

    return strncmp(text, "paradl.", 7) == 0 &&
           strncmp(text + 7, name, n) == 0 && strcmp(text + 7 + n, "/1") == 0;
}

static const struct report_page_kind *kind_of(struct report_reader *rd,
                                              const struct pdl_doc *doc)
{
    const char *schema = report_get_str(rd, doc, "schema");

    if (rd->st != PDL_OK) {
        pdl_hint(rd->err, "is it what a command of paradl printed with "
                          "--json?");
        return NULL;
    }
    for (int i = 0; i < NKINDS; i++)
        if (is_schema(schema, kinds[i]->schema))
            return kinds[i];
    rd->st = pdl_doc_fail(pdl_doc_get(doc, "schema"), rd->err,
                          "there is no page for '%.60s'", schema);
    pdl_hint(rd->err,
             "there is for plan, project, scale, fit-in, validate, "
             "federate, design, compare, collective compare and simulate");
    return NULL;
}

/* The sections of a page, as links. They are read off the page itself: what
 * is listed is there. */
static void put_nav(struct pdl_sink *out, const char *page)
{
    static const char begin[] = "<section id=\"", middle[] = "<h2>",
                      end[] = "</h2>";

    pdl_puts(out, "<nav aria-label=\"sections\">");
    for (const char *s = strstr(page, begin); s; s = strstr(s, begin)) {
        const char *a = strstr(s, middle), *b = a ? strstr(a, end) : NULL;

        if (!b)
            break;
        pdl_put(out, a + sizeof middle - 1,
                (size_t)(b - a) - (sizeof middle - 1));
        pdl_puts(out, "\n");
        s = b;
    }
    pdl_puts(out, "</nav>");
}

/* The page with its list of sections; false: it would be too long. */
static bool put_page(struct pdl_sink *out, const struct pdl_buf *page)
{
    const char *at = strstr(page->text, REPORT_NAV);
    size_t before = at ? (size_t)(at - page->text) : page->len;
    size_t after = at ? before + sizeof REPORT_NAV - 1 : page->len;
    struct pdl_buf nav;
    bool fits;

    pdl_buf_init(&nav);
    if (at)
        put_nav(&nav.sink, at);
    fits = page->len + nav.len <= PDL_REPORT_MAX_BYTES;
    if (fits) {
        pdl_put(out, page->text, before);
        pdl_put(out, nav.text, nav.len);
        pdl_put(out, page->text + after, page->len - after);
    }
    pdl_buf_free(&nav);
    return fits;
}

static enum pdl_status finish(const struct report_page *p,
                              const struct pdl_buf *page, struct pdl_sink *out,
                              struct pdl_err *err)
{
    if (p->rd.st != PDL_OK)
        return p->rd.st;
    if (page->sink.failed)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the page");
    if (!put_page(out, page))
        return pdl_fail(err, PDL_EINVAL,
                        "the page would have %zu bytes, more than %d",
                        page->len, PDL_REPORT_MAX_BYTES);
    return out->failed ? pdl_fail(err, PDL_EIO, "cannot write the page")
                       : PDL_OK;
}

const char *report_how(struct report_page *p)
{
    const char *tokens = report_opt_str(p->doc, "tokens");
    const char *precision = report_opt_str(p->doc, "precision");
    const char *optimizer = report_opt_str(p->doc, "optimizer");
    bool text = tokens && strcmp(tokens, "0") != 0;
    const char *s =
        precision && optimizer
            ? pdl_arena_printf(p->arena, "%s%s%s, %s, %s", text ? " of " : "",
                               text ? tokens : "", text ? " tokens" : "",
                               precision, optimizer)
            : NULL;

    return s ? s : "";
}

const char *report_whose(struct report_page *p)
{
    const char *name = report_opt_str(p->doc, "framework");
    bool none = name && strcmp(name, "none") == 0;
    const char *s =
        name ? pdl_arena_printf(
                   p->arena, "%s%s",
                   none ? ", ideal: no framework runs this" : ", for ",
                   none ? "" : name)
             : NULL;

    return s ? s : "";
}

enum pdl_status pdl_report_html(pdl_arena *a, struct pdl_bytes json,
                                const char *name, struct pdl_sink *out,
                                struct pdl_err *err)
{
    struct report_page p = {.arena = a, .rd = {.err = err}};
    const struct report_page_kind *kind;
    struct pdl_buf page;
    enum pdl_status st = pdl_doc_json(a, json, name, &p.doc, err);

    if (st != PDL_OK)
        return st;
    kind = kind_of(&p.rd, p.doc);
    if (!kind)
        return p.rd.st;
    pdl_buf_init(&page);
    p.out = &page.sink;
    kind->write(&p);
    report_foot(p.out, &(struct report_foot){
                           .command = report_opt_str(p.doc, "command"),
                           .name = name,
                           .assumptions = p.assumptions,
                           .json = json,
                       });
    st = finish(&p, &page, out, err);
    pdl_buf_free(&page);
    return st;
}
