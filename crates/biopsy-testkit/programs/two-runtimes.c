// Two .NET runtimes in one process: FRAMEWORK FRAMEWORK PROGRAM. Each folder has a libcoreclr.so of its own, which runs PROGRAM on
// a thread of its own; the second begins when the first has its socket for diagnostics, which it therefore does not get.
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

typedef int (*initialize_t)(const char *, const char *, int, const char **, const char **, void **, unsigned *);
typedef int (*execute_t)(void *, unsigned, int, const char **, const char *, unsigned *);

static const char *program;

static void *run_program(void *argument) {
    const char *folder = argument;
    char path[4096];
    snprintf(path, sizeof path, "%s/libcoreclr.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    initialize_t initialize = (initialize_t)dlsym(library, "coreclr_initialize");
    execute_t execute = (execute_t)dlsym(library, "coreclr_execute_assembly");
    size_t room = 1 << 20;
    char *assemblies = calloc(1, room);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        size_t length = strlen(entry->d_name), used = strlen(assemblies);
        if (length > 4 && !strcmp(entry->d_name + length - 4, ".dll"))
            snprintf(assemblies + used, room - used, "%s/%s:", folder, entry->d_name);
    }
    strncat(assemblies, program, room - strlen(assemblies) - 1);
    const char *names[] = {"TRUSTED_PLATFORM_ASSEMBLIES", "NATIVE_DLL_SEARCH_DIRECTORIES", "System.Globalization.Invariant"};
    const char *values[] = {assemblies, folder, "true"};
    const char *arguments[] = {"tcp", "port=0", "leak=1"};
    void *host;
    unsigned domain, code;
    if (initialize("/proc/self/exe", "host", 3, names, values, &host, &domain) < 0) exit(3);
    execute(host, domain, 3, arguments, program, &code);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    program = arguments[3];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], &attributes, run_program, arguments[i + 1])) return 2;
        sleep(2);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
