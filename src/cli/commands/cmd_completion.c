/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli_priv.h"
#include "paradl/coll.h"
#include "paradl/model.h"
#include "paradl/net.h"
#include "paradl/oracle.h"
#include "paradl/system.h"

static const char *model_at(int i)
{
    const struct pdl_zoo_entry *e = pdl_zoo_at(i);

    return e ? e->name : NULL;
}

static const char *system_at(int i)
{
    const struct pdl_builtin *b = pdl_system_builtin(i);

    return b ? b->name : NULL;
}

static const char *framework_at(int i)
{
    const struct pdl_builtin *b = pdl_framework_builtin(i);

    return b ? b->name : NULL;
}

static const char *algorithm_at(int i)
{
    const struct pdl_alg *a = pdl_alg_at(i);

    return a ? a->name : NULL;
}

static const char *topology_at(int i)
{
    const struct pdl_topo *t = pdl_topo_at(i);

    return t ? t->name : NULL;
}

/* What the tables of commands call what these are. */
static const struct {
    const char *of;
    const char *(*at)(int i);
} known[] = {{"MODEL", model_at},
             {"SYSTEM", system_at},
             {"FRAMEWORK", framework_at},
             {"ALGORITHM", algorithm_at},
             {"TOPOLOGY", topology_at}};
enum { NKNOWN = sizeof known / sizeof known[0] };

static bool print(const char *shell, struct pdl_sink *out)
{
    struct pdl_completion_names names[NKNOWN + 1] = {{NULL, NULL}};
    struct pdl_buf text[NKNOWN];
    bool done;

    for (int k = 0; k < NKNOWN; k++) {
        const char *name;

        pdl_buf_init(&text[k]);
        for (int i = 0; (name = known[k].at(i)) != NULL; i++)
            pdl_printf(&text[k].sink, "%s%s", i ? " " : "", name);
        names[k] = (struct pdl_completion_names){
            known[k].of, text[k].text ? text[k].text : ""};
    }
    done = pdl_completion_print_names("paradl", cli_commands, cli_ncommands,
                                      names, shell, out);
    for (int k = 0; k < NKNOWN; k++)
        pdl_buf_free(&text[k]);
    return done;
}

static int completion(const struct pdl_args *args)
{
    struct pdl_err err;
    struct pdl_buf text;
    struct pdl_json j;
    bool is_shell;

    pdl_buf_init(&text);
    is_shell = print(args->pos[0], &text.sink);
    if (is_shell && args->json) {
        pdl_json_init(&j, cli_out());
        pdl_json_schema(&j, "completion");
        pdl_json_kstr(&j, "shell", args->pos[0]);
        pdl_json_kstr(&j, "script", text.text);
        pdl_json_end(&j);
    } else if (is_shell) {
        pdl_puts(cli_out(), text.text);
    }
    pdl_buf_free(&text);
    if (is_shell)
        return EXIT_OK;
    pdl_fail(&err, PDL_EINVAL, "no completions for '%.40s'", args->pos[0]);
    pdl_hint(&err, "one of bash, zsh, fish");
    return cli_fail(PDL_EINVAL, &err);
}

const struct pdl_cmd cli_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "print completions for a shell",
    .text = "Prints a script that teaches a shell the commands, their options "
            "and the names of models, systems, frameworks, algorithms and "
            "topologies. "
            "For bash: paradl completion bash > "
            "~/.local/share/bash-completion/completions/paradl",
    .example = "paradl completion bash",
    .run = completion,
};
