/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP by libmicrohttpd, in one thread. What is asked from elsewhere is
 * refused: Host must be ours (a name that an attacker points at this machine is
 * not), and Origin, where a browser says it, too. */
#include "serve_http.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct server {
    const struct cli_serve_options *o;
    int port;
};

/* A request under way. */
struct request {
    struct cli_serve_form form;
    struct MHD_PostProcessor *post;
    const struct server *server;
};

/* ---- who asks ------------------------------------------------------------ */

/* "127.0.0.1:8080", "localhost:8080", or the address that was given. */
static bool is_ours(const struct server *s, const char *host)
{
    const char *const names[] = {"127.0.0.1", "localhost", s->o->address};
    char want[300];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(want, sizeof want, "%s:%d", names[i], s->port);
        if (strcmp(want, host) == 0 ||
            (s->port == 80 && strcmp(names[i], host) == 0))
            return true;
    }
    return false;
}

static bool may_ask(const struct server *s, struct MHD_Connection *c)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
    const char *origin =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Origin");

    if (!host || !is_ours(s, host))
        return false;
    return !origin || (strncmp(origin, "http://", 7) == 0 &&
                       strcmp(origin + 7, host) == 0);
}

/* ---- requests ------------------------------------------------------------ */

static enum MHD_Result take_file(struct request *r, const char *name,
                                 const char *data, size_t size)
{
    struct cli_serve_form *f = &r->form;

    if (name && *name)
        snprintf(f->file_name, sizeof f->file_name, "%s", name);
    if ((int64_t)(f->file.len + size) > r->server->o->max_upload)
        f->too_large = true;
    else
        pdl_put(&f->file.sink, data, size);
    return MHD_YES;
}

static enum MHD_Result take(void *ctx, enum MHD_ValueKind kind, const char *key,
                            const char *name, const char *type,
                            const char *coding, const char *data, uint64_t at,
                            size_t size)
{
    struct request *r = ctx;

    (void)kind, (void)type, (void)coding;
    if (strcmp(key, "file") == 0)
        return take_file(r, name, data, size);
    for (int i = 0; i < SERVE_NFIELDS; i++)
        if (strcmp(key, cli_serve_fields[i]) == 0) {
            if (at + size >= SERVE_TEXT)
                return MHD_NO;
            memcpy(r->form.text[i] + at, data, size);
            r->form.text[i][at + size] = '\0';
        }
    return MHD_YES;
}

static struct request *new_request(const struct server *s,
                                   struct MHD_Connection *c, const char *method)
{
    struct request *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->server = s;
    pdl_buf_init(&r->form.file);
    if (strcmp(method, "POST") == 0) /* NULL for bodies that are no form */
        r->post = MHD_create_post_processor(c, 65536, take, r);
    return r;
}

static bool claims_too_much(const struct server *s, struct MHD_Connection *c)
{
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    int64_t n;

    return length && pdl_int_parse(length, 0, s->o->max_upload + 65536, &n,
                                   NULL) != PDL_OK;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c,
                                  const char *url, const char *method,
                                  const char *version, const char *data,
                                  size_t *size, void **state)
{
    const struct server *s = ctx;
    struct request *r = *state;

    (void)version;
    if (!r) {
        if (!may_ask(s, c))
            return cli_serve_refuse(c, MHD_HTTP_FORBIDDEN, "not from there\n");
        if (claims_too_much(s, c))
            return cli_serve_refuse(c, MHD_HTTP_CONTENT_TOO_LARGE,
                                    "too large\n");
        *state = new_request(s, c, method);
        return *state ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        if (r->post && MHD_post_process(r->post, data, *size) != MHD_YES)
            return MHD_NO;
        *size = 0;
        return MHD_YES;
    }
    return cli_serve_answer(c, &r->form, url, method);
}

static void on_end(void *ctx, struct MHD_Connection *c, void **state,
                   enum MHD_RequestTerminationCode how)
{
    struct request *r = *state;

    (void)ctx, (void)c, (void)how;
    if (!r)
        return;
    if (r->post)
        MHD_destroy_post_processor(r->post);
    pdl_buf_free(&r->form.file);
    free(r);
    *state = NULL;
}

/* ---- the server ---------------------------------------------------------- */

static struct MHD_Daemon *listen_on(struct server *s, struct pdl_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->o->port)};
    const union MHD_DaemonInfo *info;
    struct MHD_Daemon *d;

    if (inet_pton(AF_INET, s->o->address, &at.sin_addr) != 1) {
        pdl_fail(err, PDL_EINVAL, "'%.60s' is no IPv4 address", s->o->address);
        return NULL;
    }
    /* poll: by epoll it does not see that somebody has hung up together with
     * the last bytes, and that connection counts until its time is over. */
    d = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s,
        MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL,
        MHD_OPTION_CONNECTION_LIMIT, 64u, MHD_OPTION_CONNECTION_TIMEOUT, 10u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_END);
    info = d ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        pdl_fail(err, PDL_ENOENV, "cannot listen on %s:%lld", s->o->address,
                 (long long)s->o->port);
    else
        s->port = info->port;
    return d;
}

static void wait_for_end(void)
{
    sigset_t ends;
    int which;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigwait(&ends, &which);
}

int cli_serve_http(const struct cli_serve_options *o)
{
    struct server s = {.o = o};
    struct pdl_err err = {"", ""};
    struct MHD_Daemon *d;
    sigset_t ends;

    sigemptyset(&ends); /* of all threads: they are waited for here */
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    cli_serve_jobs_open(o->seconds);
    d = listen_on(&s, &err);
    if (!d)
        return cli_fail(err.msg[0] == '\'' ? PDL_EINVAL : PDL_ENOENV, &err);
    pdl_printf(cli_out(), "http://%s:%d/\n", o->address, s.port);
    fflush(stdout);
    wait_for_end();
    MHD_stop_daemon(d);
    cli_serve_jobs_close();
    return EXIT_OK;
}
