/* A model by any name: the suffix decides, else the first bytes; what is not
 * there is said, what is nearly a name is suggested. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/paradl-load-XXXXXX";

#define YAML                                                            \
    "format: paradl-model/1\ninputs: [{name: x, shape: [3]}]\nlayers: " \
    "[{op: linear, name: fc, features: 2}]\n"
#define HF                                                                   \
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 8, \"n_head\": " \
    "2, "                                                                    \
    "\"vocab_size\": 10, \"n_positions\": 4, \"n_ctx\": 4, "                 \
    "\"architectures\": "                                                    \
    "[\"GPT2LMHeadModel\"]}"
#define TENSORS \
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

static const struct {
    const char *name, *data;
    size_t len;
} files[] = {
    {"a.yaml", YAML, sizeof YAML - 1},
    {"a.yml", YAML, sizeof YAML - 1},
    {"plain", YAML, sizeof YAML - 1},
    {"config.json", HF, sizeof HF - 1},
    {"hf", HF, sizeof HF - 1},
    {"w.safetensors", "\x36\0\0\0\0\0\0\0" TENSORS "\0\0\0\0\0\0\0\0",
     8 + sizeof TENSORS - 1 + 8},
    {"w", "\x36\0\0\0\0\0\0\0" TENSORS "\0\0\0\0\0\0\0\0",
     8 + sizeof TENSORS - 1 + 8},
    {"odd", "\1\2\3", 4},
};
enum { NFILES = sizeof files / sizeof files[0] };

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int write_files(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    assert_int_equal(sizeof TENSORS - 1, 0x36);
    for (int i = 0; i < NFILES; i++)
        if (pdl_file_write(path_of(files[i].name), files[i].data, files[i].len,
                           NULL) != PDL_OK)
            return -1;
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    for (int i = 0; i < NFILES; i++)
        unlink(path_of(files[i].name));
    return rmdir(folder);
}

static enum pdl_status load(const char *spec, const char *dims,
                            int64_t *parameters, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_model_options opt = {.dims = dims};
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t = {.parameters = -1};
    enum pdl_status st = pdl_model_load(a, spec, &opt, &m, err);

    if (st == PDL_OK)
        st = pdl_model_check(m, err);
    if (st == PDL_OK)
        st = pdl_model_totals(m, &t, err);
    *parameters = t.parameters;
    pdl_arena_destroy(a);
    return st;
}

static void files_are_read_by_suffix_and_by_content(void **state)
{
    /* gpt2: wte 80, wpe 32, 2 layers of 872, last norm 16 */
    static const int64_t want[] = {8, 8, 8, 1872, 1872, 2, 2};
    struct pdl_err err = {"", ""};
    int64_t n;

    (void)state;
    for (int i = 0; i < 7; i++) {
        if (load(path_of(files[i].name), NULL, &n, &err) != PDL_OK)
            fail_msg("%s: %s", files[i].name, err.msg);
        assert_int_equal(n, want[i]);
    }
    assert_int_equal(load("lenet", NULL, &n, &err), PDL_OK);
    assert_int_equal(n, 61706);
}

static void what_cannot_be_read_is_said(void **state)
{
    static const struct {
        const char *spec, *dims, *msg, *hint;
    } cases[] = {
        {"lenet", "seq=3",
         "lenet: a network of the zoo has no symbolic "
         "dimensions to set",
         "parameters of the zoo follow the name: gpt:seq=2048"},
        {"llama-3-8b", "seq=131072", /* a spelling, not a name, of the zoo's */
         "llama-3-8b: a network of the zoo has no symbolic "
         "dimensions to set",
         "parameters of the zoo follow the name: llama-3-8b:seq=131072"},
        {"lenett", NULL, "no model 'lenett'", "did you mean 'lenet'?"},
        {"no-such.yaml", NULL, "no-such.yaml: No such file or directory", ""},
        {"no/such", NULL, "no/such: No such file or directory", ""},
        {"/", NULL, "/: a directory", "name the file: //config.json"},
    };
    struct pdl_err err = {"", ""};
    int64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(load(cases[i].spec, cases[i].dims, &n, &err) != PDL_OK);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
    }
    assert_int_equal(load(path_of("odd"), NULL, &n, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "not a model in a known format"));
    assert_int_equal(load(path_of("a.yaml"), "seq=2", &n, &err), PDL_EINVAL);
    assert_int_equal(load(path_of("w"), "seq=2", &n, &err), PDL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_by_suffix_and_by_content),
        cmocka_unit_test(what_cannot_be_read_is_said),
    };

    return cmocka_run_group_tests(tests, write_files, remove_files);
}
