/* SPDX-License-Identifier: Apache-2.0
 *
 * The form, and the page of a job: it asks for the state of the search four
 * times a second and then shows the report, in a frame that may do nothing
 * but draw. */
#include "serve_priv.h"

#include "paradl/model.h"
#include "paradl/system.h"

#include <string.h>

const char cli_serve_style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5c6670;"
    "--rule:#d9dee3;--soft:#f4f6f8;--link:#0a58a8;--bad:#b42318}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e4e8ec;"
    "--dim:#9aa5b0;--rule:#333b44;--soft:#1c2229;--link:#79b8ff;"
    "--bad:#ff8a7a}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:1200px;padding:24px;background:var(--bg);"
    "color:var(--fg);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif}"
    "h1{font-size:26px;margin:0 0 4px}a{color:var(--link)}"
    "p{max-width:75ch;overflow-wrap:anywhere}.dim{color:var(--dim)}"
    ".bad{color:var(--bad);font-weight:600}"
    "form.ask{display:grid;gap:14px;max-width:560px;margin:20px 0}"
    "label{display:grid;gap:4px;font-weight:600}"
    "label small{font-weight:400;color:var(--dim)}"
    "input,select,button{font:inherit;color:inherit;padding:7px 10px;"
    "border:1px solid var(--rule);border-radius:6px;background:var(--soft);"
    "width:100%}"
    "button{background:var(--link);color:var(--bg);border:0;font-weight:600;"
    "cursor:pointer}"
    ":focus-visible{outline:2px solid var(--link);outline-offset:2px}"
    "progress{width:100%;height:14px}"
    "iframe{width:100%;height:calc(100vh - 120px);min-height:480px;border:0}";

/* No inline script: the policy of these pages forbids it. */
const char cli_serve_script[] =
    "'use strict';(()=>{const box=document.querySelector('[data-job]');"
    "if(!box)return;const base='/job/'+box.dataset.job;"
    "const say=document.querySelector('#say'),"
    "bar=document.querySelector('progress');"
    "const look=async()=>{let s;try{s=await(await fetch(base+'/state')).json()}"
    "catch{say.textContent='the server does not answer';return}"
    "if(s.state==='running'){if(s.total>0){bar.max=s.total;bar.value=s.done}"
    "say.textContent=s.done>0?s.done.toLocaleString()+' of '+"
    "(s.total>0?s.total.toLocaleString():'many')+' priced':'reading';"
    "setTimeout(look,250);return}"
    "bar.hidden=true;document.querySelector('#stop').hidden=true;"
    "if(s.state==='failed'){say.textContent=s.message+(s.hint?' ('+s.hint+')'"
    ":'');say.className='bad';return}"
    "say.textContent='';const f=document.createElement('iframe');"
    "f.title='report';f.setAttribute('sandbox','allow-scripts');"
    "f.src=base+'/report';box.append(f);"
    "document.querySelector('#more').hidden=false};look()})();";

void cli_serve_escape(struct pdl_sink *out, const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const as[] = {"&amp;", "&lt;", "&gt;", "&quot;",
                                     "&#39;"};

    for (; *text; text++) {
        const char *at = strchr(special, *text);

        if (at)
            pdl_puts(out, as[at - special]);
        else
            pdl_put(out, text, 1);
    }
}

static void begin(struct pdl_sink *out, const char *title)
{
    pdl_printf(out,
               "<!DOCTYPE html>\n<html lang=\"en\"><head>"
               "<meta charset=\"utf-8\"><meta name=\"viewport\" "
               "content=\"width=device-width,initial-scale=1\">"
               "<title>%s</title><link rel=\"icon\" href=\"data:,\">"
               "<link rel=\"stylesheet\" href=\"/style.css\">"
               "</head><body>",
               title);
}

static void list_names(struct pdl_sink *out)
{
    pdl_puts(out, "<datalist id=\"models\">");
    for (int i = 0; pdl_zoo_at(i); i++)
        pdl_printf(out, "<option value=\"%s\">", pdl_zoo_at(i)->name);
    pdl_puts(out, "</datalist><datalist id=\"systems\">");
    for (int i = 0; pdl_system_builtin(i); i++)
        pdl_printf(out, "<option value=\"%s\">", pdl_system_builtin(i)->name);
    pdl_puts(out, "</datalist>");
}

static void input(struct pdl_sink *out, const struct cli_serve_form *f,
                  enum cli_serve_field field, const char *label,
                  const char *note, const char *more)
{
    pdl_printf(out, "<label>%s<small>%s</small><input name=\"%s\" value=\"",
               label, note, cli_serve_fields[field]);
    cli_serve_escape(out, f->text[field]);
    pdl_printf(out, "\" maxlength=\"%d\" %s></label>", SERVE_TEXT - 1, more);
}

static void precisions(struct pdl_sink *out, const struct cli_serve_form *f)
{
    static const char *const names[] = {"",     "fp32", "tf32",
                                        "bf16", "fp16", "fp8"};

    pdl_puts(out, "<label>Precision<select name=\"precision\">");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        pdl_printf(
            out, "<option value=\"%s\"%s>%s</option>", names[i],
            strcmp(names[i], f->text[SERVE_PRECISION]) == 0 ? " selected" : "",
            *names[i] ? names[i] : "the model's usual one");
    pdl_puts(out, "</select></label>");
}

void cli_serve_form_page(const struct cli_serve_form *f,
                         const struct pdl_err *why, struct pdl_sink *out)
{
    begin(out, "ParaDL");
    pdl_puts(out, "<h1>How should it be trained?</h1><p class=\"dim\">The best "
                  "parallel strategy for a network on a machine, and what "
                  "limits it.</p>");
    if (why) {
        pdl_puts(out, "<p class=\"bad\" role=\"alert\">");
        cli_serve_escape(out, why->msg);
        if (*why->hint) {
            pdl_puts(out, " (");
            cli_serve_escape(out, why->hint);
            pdl_puts(out, ")");
        }
        pdl_puts(out, "</p>");
    }
    pdl_puts(out, "<form class=\"ask\" method=\"post\" action=\"/plan\" "
                  "enctype=\"multipart/form-data\">");
    input(out, f, SERVE_MODEL, "Model", "a name, parameters after a colon",
          "list=\"models\"");
    pdl_puts(out, "<label>or its file<small>config.json, .onnx or .yaml</small>"
                  "<input type=\"file\" name=\"file\" "
                  "accept=\".json,.onnx,.yaml,.yml\"></label>");
    input(out, f, SERVE_SYSTEM, "System", "parameters after a colon",
          "list=\"systems\" required");
    input(out, f, SERVE_PES, "Processing elements", "GPUs, say",
          "type=\"number\" min=\"1\" max=\"65536\" required");
    input(out, f, SERVE_BATCH, "Batch", "samples of a step over all of them",
          "type=\"number\" min=\"1\" max=\"16777216\" required");
    precisions(out, f);
    pdl_puts(out, "<button>Plan</button></form>");
    list_names(out);
    pdl_puts(out, "</body></html>\n");
}

void cli_serve_job_page(const struct cli_serve_job *j, struct pdl_sink *out)
{
    const char *id = cli_serve_id(j);

    begin(out, "ParaDL: a plan");
    pdl_printf(out,
               "<p><a href=\"/\">another question</a>"
               "<span id=\"more\" hidden> | <a href=\"/job/%s/result.json\">"
               "the result as JSON</a> | <a href=\"/job/%s/report\" "
               "download=\"plan.html\">the page as a file</a></span></p>"
               "<div data-job=\"%s\"><p id=\"say\" role=\"status\">reading</p>"
               "<progress></progress><form id=\"stop\" method=\"post\" "
               "action=\"/job/%s/cancel\"><button>Stop</button></form></div>"
               "<noscript><p>When it is done: <a href=\"/job/%s/report\">the "
               "report</a>.</p></noscript>"
               "<script src=\"/script.js\"></script></body></html>\n",
               id, id, id, id, id);
}
