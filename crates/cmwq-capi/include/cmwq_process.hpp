/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Groups, threads, attributes and CPUs in C++. Part of <cmwq.hpp>, which includes it. */
#ifndef CMWQ_HPP
#include "cmwq.hpp"
#elif !defined(CMWQ_PROCESS_HPP)
#define CMWQ_PROCESS_HPP

namespace cmwq {

/*
 * A limit that workqueues share: options::group. They keep what they need of it, so that it may go
 * before they do.
 */
class group {
public:
	/* At most `max_active` items of all its workqueues are active. EINVAL: less than 1. */
	group(const std::string &name, int max_active)
	    : group_(cmwq_alloc_group(name.c_str(), max_active))
	{
		if (!group_)
			detail::fail(errno, "cmwq_alloc_group");
	}
	group(group &&other) noexcept : group_(std::exchange(other.group_, nullptr)) {}
	group &operator=(group &&other) noexcept
	{
		std::swap(group_, other.group_);
		return *this;
	}
	~group() { cmwq_free_group(group_); }

	/* Changes the limit while items flow. EINVAL: less than 1. */
	void set_max_active(int max_active)
	{
		detail::checked(cmwq_group_set_max_active(group_, max_active),
				"cmwq_group_set_max_active");
	}
	cmwq_group *native_handle() const { return group_; }

private:
	cmwq_group *group_;
};

/* Threads that workqueues can be given: options::threads. They keep what they need of them. */
class threads {
public:
	/*
	 * `attrs` begin as CMWQ_THREAD_ATTRS_INIT. EINVAL: unknown flags, a wrong format of names,
	 * a stack with which no thread can be created.
	 */
	explicit threads(const cmwq_thread_attrs &attrs) : threads_(cmwq_alloc_threads(&attrs))
	{
		if (!threads_)
			detail::fail(errno, "cmwq_alloc_threads");
	}
	threads(threads &&other) noexcept : threads_(std::exchange(other.threads_, nullptr)) {}
	threads &operator=(threads &&other) noexcept
	{
		std::swap(threads_, other.threads_);
		return *this;
	}
	~threads() { cmwq_free_threads(threads_); }

	/*
	 * Makes them those of all workqueues that are given no others. EBUSY: the process has used
	 * the library already.
	 */
	void make_default() const
	{
		detail::checked(cmwq_set_default_threads(threads_), "cmwq_set_default_threads");
	}
	const cmwq_threads *native_handle() const { return threads_; }

private:
	cmwq_threads *threads_;
};

/* ---- CPUs ---- */

/* The CPUs of the machine. A set of CPUs has CPU n at bit n % 64 of bits[n / 64]. */
inline cmwq_cpumask possible_cpus()
{
	cmwq_cpumask cpus = {};

	detail::checked(cmwq_possible_cpus(&cpus), "cmwq_possible_cpus");
	return cpus;
}
/* Those that the process may use now. */
inline cmwq_cpumask online_cpus()
{
	cmwq_cpumask cpus = {};

	detail::checked(cmwq_online_cpus(&cpus), "cmwq_online_cpus");
	return cpus;
}
/* Sets on which unbound items of the whole process may run. EINVAL: none of them exists. */
inline void set_unbound_cpumask(const cmwq_cpumask &cpus)
{
	detail::checked(cmwq_set_unbound_cpumask(&cpus), "cmwq_set_unbound_cpumask");
}
/*
 * Returns func(), which a work item of its own calls on `cpu`; throws what it throws. Waits.
 * ENODEV: there is no such CPU.
 */
template <typename CmwqF> decltype(auto) on_cpu(int cpu, CmwqF &&func)
{
	constexpr bool fits = std::is_invocable_v<CmwqF>;

	static_assert(fits, "cmwq: on_cpu(cpu, function) calls function(), without arguments");
	if constexpr (fits) {
		using CmwqR = std::invoke_result_t<CmwqF>;
		std::promise<CmwqR> promise;
		auto call = [&]() noexcept {
			detail::fulfil<CmwqR>(promise, std::forward<CmwqF>(func));
		};
		auto run = [](void *arg) -> long {
			(*static_cast<decltype(call) *>(arg))();
			return 0;
		};

		detail::checked(static_cast<int>(cmwq_work_on_cpu(cpu, run, &call)),
				"cmwq_work_on_cpu");
		return promise.get_future().get();
	}
}

/* ---- attributes ---- */

/* The defaults: nice 0, the default scope, not strict, all CPUs. */
inline cmwq_workqueue_attrs default_attributes()
{
	std::unique_ptr<cmwq_workqueue_attrs, void (*)(cmwq_workqueue_attrs *)> attrs(
		cmwq_alloc_workqueue_attrs(), cmwq_free_workqueue_attrs);

	if (!attrs)
		detail::fail(errno, "cmwq_alloc_workqueue_attrs");
	return *attrs;
}
/*
 * One of the files that the kernel has for a workqueue, such as "affinity_scope", of the workqueue
 * that tools show as `name`; without the newline. ENOENT: there is none.
 */
inline std::string read_attribute(const std::string &name, const std::string &attribute)
{
	std::string text(4096, '\0');
	long length = cmwq_workqueue_read_attribute(name.c_str(), attribute.c_str(), &text[0],
						    text.size());

	text.resize(static_cast<std::size_t>(
		detail::checked(static_cast<int>(length), "cmwq_workqueue_read_attribute")));
	if (!text.empty() && text.back() == '\n')
		text.pop_back();
	return text;
}
/* Writes it, by the rules of the kernel's file. ENOENT, EACCES, EINVAL, EOVERFLOW. */
inline void write_attribute(const std::string &name, const std::string &attribute,
			    const std::string &text)
{
	detail::checked(cmwq_workqueue_write_attribute(name.c_str(), attribute.c_str(),
						       text.c_str()),
			"cmwq_workqueue_write_attribute");
}

/* ---- the calling thread ---- */

/* Sleeps; in a work item another item runs meanwhile. */
inline void sleep_for(std::chrono::nanoseconds time) { cmwq_sleep_ns(detail::nanoseconds(time)); }
/*
 * Describes what the calling item does: tools show it beside the function until that returns. 31
 * bytes of it are kept.
 */
inline void describe(const std::string &what) { cmwq_set_worker_desc(what.c_str()); }

} // namespace cmwq

#endif
