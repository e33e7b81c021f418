/* What a user of the installed library writes. */
#include <paradl/base.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int64_t bytes = 0;

    if (pdl_bytes_parse("32MiB", &bytes, NULL) != PDL_OK || bytes != 33554432)
        return 1;
    printf("paradl %s\n", pdl_version());
    return argc == 2 && strcmp(argv[1], pdl_version()) == 0 ? 0 : 1;
}
