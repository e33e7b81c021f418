/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML through libyaml's event parser. Aliases are refused: nothing we read
 * needs them and nine of them make a billion nodes. So are tags: a value we
 * would read in another sense than the one written is worse than none. */
#include "base_priv.h"

#include <string.h>
#include <yaml.h>

/* Bytes that are no text: libyaml gives their offset only. */
static enum pdl_status not_text(const yaml_parser_t *p, struct pdl_bytes in,
                                const char *name, struct pdl_err *err)
{
    size_t line = 1, col = 1;

    for (size_t i = 0; i < p->problem_offset && i < in.len; i++) {
        if (in.data[i] == '\n') {
            line++;
            col = 1;
        } else {
            col += ((unsigned char)in.data[i] & 0xc0) != 0x80;
        }
    }
    return pdl_fail(err, PDL_EPARSE, "%s:%zu:%zu: %s", name, line, col,
                    p->problem ? p->problem : "not text");
}

static enum pdl_status syntax(const yaml_parser_t *p, struct pdl_bytes in,
                              const char *name, struct pdl_err *err)
{
    const char *what = p->problem ? p->problem : "malformed YAML";

    if (p->error == YAML_MEMORY_ERROR)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    if (p->error == YAML_READER_ERROR)
        return not_text(p, in, name, err);
    return pdl_fail(err, PDL_EPARSE, "%s:%zu:%zu: %s", name,
                    p->problem_mark.line + 1, p->problem_mark.column + 1, what);
}

static bool is_null(const char *s, size_t len)
{
    return len == 0 || (len == 1 && *s == '~') ||
           (len == 4 && memcmp(s, "null", 4) == 0);
}

static enum pdl_status scalar(struct base_doc_builder *b, const yaml_event_t *e,
                              int line, int col)
{
    const char *s = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    bool quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;

    return base_doc_scalar(b, !quoted && is_null(s, len) ? NULL : s, len,
                           quoted, line, col);
}

static const yaml_char_t *tag_of(const yaml_event_t *e)
{
    return e->type == YAML_SCALAR_EVENT           ? e->data.scalar.tag
           : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
           : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.tag
                                                  : NULL;
}

static enum pdl_status take(struct base_doc_builder *b, const yaml_event_t *e,
                            int *documents)
{
    int line = (int)e->start_mark.line + 1;
    int col = (int)e->start_mark.column + 1;

    if (tag_of(e))
        return pdl_fail(b->err, PDL_EPARSE,
                        "%s:%d:%d: tags (!name) are not accepted", b->file,
                        line, col);
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if ((*documents)++ > 0)
            return pdl_fail(b->err, PDL_EPARSE,
                            "%s:%d:%d: more than one document", b->file, line,
                            col);
        return PDL_OK;
    case YAML_ALIAS_EVENT:
        return pdl_fail(b->err, PDL_EPARSE,
                        "%s:%d:%d: aliases (*name) are not accepted", b->file,
                        line, col);
    case YAML_SCALAR_EVENT:
        return scalar(b, e, line, col);
    case YAML_SEQUENCE_START_EVENT:
        return base_doc_open(b, PDL_DOC_LIST, line, col);
    case YAML_MAPPING_START_EVENT:
        return base_doc_open(b, PDL_DOC_MAP, line, col);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        base_doc_close(b);
        return PDL_OK;
    default:
        return PDL_OK;
    }
}

enum pdl_status pdl_doc_yaml(pdl_arena *a, struct pdl_bytes in,
                             const char *name, const struct pdl_doc **out,
                             struct pdl_err *err)
{
    struct base_doc_builder b;
    yaml_parser_t parser;
    enum pdl_status st = PDL_OK;
    bool done = false;
    int documents = 0;

    if (!yaml_parser_initialize(&parser))
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)in.data,
                                 in.len);
    base_doc_begin(&b, a, name, err);
    while (st == PDL_OK && !done) {
        yaml_event_t event;

        if (!yaml_parser_parse(&parser, &event)) {
            st = syntax(&parser, in, name, err);
            break;
        }
        st = take(&b, &event, &documents);
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (st == PDL_OK && !b.root)
        st = pdl_fail(err, PDL_EPARSE, "%s: the file is empty", name);
    if (st == PDL_OK)
        *out = b.root;
    return st;
}
