/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: objects with a name, a
 * parent, a reference count and attribute files: see <linux/cmwq_sysfs.h> for how the program reads
 * and writes these. A program that brings its own defines CMWQ_NO_KOBJECT.
 */
#ifndef CMWQ_LINUX_KOBJECT_H
#define CMWQ_LINUX_KOBJECT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KOBJECT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/kobject.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KOBJECT

#include <linux/bug.h>
#include <linux/cmwq_format.h>
#include <linux/container_of.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/types.h>

struct kset;

/* What objects of one type have: `release` is called when the last reference is given back. */
struct kobj_type {
	void (*release)(struct kobject *kobj);
	const struct sysfs_ops *sysfs_ops;
	const struct attribute_group **default_groups;
};

struct kobject {
	const char *name;
	struct list_head entry;
	struct kobject *parent;
	struct kset *kset;
	const struct kobj_type *ktype;
	struct kernfs_node *sd;
	struct kref kref;
	unsigned int state_initialized : 1;
	unsigned int state_in_sysfs : 1;
};

/* Objects that are kept together, and a folder for them. */
struct kset {
	struct list_head list;
	spinlock_t list_lock;
	struct kobject kobj;
};

struct kobj_attribute {
	struct attribute attr;
	ssize_t (*show)(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
		size_t count);
};

/* Folders that there always are: objects that are never given back. */
enum { CMWQ_KOBJ_KERNEL, CMWQ_KOBJ_FS, CMWQ_KOBJ_DEVICES, CMWQ_KOBJS };
struct cmwq_base_kobjs {
	pthread_mutex_t lock;
	struct kobject kobjs[CMWQ_KOBJS];
};

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) struct cmwq_base_kobjs cmwq_base_kobjs;
#ifdef __cplusplus
}
#endif

static inline struct kernfs_node *cmwq_kobject_folder(const struct kobject *kobj)
{
	return kobj->sd;
}

static inline const struct sysfs_ops *cmwq_kobject_ops(const struct kobject *kobj)
{
	return kobj->ktype ? kobj->ktype->sysfs_ops : NULL;
}

static inline const char *kobject_name(const struct kobject *kobj)
{
	return kobj->name;
}

/* The memory was zeros before, but for the name, the parent and the set. */
static inline void kobject_init(struct kobject *kobj, const struct kobj_type *ktype)
{
	WARN_ON(!ktype);
	INIT_LIST_HEAD(&kobj->entry);
	kobj->sd = NULL;
	kobj->ktype = ktype;
	kref_init(&kobj->kref);
	kobj->state_initialized = 1;
	kobj->state_in_sysfs = 0;
}

static inline struct kobject *kobject_get(struct kobject *kobj)
{
	if (kobj) {
		WARN_ON(!kobj->state_initialized);
		kref_get(&kobj->kref);
	}
	return kobj;
}

static inline CMWQ_MUST_CHECK struct kobject *kobject_get_unless_zero(struct kobject *kobj)
{
	return kobj && kref_get_unless_zero(&kobj->kref) ? kobj : NULL;
}

static inline void kobject_del(struct kobject *kobj);

static inline void cmwq_kobject_release(struct kref *kref)
{
	struct kobject *kobj = container_of(kref, struct kobject, kref);
	const char *name = kobj->name;

	if (kobj->state_in_sysfs)
		kobject_del(kobj);
	if (kobj->ktype && kobj->ktype->release)
		kobj->ktype->release(kobj);
	else
		fprintf(stderr, "kobject %s: its type has no release function\n",
			name ? name : "without a name");
	free((void *)(uintptr_t)name);
}

/*
 * The last one takes its files away, unless kobject_del() has, and calls the type's release
 * function.
 */
static inline void kobject_put(struct kobject *kobj)
{
	if (!kobj)
		return;
	WARN_ON(!kobj->state_initialized);
	kref_put(&kobj->kref, cmwq_kobject_release);
}

CMWQ_FORMATS(2, 0)
static int kobject_set_name_vargs(struct kobject *kobj, const char *format, va_list args)
{
	char *name = cmwq_vasprintf(format, args), *at;

	if (!name)
		return -ENOMEM;
	/* A name has no folders. */
	for (at = name; (at = strchr(at, '/'));)
		*at = '!';
	free((void *)(uintptr_t)kobj->name);
	kobj->name = name;
	return 0;
}

CMWQ_FORMATS(2, 3)
static int kobject_set_name(struct kobject *kobj, const char *format, ...)
{
	va_list args;
	int failed;

	va_start(args, format);
	failed = kobject_set_name_vargs(kobj, format, args);
	va_end(args);
	return failed;
}

/* Leaves the set and the parent. */
static inline void cmwq_kobject_leave(struct kobject *kobj)
{
	if (kobj->kset) {
		spin_lock(&kobj->kset->list_lock);
		list_del_init(&kobj->entry);
		spin_unlock(&kobj->kset->list_lock);
		kobject_put(&kobj->kset->kobj);
		kobj->kset = NULL;
	}
	kobject_put(kobj->parent);
	kobj->parent = NULL;
}

/* Its folder, and its type's files in it; its parent and its set have one reference more. */
static inline CMWQ_MUST_CHECK int cmwq_kobject_enter(struct kobject *kobj)
{
	int failed;

	if (!kobj->name || !*kobj->name || !kobj->state_initialized)
		return -EINVAL;
	kobject_get(kobj->parent);
	if (kobj->kset) {
		if (!kobj->parent)
			kobj->parent = kobject_get(&kobj->kset->kobj);
		kobject_get(&kobj->kset->kobj);
		spin_lock(&kobj->kset->list_lock);
		list_add_tail(&kobj->entry, &kobj->kset->list);
		spin_unlock(&kobj->kset->list_lock);
	}
	failed = cmwq_sysfs_add_folder(kobj->parent ? kobj->parent->sd : NULL, kobj->name, false,
		&kobj->sd);
	if (!failed) {
		kobj->state_in_sysfs = 1;
		failed = sysfs_create_groups(kobj,
			kobj->ktype ? kobj->ktype->default_groups : NULL);
	}
	if (failed) {
		struct kernfs_node *folder = kobj->sd;

		kobj->state_in_sysfs = 0;
		kobj->sd = NULL;
		if (folder)
			cmwq_sysfs_remove_folder(folder);
		cmwq_kobject_leave(kobj);
	}
	return failed;
}

/*
 * -EEXIST: the name is taken there. -EINVAL: no name, or kobject_init() was not called. Without a
 * parent and a set it lies in /sys itself.
 */
CMWQ_FORMATS(3, 4)
static CMWQ_MUST_CHECK int kobject_add(struct kobject *kobj, struct kobject *parent,
	const char *format, ...)
{
	va_list args;
	int failed;

	if (!kobj || !kobj->state_initialized)
		return -EINVAL;
	va_start(args, format);
	failed = kobject_set_name_vargs(kobj, format, args);
	va_end(args);
	kobj->parent = parent;
	return failed ? failed : cmwq_kobject_enter(kobj);
}

/* After an error the caller gives the reference back. */
CMWQ_FORMATS(4, 5)
static CMWQ_MUST_CHECK int kobject_init_and_add(struct kobject *kobj, const struct kobj_type *ktype,
	struct kobject *parent, const char *format, ...)
{
	va_list args;
	int failed;

	kobject_init(kobj, ktype);
	va_start(args, format);
	failed = kobject_set_name_vargs(kobj, format, args);
	va_end(args);
	kobj->parent = parent;
	return failed ? failed : cmwq_kobject_enter(kobj);
}

/*
 * Takes its files away; no show and no store runs when this returns, but for the caller's own. Its
 * references stay.
 */
static inline void kobject_del(struct kobject *kobj)
{
	struct kernfs_node *folder;

	if (!kobj || !kobj->state_in_sysfs)
		return;
	folder = kobj->sd;
	cmwq_sysfs_remove_folder(folder);
	kobj->sd = NULL;
	kobj->state_in_sysfs = 0;
	cmwq_kobject_leave(kobj);
}

/* Where it is, below /sys, in memory for kfree(). */
static inline CMWQ_MUST_CHECK char *kobject_get_path(const struct kobject *kobj, unsigned int flags)
{
	const struct kobject *at;
	size_t length = 0;
	char *path;

	(void)flags;
	for (at = kobj; at; at = at->parent) {
		if (!at->name)
			return NULL;
		length += strlen(at->name) + 1;
	}
	path = (char *)calloc(1, length + 1);
	for (at = kobj; path && at; at = at->parent) {
		length -= strlen(at->name);
		memcpy(path + length, at->name, strlen(at->name));
		path[--length] = '/';
	}
	return path;
}

/* ---- objects without a type of their own ---- */

static inline ssize_t cmwq_kobj_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct kobj_attribute *own = container_of(attr, struct kobj_attribute, attr);

	return own->show ? own->show(kobj, own, buf) : -EIO;
}

static inline ssize_t cmwq_kobj_attr_store(struct kobject *kobj, struct attribute *attr,
	const char *buf, size_t count)
{
	struct kobj_attribute *own = container_of(attr, struct kobj_attribute, attr);

	return own->store ? own->store(kobj, own, buf, count) : -EIO;
}

static inline void cmwq_kobject_free(struct kobject *kobj)
{
	free(kobj);
}

static const struct sysfs_ops kobj_sysfs_ops
	__attribute__((__unused__)) = {cmwq_kobj_attr_show, cmwq_kobj_attr_store};
static const struct kobj_type cmwq_dynamic_ktype
	__attribute__((__unused__)) = {cmwq_kobject_free, &kobj_sysfs_ops, NULL};

/* NULL: no memory, or the name is taken. Its attributes are struct kobj_attribute. */
static inline CMWQ_MUST_CHECK struct kobject *kobject_create_and_add(const char *name,
	struct kobject *parent)
{
	struct kobject *kobj = (struct kobject *)calloc(1, sizeof(*kobj));

	if (kobj && kobject_init_and_add(kobj, &cmwq_dynamic_ktype, parent, "%s", name)) {
		kobject_put(kobj);
		return NULL;
	}
	return kobj;
}

/* /sys/kernel and the like. */
static inline struct kobject *cmwq_base_kobj(int which)
{
	static const char *const names[CMWQ_KOBJS] = {"kernel", "fs", "devices"};
	struct kobject *kobj = &cmwq_base_kobjs.kobjs[which];

	pthread_mutex_lock(&cmwq_base_kobjs.lock);
	if (!kobj->state_in_sysfs)
		WARN_ON(kobject_init_and_add(kobj, &cmwq_dynamic_ktype, NULL, "%s", names[which]));
	pthread_mutex_unlock(&cmwq_base_kobjs.lock);
	return kobj;
}
#define kernel_kobj (cmwq_base_kobj(CMWQ_KOBJ_KERNEL))
#define fs_kobj (cmwq_base_kobj(CMWQ_KOBJ_FS))

/* ---- sets ---- */

static inline struct kset *to_kset(struct kobject *kobj)
{
	return kobj ? container_of(kobj, struct kset, kobj) : NULL;
}

static inline struct kset *kset_get(struct kset *set)
{
	return set ? to_kset(kobject_get(&set->kobj)) : NULL;
}

static inline void kset_put(struct kset *set)
{
	kobject_put(&set->kobj);
}

static inline void kset_init(struct kset *set)
{
	kobject_init(&set->kobj, set->kobj.ktype);
	INIT_LIST_HEAD(&set->list);
	spin_lock_init(&set->list_lock);
}

/* The caller has set its kobject's name and type. */
static inline CMWQ_MUST_CHECK int kset_register(struct kset *set)
{
	kset_init(set);
	return cmwq_kobject_enter(&set->kobj);
}

static inline void kset_unregister(struct kset *set)
{
	if (set) {
		kobject_del(&set->kobj);
		kobject_put(&set->kobj);
	}
}

static inline void cmwq_kset_free(struct kobject *kobj)
{
	free(to_kset(kobj));
}

static const struct kobj_type cmwq_kset_ktype
	__attribute__((__unused__)) = {cmwq_kset_free, &kobj_sysfs_ops, NULL};

/* `ops` are for events, of which there are none. */
static inline CMWQ_MUST_CHECK struct kset *kset_create_and_add(const char *name, const void *ops,
	struct kobject *parent)
{
	struct kset *set = (struct kset *)calloc(1, sizeof(*set));

	(void)ops;
	if (!set)
		return NULL;
	set->kobj.ktype = &cmwq_kset_ktype;
	set->kobj.parent = parent;
	kset_init(set);
	if (kobject_set_name(&set->kobj, "%s", name) || cmwq_kobject_enter(&set->kobj)) {
		kobject_put(&set->kobj);
		return NULL;
	}
	return set;
}

/* With a reference for the caller. */
static inline struct kobject *kset_find_obj(struct kset *set, const char *name)
{
	struct kobject *kobj, *found = NULL;

	spin_lock(&set->list_lock);
	list_for_each_entry(kobj, &set->list, entry) {
		if (!strcmp(kobj->name, name)) {
			found = kobject_get_unless_zero(kobj);
			break;
		}
	}
	spin_unlock(&set->list_lock);
	return found;
}

/* ---- events: no other process hears of its objects ---- */

enum kobject_action {
	KOBJ_ADD,
	KOBJ_REMOVE,
	KOBJ_CHANGE,
	KOBJ_MOVE,
	KOBJ_ONLINE,
	KOBJ_OFFLINE,
	KOBJ_BIND,
	KOBJ_UNBIND
};

static inline int kobject_uevent(struct kobject *kobj, enum kobject_action action)
{
	(void)kobj;
	(void)action;
	return 0;
}

#endif
#endif
