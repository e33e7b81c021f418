/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server has: there are no paths of files, but a table of routes and
 * ids of jobs. */
#include "serve_http.h"

#include <stdio.h>
#include <string.h>

static const char own_policy[] =
    "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; frame-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'";
/* A report draws itself and can do nothing else, wherever it is opened. */
static const char report_policy[] =
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

/* ---- answers ------------------------------------------------------------ */

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned code,
                                 const char *type, const char *policy,
                                 const char *text, size_t len)
{
    static const char *const always[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"}};
    struct MHD_Response *r = MHD_create_response_from_buffer(
        len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rc;

    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Content-Security-Policy", policy);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        MHD_add_response_header(r, always[i][0], always[i][1]);
    rc = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result send_buf(struct MHD_Connection *c, unsigned code,
                                const char *type, struct pdl_buf *b)
{
    enum MHD_Result rc =
        b->sink.failed ? MHD_NO
                       : send_text(c, code, type, own_policy, b->text, b->len);

    pdl_buf_free(b);
    return rc;
}

enum MHD_Result cli_serve_refuse(struct MHD_Connection *c, unsigned code,
                                 const char *why)
{
    return send_text(c, code, "text/plain; charset=utf-8", own_policy, why,
                     strlen(why));
}

static enum MHD_Result go_to(struct MHD_Connection *c, const char *path)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result rc;

    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Location", path);
    rc = MHD_queue_response(c, MHD_HTTP_SEE_OTHER, r);
    MHD_destroy_response(r);
    return rc;
}

/* ---- routes ------------------------------------------------------------- */

typedef enum MHD_Result route_call(struct MHD_Connection *c,
                                   const struct cli_serve_form *f,
                                   struct cli_serve_job *j);

static enum MHD_Result show_form(struct MHD_Connection *c,
                                 const struct cli_serve_form *f,
                                 struct cli_serve_job *j)
{
    static const struct cli_serve_form first = {
        .text = {"gpt2", "dgx-a100", "8", "64", ""}};
    struct pdl_buf page;

    (void)f, (void)j;
    pdl_buf_init(&page);
    cli_serve_form_page(&first, NULL, &page.sink);
    return send_buf(c, MHD_HTTP_OK, "text/html; charset=utf-8", &page);
}

static enum MHD_Result ask_plan(struct MHD_Connection *c,
                                const struct cli_serve_form *f,
                                struct cli_serve_job *j)
{
    struct pdl_err err = {"", ""};
    char path[80];
    struct pdl_buf page;

    if (cli_serve_check(f, &err) == PDL_OK)
        j = cli_serve_start(f, &err);
    if (j) {
        snprintf(path, sizeof path, "/job/%s", cli_serve_id(j));
        return go_to(c, path);
    }
    pdl_buf_init(&page);
    cli_serve_form_page(f, &err, &page.sink);
    return send_buf(c, MHD_HTTP_BAD_REQUEST, "text/html; charset=utf-8", &page);
}

static enum MHD_Result show_style(struct MHD_Connection *c,
                                  const struct cli_serve_form *f,
                                  struct cli_serve_job *j)
{
    (void)f, (void)j;
    return send_text(c, MHD_HTTP_OK, "text/css", own_policy, cli_serve_style,
                     strlen(cli_serve_style));
}

static enum MHD_Result show_script(struct MHD_Connection *c,
                                   const struct cli_serve_form *f,
                                   struct cli_serve_job *j)
{
    (void)f, (void)j;
    return send_text(c, MHD_HTTP_OK, "text/javascript", own_policy,
                     cli_serve_script, strlen(cli_serve_script));
}

static enum MHD_Result show_job(struct MHD_Connection *c,
                                const struct cli_serve_form *f,
                                struct cli_serve_job *j)
{
    struct pdl_buf page;

    (void)f;
    pdl_buf_init(&page);
    cli_serve_job_page(j, &page.sink);
    return send_buf(c, MHD_HTTP_OK, "text/html; charset=utf-8", &page);
}

static enum MHD_Result show_state(struct MHD_Connection *c,
                                  const struct cli_serve_form *f,
                                  struct cli_serve_job *j)
{
    struct pdl_buf text;

    (void)f;
    pdl_buf_init(&text);
    cli_serve_status(j, &text.sink);
    return send_buf(c, MHD_HTTP_OK, "application/json", &text);
}

static enum MHD_Result show_report(struct MHD_Connection *c,
                                   const struct cli_serve_form *f,
                                   struct cli_serve_job *j)
{
    const char *text;
    size_t len;

    (void)f;
    if (cli_serve_state(j) != SERVE_DONE)
        return cli_serve_refuse(c, MHD_HTTP_CONFLICT, "not done\n");
    text = cli_serve_page(j, &len);
    return send_text(c, MHD_HTTP_OK, "text/html; charset=utf-8", report_policy,
                     text, len);
}

static enum MHD_Result show_result(struct MHD_Connection *c,
                                   const struct cli_serve_form *f,
                                   struct cli_serve_job *j)
{
    const char *text;
    size_t len;

    (void)f;
    if (cli_serve_state(j) != SERVE_DONE)
        return cli_serve_refuse(c, MHD_HTTP_CONFLICT, "not done\n");
    text = cli_serve_json(j, &len);
    return send_text(c, MHD_HTTP_OK, "application/json", own_policy, text, len);
}

static enum MHD_Result stop_job(struct MHD_Connection *c,
                                const struct cli_serve_form *f,
                                struct cli_serve_job *j)
{
    (void)f;
    cli_serve_cancel(j);
    return go_to(c, "/");
}

/* Paths as they are, or what follows "/job/ID". */
static const struct {
    const char *method, *path;
    bool job;
    route_call *call;
} routes[] = {
    {"GET", "/", false, show_form},
    {"GET", "/style.css", false, show_style},
    {"GET", "/script.js", false, show_script},
    {"POST", "/plan", false, ask_plan},
    {"GET", "", true, show_job},
    {"GET", "/state", true, show_state},
    {"GET", "/report", true, show_report},
    {"GET", "/result.json", true, show_result},
    {"POST", "/cancel", true, stop_job},
};

/* "/job/ID/rest": the job, and where the rest begins; NULL: none. */
static struct cli_serve_job *job_of(const char *url, const char **rest)
{
    char id[SERVE_ID + 1];

    if (strncmp(url, "/job/", 5) != 0 || strlen(url) < 5 + SERVE_ID)
        return NULL;
    memcpy(id, url + 5, SERVE_ID);
    id[SERVE_ID] = '\0';
    *rest = url + 5 + SERVE_ID;
    return cli_serve_find(id);
}

enum MHD_Result cli_serve_answer(struct MHD_Connection *c,
                                 const struct cli_serve_form *f,
                                 const char *url, const char *method)
{
    const char *rest = url;
    struct cli_serve_job *j = job_of(url, &rest);
    bool known = false;

    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (routes[i].job != (j != NULL) ||
            strcmp(routes[i].path, j ? rest : url) != 0)
            continue;
        known = true;
        if (strcmp(routes[i].method, method) == 0)
            return routes[i].call(c, f, j);
    }
    return cli_serve_refuse(
        c, known ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_NOT_FOUND,
        known ? "not this way\n" : "nothing here\n");
}
