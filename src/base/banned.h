/* Functions nobody may call here (the habit of git's banned.h). Included
 * before every file by the build. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets \
    atoi atol atof rand srand

#endif
