/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Attributes carry their size: those of an older or newer program are read and written as far as both sides know them. */
#include <cmwq.h>
#include <errno.h>
#include <string.h>

#include "check.h"

/* What a program that was compiled with a later header has. */
struct later {
	struct cmwq_workqueue_attrs attrs;
	char appended[64];
};

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("attrs", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_workqueue_attrs *all = cmwq_alloc_workqueue_attrs(), now = CMWQ_WORKQUEUE_ATTRS_INIT;
	struct later later;
	size_t i;
	int scope;

	CHECK(all && all->size == sizeof(*all));
	for (scope = CMWQ_AFFN_DFL; scope <= CMWQ_AFFN_SYSTEM; scope++) {
		all->affinity_scope = scope;
		CHECK(cmwq_apply_workqueue_attrs(wq, all) == 0);
		CHECK(cmwq_get_workqueue_attrs(wq, &now) == 0);
		CHECK(now.affinity_scope == scope && now.size == sizeof(now));
	}
	CHECK(CMWQ_AFFN_CACHE_SHARD == 4 && CMWQ_AFFN_SYSTEM == 6);
	all->affinity_scope = 1000;
	CHECK(cmwq_apply_workqueue_attrs(wq, all) == -EINVAL);
	all->affinity_scope = CMWQ_AFFN_DFL;

	memset(&later, 0x5a, sizeof(later));
	later.attrs.size = sizeof(later);
	CHECK(cmwq_get_workqueue_attrs(wq, &later.attrs) == 0);
	CHECK(later.attrs.size == sizeof(later) && later.attrs.nice == 0);
	for (i = 0; i < sizeof(later.appended); i++)
		CHECK(later.appended[i] == 0x5a);
	later.attrs.nice = 3;
	CHECK(cmwq_apply_workqueue_attrs(wq, &later.attrs) == 0);
	CHECK(cmwq_get_workqueue_attrs(wq, &now) == 0 && now.nice == 3);

	/* Memory that was not initialised. */
	memset(&now, 0, sizeof(now));
	CHECK(cmwq_get_workqueue_attrs(wq, &now) == -EINVAL);
	CHECK(cmwq_apply_workqueue_attrs(wq, &now) == -EINVAL);
	memset(&now, 0xff, sizeof(now));
	CHECK(cmwq_get_workqueue_attrs(wq, &now) == -EINVAL && now.size == UINT32_MAX);
	cmwq_free_workqueue_attrs(all);
	CHECK(cmwq_destroy_workqueue(wq) == 0);
	return 0;
}
