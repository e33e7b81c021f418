/* Any text as a checkpoint's manifest: refused in one line, or boxes that can
 * be cut, and a print that reads back. */
#include "ckpt_priv.h"
#include "fuzz_io_array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct pdl_ckpt *c)
{
    for (int t = 0; t < c->ntensors; t++)
        for (int i = 0; i < c->tensor[t].nshards; i++) {
            const struct io_shard *s = &c->tensor[t].shard[i];

            if (s->bytes < 0 || s->offset < 0 || s->file >= c->nfiles ||
                s->offset > c->file[s->file].bytes - s->bytes)
                abort();
        }
}

static void print_again(const struct pdl_ckpt *c)
{
    struct pdl_ckpt again = {.arena = pdl_arena_create((size_t)64 << 20)};
    struct pdl_buf text;

    pdl_buf_init(&text);
    if (again.arena && io_manifest_print(c, &text, NULL) == PDL_OK) {
        struct pdl_bytes in = {text.text, text.len};
        struct pdl_err err;

        if (io_manifest_parse(&again, in, "again", true, &err) != PDL_OK ||
            again.ntensors != c->ntensors)
            abort();
    }
    pdl_buf_free(&text);
    pdl_arena_destroy(again.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pdl_ckpt c = {.arena = pdl_arena_create((size_t)64 << 20)};
    struct pdl_err err = {"", ""};
    struct pdl_bytes in;
    enum pdl_status st;

    if (!c.arena)
        return 0;
    c.path = "x";
    in.data = pdl_arena_strndup(c.arena, (const char *)data, size);
    in.len = size;
    st = in.data ? io_manifest_read(&c, in, "x", true, &err) : PDL_OK;
    fuzz_message(st, &err);
    if (st == PDL_OK && in.data) {
        check(&c);
        print_again(&c);
    }
    pdl_arena_destroy(c.arena);
    return 0;
}
