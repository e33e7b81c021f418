/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli_priv.h"

static int completion(const struct pdl_args *args)
{
    struct pdl_err err;
    struct pdl_buf text;
    struct pdl_json j;
    bool known;

    pdl_buf_init(&text);
    known = pdl_completion_print("paradl", cli_commands, cli_ncommands,
                                 args->pos[0], &text.sink);
    if (known && args->json) {
        pdl_json_init(&j, cli_out());
        pdl_json_schema(&j, "completion");
        pdl_json_kstr(&j, "shell", args->pos[0]);
        pdl_json_kstr(&j, "script", text.text);
        pdl_json_end(&j);
    } else if (known) {
        pdl_puts(cli_out(), text.text);
    }
    pdl_buf_free(&text);
    if (known)
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
    .text = "Prints a script that teaches a shell the commands and options. "
            "For bash: paradl completion bash > "
            "~/.local/share/bash-completion/completions/paradl",
    .example = "paradl completion bash",
    .run = completion,
};
