/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl topology list: the networks that can be described. */
#include "cli/cli_priv.h"
#include "paradl/net.h"

#include <stdio.h>
#include <string.h>

static void json_param(struct pdl_json *j, const struct pdl_param *p)
{
    pdl_json_row(j);
    pdl_json_kstr(j, "name", p->name);
    pdl_json_kstr(j, "default", p->value);
    pdl_json_kstr(j, "choices", p->choices);
    pdl_json_kstr(j, "help", p->help);
    pdl_json_end(j);
}

static int json_list(void)
{
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "topologies");
    pdl_json_key(&j, "topologies");
    pdl_json_array(&j);
    for (int i = 0; pdl_topo_at(i); i++) {
        const struct pdl_topo *t = pdl_topo_at(i);

        pdl_json_object(&j);
        pdl_json_kstr(&j, "name", t->name);
        pdl_json_kstr(&j, "summary", t->summary);
        pdl_json_kstr(&j, "group", pdl_topo_group_name(t->group));
        pdl_json_kstr(&j, "source", t->source);
        pdl_json_kstr(&j, "example", t->example);
        pdl_json_key(&j, "parameters");
        pdl_json_array(&j);
        for (int p = 0; p < t->nparams; p++)
            json_param(&j, &t->params[p]);
        for (int p = 0; p < pdl_ntopo_common; p++)
            json_param(&j, &pdl_topo_common[p]);
        pdl_json_end(&j);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
    return EXIT_OK;
}

static void text_param(const struct pdl_param *p)
{
    char name[64];

    snprintf(name, sizeof name, "%s%s%s", p->name, p->value ? "=" : "",
             p->value ? p->value : "");
    cli_say(27, "    %-22s %s%s%s", name, p->help, p->choices ? ": " : "",
            p->choices ? p->choices : "");
}

static void text_params(const struct pdl_topo *t)
{
    for (int p = 0; p < t->nparams; p++)
        text_param(&t->params[p]);
    cli_say(9, "    e.g. %s (%s)", t->example, t->source);
}

static void text_common(void)
{
    pdl_puts(cli_out(), "\nand for all networks:\n");
    for (int p = 0; p < pdl_ntopo_common; p++)
        text_param(&pdl_topo_common[p]);
}

static void text_group(enum pdl_topo_group group, bool verbose)
{
    pdl_printf(cli_out(), "%s%s\n", group ? "\n" : "",
               pdl_topo_group_name(group));
    for (int i = 0; pdl_topo_at(i); i++) {
        const struct pdl_topo *t = pdl_topo_at(i);

        if (t->group != group)
            continue;
        cli_say(20, "  %-17s %s", t->name, t->summary);
        if (verbose)
            text_params(t);
    }
}

/* One of them, with all it takes. */
static int list_one(const char *name)
{
    struct pdl_err err = {"", ""};
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (int i = 0; pdl_topo_at(i); i++) {
        const struct pdl_topo *t = pdl_topo_at(i);

        pdl_suggest_try(&s, t->name);
        if (strcmp(t->name, name) != 0)
            continue;
        cli_say(20, "%s: %s", t->name, t->summary);
        text_params(t);
        text_common();
        return EXIT_OK;
    }
    pdl_fail(&err, PDL_EINVAL, "no topology '%.60s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(&err, "did you mean '%s'?", pdl_suggest_best(&s));
    else
        pdl_hint(&err, "'paradl topology list' shows them");
    return cli_fail(PDL_EINVAL, &err);
}

static int list(const struct pdl_args *args)
{
    if (args->json)
        return json_list();
    if (args->npos > 0)
        return list_one(args->pos[0]);
    for (int g = 0; g < PDL_NTOPO_GROUPS; g++)
        text_group((enum pdl_topo_group)g, args->verbose);
    text_common();
    pdl_puts(cli_out(), "\nWhat one takes: paradl topology list NAME. The "
                        "network of a machine:\nsystem:NAME ('paradl system "
                        "list'). A SimGrid platform: FILE.xml.\n");
    return EXIT_OK;
}

const struct pdl_cmd cli_topology_list = {
    .name = "topology list",
    .args = "[NAME]",
    .max_pos = 1,
    .summary = "the networks that can be described",
    .text = "Lists the generators of networks by kind. With NAME, the "
            "parameters it takes, their defaults and its source; with "
            "--verbose, those of all.",
    .example = "paradl topology list",
    .run = list,
};
