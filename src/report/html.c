/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of a page: head with a policy that forbids everything from
 * outside, sections with addresses of their own, tables, and the foot that
 * says how to get the same page again. */
#include "report_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void report_head(struct pdl_sink *out, const char *title)
{
    pdl_puts(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta "
        "charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'; img-src data:; script-src '");
    pdl_puts(out, report_script_hash);
    pdl_puts(out, "'\">\n<meta name=\"viewport\" "
                  "content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"referrer\" content=\"no-referrer\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n<title>");
    report_text(out, title);
    pdl_puts(out, "</title>\n<style>");
    pdl_puts(out, report_style);
    pdl_puts(out, "</style></head>\n<body>\n<h1>");
    report_text(out, title);
    pdl_puts(out, "</h1>\n" REPORT_NAV "\n");
}

void report_section(struct pdl_sink *out, const char *id, const char *title)
{
    pdl_printf(out, "<section id=\"%s\"><h2><a href=\"#%s\">", id, id);
    report_text(out, title);
    pdl_puts(out, "</a></h2>\n");
}

void report_section_end(struct pdl_sink *out)
{
    pdl_puts(out, "</section>\n");
}

static void put_formatted(struct pdl_sink *out, const char *before,
                          const char *fmt, va_list ap) PDL_PRINTF(3, 0);

/* `before` opens the element; NULL: a cell, which may break when it is long. */
static void put_formatted(struct pdl_sink *out, const char *before,
                          const char *fmt, va_list ap)
{
    enum { LONG = 28 };
    char *text = NULL;

    if (vasprintf(&text, fmt, ap) < 0) {
        out->failed = true;
        return;
    }
    pdl_puts(out, before                        ? before
                  : pdl_text_width(text) > LONG ? "<td class=\"w\">"
                                                : "<td>");
    report_loose(out, text);
    free(text);
}

void report_para(struct pdl_sink *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_formatted(out, "<p>", fmt, ap);
    va_end(ap);
    pdl_puts(out, "</p>\n");
}

void report_details(struct pdl_sink *out, const char *summary)
{
    pdl_puts(out, "<details><summary>");
    report_text(out, summary);
    pdl_puts(out, "</summary>\n");
}

void report_details_end(struct pdl_sink *out)
{
    pdl_puts(out, "</details>\n");
}

void report_table_begin(struct report_table *t, struct pdl_sink *out,
                        const struct report_column *columns, int ncolumns)
{
    *t = (struct report_table){
        .out = out, .columns = columns, .ncolumns = ncolumns};
    pdl_puts(out, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int i = 0; i < ncolumns; i++) {
        pdl_puts(out, columns[i].number ? "<th scope=\"col\" class=\"n\">"
                                        : "<th scope=\"col\">");
        report_text(out, columns[i].title);
        pdl_puts(out, "</th>");
    }
    pdl_puts(out, "</tr></thead><tbody>\n");
}

void report_cell(struct report_table *t, const char *fmt, ...)
{
    bool shown = t->rows < REPORT_MAX_ROWS;
    va_list ap;

    if (shown) {
        pdl_puts(t->out, t->at == 0 ? "<tr>" : "");
        va_start(ap, fmt);
        put_formatted(t->out,
                      t->columns[t->at].number ? "<td class=\"n\">" : NULL, fmt,
                      ap);
        va_end(ap);
        pdl_puts(t->out, "</td>");
    }
    if (++t->at == t->ncolumns) {
        pdl_puts(t->out, shown ? "</tr>\n" : "");
        t->at = 0;
        t->rows++;
    }
}

void report_cell_unit(struct report_table *t, double v, enum pdl_unit unit)
{
    char text[64];

    report_cell(
        t, "%s",
        pdl_unit_format(v, v == 0 ? PDL_UNIT_NONE : unit, text, sizeof text));
}

void report_table_end(struct report_table *t)
{
    pdl_puts(t->out, "</tbody></table></div>\n");
    if (t->rows > REPORT_MAX_ROWS)
        report_para(t->out, "%d more rows are not shown",
                    t->rows - REPORT_MAX_ROWS);
}

static void foot_command(struct pdl_sink *out, const char *command)
{
    pdl_puts(out, "<pre id=\"command\">");
    report_text(out, command);
    pdl_puts(out,
             "</pre><button id=\"copy\" hidden>copy the command</button>\n");
}

void report_foot(struct pdl_sink *out, const struct report_foot *f)
{
    enum { MAX_DATA = 2000000 };
    XXH64_hash_t hash = XXH64(f->json.data, f->json.len, 0);

    report_section(out, "about", "How to get this again");
    if (f->command)
        foot_command(out, f->command);
    pdl_puts(out, f->assumptions ? "<ul>\n" : "");
    for (int i = 0; f->assumptions && f->assumptions[i]; i++) {
        pdl_puts(out, "<li>");
        report_text(out, f->assumptions[i]);
        pdl_puts(out, "</li>\n");
    }
    pdl_puts(out, f->assumptions ? "</ul>\n" : "");
    report_para(out, "Made by paradl %s from %s (%zu bytes, XXH64 %016llx).",
                pdl_version(), f->name, f->json.len, (unsigned long long)hash);
    if (f->json.len <= MAX_DATA) {
        report_para(out, "The data are inside this page, in the element with "
                         "the id \"data\"; 'paradl report' makes the page "
                         "from them.");
        pdl_puts(out, "<script type=\"application/json\" id=\"data\">");
        report_json(out, f->json);
        pdl_puts(out, "</script>\n");
    } else {
        report_para(out, "The data are too long to be kept in this page.");
    }
    report_section_end(out);
    pdl_puts(out, "<script>");
    pdl_puts(out, report_script);
    pdl_puts(out, "</script>\n</body></html>\n");
}
