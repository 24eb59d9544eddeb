/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Background work: its threads are nice, and share CPUs by NUMA node. */
#include <cmwq.h>
#include <stdio.h>

int main(void)
{
	struct cmwq_workqueue_attrs *attrs;
	struct cmwq_workqueue *wq;
	char text[16] = "";
	int error;

	wq = cmwq_alloc_workqueue("background", CMWQ_WQ_UNBOUND, 0);
	attrs = cmwq_alloc_workqueue_attrs();
	if (!wq || !attrs)
		return 1;
	attrs->nice = 10;
	attrs->affinity_scope = CMWQ_AFFN_NUMA;
	error = cmwq_apply_workqueue_attrs(wq, attrs);
	cmwq_free_workqueue_attrs(attrs);
	if (error)
		return 1;
	if (cmwq_workqueue_read_attribute("background", "nice", text,
			sizeof(text) - 1) < 0)
		return 1;
	printf("nice %s", text);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}
