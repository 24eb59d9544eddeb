/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Serves the control endpoint if the environment asks for it, says what came of it, and ends with its input. */
#include <cmwq.h>
#include <stdio.h>

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("from_c", CMWQ_WQ_UNBOUND, 0);

	printf("%d\n", cmwq_serve_control_if_asked());
	fflush(stdout);
	while (getchar() != EOF)
		;
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}
