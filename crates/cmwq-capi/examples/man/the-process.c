/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Warnings of the library go to the program's log; tools may look at the process if asked to. */
#include <cmwq.h>
#include <stdio.h>

static void log_warning(const char *text, void *log)
{
	fprintf((FILE *)log, "cmwq: %s\n", text);
}

int main(void)
{
	cmwq_set_warning_handler(log_warning, stdout);
	/* 1 with CMWQ_CONTROL=1 in the environment, otherwise 0. */
	if (cmwq_serve_control_if_asked() < 0)
		return 1;
	/* A mistake, which is an error and a line in the log. */
	if (cmwq_flush_workqueue(NULL) == 0)
		return 1;
	return 0;
}
