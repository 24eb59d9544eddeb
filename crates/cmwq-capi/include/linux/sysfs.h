/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: attribute files of
 * kobjects, which the process itself reads and writes: see <linux/cmwq_sysfs.h>. A program that
 * brings its own defines CMWQ_NO_KOBJECT.
 */
#ifndef CMWQ_LINUX_SYSFS_H
#define CMWQ_LINUX_SYSFS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KOBJECT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sysfs.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KOBJECT

#include <linux/cmwq_sysfs.h>
#include <linux/err.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/stringify.h>
#include <linux/types.h>
#include <sys/stat.h>

struct attribute {
	const char *name;
	umode_t mode;
};

/*
 * `is_visible`: the mode that each attribute gets; 0: it is left out. With a name it has a folder
 * of its own.
 */
struct attribute_group {
	const char *name;
	umode_t (*is_visible)(struct kobject *kobj, struct attribute *attr, int index);
	struct attribute **attrs;
};

struct sysfs_ops {
	ssize_t (*show)(struct kobject *kobj, struct attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct attribute *attr, const char *buf,
		size_t count);
};

#ifndef S_IRUGO
#define S_IRWXUGO 0777
#define S_IALLUGO 07777
#define S_IRUGO 0444
#define S_IWUGO 0222
#define S_IXUGO 0111
#endif

#define SYSFS_PREALLOC 010000
#define SYSFS_GROUP_INVISIBLE 020000

#define __ATTR(_name, _mode, _show, _store) \
	{.attr = {.name = __stringify(_name), .mode = (_mode)}, .show = _show, .store = _store}
#define __ATTR_RO_MODE(_name, _mode) __ATTR(_name, _mode, _name##_show, NULL)
#define __ATTR_RW_MODE(_name, _mode) __ATTR(_name, _mode, _name##_show, _name##_store)
#define __ATTR_RO(_name) __ATTR_RO_MODE(_name, 0444)
#define __ATTR_WO(_name) __ATTR(_name, 0200, NULL, _name##_store)
#define __ATTR_RW(_name) __ATTR_RW_MODE(_name, 0644)
#define __ATTR_NULL {.attr = {.name = NULL}}
#define sysfs_attr_init(attr) ((void)(attr))

#define __ATTRIBUTE_GROUPS(_name) \
	static const struct attribute_group *_name##_groups[] = {&_name##_group, NULL}
#define ATTRIBUTE_GROUPS(_name)                                                    \
	static const struct attribute_group _name##_group = {.attrs = _name##_attrs}; \
	__ATTRIBUTE_GROUPS(_name)

/*
 * The folder and the operations of a kobject: <linux/kobject.h> has them. NULL: it is in no tree.
 */
static inline struct kernfs_node *cmwq_kobject_folder(const struct kobject *kobj);
static inline const struct sysfs_ops *cmwq_kobject_ops(const struct kobject *kobj);

/* What a show function says: as scnprintf(), into a buffer of a page. */
CMWQ_FORMATS(3, 4)
static int sysfs_emit_at(char *buf, int at, const char *format, ...)
{
	va_list args;
	int length;

	if (at < 0 || at >= (int)PAGE_SIZE)
		return 0;
	va_start(args, format);
	length = vscnprintf(buf + at, PAGE_SIZE - (size_t)at, format, args);
	va_end(args);
	return length;
}
#define sysfs_emit(buf, ...) sysfs_emit_at((buf), 0, __VA_ARGS__)

static inline int cmwq_sysfs_create(struct kobject *kobj, struct kernfs_node *in,
	const struct attribute *attr, unsigned int mode)
{
	const struct sysfs_ops *ops = cmwq_kobject_ops(kobj);
	struct cmwq_sysfs_file file = {NULL, NULL, kobj, (struct attribute *)(uintptr_t)attr,
		attr->name, NULL, NULL, mode & 0777, false};

	if (ops) {
		file.show = ops->show;
		file.store = ops->store;
	}
	return in ? cmwq_sysfs_add_file(in, &file) : -EINVAL;
}

static inline CMWQ_MUST_CHECK int sysfs_create_file(struct kobject *kobj,
	const struct attribute *attr)
{
	return cmwq_sysfs_create(kobj, cmwq_kobject_folder(kobj), attr, attr->mode);
}

/* No show and no store of it runs when this returns, but for the caller's own. */
static inline void sysfs_remove_file(struct kobject *kobj, const struct attribute *attr)
{
	struct kernfs_node *folder = cmwq_kobject_folder(kobj);

	if (folder)
		cmwq_sysfs_remove_file(folder, attr->name);
}

/* true: this call has removed it. */
static inline bool sysfs_remove_file_self(struct kobject *kobj, const struct attribute *attr)
{
	struct kernfs_node *folder = cmwq_kobject_folder(kobj);

	return folder && cmwq_sysfs_remove_file(folder, attr->name);
}

static inline void sysfs_remove_files(struct kobject *kobj, const struct attribute *const *attrs)
{
	for (; *attrs; attrs++)
		sysfs_remove_file(kobj, *attrs);
}

/* All or none. */
static inline CMWQ_MUST_CHECK int sysfs_create_files(struct kobject *kobj,
	const struct attribute *const *attrs)
{
	int failed = 0, made = 0;

	for (; attrs[made] && !failed; made += !failed)
		failed = sysfs_create_file(kobj, attrs[made]);
	while (failed && made--)
		sysfs_remove_file(kobj, attrs[made]);
	return failed;
}

/* The folder of a group that there is; NULL: there is none. */
static inline struct kernfs_node *cmwq_sysfs_group_folder(struct kobject *kobj, const char *name)
{
	struct kernfs_node *folder = cmwq_kobject_folder(kobj), *group = folder;

	if (folder && name) {
		pthread_mutex_lock(&cmwq_sysfs.lock);
		group = cmwq_sysfs_folder_of(folder, name, strlen(name));
		pthread_mutex_unlock(&cmwq_sysfs.lock);
	}
	return group;
}

static inline void sysfs_remove_group(struct kobject *kobj, const struct attribute_group *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group->name);
	int i;

	if (!folder)
		return;
	if (group->name) {
		cmwq_sysfs_remove_folder(folder);
		return;
	}
	for (i = 0; group->attrs && group->attrs[i]; i++)
		cmwq_sysfs_remove_file(folder, group->attrs[i]->name);
}

/*
 * The attributes of a group, into a folder that there is. `again`: those that there are go and come
 * anew.
 */
static inline int cmwq_sysfs_fill(struct kobject *kobj, struct kernfs_node *folder,
	const struct attribute_group *group, bool again)
{
	int i, failed = 0;

	for (i = 0; group->attrs && group->attrs[i] && !failed; i++) {
		struct attribute *attr = group->attrs[i];
		unsigned int mode = group->is_visible ? group->is_visible(kobj, attr, i)
						      : attr->mode;

		if (again)
			cmwq_sysfs_remove_file(folder, attr->name);
		if (!group->is_visible || mode & 0777)
			failed = cmwq_sysfs_create(kobj, folder, attr, mode);
	}
	/* The one that there was already is another's. */
	for (i -= 2; failed && i >= 0; i--)
		cmwq_sysfs_remove_file(folder, group->attrs[i]->name);
	return failed;
}

static inline CMWQ_MUST_CHECK int sysfs_create_group(struct kobject *kobj,
	const struct attribute_group *group)
{
	struct kernfs_node *folder = cmwq_kobject_folder(kobj);
	int failed;

	if (!folder)
		return -EINVAL;
	if (group->name) {
		failed = cmwq_sysfs_add_folder(folder, group->name, true, &folder);
		if (failed)
			return failed;
	}
	failed = cmwq_sysfs_fill(kobj, folder, group, false);
	if (failed && group->name)
		cmwq_sysfs_remove_folder(folder);
	return failed;
}

/* Asks again what is visible. */
static inline int sysfs_update_group(struct kobject *kobj, const struct attribute_group *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group->name);

	return folder ? cmwq_sysfs_fill(kobj, folder, group, true) : -EINVAL;
}

/* Into the folder of a group that there is. */
static inline int sysfs_merge_group(struct kobject *kobj, const struct attribute_group *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group->name);

	return folder ? cmwq_sysfs_fill(kobj, folder, group, false) : -ENOENT;
}

static inline void sysfs_unmerge_group(struct kobject *kobj, const struct attribute_group *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group->name);
	int i;

	for (i = 0; folder && group->attrs[i]; i++)
		cmwq_sysfs_remove_file(folder, group->attrs[i]->name);
}

static inline int sysfs_add_file_to_group(struct kobject *kobj, const struct attribute *attr,
	const char *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group);

	return folder ? cmwq_sysfs_create(kobj, folder, attr, attr->mode) : -ENOENT;
}

static inline void sysfs_remove_file_from_group(struct kobject *kobj, const struct attribute *attr,
	const char *group)
{
	struct kernfs_node *folder = cmwq_sysfs_group_folder(kobj, group);

	if (folder)
		cmwq_sysfs_remove_file(folder, attr->name);
}

static inline void sysfs_remove_groups(struct kobject *kobj,
	const struct attribute_group *const *groups)
{
	for (; groups && *groups; groups++)
		sysfs_remove_group(kobj, *groups);
}

/* All or none. */
static inline CMWQ_MUST_CHECK int sysfs_create_groups(struct kobject *kobj,
	const struct attribute_group *const *groups)
{
	int failed = 0, made = 0;

	for (; groups && groups[made] && !failed; made += !failed)
		failed = sysfs_create_group(kobj, groups[made]);
	while (failed && made--)
		sysfs_remove_group(kobj, groups[made]);
	return failed;
}

/* No program polls a file that the system does not have. */
static inline void sysfs_notify(struct kobject *kobj, const char *folder, const char *attr)
{
	(void)kobj;
	(void)folder;
	(void)attr;
}

#include <linux/kobject.h>

#endif
#endif
