/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signals and work functions: a fault handler of the program runs, and a child that resets its mask dies of SIGTERM. */
#include <cmwq.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *page;
static volatile sig_atomic_t faults;
static int status;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	faults++;
	/* The store is made again, and succeeds. */
	if (info->si_addr != page || mprotect(page, 1, PROT_READ | PROT_WRITE))
		_exit(20);
}

static void faulty(struct cmwq_work *work)
{
	(void)work;
	*(volatile char *)page = 7;
}

static void parent(struct cmwq_work *work)
{
	pid_t pid = fork();

	(void)work;
	if (pid == 0) {
		if (cmwq_reset_signal_mask())
			_exit(21);
		execlp("sh", "sh", "-c", "kill -TERM $$; exit 22", (char *)NULL);
		_exit(23);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		status = -1;
}

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("signals", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_work work;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!wq || page == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		return 1;
	alarm(60);
	cmwq_init_work(&work, faulty);
	cmwq_queue_work(wq, &work);
	cmwq_flush_work(&work);
	if (faults != 1 || *page != 7) {
		fprintf(stderr, "%d faults were handled\n", (int)faults);
		return 2;
	}
	cmwq_init_work(&work, parent);
	cmwq_queue_work(wq, &work);
	cmwq_flush_work(&work);
	cmwq_destroy_workqueue(wq);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM) {
		fprintf(stderr, "the child ended with status %#x\n", status);
		return 3;
	}
	return 0;
}
