/* Replays stored inputs through a fuzz target: files, or all files of the
 * folders named. Fails when there is nothing to replay. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t cap = 1 << 24, len;
    uint8_t *data;

    if (!f)
        return 0;
    data = malloc(cap);
    len = data ? fread(data, 1, cap, f) : 0;
    fclose(f);
    if (data) {
        /* an exact-size copy, so that an overrun is seen */
        uint8_t *exact = malloc(len ? len : 1);

        if (exact) {
            memcpy(exact, data, len);
            LLVMFuzzerTestOneInput(exact, len);
        }
        free(exact);
    }
    free(data);
    return 1;
}

static int replay_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[4096];
    int n = 0;

    if (!d)
        return replay(path);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        n += replay(file);
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += replay_folder(argv[i]);
    printf("replayed %d inputs\n", n);
    return n > 0 ? 0 : 1;
}
