/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: files, as far as a
 * module writes the attributes of its own workqueues: what lies below
 * /sys/devices/virtual/workqueue and /sys/bus/workqueue/devices is the process's own queues, and
 * what its kobjects have made in /sys is theirs. Other paths are the system's files. A program that
 * brings its own defines CMWQ_NO_FS.
 */
#ifndef CMWQ_LINUX_FS_H
#define CMWQ_LINUX_FS_H

#include <linux/cmwq_base.h>
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/fs.h"
#include <linux/cmwq_next.h>

#ifndef CMWQ_NO_FS

#include <errno.h>
#include <fcntl.h>
#ifndef CMWQ_NO_KOBJECT
#include <linux/cmwq_sysfs.h>
#endif
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/types.h>
#include <linux/wait_bit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The system's types have it unless only the standard's names are wanted. */
#if !defined(__USE_MISC)
typedef int64_t loff_t;
#endif

struct file {
	/* -1: an attribute. */
	int cmwq_fd;
	/* Of a workqueue; without a queue, of a kobject, by its path. */
	char cmwq_queue[64], cmwq_attribute[64];
	char *cmwq_path;
};

/* 0, or an error number: it is no attribute (-ENOENT), or may not be opened so. */
static inline long cmwq_file_of_attribute(struct file *file, const char *path, int flags)
{
	static const char *const roots[] = {"/sys/devices/virtual/workqueue/",
		"/sys/bus/workqueue/devices/"};
	char probe[1];
	size_t i;

	for (i = 0; i < 2; i++) {
		const char *rest = path + strlen(roots[i]), *slash;
		long is;

		if (strncmp(path, roots[i], strlen(roots[i])) || !(slash = strchr(rest, '/')))
			continue;
		snprintf(file->cmwq_queue, sizeof(file->cmwq_queue), "%.*s", (int)(slash - rest),
			rest);
		snprintf(file->cmwq_attribute, sizeof(file->cmwq_attribute), "%s", slash + 1);
		is = cmwq_workqueue_read_attribute(file->cmwq_queue, file->cmwq_attribute, probe,
			0);
		/* The system's own has none of this process. */
		return is == -ENOENT ? -ENXIO : is < 0 ? is : 0;
	}
#ifndef CMWQ_NO_KOBJECT
	{
		int mode = flags & O_ACCMODE, failed = 0;

		if (mode != O_WRONLY)
			failed = cmwq_sysfs_access(path, 0444);
		if (!failed && mode != O_RDONLY)
			failed = cmwq_sysfs_access(path, 0222);
		if (failed)
			return failed;
		file->cmwq_path = (char *)malloc(strlen(path) + 1);
		return file->cmwq_path ? (strcpy(file->cmwq_path, path), 0) : -ENOMEM;
	}
#else
	(void)flags;
	return -ENOENT;
#endif
}

static inline CMWQ_MUST_CHECK struct file *filp_open(const char *path, int flags, int mode)
{
	struct file *file = (struct file *)calloc(1, sizeof(*file));
	long failed;

	if (!file)
		return (struct file *)ERR_PTR(-ENOMEM);
	file->cmwq_fd = -1;
	failed = cmwq_file_of_attribute(file, path, flags);
	if (failed == -ENOENT) {
		file->cmwq_fd = open(path, flags, mode);
		failed = file->cmwq_fd < 0 ? -errno : 0;
	}
	if (failed) {
		free(file);
		return (struct file *)ERR_PTR(failed == -ENXIO ? -ENOENT : failed);
	}
	return file;
}

static inline int filp_close(struct file *file, void *id)
{
	(void)id;
	if (file->cmwq_fd >= 0)
		close(file->cmwq_fd);
	free(file->cmwq_path);
	free(file);
	return 0;
}

#ifndef CMWQ_NO_KOBJECT
/* One that has gone since it was opened is no device any more. */
static inline long cmwq_file_gone(long result)
{
	return result == -ENOENT ? -ENODEV : result;
}
#endif

/* An attribute is written at once, and whole. */
static inline ssize_t kernel_write(struct file *file, const void *from, size_t size, loff_t *at)
{
	char text[4096];
	ssize_t done;
	int failed;

	if (file->cmwq_fd >= 0) {
		if (at)
			lseek(file->cmwq_fd, (off_t)*at, SEEK_SET);
		done = write(file->cmwq_fd, from, size);
		if (done < 0)
			return -errno;
		if (at)
			*at += done;
		return done;
	}
#ifndef CMWQ_NO_KOBJECT
	if (file->cmwq_path) {
		done = cmwq_file_gone(cmwq_sysfs_write(file->cmwq_path, (const char *)from, size));
		if (done > 0 && at)
			*at += done;
		return done;
	}
#endif
	if (size >= sizeof(text))
		return -EINVAL;
	memcpy(text, from, size);
	text[size] = '\0';
	failed = cmwq_workqueue_write_attribute(file->cmwq_queue, file->cmwq_attribute, text);
	if (failed)
		return failed;
	if (at)
		*at += (loff_t)size;
	return (ssize_t)size;
}

static inline ssize_t kernel_read(struct file *file, void *to, size_t size, loff_t *at)
{
	char text[4096];
	loff_t from = at ? *at : 0;
	long is;

	if (file->cmwq_fd >= 0) {
		lseek(file->cmwq_fd, (off_t)from, SEEK_SET);
		is = read(file->cmwq_fd, to, size);
		if (is < 0)
			return -errno;
	} else {
#ifndef CMWQ_NO_KOBJECT
		if (file->cmwq_path)
			is = cmwq_file_gone(cmwq_sysfs_read(file->cmwq_path, text, sizeof(text)));
		else
#endif
			is = cmwq_workqueue_read_attribute(file->cmwq_queue, file->cmwq_attribute,
				text, sizeof(text));
		if (is < 0)
			return is;
		is = from >= is ? 0 : is - from;
		if ((size_t)is > size)
			is = (long)size;
		memcpy(to, text + from, (size_t)is);
	}
	if (at)
		*at += is;
	return is;
}

#endif
#endif
