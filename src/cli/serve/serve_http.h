/* libmicrohttpd's side of paradl serve: who asks (http.c), what is there
 * (routes.c). */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include "serve_priv.h"

#include <microhttpd.h>

/* A page of text that says no. */
enum MHD_Result cli_serve_refuse(struct MHD_Connection *c, unsigned code,
                                 const char *why);
/* What is at this address, for who may ask. */
enum MHD_Result cli_serve_answer(struct MHD_Connection *c,
                                 const struct cli_serve_form *f,
                                 const char *url, const char *method);

#endif
