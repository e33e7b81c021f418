/* Headers of safetensors files, written here and read back. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct file {
    char bytes[4096];
    size_t len;         /* of the header and its length */
    int64_t file_bytes; /* with the data that is not there */
};

/* The writer: length, header; n is the length that is claimed (-1: true). */
static struct file write_file(const char *header, int64_t n, int64_t data)
{
    struct file f;
    size_t len = strlen(header);
    uint64_t claim = n < 0 ? len : (uint64_t)n;

    memset(&f, 0, sizeof f);
    for (int i = 0; i < 8; i++)
        f.bytes[i] = (char)(claim >> 8 * i & 0xff);
    assert_true(len + 8 < sizeof f.bytes);
    memcpy(f.bytes + 8, header, len);
    f.len = len + 8;
    f.file_bytes = (int64_t)f.len + data;
    return f;
}

static enum pdl_status read_file(const struct file *f, pdl_arena *a,
                                 const struct pdl_model **m,
                                 struct pdl_err *err)
{
    return pdl_model_safetensors(a, (struct pdl_bytes){f->bytes, f->len},
                                 f->file_bytes, "x.safetensors", m, err);
}

static struct pdl_model_totals count(const char *header, int64_t data,
                                     char *source, size_t size)
{
    struct file f = write_file(header, -1, data);
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    struct pdl_model_totals t = {.parameters = -1};
    struct pdl_err err = {"", ""};

    if (read_file(&f, a, &m, &err) != PDL_OK ||
        pdl_model_check(m, &err) != PDL_OK ||
        pdl_model_totals(m, &t, &err) != PDL_OK)
        fail_msg("%s: %s", header, err.msg);
    assert_int_equal(m->nnodes, 0);
    assert_string_equal(m->kind, "other");
    if (source)
        snprintf(source, size, "%s", m->source);
    pdl_arena_destroy(a);
    return t;
}

static void parameters_are_counted_and_buffers_apart(void **state)
{
    static const struct {
        const char *header;
        int64_t data, parameters, buffers;
    } cases[] = {
        {"{}", 0, 0, 0},
        {"{\"w\":{\"dtype\":\"BF16\",\"shape\":[3,5],\"data_offsets\":[0,30]}}",
         30, 15, 0},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}  ", 4,
         1, 0},
        /* any order; metadata; an empty tensor */
        {"{\"__metadata__\":{\"format\":\"pt\"},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
         "\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]},"
         "\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}",
         16, 6, 0},
        /* FP8 with block scales */
        {"{\"l.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[128,128],"
         "\"data_offsets\":[0,16384]},\"l.weight_scale_inv\":{\"dtype\":"
         "\"F32\",\"shape\":[1,1],\"data_offsets\":[16384,16388]}}",
         16388, 16384, 1},
        /* MXFP4: two values a byte, one scale for 32 values */
        {"{\"e.gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[2,4,3,16],"
         "\"data_offsets\":[0,384]},\"e.gate_up_proj_scales\":{\"dtype\":"
         "\"U8\",\"shape\":[2,4,3],\"data_offsets\":[384,408]},"
         "\"e.gate_up_proj_bias\":{\"dtype\":\"BF16\",\"shape\":[2,4],"
         "\"data_offsets\":[408,424]}}",
         424, 768 + 8, 24},
        /* masks, ids, statistics */
        {"{\"h.0.attn.bias\":{\"dtype\":\"F32\",\"shape\":[1,1,2,2],"
         "\"data_offsets\":[0,16]},\"e.position_ids\":{\"dtype\":\"I64\","
         "\"shape\":[1,2],\"data_offsets\":[16,32]},\"bn.running_mean\":{"
         "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]},"
         "\"l.attn.bias\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[40,48]},\"logit_scale\":{\"dtype\":\"F32\","
         "\"shape\":[],\"data_offsets\":[48,52]}}",
         52, 3, 8},
        /* half a byte a value */
        {"{\"w\":{\"dtype\":\"F4\",\"shape\":[3,2],\"data_offsets\":[0,3]}}", 3,
         6, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pdl_model_totals t =
            count(cases[i].header, cases[i].data, NULL, 0);

        if (t.parameters != cases[i].parameters ||
            t.buffers != cases[i].buffers)
            fail_msg("%s: %lld parameters, %lld buffers", cases[i].header,
                     (long long)t.parameters, (long long)t.buffers);
    }
}

static void a_missing_head_is_said(void **state)
{
    char source[200];

    (void)state;
    count("{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],"
          "\"data_offsets\":[0,16]}}",
          16, source, sizeof source);
    assert_non_null(strstr(source, "no lm_head"));
    count("{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],"
          "\"data_offsets\":[0,16]},\"lm_head.weight\":{\"dtype\":\"F32\","
          "\"shape\":[2,2],\"data_offsets\":[16,32]}}",
          32, source, sizeof source);
    assert_null(strstr(source, "no lm_head"));
}

#define ONE(dtype, shape, offsets)                     \
    "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
    ",\"data_offsets\":" offsets "}}"

#define OUTSIDE(range)                                              \
    "x.safetensors:1:48: data_offsets " range " do not lie within " \
    "the 4 bytes of data"

static const struct {
    const char *header;
    int64_t n, data;
    const char *msg, *hint;
} bad_headers[] = {
    {"{}", 3, 0, "x.safetensors: a header of 3 bytes in a file of 10", NULL},
    {"{}", 100000001, 0,
     "x.safetensors: a header of 100000001 bytes; at most 100000000 are "
     "allowed",
     NULL},
    {"{}", INT64_MAX, 0,
     "x.safetensors: a header of 9223372036854775807 bytes; at most "
     "100000000 are allowed",
     NULL},
    {"{}", 0x0403 << 16 | 'K' << 8 | 'P', 0,
     "x.safetensors: a header of 67324752 bytes in a file of 10", NULL},
    {"{}", INT64_C(8) << 32 | 0x0403 << 16 | 'K' << 8 | 'P', 0,
     "x.safetensors: a header of 34427063120 bytes; at most 100000000 are "
     "allowed",
     "PyTorch's own format? save_file of safetensors.torch writes what can be "
     "read"},
    {"[]", -1, 0, "x.safetensors:1:1: the header is not an object { }", NULL},
    {"{}", -1, 1, "x.safetensors: the tensors end at byte 0 of 1 of the data",
     NULL},
    {"{\"w\":3}", -1, 0,
     "x.safetensors:1:6: 'w': expected {dtype, shape, data_offsets}", NULL},
    {ONE("F31", "[1]", "[0,4]"), -1, 4,
     "x.safetensors:1:15: unknown dtype 'F31'", "did you mean 'F32'?"},
    {ONE("F32", "[1]", "[0,5]"), -1, 5,
     "x.safetensors:1:6: 'w': the shape needs 4 bytes, data_offsets span 5",
     NULL},
    {ONE("F32", "[1]", "[4,0]"), -1, 4, OUTSIDE("4 to 0"), NULL},
    {ONE("F32", "[2]", "[0,8]"), -1, 4, OUTSIDE("0 to 8"), NULL},
    {ONE("F32", "[1]", "[1,5]"), -1, 5,
     "x.safetensors:1:6: 'w' begins at byte 1 of the data, but the tensor "
     "before it ends at 0",
     NULL},
    {ONE("F32", "[4611686018427387904,4]", "[0,0]"), -1, 0,
     "x.safetensors:1:6: 'w': the shape is too large, or no whole number "
     "of bytes",
     NULL},
    {ONE("F32", "[-1]", "[0,4]"), -1, 4, NULL, NULL},
    {ONE("F32", "[1]", "[0]"), -1, 4,
     "x.safetensors:1:48: the tensor needs data_offsets [begin, end]", NULL},
    {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), -1, 4,
     "x.safetensors:1:29: a tensor of rank 9; at most 8 is read", NULL},
    {"{\"w\":{\"dtype\":\"F32\"}}", -1, 0,
     "x.safetensors:1:6: the tensor has no shape", NULL},
    {"{\"w\":{\"shape\":[1]}}", -1, 0,
     "x.safetensors:1:6: the tensor has no dtype", NULL},
    {"{\"__metadata__\":{\"a\":1}}", -1, 0,
     "x.safetensors:1:22: __metadata__: 'a' must be text", NULL},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     -1, 3,
     "x.safetensors:1:58: 'b' begins at byte 1 of the data, but the tensor "
     "before it ends at 2",
     NULL},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],"
     "\"w\":1}}",
     -1, 4, NULL, NULL},
    {ONE("F32", "[1]", "[0,4]") "x", -1, 4, NULL, NULL},
};

static void bad_headers_are_refused_in_one_clear_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_headers / sizeof bad_headers[0]; i++) {
        struct file f = write_file(bad_headers[i].header, bad_headers[i].n,
                                   bad_headers[i].data);
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(read_file(&f, a, &m, &err), PDL_EPARSE);
        if (bad_headers[i].msg && strcmp(err.msg, bad_headers[i].msg) != 0)
            fail_msg("%s\n  says: %s\n  want: %s", bad_headers[i].header,
                     err.msg, bad_headers[i].msg);
        if (bad_headers[i].hint)
            assert_string_equal(err.hint, bad_headers[i].hint);
        assert_null(strchr(err.msg, '\n'));
        pdl_arena_destroy(a);
    }
}

static void short_files_are_refused(void **state)
{
    struct file f = write_file("{}", -1, 0);

    (void)state;
    for (size_t n = 0; n < 10; n++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(
            pdl_model_safetensors(a, (struct pdl_bytes){f.bytes, n}, (int64_t)n,
                                  "x.safetensors", &m, &err),
            PDL_EPARSE);
        assert_null(m);
        pdl_arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_counted_and_buffers_apart),
        cmocka_unit_test(a_missing_head_is_said),
        cmocka_unit_test(bad_headers_are_refused_in_one_clear_line),
        cmocka_unit_test(short_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
