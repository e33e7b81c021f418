/* SPDX-License-Identifier: Apache-2.0
 *
 * How things are named on the command line: what MODEL, SYSTEM, STRATEGY and
 * the rest stand for in the help of the commands. One text makes 'paradl help
 * notation' and a section of the manual page. */
#include "cli/cli_priv.h"

#include "paradl/plan.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const struct {
    const char *name, *text, *example;
} words[] = {
    {"MODEL",
     "a network of the zoo ('paradl model list'), a family or a network with "
     "parameters after a colon, or a file: *.onnx, a Hugging Face config.json, "
     "*.safetensors, our own *.yaml",
     "resnet50, gpt:layers=24,hidden=2048,heads=16, net.onnx"},
    {"SYSTEM",
     "a built-in machine ('paradl system list'), one with parameters after a "
     "colon, or a *.yaml file. A PE is one accelerator",
     "abci-v100, dgx-a100:nodes=48,nic=4x12.5GB/s, here.yaml"},
    {"STRATEGY",
     "axes and their sizes, whose product is the number of PEs; the last one "
     "written has the closest PEs. 'serial' is one PE. Clauses for parts of "
     "the network are divided by semicolons; the later wins",
     "data=64, data=8,filter=4, conv1..pool5: data=8; fc*: filter=8"},
    {"  axes",
     "data, spatial (2 or 2x2), filter, channel, tensor (8 or 8+seq), context "
     "(2, 2(a2a)), expert, pipe with a schedule, micro-batches and stages a "
     "lane: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe",
     "data=4,tensor=8+seq, pipe=4(interleaved,m=16,v=2),data=2"},
    {"  @GROUP",
     "of a system file with groups: which nodes the ranks of pipe or data lie "
     "on, how many on each, and of data how many shares of the samples; what "
     "is left out follows from the groups' sizes and speeds",
     "pipe=4@new+old(m=16),data=8, data=8@new:4*3+old:4*1"},
    {"  options",
     "zero=1|2|3, recompute=none|selective|selective-op|full, accumulate=N, "
     "save=sharded|gathered, offload=optimizer|activations, prefetch=N, "
     "swap=auto|karma, "
     "bucket=BYTES, overlap=on|off, allreduce=ALGORITHM, "
     "compress=topk:X|powersgd:R|int8|bf16|fp16|sign|lossless (or none, of a "
     "clause), "
     "bn=local|spatial|sync, bn-groups=N, memory=paper, exchange=paper",
     "data=16,zero=3,recompute=full,accumulate=4"},
    {"ALGORITHM",
     "of a collective ('paradl collective list'), with parameters after a "
     "colon",
     "ring, ring-ring:k=4"},
    {"TOPOLOGY",
     "a generator with parameters ('paradl topology list'), system:SYSTEM or "
     "measured:SYSTEM for the network of a machine, or a SimGrid platform *.xml",
     "torus:8x8x16, fat-tree:down=32x32,up=1x32, system:dgx-a100"},
    {"BYTES, TIME",
     "numbers with a unit: B, KiB, MiB, GiB, kB, MB, GB; ns, us, ms, s, h, d. "
     "Rates: GB/s, Gbps, TFLOP/s. Counts are plain numbers",
     "32MiB, 1.5ms, 12.5GB/s"},
};
// clang-format on
enum { NWORDS = sizeof words / sizeof words[0] };

const char cli_notation_topic[] = "notation";

bool cli_is_notation(const char *topic)
{
    return strcmp(topic, cli_notation_topic) == 0;
}

void cli_notation(struct pdl_sink *out)
{
    enum { COLUMN = 14 };

    pdl_puts(out, "What the capitals in the help of commands stand for:\n");
    for (int i = 0; i < NWORDS; i++) {
        pdl_printf(out, "\n%-*s", COLUMN, words[i].name);
        pdl_wrap(out, words[i].text, COLUMN, COLUMN);
        pdl_printf(out, "%*se.g. ", COLUMN, "");
        pdl_wrap(out, words[i].example, COLUMN + 5, COLUMN + 5);
    }
}

void cli_notation_man(struct pdl_sink *out)
{
    pdl_puts(out, ".SH NOTATION\n");
    for (int i = 0; i < NWORDS; i++)
        pdl_printf(out, ".TP\n.B %s\n%s; e.g. %s\n",
                   words[i].name + strspn(words[i].name, " "), words[i].text,
                   words[i].example);
}

/* --strategies names axes; a slip would silently search less. */
bool cli_axes_known(const char *list, struct pdl_err *err)
{
    for (size_t n; list && *list; list += n + (list[n] == ',')) {
        struct pdl_suggest s;
        char word[32];
        bool known = false;

        n = strcspn(list, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        pdl_suggest_init(&s, word);
        for (int i = 0; i < PDL_NAXES; i++) {
            const char *name = pdl_axis_name((enum pdl_axis)i);

            known = known || strcmp(word, name) == 0;
            pdl_suggest_try(&s, name);
        }
        if (known)
            continue;
        pdl_fail(err, PDL_EINVAL, "--strategies: no axis '%s'", word);
        if (pdl_suggest_best(&s))
            pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
        else
            pdl_hint(err, "write it like data,filter,pipe");
        return false;
    }
    return true;
}
