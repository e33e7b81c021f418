/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page shows of one plan beyond its projection: memory of each stage,
 * the schedule, bytes of the links. Parts that cannot be had (too many
 * events, a network whose rate is not known) are left out. */
#include "cli/output/projection.h"

#include "paradl/net.h"

/* Layers that a stage computes forward, and the name of the first. */
static int64_t layers_of(const struct pdl_plan *p, int stage,
                         const char **first)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    int64_t n = 0;

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int k = 0; k < p->items[i].nops; k++) {
            const struct pdl_plan_op *o = &p->ops[p->items[i].first_op + k];

            if (o->kind != PDL_PLAN_OP_COMPUTE || o->part > 0 || o->node < 0)
                continue;
            if (!*first)
                *first = p->model->nodes[o->node].name;
            n += p->items[i].repeat;
        }
    return n;
}

static void lane_json(struct pdl_json *w, const struct pdl_plan *p, int lane,
                      const struct pdl_projection *x)
{
    const char *first = NULL;
    int64_t layers = 0;

    for (int s = 0; s < p->nstages; s++)
        if (pdl_plan_lane(p, s) == lane)
            layers += layers_of(p, s, &first);
    pdl_json_object(w);
    pdl_json_kint(w, "stage", lane);
    pdl_json_kint(w, "layers", layers);
    pdl_json_kstr(w, "first", first ? first : "");
    pdl_json_kint(w, "weights_bytes", x->weights_bytes);
    pdl_json_kint(w, "gradients_bytes", x->gradients_bytes);
    pdl_json_kint(w, "optimizer_bytes", x->optimizer_bytes);
    pdl_json_kint(w, "activations_bytes", x->activations_bytes);
    pdl_json_kint(w, "workspace_bytes", x->workspace_bytes);
    pdl_json_kint(w, "comm_buffers_bytes", x->comm_buffers_bytes);
    pdl_json_kint(w, "peak_bytes", x->peak_bytes);
    pdl_json_end(w);
}

static void stages_json(struct pdl_json *w, const struct cli_job *j)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_lane_memory lanes;

    if (a && pdl_lane_memory(a, j->plan, &j->sys, &j->oracle, &lanes, NULL) ==
                 PDL_OK) {
        pdl_json_key(w, "stages");
        pdl_json_array(w);
        for (int l = 0; l < lanes.n; l++)
            lane_json(w, j->plan, l, &lanes.lane[l]);
        pdl_json_end(w);
    }
    pdl_arena_destroy(a);
}

/* As many nodes as the plan uses: the others stay cold. */
static const struct pdl_net *network(pdl_arena *a, const struct cli_job *j)
{
    struct pdl_system sys = j->sys;
    int64_t per = sys.node.pes > 0 ? sys.node.pes : 1;
    const struct pdl_net *net = NULL;
    const char *spec;

    sys.nodes = (j->plan->mesh->pes + per - 1) / per;
    if (pdl_system_topology(a, &sys, &spec, NULL) != PDL_OK ||
        pdl_net_make(a, spec, &net, NULL) != PDL_OK)
        return NULL;
    return net;
}

static void links_json(struct pdl_json *w, const struct cli_job *j)
{
    enum { MOST_LINKS = 100000 };
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    const struct pdl_net *net = a ? network(a, j) : NULL;
    int64_t *bytes = net && net->nlinks <= MOST_LINKS
                         ? PDL_NEW(a, int64_t, net->nlinks + 1)
                         : NULL;

    if (bytes && j->plan->mesh->pes > 1 &&
        pdl_link_traffic(a, j->plan, net, j->sys.node.pes, bytes, NULL) ==
            PDL_OK) {
        pdl_json_key(w, "network");
        pdl_json_object(w);
        pdl_json_kstr(w, "topology", net->spec);
        pdl_json_kint(w, "hosts", net->nhosts);
        pdl_json_key(w, "link_bytes");
        pdl_json_flat(w);
        for (int i = 0; i < net->nlinks; i++)
            pdl_json_int(w, bytes[i]);
        pdl_json_end(w);
        pdl_json_end(w);
    }
    pdl_arena_destroy(a);
}

void cli_details_json(struct pdl_json *w, const struct cli_job *j)
{
    stages_json(w, j);
    cli_schedule_json(w, j);
    links_json(w, j);
}

void cli_question_json(struct pdl_json *w, const struct pdl_cmd *cmd,
                       const struct pdl_args *args, const struct cli_job *j)
{
    struct pdl_buf line;

    pdl_buf_init(&line);
    cli_command_line(cmd, args, &line.sink);
    pdl_json_kstr(w, "command", line.text);
    pdl_buf_free(&line);
    pdl_json_kstr(w, "model", j->model->name);
    pdl_json_kstr(w, "system", j->sys.name);
    pdl_json_kstr(w, "parameters",
                  j->oracle.parameters == PDL_IDEAL ? "ideal" : "empirical");
}
