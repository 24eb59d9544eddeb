/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checksums of all files of a directory, in parallel, once for each affinity scope: where the items run is an attribute of the
 * workqueue, which is changed while it lives.
 *
 *     checksum [DIRECTORY]
 */
#include <dirent.h>
#include <linux/workqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct file {
	struct work_struct work;
	struct file *next;
	uint64_t sum;
	int failed;
	char path[4096];
};

/* FNV-1a, 64 bits. */
static void checksum(struct work_struct *work)
{
	struct file *file = container_of(work, struct file, work);
	unsigned char buffer[65536];
	FILE *in = fopen(file->path, "rb");
	size_t size, i;

	file->sum = 0xcbf29ce484222325u;
	file->failed = !in;
	if (!in)
		return;
	while ((size = fread(buffer, 1, sizeof(buffer), in)) > 0)
		for (i = 0; i < size; i++)
			file->sum = (file->sum ^ buffer[i]) * 0x100000001b3u;
	fclose(in);
}

static struct file *files_of(const char *directory)
{
	DIR *dir = opendir(directory);
	struct file *files = NULL, *file;
	struct dirent *entry;
	struct stat is;

	if (!dir)
		return NULL;
	while ((entry = readdir(dir))) {
		file = (struct file *)calloc(1, sizeof(*file));
		if (!file)
			break;
		snprintf(file->path, sizeof(file->path), "%.2000s/%s", directory, entry->d_name);
		if (stat(file->path, &is) || !S_ISREG(is.st_mode)) {
			free(file);
			continue;
		}
		INIT_WORK(&file->work, checksum);
		file->next = files;
		files = file;
	}
	closedir(dir);
	return files;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"default", "cpu", "smt", "cache", "cache_shard", "numa", "system"};
	struct workqueue_struct *wq = alloc_workqueue("checksum", WQ_UNBOUND | WQ_CPU_INTENSIVE, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct file *files = files_of(argc > 1 ? argv[1] : "."), *file;
	uint64_t first = 0, all;
	int scope, count, failed = 0;

	if (!wq || !attrs || !files) {
		fprintf(stderr, "no workqueue, no memory, or no files\n");
		return 1;
	}
	for (scope = WQ_AFFN_CPU; scope < (int)(sizeof(names) / sizeof(names[0])); scope++) {
		uint64_t start = cmwq_now_ns();

		attrs->affn_scope = (enum wq_affn_scope)scope;
		if (apply_workqueue_attrs(wq, attrs))
			return 1;
		for (file = files; file; file = file->next)
			queue_work(wq, &file->work);
		flush_workqueue(wq);
		for (all = 0, count = 0, file = files; file; file = file->next, count++) {
			all ^= file->sum;
			failed |= file->failed;
		}
		printf("%-11s %d files, checksum %016llx, %llu us\n", names[scope], count, (unsigned long long)all,
		       (unsigned long long)(cmwq_now_ns() - start) / 1000);
		if (scope == WQ_AFFN_CPU)
			first = all;
		failed |= all != first;
	}
	destroy_workqueue(wq);
	free_workqueue_attrs(attrs);
	while (files) {
		file = files->next;
		free(files);
		files = file;
	}
	return failed;
}
