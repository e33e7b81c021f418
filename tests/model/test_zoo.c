/* The zoo: every network builds, is sound and has its published totals. */
#include "paradl/model.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

/* What each network is pinned to. Parameters were compared with the published
 * count where there is one. FLOPs and buffers are what this program said when
 * the row was written, so they guard against change; worked out apart from it
 * were those of ResNet-50 (both strides), VGG-16 and CosmoFlow. The operators'
 * own tests and tests/peers/model_reader.py check the arithmetic. */
// clang-format off
static const struct {
    const char *spec;
    int64_t parameters, buffers, flops;
} totals[] = {
    {"lenet", 61706, 0, 833040},
    {"lenet5", 61706, 0, 833040},
    {"alexnet", 61100840, 0, 1428376960},
    {"vgg", 138357544, 0, 30940528640},
    {"vgg16", 138357544, 0, 30940528640},
    {"vgg19", 143667240, 0, 39264124928},
    {"resnet", 25557032, 53120, 8178368512},
    {"resnet18", 11689512, 9600, 3628146688},
    {"resnet34", 21797672, 17024, 7327522816},
    {"resnet50", 25557032, 53120, 8178368512},
    {"resnet101", 44549160, 105344, 15602810880},
    {"resnet152", 60192808, 151424, 23027253248},
    /* 269,722 and 1,727,962 with option A; B adds 2,752 */
    {"resnet-cifar", 272474, 1568, 81626368},
    {"resnet20", 272474, 1568, 81626368},
    {"resnet56", 855770, 4256, 251495680},
    {"resnet110", 1730714, 8288, 506299648},
    /* the paper says 1.7 and 10.2 million */
    {"preact", 1703258, 24224, 495293440},
    {"resnet200", 64666280, 168448, 30014963712},
    {"resnet1001", 10327706, 149216, 2981991424},
    {"davidnet", 6573130, 4480, 758523904},
    {"resnet9", 6573130, 4480, 758523904},
    {"wrn", 36479194, 17952, 10486657536},
    {"wrn-28-10", 36479194, 17952, 10486657536},
    {"densenet", 7978856, 83648, 5668323328},
    {"densenet121", 7978856, 83648, 5668323328},
    {"densenet161", 28681000, 219936, 15455814144},
    {"densenet169", 14149480, 158400, 6719686656},
    {"densenet201", 20013928, 229056, 8582731776},
    {"mobilenet", 3504872, 34112, 601548544},
    {"mobilenet-v2", 3504872, 34112, 601548544},
    {"mobilenet3", 5483032, 24400, 433179520},
    {"mobilenet-v3-large", 5483032, 24400, 433179520},
    {"mobilenet-v3-small", 2542856, 12112, 113020800},
    {"googlenet", 6624904, 14560, 2996752384},
    {"squeezenet", 1248424, 0, 1637849152},
    {"squeezenet1.0", 1248424, 0, 1637849152},
    {"squeezenet1.1", 1235496, 0, 698303872},
    {"regnet", 5495976, 37856, 827625216},
    {"regnet-x-400mf", 5495976, 37856, 827625216},
    {"regnet-x-800mf", 7259656, 37312, 1599399424},
    {"regnet-x-1.6gf", 9190136, 43504, 3205699584},
    {"regnet-x-3.2gf", 15296552, 62560, 6353243904},
    {"regnet-x-8gf", 39572648, 90464, 15990264832},
    {"regnet-y-400mf", 4344144, 27152, 803685696},
    {"regnet-y-800mf", 6432512, 30432, 1667712512},
    {"regnet-y-1.6gf", 11202430, 52672, 3224152320},
    {"regnet-y-3.2gf", 19436338, 66160, 6352965504},
    {"regnet-y-8gf", 39381472, 86528, 16946141184},
    {"efficientnet", 5288548, 42016, 771629504},
    {"efficientnet-b0", 5288548, 42016, 771629504},
    {"unet", 31030658, 0, 300856848896},
    {"unet3d", 19074627, 4672, 533462036992},
    {"cosmoflow", 3965380, 0, 16504633344},
    {"cosmoflow-mlperf", 5597604, 0, 20409500160},
    {"deepcam", 56454720, 97760, 655337666560},
    {"gpt", 124439808, 0, 291648307200},
    {"gpt2", 124439808, 0, 291648307200},
    {"gpt2-medium", 354823168, 0, 826951073792},
    {"gpt2-large", 774030080, 0, 1774570700800},
    {"gpt2-xl", 1557611200, 0, 3506703564800},
    {"gpt3-125m", 125226240, 0, 660606025728},
    {"gpt3-350m", 355871744, 0, 1860060577792},
    {"gpt3-760m", 760300032, 0, 3717803802624},
    {"gpt3-1.3b", 1315723264, 0, 6194022318080},
    {"gpt3-2.7b", 2651553280, 0, 12209293885440},
    {"gpt3-6.7b", 6658404352, 0, 29430474866688},
    {"gpt3-13b", 12853386240, 0, 56029547069440},
    {"gpt3-175b", 174604259328, 0, 734804261732352},
    {"megatron-22b", 22074273792, 0, 95296734363648},
    {"megatron-175b", 174615846912, 0, 734851724476416},
    {"megatron-530b", 529600819200, 0, 2205036209766400},
    {"megatron-1t", 1008038758400, 0, 4183512894668800},
    {"llama", 6738415616, 0, 62921270886400},
    {"llama2-7b", 6738415616, 0, 62921270886400},
    {"llama2-13b", 13015864320, 0, 119024281190400},
    {"llama2-70b", 68976648192, 0, 606878878924800},
    {"llama3-8b", 8030261248, 0, 158140695838720},
    {"llama3-70b", 70553706496, 0, 1314637949698048},
    {"llama3.1-8b", 8030261248, 0, 158140695838720},
    {"llama3.1-70b", 70553706496, 0, 1314637949698048},
    {"llama3.1-405b", 405853388800, 0, 7169159410483200},
    {"qwen3-0.6b", 596049920, 0, 8730594770944},
    {"qwen3-1.7b", 1720574976, 0, 17942225879040},
    {"qwen3-4b", 4022468096, 0, 42846056873984},
    {"qwen3-8b", 8190735360, 0, 71893457567744},
    {"qwen3-14b", 14768307200, 0, 128349728931840},
    {"qwen3-32b", 32762123264, 0, 297193483272192},
    {"moe", 47508099072, 0, 119829587558400},
    {"mixtral-8x7b", 46702792704, 0, 113232517791744},
    {"mixtral-8x22b", 140630071296, 0, 342245542723584},
    {"qwen3-30b-a3b", 30532122624, 0, 38111392301056},
    {"qwen3-235b-a22b", 235093634560, 0, 228359116161024},
    {"deepseek", 671026419200, 0, 383866460176384},
    {"deepseek-v3", 671026419200, 0, 383866460176384},
    {"kimi-k2", 1026408232448, 0, 301491134922752},
    {"deepseek4", 283811137280, 0, 198994424758272},
    {"deepseekv4-flash", 283811137280, 0, 198994424758272},
    {"nemotron", 31577940288, 0, 59474291195904},
    {"nemotron-3-nano", 31577940288, 0, 59474291195904},
    {"nemotron-3-5-lightning", 31577940288, 0, 59474291195904},
    {"nemotron-3-super", 120668707840, 0, 209208930729984},
    {"nemotron-3-ultra", 549308993536, 0, 927221162180608},
    {"bert", 109482240, 0, 96637943808},
    {"bert-base", 109482240, 0, 96637943808},
    {"bert-large", 335141888, 0, 335009546240},
    {"vit", 86567656, 0, 35127656448},
    {"vit-b16", 86567656, 0, 35127656448},
    {"vit-b32", 88224232, 0, 8818372608},
    {"vit-l16", 304326632, 0, 123109425152},
    {"vit-h14", 632045800, 0, 334590218240},
    {"deit-tiny", 5717416, 0, 2507366400},
    {"deit-small", 22050664, 0, 9197764608},
    {"t5", 222903552, 0, 257194721280},
    {"t5-small", 60506624, 0, 71605157888},
    {"t5-base", 222903552, 0, 257194721280},
    {"t5-large", 737668096, 0, 832552566784},
    {"t5-3b", 2851598336, 0, 3229144317952},
    {"t5-11b", 11307321344, 0, 12815511322624},
    {"gpt:layers=96,hidden=12288,heads=96,ffn=49152,vocab=51200,seq=2048", 174615846912, 0, 734851724476416},
    {"bert-large:seq=512", 335141888, 0, 335009546240},
    {"gpt2:seq=128", 124439808, 0, 32228179968},
    {"llama3.1-8b:layers=4,seq=131072", 1923125248, 0, 1492312156798976},
    {"gpt:layers=32,hidden=4096,heads=32,kv_heads=8,ffn=16384,vocab=131200,seq=8192,tied=0", 6747004928, 0, 136348031778816},
    {"t5-base:gated=1,ffn=2048,tied=0", 247577856, 0, 257194721280},
    {"llama:layers=126,hidden=16384,heads=128,kv_heads=8,ffn=53248,gated=1,vocab=128256,seq=131072", 405853388800, 0, 247703477063516160},
    {"resnet50:stride=1x1", 25557032, 53120, 7715946496},
    {"vgg16:input=226", 169814824, 0, 32588609024},
    {"vgg16:input=256", 169814824, 0, 40399339520},
    {"wrn-28-10:classes=100", 36536884, 17952, 10486772736},
    {"cosmoflow:size=256", 8946116, 0, 139345442816},
    {"cosmoflow:size=512", 34636228, 0, 1145374685184},
};
// clang-format on

static void networks_have_their_published_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_model_totals t;
        struct pdl_err err = {"", ""};

        if (pdl_zoo_build(a, totals[i].spec, &m, &err) != PDL_OK ||
            pdl_model_check(m, &err) != PDL_OK ||
            pdl_model_totals(m, &t, &err) != PDL_OK)
            fail_msg("%s: %s", totals[i].spec, err.msg);
        if (t.parameters != totals[i].parameters ||
            t.buffers != totals[i].buffers ||
            t.forward_flops != totals[i].flops)
            fail_msg("%s: %lld parameters, %lld buffers, %lld FLOPs",
                     totals[i].spec, (long long)t.parameters,
                     (long long)t.buffers, (long long)t.forward_flops);
        pdl_arena_destroy(a);
    }
}

static bool is_cnn(const char *name)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;
    bool yes;

    assert_int_equal(pdl_zoo_build(a, name, &m, NULL), PDL_OK);
    yes = strcmp(m->kind, "cnn") == 0;
    pdl_arena_destroy(a);
    return yes;
}

static void every_convolutional_network_has_a_row_above(void **state)
{
    const struct pdl_zoo_entry *e;

    (void)state;
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++) {
        size_t k = 0, n = sizeof totals / sizeof totals[0];

        if (!is_cnn(e->name))
            continue;

        while (k < n && strcmp(totals[k].spec, e->name) != 0)
            k++;
        if (k == n)
            fail_msg("no totals for %s", e->name);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(pdl_zoo_at(j)->name, e->name);
    }
}

/* The order and the names of torchvision's export. */
static void resnet_layers_are_called_as_in_torchvision(void **state)
{
    static const struct {
        int node;
        const char *name, *op;
    } some[] = {
        {0, "conv1", "conv"},
        {1, "bn1", "batch_norm"},
        {2, "relu", "relu"},
        {3, "maxpool", "max_pool"},
        {4, "layer1.0.conv1", "conv"},
        {6, "layer1.0.relu", "relu"},
        {9, "layer1.0.relu_1", "relu"},
        {12, "layer1.0.downsample.0", "conv"},
        {14, "layer1.0.Add", "add"},
        {15, "layer1.0.relu_2", "relu"},
        {16, "layer1.1.conv1", "conv"},
        {172, "avgpool", "global_avg_pool"},
        {173, "Flatten", "flatten"},
        {174, "fc", "linear"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_model *m = NULL;

    (void)state;
    assert_int_equal(pdl_zoo_build(a, "resnet50", &m, NULL), PDL_OK);
    assert_int_equal(m->nnodes, 175);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const struct pdl_node *n = &m->nodes[some[i].node];

        assert_string_equal(n->name, some[i].name);
        assert_string_equal(n->op->name, some[i].op);
    }
    pdl_arena_destroy(a);
}

static void what_is_typed_wrong_is_said(void **state)
{
    static const struct {
        const char *spec, *msg, *hint;
    } cases[] = {
        {"resnet51", "no model 'resnet51'", "did you mean 'resnet50'?"},
        {"", "no model ''", "'paradl model list' shows the zoo"},
        {"resnet:dept=50", "resnet: no parameter 'dept'",
         "did you mean 'depth'?"},
        {"resnet:colour=red", "resnet: no parameter 'colour'",
         "it takes depth, stride, input, channels, classes"},
        {"resnet:depth=51", "resnet: depth: '51' is none of 18|34|50|101|152",
         ""},
        {"resnet:input=4x4", "resnet: input: '4x4' is not a whole number", ""},
        {"resnet:input=", "resnet: 'input=' is not key=value", ""},
        {"resnet:", "resnet: '' is not key=value", ""},
        {"resnet:input=32,input=33", "resnet: input is set twice", ""},
        {"wrn:depth=29", "wrn:depth=29: depth must be 6n + 4, like 28", ""},
        {"deepcam:height=100",
         "deepcam:height=100: height and width must be multiples of 16", ""},
        {"unet:input=100",
         "unet:input=100: down5.conv1 (conv): the kernel reaches 3, but the "
         "padded input is only 2",
         ""},
        {"resnet50:stride=2x2", "resnet50: stride: '2x2' is none of 3x3|1x1",
         ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        const struct pdl_model *m = NULL;
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_zoo_build(a, cases[i].spec, &m, &err), PDL_EINVAL);
        assert_string_equal(err.msg, cases[i].msg);
        assert_string_equal(err.hint, cases[i].hint);
        assert_null(m);
        pdl_arena_destroy(a);
    }
}

static void squeeze(const char *name, char *out)
{
    for (; *name; name++)
        if (*name != '-' && *name != '_')
            *out++ = *name;
    *out = '\0';
}

static void dashes_and_case_do_not_matter(void **state)
{
    static const char *const spellings[] = {"llama3-70b", "llama-3-70b",
                                            "Llama_3_70B"};
    const struct pdl_zoo_entry *e, *other;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);

    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        struct pdl_model_totals t;
        const struct pdl_model *m;

        assert_int_equal(pdl_model_load(a, spellings[i], NULL, &m, NULL),
                         PDL_OK);
        assert_int_equal(pdl_model_totals(m, &t, NULL), PDL_OK);
        assert_int_equal(t.parameters, 70553706496);
    }
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++)
        for (int k = 0; k < i && (other = pdl_zoo_at(k)) != NULL; k++) {
            char one[128], two[128];

            squeeze(e->name, one);
            squeeze(other->name, two);
            assert_string_not_equal(one, two);
        }
    pdl_arena_destroy(a);
}

/* Widths of FedDCT: 16 becomes 12, 8, 6, 4, 3; WRN's factor 8 becomes 4. */
static void a_network_is_divided_by_its_width(void **state)
{
    static const struct {
        const char *spec;
        int parts;
        const char *part;
    } cases[] = {
        {"resnet110", 2, "resnet110:width=12"},
        {"resnet110", 4, "resnet110:width=8"},
        {"resnet110", 8, "resnet110:width=6"},
        {"resnet110", 16, "resnet110:width=4"},
        {"resnet110", 32, "resnet110:width=3"},
        {"wrn:depth=16,width=8", 4, "wrn:depth=16,width=4"},
        {"wrn-28-10:classes=100", 4, "wrn-28-10:classes=100,width=5"},
        {"resnet9:width=32,channels=1", 4, "resnet9:channels=1,width=16"},
        {"resnet9", 1, "resnet9:width=64"},
        {"resnet20:width=1", 64, "resnet20:width=1"},
    };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const char *part = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            pdl_zoo_divide(a, cases[i].spec, cases[i].parts, &part, &err),
            PDL_OK);
        assert_string_equal(part, cases[i].part);
    }
    assert_int_equal(pdl_zoo_divide(a, "lenet5", 4, &part, &err), PDL_EINVAL);
    assert_int_equal(pdl_zoo_divide(a, "nosuch", 4, &part, &err), PDL_EINVAL);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_published_totals),
        cmocka_unit_test(a_network_is_divided_by_its_width),
        cmocka_unit_test(every_convolutional_network_has_a_row_above),
        cmocka_unit_test(resnet_layers_are_called_as_in_torchvision),
        cmocka_unit_test(what_is_typed_wrong_is_said),
        cmocka_unit_test(dashes_and_case_do_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
