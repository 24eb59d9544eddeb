/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the tree of attribute
 * files that kobjects make: in the process, since the system's /sys is the kernel's. The program
 * reads and writes them by cmwq_sysfs_read() and cmwq_sysfs_write(), or as files of <linux/fs.h>.
 * One tree for all files of a program.
 */
#ifndef CMWQ_LINUX_CMWQ_SYSFS_H
#define CMWQ_LINUX_CMWQ_SYSFS_H

#include <linux/cmwq_base.h>

#include <errno.h>
#include <linux/cmwq_page.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

struct attribute;
struct kobject;

/* A call of show or store that has begun and not ended. Lies on the caller's stack. */
struct cmwq_sysfs_use {
	struct cmwq_sysfs_use *next;
	struct cmwq_sysfs_file *file;
	struct cmwq_task *task;
	/* What show fills, or store reads, and what they return. */
	char *page;
	long is;
};

struct cmwq_sysfs_file {
	struct cmwq_sysfs_file *next;
	struct cmwq_sysfs_use *uses;
	struct kobject *kobj;
	struct attribute *attr;
	const char *name;
	ssize_t (*show)(struct kobject *kobj, struct attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct attribute *attr, const char *buf,
		size_t count);
	unsigned int mode;
	/* It is in no folder any more, and goes with its last use. */
	bool removed;
};

/* A folder: of a kobject, or of a group of its attributes. */
struct kernfs_node {
	struct kernfs_node *parent, *next, *folders;
	struct cmwq_sysfs_file *files;
	/* A group's: goes with the kobject's. */
	bool group, removed;
	char *name;
};

/* Zeros are an empty one. */
struct cmwq_sysfs_tree {
	pthread_mutex_t lock;
	/* A use has ended. */
	pthread_cond_t ended;
	struct kernfs_node root;
};

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) struct cmwq_sysfs_tree cmwq_sysfs;
#ifdef __cplusplus
}
#endif

static inline struct kernfs_node *cmwq_sysfs_folder_of(struct kernfs_node *in, const char *name,
	size_t length)
{
	struct kernfs_node *folder;

	for (folder = in->folders; folder; folder = folder->next)
		if (strlen(folder->name) == length && !memcmp(folder->name, name, length))
			break;
	return folder;
}

static inline struct cmwq_sysfs_file *cmwq_sysfs_file_of(struct kernfs_node *in, const char *name)
{
	struct cmwq_sysfs_file *file;

	for (file = in->files; file; file = file->next)
		if (!strcmp(file->name, name))
			break;
	return file;
}

/* `in`: NULL is the root. -EEXIST, -ENOENT (it is gone), -ENOMEM. */
static inline int cmwq_sysfs_add_folder(struct kernfs_node *in, const char *name, bool group,
	struct kernfs_node **to)
{
	size_t length = strlen(name);
	struct kernfs_node *folder = (struct kernfs_node *)calloc(1, sizeof(*folder) + length + 1);
	int failed = 0;

	if (!folder)
		return -ENOMEM;
	folder->name = (char *)(folder + 1);
	memcpy(folder->name, name, length);
	folder->group = group;
	folder->parent = in ? in : &cmwq_sysfs.root;
	pthread_mutex_lock(&cmwq_sysfs.lock);
	if (folder->parent->removed) {
		failed = -ENOENT;
	} else if (cmwq_sysfs_folder_of(folder->parent, name, length) ||
		cmwq_sysfs_file_of(folder->parent, name)) {
		failed = -EEXIST;
	} else {
		folder->next = folder->parent->folders;
		folder->parent->folders = folder;
	}
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	if (failed)
		free(folder);
	else
		*to = folder;
	return failed;
}

/* With everything but the two pointers that say where it is. */
static inline int cmwq_sysfs_add_file(struct kernfs_node *in, const struct cmwq_sysfs_file *like)
{
	struct cmwq_sysfs_file *file = (struct cmwq_sysfs_file *)malloc(sizeof(*file));
	int failed = 0;

	if (!file)
		return -ENOMEM;
	*file = *like;
	pthread_mutex_lock(&cmwq_sysfs.lock);
	if (in->removed) {
		failed = -ENOENT;
	} else if (cmwq_sysfs_folder_of(in, file->name, strlen(file->name)) ||
		cmwq_sysfs_file_of(in, file->name)) {
		failed = -EEXIST;
	} else {
		file->next = in->files;
		in->files = file;
	}
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	if (failed)
		free(file);
	return failed;
}

/*
 * Takes it out and waits until no other thread is in its show or store. The lock is held, but not
 * while it waits.
 */
static inline void cmwq_sysfs_drop_file(struct kernfs_node *in, struct cmwq_sysfs_file *file)
{
	struct cmwq_task *own = cmwq_current_task();
	struct cmwq_sysfs_file **at = &in->files;
	struct cmwq_sysfs_use *use;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	for (;;) {
		for (use = file->uses; use && use->task == own; use = use->next)
			;
		if (!use)
			break;
		cmwq_cond_wait(&cmwq_sysfs.ended, &cmwq_sysfs.lock);
	}
	if (file->uses)
		file->removed = true;
	else
		free(file);
}

/* false: there is no such file. */
static inline bool cmwq_sysfs_remove_file(struct kernfs_node *in, const char *name)
{
	struct cmwq_sysfs_file *file;

	pthread_mutex_lock(&cmwq_sysfs.lock);
	file = cmwq_sysfs_file_of(in, name);
	if (file)
		cmwq_sysfs_drop_file(in, file);
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	return file != NULL;
}

/* All files below it. Folders of other kobjects are found by no path any more; they stay theirs. */
static inline void cmwq_sysfs_empty(struct kernfs_node *folder)
{
	struct kernfs_node *below;

	folder->removed = true;
	while (folder->files)
		cmwq_sysfs_drop_file(folder, folder->files);
	while ((below = folder->folders)) {
		folder->folders = below->next;
		below->parent = NULL;
		cmwq_sysfs_empty(below);
		if (below->group)
			free(below);
	}
}

static inline void cmwq_sysfs_remove_folder(struct kernfs_node *folder)
{
	struct kernfs_node **at;

	pthread_mutex_lock(&cmwq_sysfs.lock);
	if (folder->parent) {
		for (at = &folder->parent->folders; *at != folder; at = &(*at)->next)
			;
		*at = folder->next;
	}
	cmwq_sysfs_empty(folder);
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	free(folder);
}

/*
 * The folder that a path means, without what comes behind the last '/', which `rest` points to. The
 * lock is held. NULL: there is none.
 */
static inline struct kernfs_node *cmwq_sysfs_walk(const char *path, const char **rest)
{
	struct kernfs_node *folder = &cmwq_sysfs.root;
	const char *slash;

	if (strncmp(path, "/sys/", 5))
		return NULL;
	for (path += 5; folder && (slash = strchr(path, '/')); path = slash + 1)
		folder = cmwq_sysfs_folder_of(folder, path, (size_t)(slash - path));
	*rest = path;
	return folder;
}

static inline int cmwq_sysfs_begin(const char *path, unsigned int bits, struct cmwq_sysfs_use *use)
{
	const char *name = NULL;
	struct kernfs_node *folder;
	int failed = 0;

	pthread_mutex_lock(&cmwq_sysfs.lock);
	folder = cmwq_sysfs_walk(path, &name);
	use->file = folder ? cmwq_sysfs_file_of(folder, name) : NULL;
	if (!use->file) {
		failed = folder && cmwq_sysfs_folder_of(folder, name, strlen(name)) ? -EISDIR
										    : -ENOENT;
	} else if (!(use->file->mode & bits)) {
		failed = -EACCES;
	} else {
		use->task = cmwq_current_task();
		use->next = use->file->uses;
		use->file->uses = use;
	}
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	return failed;
}

static inline void cmwq_sysfs_end(struct cmwq_sysfs_use *use)
{
	struct cmwq_sysfs_use **at;

	pthread_mutex_lock(&cmwq_sysfs.lock);
	for (at = &use->file->uses; *at != use; at = &(*at)->next)
		;
	*at = use->next;
	if (use->file->removed && !use->file->uses)
		free(use->file);
	pthread_cond_broadcast(&cmwq_sysfs.ended);
	pthread_mutex_unlock(&cmwq_sysfs.lock);
}

static inline void cmwq_sysfs_leave(void *arg)
{
	struct cmwq_sysfs_use *use = (struct cmwq_sysfs_use *)arg;

	cmwq_sysfs_end(use);
	free(use->page);
}

/*
 * Calls the show function, or the store function with `size` bytes. The use ends also if that ends
 * the thread, by pthread_exit() for example.
 */
static inline long cmwq_sysfs_call(struct cmwq_sysfs_use *use, bool stores, size_t size)
{
	pthread_cleanup_push(cmwq_sysfs_leave, use);
	if (stores && use->file->store)
		use->is = use->file->store(use->file->kobj, use->file->attr, use->page, size);
	else if (!stores && use->file->show)
		use->is = use->file->show(use->file->kobj, use->file->attr, use->page);
	pthread_cleanup_pop(0);
	return use->is;
}

/*
 * Whether there is such a file, and it may be used so (0444: read, 0222: written). -ENOENT,
 * -EISDIR, -EACCES.
 */
static inline int cmwq_sysfs_access(const char *path, unsigned int bits)
{
	struct cmwq_sysfs_use use = {NULL, NULL, NULL, NULL, -EIO};
	int failed = cmwq_sysfs_begin(path, bits, &use);

	if (!failed)
		cmwq_sysfs_end(&use);
	return failed;
}

/*
 * Calls the show function of the file at `path` ("/sys/kernel/engine/limit"), and puts what it says
 * into `text`, as far as there is room, without a 0 behind it. Returns how long it is, what the
 * function returned if that is negative, or -ENOENT, -EISDIR, -EACCES, -EIO (no such function).
 */
static inline long cmwq_sysfs_read(const char *path, char *text, size_t size)
{
	struct cmwq_sysfs_use use = {NULL, NULL, NULL, NULL, -EIO};
	int failed = cmwq_sysfs_begin(path, 0444, &use);
	long is = -ENOMEM;

	if (failed)
		return failed;
	use.page = (char *)aligned_alloc(PAGE_SIZE, PAGE_SIZE);
	if (use.page) {
		memset(use.page, 0, PAGE_SIZE);
		is = cmwq_sysfs_call(&use, false, 0);
	}
	if (is >= (long)PAGE_SIZE) {
		fprintf(stderr, "%s: show said %ld, which is more than a page has\n", path, is);
		is = (long)PAGE_SIZE - 1;
	}
	if (is > 0 && size)
		memcpy(text, use.page, (size_t)is < size ? (size_t)is : size);
	cmwq_sysfs_leave(&use);
	return is;
}

/*
 * Calls the store function with `size` bytes, a page at most, and a 0 behind them. Returns what it
 * returned, or as above, or -E2BIG.
 */
static inline long cmwq_sysfs_write(const char *path, const char *text, size_t size)
{
	struct cmwq_sysfs_use use = {NULL, NULL, NULL, NULL, -EIO};
	int failed = cmwq_sysfs_begin(path, 0222, &use);
	long is = size > PAGE_SIZE ? -E2BIG : -ENOMEM;

	if (failed)
		return failed;
	use.page = size > PAGE_SIZE ? NULL : (char *)calloc(1, PAGE_SIZE + 1);
	if (use.page) {
		memcpy(use.page, text, size);
		is = cmwq_sysfs_call(&use, true, size);
	}
	cmwq_sysfs_leave(&use);
	return is;
}

/*
 * Puts the names in the folder at `path` into `text`, folders with a '/' behind, a newline behind
 * each. Returns how long that is, or -ENOENT.
 */
static inline long cmwq_sysfs_list(const char *path, char *text, size_t size)
{
	const char *name = NULL;
	struct kernfs_node *folder, *below;
	struct cmwq_sysfs_file *file;
	size_t at = 0;

	pthread_mutex_lock(&cmwq_sysfs.lock);
	folder = cmwq_sysfs_walk(path, &name);
	if (folder && *name)
		folder = cmwq_sysfs_folder_of(folder, name, strlen(name));
	for (below = folder ? folder->folders : NULL; below; below = below->next)
		at += (size_t)snprintf(at < size ? text + at : NULL, at < size ? size - at : 0,
			"%s/\n", below->name);
	for (file = folder ? folder->files : NULL; file; file = file->next)
		at += (size_t)snprintf(at < size ? text + at : NULL, at < size ? size - at : 0,
			"%s\n", file->name);
	pthread_mutex_unlock(&cmwq_sysfs.lock);
	return folder ? (long)at : -ENOENT;
}

#endif
