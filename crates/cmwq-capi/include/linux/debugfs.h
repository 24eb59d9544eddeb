/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: as in a kernel without
 * debugfs: nothing is made, and what would have been is ERR_PTR(-ENODEV), which callers ignore. A
 * program that brings its own defines CMWQ_NO_FS.
 */
#ifndef CMWQ_LINUX_DEBUGFS_H
#define CMWQ_LINUX_DEBUGFS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_FS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/debugfs.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_FS

#include <linux/err.h>
#include <linux/seq_file.h>
#include <linux/types.h>

struct dentry;

static inline struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	(void)name;
	(void)parent;
	return (struct dentry *)ERR_PTR(-ENODEV);
}

static inline struct dentry *debugfs_create_file(const char *name, umode_t mode,
	struct dentry *parent, void *data, const struct file_operations *operations)
{
	(void)mode;
	(void)data;
	(void)operations;
	return debugfs_create_dir(name, parent);
}

static inline void debugfs_remove(struct dentry *dentry)
{
	(void)dentry;
}

#define debugfs_remove_recursive(dentry) debugfs_remove(dentry)

#endif
#endif
