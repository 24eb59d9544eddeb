/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads the plugins named as arguments, lets them work, unloads them, again and again. Is not linked with libcmwq itself. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int round, i;

	for (round = 0; round < 3; round++) {
		void *first = NULL;

		for (i = 1; i < argc; i++) {
			void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *shared = NULL;
			int (*work)(void **);
			int runs;

			if (!plugin) {
				fprintf(stderr, "%s\n", dlerror());
				return 1;
			}
			*(void **)(&work) = dlsym(plugin, "plugin_work");
			runs = work ? work(&shared) : 0;
			if (runs != 101) {
				fprintf(stderr, "%s: %d runs\n", argv[i], runs);
				return 1;
			}
			if (first && shared != first) {
				fprintf(stderr, "two libraries in one process\n");
				return 1;
			}
			first = shared;
			dlclose(plugin);
		}
		/* Workers are still there, asleep or on their way: their code must be, too. */
		usleep(20000);
	}
	return 0;
}
