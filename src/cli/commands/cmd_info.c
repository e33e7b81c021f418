/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli_priv.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>

#ifdef __OPTIMIZE__
#define OPTIMIZED "yes"
#else
#define OPTIMIZED "no"
#endif

static int info(const struct pdl_args *args)
{
    struct {
        const char *key, *value;
    } rows[] = {
        {"version", pdl_version()},
        {"compiler", __VERSION__},
        {"optimized", OPTIMIZED},
        {"jansson", JANSSON_VERSION},
        {"libyaml", yaml_get_version_string()},
        {"protobuf-c", protobuf_c_version()},
        {"zlib", zlibVersion()},
    };
    struct pdl_sink *out = cli_out();
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct utsname host;
    struct pdl_json j;

    if (uname(&host) != 0)
        host.sysname[0] = host.release[0] = host.machine[0] = '\0';
    if (args->json) {
        pdl_json_init(&j, out);
        pdl_json_schema(&j, "info");
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            pdl_json_kstr(&j, rows[i].key, rows[i].value);
        pdl_json_kstr(&j, "system", host.sysname);
        pdl_json_kstr(&j, "machine", host.machine);
        pdl_json_kint(&j, "cpus", cpus);
        pdl_json_end(&j);
        return EXIT_OK;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        pdl_printf(out, "%-12s %s\n", rows[i].key, rows[i].value);
    pdl_printf(out, "%-12s %s %s %s, %ld CPUs\n", "machine", host.sysname,
               host.release, host.machine, cpus);
    return EXIT_OK;
}

const struct pdl_cmd cli_info = {
    .name = "info",
    .args = "",
    .summary = "how this ParaDL was built and what it found here",
    .text = "Prints the version, the compiler, the libraries in use and the "
            "machine it runs on. Put it into bug reports.",
    .example = "paradl info",
    .run = info,
};
