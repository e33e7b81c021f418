#include "measured.h"
int cli_validate_runs(struct cli_measured *m, bool json)
{
    (void)m;
    (void)json;
    return EXIT_ENV;
}
enum pdl_status cli_fit_runs(struct cli_measured *m, struct pdl_system *sys,
                             struct cli_fit *fit, struct pdl_err *err)
{
    (void)m;
    (void)sys;
    (void)fit;
    return pdl_fail(err, PDL_EINVAL, "no");
}
