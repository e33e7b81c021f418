/* SPDX-License-Identifier: Apache-2.0
 *
 * From a description to its file, and to JSON, both by walking the table of
 * keys. Values equal to their default are left out of the file; units are
 * chosen so that reading gives the same double. Everything that is not plain
 * ASCII is escaped, so that the text of a hostile name stays one scalar. */
#include "system_priv.h"

#include <stdio.h>
#include <string.h>

static void yaml_table(const struct system_table *t, const void *base,
                       int indent, bool first_inline, struct pdl_sink *out);

/* ---- scalars ---------------------------------------------------------- */

/* Decodes one UTF-8 point; a byte that starts none is taken as '?'. */
static unsigned point(const unsigned char **p)
{
    static const unsigned least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *s = *p;
    int more = *s >= 0xf0 ? 3 : *s >= 0xe0 ? 2 : 1;
    unsigned cp;

    (*p)++;
    if (*s < 0x80)
        return *s;
    if (*s < 0xc2 || *s > 0xf4)
        return '?';
    cp = *s & (0x3fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return '?';
        cp = cp << 6 | (s[i] & 0x3f);
    }
    if (cp < least[more] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return '?';
    *p += more;
    return cp;
}

static bool is_plain(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_./+-");

    return n > 0 && s[n] == '\0' && strcmp(s, "null") != 0 &&
           !strchr("+-.", *s);
}

static void put_text(const char *s, struct pdl_sink *out)
{
    const unsigned char *p = (const unsigned char *)s;

    if (is_plain(s)) {
        pdl_puts(out, s);
        return;
    }
    pdl_puts(out, "\"");
    while (*p) {
        unsigned cp = point(&p);

        if (cp == '"' || cp == '\\')
            pdl_printf(out, "\\%c", (int)cp);
        else if (cp >= 0x20 && cp < 0x7f)
            pdl_printf(out, "%c", (int)cp);
        else if (cp < 0x100)
            pdl_printf(out, "\\x%02X", cp);
        else if (cp < 0x10000)
            pdl_printf(out, "\\u%04X", cp);
        else
            pdl_printf(out, "\\U%08X", cp);
    }
    pdl_puts(out, "\"");
}

static void put_ints(const int64_t *v, int64_t n, struct pdl_sink *out)
{
    pdl_puts(out, "[");
    for (int64_t i = 0; i < n; i++)
        pdl_printf(out, "%s%lld", i ? ", " : "", (long long)v[i]);
    pdl_puts(out, "]");
}

static void yaml_scalar(const struct system_field *f, const void *at,
                        struct pdl_sink *out)
{
    char buf[64];

    switch (f->kind) {
    case SYSTEM_TEXT:
        put_text(*(const char *const *)at, out);
        break;
    case SYSTEM_COUNT:
        pdl_printf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case SYSTEM_BYTES:
        pdl_puts(out, pdl_unit_print((double)*(const int64_t *)at, f->unit, buf,
                                     sizeof buf));
        break;
    case SYSTEM_NUM:
        pdl_puts(out,
                 pdl_unit_print(*(const double *)at, f->unit, buf, sizeof buf));
        break;
    case SYSTEM_BOOL:
        pdl_puts(out, *(const bool *)at ? "true" : "false");
        break;
    case SYSTEM_SHAPE:
        pdl_puts(out, pdl_link_shape_name((enum pdl_link_shape) *
                                          (const int64_t *)at));
        break;
    default:
        break;
    }
}

static int64_t count_of(const struct system_field *f, const void *base)
{
    return *(const int64_t *)((const char *)base + f->count_at);
}

/* Says whether a value differs from its default (a map: any in it). */
static bool worth(const struct system_field *f, const void *base)
{
    const void *at = (const char *)base + f->at;

    switch (f->kind) {
    case SYSTEM_TEXT:
    case SYSTEM_TOPOLOGY:
        return *(const char *const *)at != NULL;
    case SYSTEM_COUNT:
        return f->required || *(const int64_t *)at != (int64_t)f->def;
    case SYSTEM_BYTES:
    case SYSTEM_SHAPE:
        return *(const int64_t *)at != 0;
    case SYSTEM_NUM:
        return *(const double *)at != f->def;
    case SYSTEM_BOOL:
        return *(const bool *)at;
    case SYSTEM_MAP:
    case SYSTEM_PE:
        for (int i = 0; i < f->sub->count; i++)
            if (worth(&f->sub->fields[i], at))
                return true;
        return false;
    default:
        return count_of(f, base) > 0;
    }
}

/* ---- YAML ------------------------------------------------------------- */

static void yaml_topology(const struct pdl_network *net, int indent,
                          struct pdl_sink *out)
{
    pdl_printf(out, "\n%*stype: ", indent, "");
    put_text(net->topology, out);
    for (int64_t i = 0; i < net->nparams; i++) {
        pdl_printf(out, "\n%*s", indent, "");
        put_text(net->params[i].key, out);
        pdl_puts(out, ": ");
        put_text(net->params[i].value, out);
    }
    pdl_puts(out, "\n");
}

static void yaml_list(const struct system_field *f, const void *base,
                      int indent, struct pdl_sink *out)
{
    const void *list = *(const void *const *)((const char *)base + f->at);
    int64_t n = count_of(f, base);

    pdl_puts(out, "\n");
    for (int64_t i = 0; i < n; i++) {
        pdl_printf(out, "%*s- ", indent, "");
        if (f->kind == SYSTEM_TEXTS) {
            put_text(((const char *const *)list)[i], out);
            pdl_puts(out, "\n");
        } else if (f->kind == SYSTEM_INTROWS) {
            const struct pdl_ints *row = (const struct pdl_ints *)list + i;

            put_ints(row->v, row->n, out);
            pdl_puts(out, "\n");
        } else {
            yaml_table(f->sub, (const char *)list + (size_t)i * f->sub->size,
                       indent + 2, true, out);
        }
    }
}

static void yaml_field(const struct system_field *f, const void *base,
                       int indent, struct pdl_sink *out)
{
    const void *at = (const char *)base + f->at;

    pdl_printf(out, "%s:", f->name);
    switch (f->kind) {
    case SYSTEM_MAP:
    case SYSTEM_PE:
        pdl_puts(out, "\n");
        yaml_table(f->sub, at, indent + 2, false, out);
        break;
    case SYSTEM_TEXTS:
    case SYSTEM_INTROWS:
    case SYSTEM_ROWS:
        yaml_list(f, base, indent + 2, out);
        break;
    case SYSTEM_INTS:
        pdl_puts(out, " ");
        put_ints(*(const int64_t *const *)at, count_of(f, base), out);
        pdl_puts(out, "\n");
        break;
    case SYSTEM_TOPOLOGY:
        yaml_topology(base, indent + 2, out);
        break;
    default:
        pdl_puts(out, " ");
        yaml_scalar(f, at, out);
        pdl_puts(out, "\n");
    }
}

static void yaml_table(const struct system_table *t, const void *base,
                       int indent, bool first_inline, struct pdl_sink *out)
{
    for (int i = 0; i < t->count; i++) {
        if (!worth(&t->fields[i], base))
            continue;
        if (!first_inline)
            pdl_printf(out, "%*s", indent, "");
        first_inline = false;
        yaml_field(&t->fields[i], base, indent, out);
    }
}

void pdl_system_write(const struct pdl_system *sys, struct pdl_sink *out)
{
    struct pdl_system plain = *sys;

    if (sys->ngroups > 0) /* follow from the groups */
        plain.npe_groups = 0;
    pdl_puts(out, "schema: paradl.system/1\n");
    yaml_table(&system_root, &plain, 0, false, out);
}

/* ---- JSON ------------------------------------------------------------- */

static void json_table(const struct system_table *t, const void *base,
                       struct pdl_json *j);

static void json_key(const struct system_field *f, struct pdl_json *j)
{
    static const char *const ends[PDL_NUNITS] = {
        [PDL_UNIT_NONE] = "",
        [PDL_UNIT_BYTES] = "_bytes",
        [PDL_UNIT_BYTES_S] = "_bytes_per_s",
        [PDL_UNIT_SECONDS] = "_s",
        [PDL_UNIT_FLOP_S] = "_flop_per_s",
        [PDL_UNIT_WATT] = "_w",
        [PDL_UNIT_METRE] = "_m",
        [PDL_UNIT_HERTZ] = "_hz",
    };
    char key[80];

    snprintf(key, sizeof key, "%s%s", f->name,
             strcmp(f->name, "seconds") == 0 ? "" : ends[f->unit]);
    pdl_json_key(j, key);
}

static void json_list(const struct system_field *f, const void *base,
                      struct pdl_json *j)
{
    const void *list = *(const void *const *)((const char *)base + f->at);
    int64_t n = count_of(f, base);

    pdl_json_array(j);
    for (int64_t i = 0; i < n; i++) {
        if (f->kind == SYSTEM_TEXTS) {
            pdl_json_str(j, ((const char *const *)list)[i]);
        } else if (f->kind == SYSTEM_INTROWS) {
            const struct pdl_ints *row = (const struct pdl_ints *)list + i;

            pdl_json_flat(j);
            for (int64_t k = 0; k < row->n; k++)
                pdl_json_int(j, row->v[k]);
            pdl_json_end(j);
        } else {
            pdl_json_object(j);
            json_table(f->sub, (const char *)list + (size_t)i * f->sub->size,
                       j);
            pdl_json_end(j);
        }
    }
    pdl_json_end(j);
}

static void json_topology(const struct pdl_network *net, struct pdl_json *j)
{
    pdl_json_object(j);
    pdl_json_kstr(j, "type", net->topology);
    for (int64_t i = 0; i < net->nparams; i++)
        pdl_json_kstr(j, net->params[i].key, net->params[i].value);
    pdl_json_end(j);
}

static void json_value(const struct system_field *f, const void *base,
                       struct pdl_json *j)
{
    const void *at = (const char *)base + f->at;

    switch (f->kind) {
    case SYSTEM_TEXT:
        pdl_json_str(j, *(const char *const *)at);
        break;
    case SYSTEM_COUNT:
    case SYSTEM_BYTES:
        pdl_json_int(j, *(const int64_t *)at);
        break;
    case SYSTEM_NUM:
        pdl_json_num(j, *(const double *)at);
        break;
    case SYSTEM_BOOL:
        pdl_json_bool(j, *(const bool *)at);
        break;
    case SYSTEM_SHAPE:
        pdl_json_str(j, pdl_link_shape_name((enum pdl_link_shape) *
                                            (const int64_t *)at));
        break;
    case SYSTEM_MAP:
    case SYSTEM_PE:
        pdl_json_object(j);
        json_table(f->sub, at, j);
        pdl_json_end(j);
        break;
    case SYSTEM_INTS:
        pdl_json_flat(j);
        for (int64_t i = 0; i < count_of(f, base); i++)
            pdl_json_int(j, (*(const int64_t *const *)at)[i]);
        pdl_json_end(j);
        break;
    case SYSTEM_TOPOLOGY:
        json_topology(base, j);
        break;
    default:
        json_list(f, base, j);
    }
}

static void json_table(const struct system_table *t, const void *base,
                       struct pdl_json *j)
{
    for (int i = 0; i < t->count; i++) {
        if (!worth(&t->fields[i], base))
            continue;
        json_key(&t->fields[i], j);
        json_value(&t->fields[i], base, j);
    }
}

static void json_levels(const struct pdl_system *sys, struct pdl_json *j)
{
    pdl_json_key(j, "levels");
    pdl_json_array(j);
    for (int i = 0; i < sys->nlevels; i++) {
        const struct pdl_level *l = &sys->levels[i];

        pdl_json_row(j);
        pdl_json_kstr(j, "name", l->name);
        pdl_json_kint(j, "pes", l->pes);
        pdl_json_knum(j, "bandwidth_bytes_per_s", l->bytes_per_s);
        pdl_json_knum(j, "flow_bandwidth_bytes_per_s", l->flow_bytes_per_s);
        pdl_json_knum(j, "measured_bandwidth_bytes_per_s",
                      l->measured_bytes_per_s);
        pdl_json_knum(j, "latency_s", l->latency_s);
        pdl_json_knum(j, "measured_latency_s", l->measured_latency_s);
        pdl_json_knum(j, "oversubscription", l->oversubscription);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

void pdl_system_json(const struct pdl_system *sys, struct pdl_json *j)
{
    json_table(&system_root, sys, j);
    pdl_json_kint(j, "pes", pdl_system_pes(sys));
    pdl_json_kbool(j, "grown", sys->grown);
    pdl_json_key(j, "notes");
    pdl_json_array(j);
    for (int64_t i = 0; i < sys->nnotes; i++)
        pdl_json_str(j, sys->notes[i]);
    pdl_json_end(j);
    json_levels(sys, j);
}
