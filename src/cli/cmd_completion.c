/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_priv.h"

static int completion(const struct pdl_args *args)
{
    struct pdl_err err;

    if (pdl_completion_print("paradl", cli_commands, cli_ncommands,
                             args->pos[0], cli_out()))
        return EXIT_OK;
    pdl_fail(&err, PDL_EINVAL, "no completions for '%.40s'", args->pos[0]);
    pdl_hint(&err, "one of bash, zsh, fish");
    return cli_usage(&err);
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
