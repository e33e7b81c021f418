/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl serve: what is asked. The server is the program's (src/cli/serve), so
 * that the library needs no HTTP. */
#include "cli/serve/serve_priv.h"

cli_server *cli_serve_with;

#define AT(field) offsetof(struct cli_serve_options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"port", 'p', PDL_OPT_INT, AT(port), "N", NULL,
     "port to listen on (8080; 0 takes a free one)"},
    {"address", 0, PDL_OPT_TEXT, AT(address), "ADDRESS", NULL,
     "address to listen on (127.0.0.1: this machine alone)"},
    {"seconds", 0, PDL_OPT_TIME, AT(seconds), "TIME", NULL,
     "a search is stopped after so long (60s)"},
    {"max-upload", 0, PDL_OPT_SIZE, AT(max_upload), "BYTES", NULL,
     "of a model's file (16MiB)"},
};
// clang-format on
#undef AT

static int serve(const struct pdl_args *args)
{
    struct cli_serve_options o = *(const struct cli_serve_options *)args->opts;
    struct pdl_err err;

    if (!pdl_opt_given(&cli_serve, args, "port"))
        o.port = 8080;
    o.address = o.address ? o.address : "127.0.0.1";
    o.seconds = o.seconds > 0 ? o.seconds : 60;
    o.max_upload = o.max_upload > 0 ? o.max_upload : 16 << 20;
    if (o.port < 0 || o.port > 65535) {
        pdl_fail(&err, PDL_EINVAL, "--port is 0 to 65535");
        return cli_usage(&err);
    }
    if (cli_serve_with && !cli_asked())
        return cli_serve_with(&o);
    pdl_fail(&err, PDL_ENOENV, "no server here");
    pdl_hint(&err, "it is the program's, built where libmicrohttpd is found");
    return cli_fail(PDL_ENOENV, &err);
}

const struct pdl_cmd cli_serve = {
    .name = "serve",
    .args = "",
    .summary = "a page with a form, for people without a terminal",
    .text = "Serves a page on this machine: model (by name, or a file to "
            "upload), system, PEs and batch; it shows how far the search is "
            "and then its report. Nothing is kept when it ends (Ctrl-C). It "
            "answers pages of its own only, reads no file of this machine, "
            "and bounds what is uploaded and how long a search takes. Who "
            "can reach the port may use it: with --address it is for networks "
            "that one trusts.",
    .example = "paradl serve --help",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct cli_serve_options),
    .run = serve,
    .no_json = true,
};
