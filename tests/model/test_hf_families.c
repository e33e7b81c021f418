/* The table of families is text: nothing in it may be misspelt. And the
 * language it is written in means what family.h says. */
#include "hf.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Fields that the code asks for; a row may define others for its own use. */
static const char asked[] =
    " mixer order norm heads kv_heads head_dim v_head_dim window causal rope "
    "q_bias k_bias v_bias out_bias qk_norm qk_norm_kind sinks gate v_is_k "
    "sub_norm q_lora kv_lora qk_nope qk_rope lora_bias cross inner state conv "
    "dt_rank groups in_bias conv_bias ssm_out ssm_norms k_heads ffn gated "
    "ffn_bias ffn_norm experts topk moe_ffn expert_bias router_bias correction "
    "shared_ffn shared_gate dense_too layer_scale gates per_layer beside "
    "hidden layers vocab embed_dim types same_table positions embed_norm "
    "project_last shared_layers rel_buckets rel_heads rel_rows rel_norm image "
    "channels patch patch_bias class_tokens pre_norm mels final_norm pool "
    "pooler feature per_vocab per_width frames merge mean adapter_norm "
    "adapter_norm_kind adapter_hidden adapter_out adapter_bias adapter_in "
    "adapter_two tiles aspects not_inserted max_pos pos_lost encdec clip "
    "vision encoder head tied head_bias always_head cls_pooler labels "
    "moe_freq moe_shift dense_first dense_ffn window_every lin_every "
    "attn_every attn_offset all_mamba first_plain kv_shared double_wide "
    "globals index_heads index_dim two_thirds multiple unscaled ";

static bool in_list(const char *list, const char *word)
{
    char key[80];

    snprintf(key, sizeof key, " %s ", word);
    return strstr(list, key) != NULL;
}

/* Is the word a term of some expression? */
static bool used(const char *word)
{
    for (const struct model_row *r = model_hf_families; r->name; r++)
        for (const char *p = strstr(r->text, word); p;
             p = strstr(p + 1, word)) {
            char after = p[strlen(word)];

            if (p > r->text && strchr(":?{,*/+-", p[-1]) &&
                (after == '\0' || strchr(" *,}/+-", after)))
                return true;
        }
    return false;
}

static bool known(const char *field)
{
    static const char *const prefixes[] = {"dec_",   "vis_",    "full_",
                                           "lin_",   "conv_",   "mamba_",
                                           "cross_", "global_", "dense_"};

    if (in_list(asked, field) || used(field))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(field, prefixes[i], strlen(prefixes[i])) == 0 &&
            in_list(asked, field + strlen(prefixes[i])))
            return true;
    return false;
}

static void every_field_of_the_table_is_asked_for(void **state)
{
    (void)state;
    assert_false(known("qk_nrom")); /* the test can fail */
    for (const struct model_row *r = model_hf_families; r->name; r++)
        for (const char *p = r->text; *p;) {
            size_t token = strcspn(p, " "), n = strcspn(p, "=? ");
            char field[64];

            snprintf(field, sizeof field, "%.*s", (int)n, p);
            if (n && !known(field))
                fail_msg("%s: nobody asks for '%s'", r->name, field);
            p += token + (p[token] == ' ');
        }
}

static void rows_build_on_rows_and_are_there_once(void **state)
{
    (void)state;
    for (const struct model_row *r = model_hf_families; r->name; r++) {
        int depth = 0;

        assert_ptr_equal(model_row_find(model_hf_families, r->name), r);
        for (const struct model_row *up = r; up->like; depth++) {
            up = model_row_find(model_hf_families, up->like);
            if (!up || depth > 12)
                fail_msg("%s: builds on no row", r->name);
        }
    }
}

static int64_t value(const char *text, const char *json, const char *field,
                     char *msg)
{
    struct model_row rows[] = {{"base", NULL, "size=hidden|width? two=2"},
                               {"row", "base", text},
                               {NULL, NULL, NULL}};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct model_fields f = {.rows = rows, .row = &rows[1], .err = &err};
    int64_t v;

    assert_int_equal(pdl_doc_json(a, (struct pdl_bytes){json, strlen(json)},
                                  "f", &f.map, &err),
                     PDL_OK);
    f.outer = f.map;
    v = model_field(&f, field);
    if (msg)
        snprintf(msg, sizeof err.msg, "%s", err.msg);
    else if (f.status != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_arena_destroy(a);
    return v;
}

static void expressions_mean_what_they_say(void **state)
{
    static const struct {
        const char *text, *json;
        int64_t want;
    } cases[] = {
        {"x=a|b?7", "{\"b\": 3}", 3},
        {"x=a|b?7", "{\"a\": null, \"b\": 3}", 3},
        {"x=a|b?7", "{}", 7},
        {"x=a?two", "{}", 2},
        {"x=a?3*two", "{}", 6},
        {"x=:y/two y=8", "{}", 4},
        {"x=:y+two y=8", "{}", 10},
        {"x=:y-two y=8", "{}", 6},
        {"x", "{}", 1},
        {"x=5 x=6", "{}", 6},
        {"x=!a?9", "{\"a\": true}", 0},
        {"x=!a?9", "{\"a\": false}", 1},
        {"x=#a", "{\"a\": [1, 2, 3]}", 3},
        {"x=#a", "{\"a\": {\"p\": 1, \"q\": 2}}", 2},
        {"x=a~gat", "{\"a\": \"gated-gelu\"}", 1},
        {"x=a~gat", "{\"a\": \"relu\"}", 0},
        {"x=a=relu", "{\"a\": \"relu\"}", 1},
        {"x=a{two,9}", "{\"a\": true}", 2},
        {"x=a{two,9}", "{\"a\": 0}", 9},
        {"x=a.b.c", "{\"a\": {\"b\": {\"c\": 4}}}", 4},
        {"x=^a", "{\"a\": 4.0}", 4},
        {"x=a", "{\"a\": \"auto\"}", 0},
        {"y=1", "{}", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (value(cases[i].text, cases[i].json, "x", NULL) != cases[i].want)
            fail_msg("%s of %s", cases[i].text, cases[i].json);
}

static void expressions_that_fail_say_why(void **state)
{
    static const struct {
        const char *text, *json, *msg;
    } cases[] = {
        {"x=a|b", "{}", "f:1:1: the key a is missing"},
        {"x=:y/z y=p z=q", "{\"p\": 7, \"q\": 2}",
         "f:1:15: p (7) is not divisible by q (2)"},
        {"x=:y/z y=p z=q", "{\"p\": 7, \"q\": 0}",
         "f:1:15: p (7) is not divisible by q (0)"},
        {"x=a", "{\"a\": \"b\"}",
         "f:1:7: a: expected a number, found text \"b\""},
        {"x=a", "{\"a\": 1e3}", "f:1:7: a: '1e3' is not a whole number"},
        {"x=a", "{\"a\": 5000000000.0}", "f:1:7: the value is too large"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char msg[512];

        assert_int_equal(value(cases[i].text, cases[i].json, "x", msg), 0);
        assert_string_equal(msg, cases[i].msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_table_is_asked_for),
        cmocka_unit_test(rows_build_on_rows_and_are_there_once),
        cmocka_unit_test(expressions_mean_what_they_say),
        cmocka_unit_test(expressions_that_fail_say_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
